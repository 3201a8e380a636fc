"""Refinement: shares against a direct optimum, and a noise level that moves only where the rows are clear."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import small_network
from scipy.optimize import minimize, minimize_scalar
from scipy.special import logsumexp, softmax

from partbayes.algorithm import Posterior
from partbayes.model import categorical, mlp, partial_bnn
from partbayes.runtime.refinement import FEWEST_ROWS, LEAST_PART, refine, shift_noise
from partbayes.runtime.stacking import ITERATIONS, PRIOR_ROWS, as_one, stacked
from partbayes.runtime.validation import islands_nll
from partbayes.types import Batch


def ensemble(model, num_islands=3, num_particles=2) -> Posterior:
    """Islands as the network draws them, all particles of one island the same."""
    theta, psi = jax.vmap(model.init)(jax.random.split(jax.random.key(0), num_islands))
    theta = jax.tree.map(lambda leaf: jnp.repeat(leaf[:, None], num_particles, axis=1), theta)
    return Posterior(theta, jnp.full((num_islands, num_particles), -jnp.log(num_particles)), psi)


def rows_of(model, posterior, num: int, noise: float) -> Batch:
    """Rows that the first island explains, with so much noise of its own."""
    rng = np.random.default_rng(num)  # the same rows in whatever order tests run
    x = jnp.asarray(rng.normal(size=(num, 3)))
    one = jax.tree.map(lambda leaf: leaf[0, 0], posterior.theta), jax.tree.map(lambda leaf: leaf[0], posterior.psi)
    y = model.components(*one, x).loc + noise * rng.normal(size=(num, 1))
    return Batch(x, jnp.asarray(y), jnp.ones(num))


@pytest.mark.parametrize("prior_rows", [0.0, 3.0, np.array([2.0, 0.5])], ids=["none", "all", "each"])
@pytest.mark.parametrize("num_rows", [4, 400])
def test_shares_are_the_penalised_optimum(num_rows, prior_rows):
    rng = np.random.default_rng(4)
    log_prob = rng.normal(size=(2, 4, num_rows)) + np.array([0.0, 0.1, -0.5, -30.0])[:, None]
    log_prob[1] -= 0.4
    weight = rng.uniform(0.5, 2.0, size=num_rows)
    shares, parts = stacked(list(jnp.asarray(log_prob)), jnp.asarray(weight), prior_rows)

    def loss(free):
        log_share, log_part = np.log(softmax(free[:4])), np.log(softmax(free[4:]))
        rows = logsumexp(log_prob + log_share[:, None] + log_part[:, None, None], axis=(0, 1))
        return -(weight @ rows) - PRIOR_ROWS * log_share.sum() - (prior_rows * log_part).sum()

    best = minimize(loss, np.zeros(6), tol=1e-10).x
    np.testing.assert_allclose(shares, softmax(best[:4]), atol=2e-3)
    np.testing.assert_allclose(parts, softmax(best[4:]), atol=2e-3)
    assert float(jnp.sum(shares)) == pytest.approx(1.0, abs=1e-5)
    assert (float(jnp.max(shares) / jnp.min(shares)) < 2) == (num_rows == 4), "a few rows do not tell islands apart"


def test_the_start_keeps_the_part_that_the_rows_give_it():
    """Samples that explain nothing leave the island to its start, samples as good as the start share it with it."""
    model, _ = small_network(sigma="learned")
    start = ensemble(model, num_islands=1, num_particles=1)
    rows = rows_of(model, start, 300, noise=1.0)
    samples = ensemble(model, num_islands=1, num_particles=4)
    even = refine(model, samples, rows, start=start)
    assert even.start_part == pytest.approx(0.5, abs=0.01)
    assert even.posterior.log_weights.shape == (1, 5)
    assert even.score == pytest.approx(float(islands_nll(model, even.posterior, rows)), rel=1e-4)
    np.testing.assert_allclose(np.exp(even.posterior.log_weights), [[0.5, *[0.125] * 4]], rtol=0.02)
    wild = samples._replace(theta=jax.tree.map(lambda leaf: leaf + 100.0, samples.theta))
    lost = samples._replace(theta=jax.tree.map(lambda leaf: leaf * jnp.nan, samples.theta))
    assert refine(model, wild, rows, start=start).start_part > 0.9
    refined = refine(model, lost, rows, start=start)
    assert refined.start_part == 1.0
    assert refined.posterior.log_weights.shape == (1, 1), "samples that are none are left out"
    assert "the mixture is 1.00 the warm start" in refined.note()
    few = Batch(rows.x[:10], rows.y[:10], rows.weight[:10])
    prior = FEWEST_ROWS - 10  # for each of the two
    shy = refine(model, lost, few, start=start)
    assert shy.start_part == pytest.approx((10 + prior) / (10 + 2 * prior), rel=1e-3), "few rows say little"


@pytest.mark.parametrize("surprises", [0, 1, 6])
def test_of_classes_the_start_has_a_prior_of_one_row(surprises):
    """The start is certain of every class, and wrong about some; the samples are in doubt about all. Its part is the
    optimum under that prior, found by another optimiser."""
    model = partial_bnn(mlp(2, (6,), 2), categorical(2), stochastic="last")
    theta, psi = jax.vmap(model.init)(jax.random.split(jax.random.key(3), 1))
    x = jnp.asarray(np.random.default_rng(5).normal(size=(400, 2)))

    def scaled(factor: float) -> Posterior:
        return Posterior(jax.tree.map(lambda leaf: factor * leaf[:, None], theta), jnp.zeros((1, 1)), psi)

    def margins(posterior: Posterior, x) -> np.ndarray:
        one = jax.tree.map(lambda leaf: leaf[0, 0], posterior.theta), jax.tree.map(lambda leaf: leaf[0], psi)
        return np.asarray(model.components(*one, x).logits) @ np.array([-1.0, 1.0])

    margin = margins(scaled(1.0), x)
    x = x[np.argsort(-np.abs(margin))[:100]]
    margin = margins(scaled(1.0), x)
    start, samples = scaled(60 / np.abs(margin).min()), scaled(1 / np.abs(margin).max())
    right = np.arange(100) >= surprises
    y = jnp.asarray(np.where(right, margin > 0, margin < 0).astype(np.int32))
    sign = np.where(right, 1.0, -1.0)
    log_start, log_samples = (-np.logaddexp(0.0, -sign * np.abs(margins(each, x))) for each in (start, samples))

    def loss(part: float) -> float:
        rows = np.logaddexp(np.log(part) + log_start, np.log1p(-part) + log_samples)
        return -np.sum(rows) - np.log(part)

    best = minimize_scalar(loss, bounds=(0.5, 1 - 1e-9), method="bounded", options={"xatol": 1e-9}).x
    found = refine(model, samples, Batch(x, y, jnp.ones(100)), start=start).start_part
    assert found == pytest.approx(1.0 if best > 1 - LEAST_PART else best, abs=2e-3)


def test_overtrained_islands_get_the_part_that_the_rows_give_them():
    """Two islands of one particle beside three of two; the rows are of the first kind, of the second, or of both."""
    model, _ = small_network(sigma="learned")
    posterior, start = ensemble(model), ensemble(model, num_particles=1)
    theta, psi = jax.vmap(model.init)(jax.random.split(jax.random.key(1), 2))
    other = Posterior(jax.tree.map(lambda leaf: leaf[:, None], theta), jnp.zeros((2, 1)), psi)
    ours, theirs = rows_of(model, posterior, 300, noise=1.0), rows_of(model, other, 299, noise=1.0)
    both = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), ours, theirs)
    apart = [refine(model, posterior, rows, start, other).overtrained_part for rows in (ours, both, theirs)]
    assert apart[0] < apart[1] < apart[2]

    refined = refine(model, posterior, both, start, other)
    assert refined.posterior.log_weights.shape == (3 + 2, 1 + 2)
    weights = np.exp(np.asarray(refined.posterior.log_weights, np.float64)) / 5
    assert weights.sum() == pytest.approx(1.0, abs=1e-5)
    np.testing.assert_allclose(weights[3:, 0], refined.overtrained_part / 2, rtol=1e-4)
    assert not weights[3:, 1:].any(), "they have one particle each"
    assert refined.score == pytest.approx(float(islands_nll(model, refined.posterior, both)), rel=1e-4)
    assert "other islands (trained to the end)" in refined.note()
    alone = refine(model, posterior, both, start)
    # n iterations are at most log(P) / n nats a row behind the best; three parts may be left out.
    assert refined.score <= alone.score + np.log(3) / ITERATIONS - np.log1p(-3 * LEAST_PART)

    hopeless = other._replace(psi=jax.tree.map(lambda leaf: leaf * jnp.nan, psi))
    left = refine(model, posterior, both, start, hopeless)
    assert (left.overtrained_part, len(left.posterior.log_weights)) == (0.0, 3)
    few = jax.tree.map(lambda leaf: leaf[:20], both)
    assert refine(model, posterior, few, start, other).overtrained_part == 0.0, "few rows say little"


def test_other_islands_are_one_density():
    log_prob = np.log(np.random.default_rng(2).uniform(size=(4, 5)))
    log_prob[3, 2] = np.nan  # explains nothing
    even = np.nanmean(np.where(np.isnan(log_prob), 0.0, np.exp(log_prob)), axis=0)
    np.testing.assert_allclose(np.exp(as_one(jnp.asarray(log_prob), 3)), np.stack([even] * 3), rtol=1e-5)


def test_the_island_that_explains_the_rows_counts_most_and_the_score_gains():
    model, _ = small_network(sigma="learned")
    posterior = ensemble(model)
    rows = rows_of(model, posterior, 300, noise=1.0)
    refined = refine(model, posterior, rows)
    assert np.argmax(refined.shares) == 0
    np.testing.assert_allclose(np.exp(refined.posterior.log_weights).sum(axis=1) / 3, refined.shares, rtol=1e-4)
    assert islands_nll(model, refined.posterior, rows) < islands_nll(model, posterior, rows)
    assert "the 3 islands have shares" in refined.note()


def scale_of_first(model, posterior, x):
    first = jax.tree.map(lambda leaf: leaf[0, 0], posterior.theta), jax.tree.map(lambda leaf: leaf[0], posterior.psi)
    return model.components(*first, x).scale


@pytest.mark.parametrize("sigma", ["learned", "heteroscedastic"])
def test_noise_that_is_clearly_too_large_is_scaled(sigma):
    """In ψ, where it is one number for all particles of an island."""
    model, _ = small_network(sigma=sigma)
    posterior = ensemble(model, num_islands=1)
    rows = rows_of(model, posterior, 2000, noise=0.4)
    before = scale_of_first(model, posterior, rows.x)
    refined = refine(model, posterior, rows)
    expected = 0.4 / float(jnp.sqrt(jnp.mean(before**2)))
    # Two standard errors of a scale estimated from 2000 rows are 2 / √(2 · 2000), three per cent, and the grid has
    # steps of ten; a heteroscedastic noise differs between rows, and its best factor is no plain ratio.
    assert refined.noise_factor == pytest.approx(expected, rel=0.25 if sigma == "heteroscedastic" else 0.1)
    np.testing.assert_allclose(
        scale_of_first(model, refined.posterior, rows.x) / before, refined.noise_factor, rtol=0.01
    )
    assert refined.score == pytest.approx(float(islands_nll(model, refined.posterior, rows)), rel=1e-4)
    assert refined.copies == {}, "copies with another noise would have to be other islands"


def in_theta(num_particles: int):
    model, _ = small_network(sigma="learned", stochastic=["network/layers/0", "likelihood"])
    posterior = ensemble(model, num_islands=1, num_particles=num_particles)
    return model, posterior, float(jnp.exp(posterior.theta["likelihood"]["log_sigma"][0, 0, 0])) + 1e-3


def test_errors_of_two_sizes_get_copies_of_two_sizes():
    """The truth is the mixture that copies can be: errors at 1/3 of the noise for 60 % of the rows, at 3 for 10 %."""
    model, posterior, sigma = in_theta(num_particles=4)
    num = 4000
    sizes = np.random.default_rng(1).choice([1 / 3, 1.0, 3.0], size=(num, 1), p=[0.6, 0.3, 0.1])
    rows = rows_of(model, posterior, num, noise=sigma * sizes)
    refined = refine(model, posterior, rows)
    # Standard errors of the shares, by the information that a row has of them at the truth (by simulation).
    assert refined.copies[1 / 3] == pytest.approx(0.6, abs=4 * 0.0133)
    assert refined.copies[3.0] == pytest.approx(0.1, abs=4 * 0.0077)
    assert refined.noise_factor == 1.0
    assert refined.posterior.log_weights.shape == (1, 4 + 2 + 2), "every third particle is copied"
    weights = np.exp(refined.posterior.log_weights[0])
    np.testing.assert_allclose(weights[4:6].sum(), refined.copies[1 / 3], rtol=1e-4)
    assert refined.score == pytest.approx(float(islands_nll(model, refined.posterior, rows)), rel=1e-4)
    assert "copies with 0.33 times the noise, 0.1" in refined.note()
    log_noise = refined.posterior.theta["likelihood"]["log_sigma"][0, :, 0]
    np.testing.assert_allclose(log_noise - log_noise[0], np.log([1] * 4 + [1 / 3] * 2 + [3] * 2), atol=1e-5)


@pytest.mark.parametrize("factor", [0.4, 0.6, 1.6])
def test_a_wrong_level_is_no_shape(factor):
    """Normal errors of another size: copies could stand in for some of it, but the level explains them better."""
    model, posterior, sigma = in_theta(num_particles=3)
    rows = rows_of(model, posterior, 2000, noise=factor * sigma)
    refined = refine(model, posterior, rows)
    first = jax.tree.map(lambda leaf: leaf[0, 0], posterior.theta), jax.tree.map(lambda leaf: leaf[0], posterior.psi)
    errors = (rows.y - model.components(*first, rows.x).loc) / (factor * sigma)
    right = np.log(factor * sigma) + 0.5 * np.log(2 * np.pi) + 0.5 * float(jnp.mean(errors**2))
    # A level that is off by δ costs δ² nats. Half a step of the grid is 0.05, two standard errors of such a
    # difference are reached at δ = 2 √(2 / 2000), 0.063.
    assert refined.score < right + (0.05 + 0.063) ** 2
    if factor != 0.4:  # which copies are as good for
        assert refined.noise_factor == pytest.approx(factor, rel=0.05 + 0.063)
        assert sum(refined.copies.values()) < 0.1


def test_particles_of_no_weight_have_copies_of_none():
    model, posterior, sigma = in_theta(num_particles=2)
    dead_first = posterior._replace(log_weights=jnp.asarray([[-jnp.inf, 0.0]]))
    refined = refine(model, dead_first, rows_of(model, posterior, 100, noise=3 * sigma))
    assert np.isfinite(refined.score)
    assert not np.isnan(refined.posterior.log_weights).any()


def test_normal_errors_get_no_copies_to_speak_of():
    model, posterior, sigma = in_theta(num_particles=1)
    rows = rows_of(model, posterior, 2000, noise=sigma)
    refined = refine(model, posterior, rows)
    # Twice the gain of two shares that are nothing in truth is at most χ² with two degrees of freedom: 13.8 once in
    # a thousand times.
    assert -1e-2 <= 2000 * (float(islands_nll(model, posterior, rows)) - refined.score) < 13.8 / 2
    assert sum(refined.copies.values()) < 0.1
    assert refine(model, posterior, rows, noise_shape=False).copies == {}
    few = refine(model, posterior, rows_of(model, posterior, 20, noise=0.1 * sigma))
    assert few.copies == {}, "few rows say little"


def test_noise_that_is_right_or_judged_by_few_rows_stays():
    model, _ = small_network(sigma="learned")
    posterior = ensemble(model, num_islands=1)
    scale = float(jnp.exp(posterior.psi["likelihood"]["log_sigma"][0, 0])) + 1e-3
    assert refine(model, posterior, rows_of(model, posterior, 2000, noise=scale)).noise_factor == 1.0
    assert refine(model, posterior, rows_of(model, posterior, 3, noise=0.5 * scale)).noise_factor == 1.0


def test_a_fixed_noise_is_left_alone():
    model, _ = small_network(sigma=0.5)
    posterior = ensemble(model)
    refined = refine(model, posterior, rows_of(model, posterior, 50, noise=0.1))
    assert model.shift_noise is None and refined.noise_factor == 1.0
    assert "noise" not in refined.note()


def test_a_lost_island_gets_no_more_than_the_prior():
    model, _ = small_network(sigma="learned")
    posterior = ensemble(model)
    broken = jax.tree.map(lambda leaf: leaf.at[2].set(jnp.nan), posterior.psi)
    refined = refine(model, posterior._replace(psi=broken), rows_of(model, posterior, 100, noise=1.0))
    assert np.isfinite(refined.shares).all()
    assert refined.shares[2] == pytest.approx(PRIOR_ROWS / (100 + 3 * PRIOR_ROWS), rel=1e-3)


def test_shift_moves_every_particle():
    model, _ = small_network(sigma="learned", stochastic=["network/layers/0", "likelihood"])
    posterior = ensemble(model)
    shifted = shift_noise(model, posterior, jnp.asarray(0.7))
    moved = shifted.theta["likelihood"]["log_sigma"] - posterior.theta["likelihood"]["log_sigma"]
    np.testing.assert_allclose(moved, 0.7, rtol=1e-5)
