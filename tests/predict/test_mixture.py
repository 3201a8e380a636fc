"""GaussianMixture against scipy, numpy and its own draws."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from partbayes.errors import PartbayesError
from partbayes.predict import GaussianMixture


def double(mixture):
    """(weights, loc, scale) as float64: the exact values that the mixture stands for."""
    log_weights, loc, scale = (np.asarray(x, np.float64) for x in mixture)
    return special.softmax(log_weights), loc, scale


def test_log_prob_is_the_joint_density_of_the_outputs(make, dtype):
    mixture = make(outputs=3, dtype=dtype)
    y = np.asarray(np.random.default_rng(1).normal(size=(4, 3)), dtype)
    weights, loc, scale = double(mixture)
    parts = stats.norm.logpdf(y.astype(np.float64), loc, scale).sum(-1)
    expected = special.logsumexp(parts, axis=0, b=weights[:, None])
    # Each z² carries a few roundings, so the error is a few eps of the largest term that enters the sum.
    atol = 16 * np.finfo(dtype).eps * (1 + np.abs(parts).max(axis=0))
    assert mixture.log_prob(y).shape == (4,)
    assert mixture.log_prob(y).dtype == dtype
    assert np.all(np.abs(np.asarray(mixture.log_prob(y), np.float64) - expected) <= atol)


def test_log_prob_far_out_stays_finite(dtype):
    mixture = GaussianMixture(
        jnp.log(jnp.array([0.5, 0.5], dtype)), jnp.zeros((2, 1, 1), dtype), jnp.ones((2, 1, 1), dtype)
    )
    # exp(-5e5) underflows in either precision; its logarithm must not.
    expected = stats.norm.logpdf(1000.0)
    np.testing.assert_allclose(mixture.log_prob(np.full((1, 1), 1000.0)), [expected], rtol=4 * np.finfo(dtype).eps)


def test_cdf_is_the_weighted_sum(make, dtype):
    mixture = make(dtype=dtype)
    y = np.asarray(np.random.default_rng(1).normal(size=(4, 2)), dtype)
    weights, loc, scale = double(mixture)
    expected = np.einsum("c,cnd->nd", weights, stats.norm.cdf(y.astype(np.float64), loc, scale))
    np.testing.assert_allclose(mixture.cdf(y), expected, rtol=32 * np.finfo(dtype).eps)


@pytest.mark.parametrize("num", [11, 18, 20, 25])
def test_cdf_never_exceeds_one(num, dtype):
    log_weights = jnp.full(num, -np.log(num), dtype)
    mixture = GaussianMixture(log_weights, jnp.zeros((num, 1, 1), dtype), jnp.ones((num, 1, 1), dtype))
    # As many weights of 1/num sum to a little more than one, in both precisions.
    assert 1 < float(jnp.sum(jax.nn.softmax(log_weights))) < 1 + 8 * np.finfo(dtype).eps
    assert float(mixture.cdf(np.full((1, 1), 50.0))[0, 0]) == 1.0


def test_one_component_is_a_plain_gaussian(dtype):
    loc, scale, y = np.array([[1.5, -3.0]]), np.array([[0.25, 4.0]]), np.array([[1.25, 2.0]])
    mixture = GaussianMixture(jnp.zeros(1, dtype), jnp.asarray(loc[None], dtype), jnp.asarray(scale[None], dtype))
    rtol = 16 * np.finfo(dtype).eps
    np.testing.assert_array_equal(mixture.mean(), loc)
    np.testing.assert_array_equal(mixture.epistemic_variance(), np.zeros((1, 2)))
    np.testing.assert_allclose(mixture.std(), scale, rtol=rtol)
    np.testing.assert_allclose(mixture.cdf(y), stats.norm.cdf(y, loc, scale), rtol=rtol)
    np.testing.assert_allclose(mixture.log_prob(y), stats.norm.logpdf(y, loc, scale).sum(-1), rtol=rtol)
    for q in (1e-6, 0.1, 0.5, 0.975, 1 - 1e-6):
        np.testing.assert_allclose(mixture.quantile(q), stats.norm.ppf(q, loc, scale), rtol=rtol, atol=rtol)


def test_variance_is_epistemic_plus_aleatoric(make, dtype):
    mixture = make(dtype=dtype)
    weights, loc, scale = double(mixture)
    mean = np.einsum("c,cnd->nd", weights, loc)
    second = np.einsum("c,cnd->nd", weights, loc**2 + scale**2)
    rtol = 32 * np.finfo(dtype).eps
    np.testing.assert_allclose(mixture.mean(), mean, rtol=rtol, atol=rtol)
    np.testing.assert_allclose(
        mixture.epistemic_variance(), np.einsum("c,cnd->nd", weights, (loc - mean) ** 2), rtol=rtol
    )
    np.testing.assert_allclose(mixture.aleatoric_variance(), np.einsum("c,cnd->nd", weights, scale**2), rtol=rtol)
    np.testing.assert_allclose(mixture.variance(), second - mean**2, rtol=4 * rtol)
    np.testing.assert_array_equal(mixture.variance(), mixture.epistemic_variance() + mixture.aleatoric_variance())
    np.testing.assert_array_equal(mixture.std(), jnp.sqrt(mixture.variance()))


def test_total_variance_against_draws(make):
    mixture = make()
    num = 100_000
    draws = np.asarray(mixture.sample(jax.random.key(0), num), np.float64)
    variance = draws.var(axis=0)
    centred = draws - draws.mean(axis=0)
    error_of_mean = np.sqrt(variance / num)
    error_of_variance = np.sqrt(((centred**4).mean(axis=0) - variance**2) / num)
    assert np.all(np.abs(draws.mean(axis=0) - mixture.mean()) < 4 * error_of_mean)
    assert np.all(np.abs(variance - mixture.variance()) < 4 * error_of_variance)
    # The parts are told apart by more than the tolerance, so leaving either out would be seen.
    assert np.all(np.asarray(mixture.epistemic_variance()) > 8 * error_of_variance)
    assert np.all(np.asarray(mixture.aleatoric_variance()) > 8 * error_of_variance)


def test_variance_survives_a_common_offset(dtype):
    weights = np.array([0.2, 0.3, 0.5])
    steps = np.array([0.0, 1.0, 3.0])[:, None, None]
    # Spread 1 around 2^20: E[y²] − E[y]² would be lost to rounding in float32 (2^40 has a spacing of 2^17).
    mixture = GaussianMixture(
        jnp.asarray(np.log(weights), dtype), jnp.asarray(2.0**20 + steps, dtype), jnp.ones((3, 1, 1), dtype)
    )
    expected = np.sum(weights * steps[:, 0, 0] ** 2) - np.sum(weights * steps[:, 0, 0]) ** 2
    np.testing.assert_allclose(mixture.epistemic_variance()[0, 0], expected, rtol=16 * np.finfo(dtype).eps)


def test_particles_that_agree_leave_no_epistemic_variance(dtype):
    loc = jnp.broadcast_to(jnp.asarray([[0.1, 1e6 / 3]], dtype), (7, 1, 2))
    mixture = GaussianMixture(jax.nn.log_softmax(jnp.arange(7, dtype=dtype)), loc, jnp.ones((7, 1, 2), dtype))
    np.testing.assert_array_equal(mixture.epistemic_variance(), np.zeros((1, 2)))
    np.testing.assert_array_equal(mixture.mean(), loc[0])


def test_a_dead_component_changes_nothing(make, dtype):
    mixture = make(dtype=dtype)
    dead = GaussianMixture(
        jnp.concatenate([jnp.full(1, -jnp.inf, dtype), mixture.log_weights]),
        jnp.concatenate([jnp.full((1, 4, 2), jnp.nan, dtype), mixture.loc]),
        jnp.concatenate([jnp.full((1, 4, 2), jnp.nan, dtype), mixture.scale]),
    )
    y = np.zeros((4, 2))
    eps = np.finfo(dtype).eps
    for name, arguments in {
        "mean": (), "variance": (), "log_prob": (y,), "cdf": (y,), "quantile": (0.2,), "interval": (0.9,),
    }.items():  # fmt: skip
        alone, together = (np.asarray(getattr(m, name)(*arguments)) for m in (mixture, dead))
        np.testing.assert_allclose(together, alone, rtol=32 * eps, atol=32 * eps, err_msg=name)
    assert np.all(np.isfinite(dead.sample(jax.random.key(0), 500)))


def test_a_living_nan_shows():
    loc = jnp.zeros((2, 2, 1)).at[0, 0].set(jnp.nan)
    mixture = GaussianMixture(jnp.log(jnp.full(2, 0.5)), loc, jnp.ones((2, 2, 1)))
    for values in (mixture.mean(), mixture.variance(), mixture.cdf(np.zeros((2, 1))), mixture.quantile(0.3)):
        assert np.isnan(values[0, 0])
        assert np.isfinite(values[1, 0])


def test_draws_are_coherent_functions():
    # Two functions far apart: a draw takes one of them in every row and output.
    loc = jnp.broadcast_to(jnp.array([-100.0, 100.0])[:, None, None], (2, 3, 2))
    mixture = GaussianMixture(jnp.log(jnp.array([0.3, 0.7])), loc, jnp.ones((2, 3, 2)))
    draws = np.asarray(mixture.sample(jax.random.key(3), 4000))
    positive = draws > 0
    assert draws.shape == (4000, 3, 2)
    assert np.all(positive == positive[:, :1, :1])
    assert abs(positive[:, 0, 0].mean() - 0.7) < 4 * np.sqrt(0.3 * 0.7 / 4000)
    # The noise, on the other hand, is fresh in every row and output: correlations within 4/√n of zero.
    noise = (draws - np.where(positive, 100.0, -100.0)).reshape(4000, -1)
    assert np.all(np.abs(np.corrcoef(noise.T) - np.eye(6)) < 4 / np.sqrt(4000))


def test_intervals_cover_the_mixtures_own_draws(make):
    mixture = make(seed=5)
    num = 20_000
    draws = np.asarray(mixture.sample(jax.random.key(1), num))
    for level in (0.5, 0.9):
        lower, upper = mixture.interval(level)
        assert np.all(
            np.abs(((draws >= lower) & (draws <= upper)).mean(axis=0) - level) < 4 * np.sqrt(level * (1 - level) / num)
        )
        # Central: what is left out is left out on both sides alike.
        tail = (1 - level) / 2
        assert np.all(np.abs((draws < lower).mean(axis=0) - tail) < 4 * np.sqrt(tail * (1 - tail) / num))


def test_rescale_returns_to_the_targets_units(make, dtype):
    mixture = make(dtype=dtype)
    mean, scale = np.array([3.0, -10.0]), np.array([0.5, 20.0])
    own = mixture.rescale(mean, scale)
    y = np.asarray(np.random.default_rng(2).normal(size=(4, 2)), dtype)
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(own.mean(), np.asarray(mixture.mean()) * scale + mean, rtol=32 * eps, atol=300 * eps)
    np.testing.assert_allclose(own.std(), np.asarray(mixture.std()) * scale, rtol=64 * eps)
    np.testing.assert_allclose(
        own.log_prob(y * scale.astype(dtype) + mean.astype(dtype)),
        np.asarray(mixture.log_prob(y)) - np.log(scale).sum(),
        atol=2000 * eps,  # y * scale + mean rounds at |mean| / scale = 20 spacings of y, at densities as narrow as 0.1
    )
    assert own.loc.dtype == dtype


def test_rows_are_a_part_of_the_whole(make):
    mixture = make()
    y = np.ones((4, 2))
    np.testing.assert_array_equal(mixture.rows(slice(1, 3)).mean(), mixture.mean()[1:3])
    np.testing.assert_allclose(mixture.rows([3, 0]).log_prob(y[:2]), mixture.log_prob(y)[jnp.array([3, 0])], rtol=1e-6)


def test_everything_works_under_jit(make, dtype):
    mixture = make(dtype=dtype)
    y = jnp.ones((4, 2), dtype)

    def everything(mixture, y):
        return (
            mixture.mean(),
            mixture.std(),
            mixture.log_prob(y),
            mixture.cdf(y),
            mixture.quantile(0.3),
            mixture.interval(0.8),
        )

    eps = np.finfo(dtype).eps
    for eager, compiled in zip(
        jax.tree.leaves(everything(mixture, y)), jax.tree.leaves(jax.jit(everything)(mixture, y)), strict=True
    ):
        assert compiled.dtype == dtype
        np.testing.assert_allclose(compiled, eager, rtol=32 * eps, atol=32 * eps)


@pytest.mark.parametrize("shape", [(4,), (4, 1), (2, 4), (1, 2)])
def test_a_target_of_another_shape_is_refused(make, shape):
    for method in (make().log_prob, make().cdf):
        with pytest.raises(PartbayesError, match="reshape y"):
            method(np.zeros(shape))
