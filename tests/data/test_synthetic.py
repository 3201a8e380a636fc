"""Closed-form problems, against scipy and against the same answer reached another way."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from scipy.stats import multivariate_normal

from partbayes.data import exact_linear_gaussian, linear_gaussian, wiggle, wiggle_moments
from partbayes.errors import PartbayesError

SHAPES = [(20, 3), (4, 7), (1, 1)]


def problem(num_data, dim):
    rng = np.random.default_rng(num_data)
    return rng.normal(size=(num_data, dim)), rng.normal(size=num_data) * 2.0, 0.3, 1.7


@pytest.mark.parametrize(("num_data", "dim"), SHAPES)
def test_evidence_is_that_of_the_marginal_gaussian(num_data, dim):
    x, y, noise, prior_scale = problem(num_data, dim)
    marginal = noise**2 * np.eye(num_data) + prior_scale**2 * x @ x.T
    expected = multivariate_normal(np.zeros(num_data), marginal).logpdf(y)
    np.testing.assert_allclose(exact_linear_gaussian(x, y, noise, prior_scale).log_evidence, expected, rtol=1e-10)


@pytest.mark.parametrize(("num_data", "dim"), SHAPES)
def test_posterior_is_the_conditional_of_the_joint_gaussian(num_data, dim):
    x, y, noise, prior_scale = problem(num_data, dim)
    gain = prior_scale**2 * np.linalg.solve(noise**2 * np.eye(num_data) + prior_scale**2 * x @ x.T, x).T
    mean, cov, _ = exact_linear_gaussian(x, y, noise, prior_scale)
    np.testing.assert_allclose(mean, gain @ y, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(cov, prior_scale**2 * (np.eye(dim) - gain @ x), rtol=1e-9, atol=1e-12)


def test_evidence_is_prior_times_likelihood_over_posterior():
    x, y, noise, prior_scale = problem(20, 3)
    mean, cov, log_evidence = exact_linear_gaussian(x, y, noise, prior_scale)
    theta = np.array([0.3, -1.0, 0.7])
    log_prior = multivariate_normal(np.zeros(3), prior_scale**2).logpdf(theta)
    log_likelihood = multivariate_normal(x @ theta, noise**2).logpdf(y)
    log_posterior = multivariate_normal(mean, cov).logpdf(theta)
    np.testing.assert_allclose(log_prior + log_likelihood - log_posterior, log_evidence, rtol=1e-10)


def test_target_column_and_vector_agree():
    x, y, noise, prior_scale = problem(20, 3)
    for one, other in zip(
        exact_linear_gaussian(x, y, noise, prior_scale),
        exact_linear_gaussian(x, y[:, None], noise, prior_scale),
        strict=True,
    ):
        np.testing.assert_array_equal(one, other)


def test_drawn_problem_answers_for_its_own_rows():
    batch, mean, cov, log_evidence = linear_gaussian(jax.random.key(0), 30, 4, 0.5, 2.0)
    assert batch.x.shape == (30, 4)
    assert batch.y.shape == (30, 1)
    assert batch.weight.shape == (30,)
    expected = exact_linear_gaussian(np.asarray(batch.x), np.asarray(batch.y), 0.5, 2.0)
    np.testing.assert_array_equal(mean, expected.mean)
    np.testing.assert_array_equal(cov, expected.cov)
    assert log_evidence == expected.log_evidence
    assert mean.dtype == np.float64


def test_drawn_problem_has_the_stated_noise_and_prior():
    noise, prior_scale = 0.01, 2.0
    problems = [linear_gaussian(key, 60, 20, noise, prior_scale) for key in jax.random.split(jax.random.key(1), 50)]
    # With so little noise the posterior mean is θ, up to 0.1 % of the prior scale; 1000 draws of it.
    squares = np.concatenate([p.mean for p in problems]) ** 2 / prior_scale**2
    np.testing.assert_allclose(squares.mean(), 1.0, atol=4 * np.sqrt(2 / 1000) + 0.01)
    # Residuals at the least-squares fit have 60 - 20 degrees of freedom each.
    residuals = [np.asarray(p.batch.y)[:, 0] - np.asarray(p.batch.x, np.float64) @ p.mean for p in problems]
    chi2 = sum(np.sum(r**2) for r in residuals) / noise**2 / (50 * 40)
    np.testing.assert_allclose(chi2, 1.0, atol=4 * np.sqrt(2 / 2000) + 0.01)


def test_bad_arguments_are_refused():
    x, y, noise, prior_scale = problem(20, 3)
    with pytest.raises(PartbayesError, match="are needed"):
        exact_linear_gaussian(x, y[:-1], noise, prior_scale)
    with pytest.raises(PartbayesError, match="must be > 0"):
        exact_linear_gaussian(x, y, 0.0, prior_scale)
    with pytest.raises(PartbayesError, match="must be > 0"):
        linear_gaussian(jax.random.key(0), 3, 2, prior_scale=float("nan"))


def test_wiggle_follows_its_stated_moments():
    n = 4000
    dataset = wiggle(0, n)
    x = dataset.x[:, 0]
    mean, std = wiggle_moments(x)
    for part in (x < -0.5, x > 1.0):
        z = ((dataset.y[:, 0] - mean) / std)[part]
        np.testing.assert_allclose(z.mean(), 0.0, atol=4 / np.sqrt(len(z)))
        np.testing.assert_allclose((z**2).mean(), 1.0, atol=4 * np.sqrt(2 / len(z)))
    assert std[x > 1.0].min() > 3 * std[x < -0.5].mean()
    assert not ((x > -0.5) & (x < 1.0)).any()


def test_wiggle_is_pure_in_its_seed():
    np.testing.assert_array_equal(wiggle(1, 50).y, wiggle(1, 50).y)
    assert (wiggle(1, 50).y != wiggle(2, 50).y).any()
    assert wiggle(1, 50).y.shape == (50, 1)
