"""Sampling θ | ψ from a given start, and pooling the iterations."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from problems import linear_problem, small_network, trees_equal

from partbayes import smc
from partbayes.algorithm import Algorithm, Posterior
from partbayes.errors import PartbayesError
from partbayes.runtime import fit
from partbayes.training import gohsmc, pooled


def sampler(model, num_data, **options):
    return gohsmc(model, num_data, num_particles=6, hold_psi=True, start="given", denominator="same_batch", **options)


def test_given_start_is_copied_and_psi_stays():
    model, data = small_network()
    params = model.init(jax.random.key(0))
    algorithm = sampler(model, 24, step_size=0.05)
    state = jax.jit(algorithm.init)(jax.random.key(1), params, data)
    copies = jax.tree.map(lambda leaf: jnp.stack([leaf] * 6), params[0])
    assert trees_equal(state.particles.theta, copies)
    assert jnp.allclose(jnp.exp(state.particles.log_weights), 1 / 6)
    new, _ = jax.jit(algorithm.step)(jax.random.key(2), state, data)
    assert trees_equal(new.psi, params[1])
    assert not trees_equal(new.particles.theta, state.particles.theta)


def test_impossible_settings_are_refused():
    model, _ = small_network()
    with pytest.raises(PartbayesError, match="leave one of them out"):
        gohsmc(model, 24, hold_psi=True, optimiser=optax.adam(0.1))
    with pytest.raises(PartbayesError, match="prior, given"):
        gohsmc(model, 24, start="posterior")  # pyright: ignore[reportArgumentType]
    with pytest.raises(PartbayesError, match="keep=0"):
        pooled(sampler(model, 24), burn_in=0, every=1, keep=0)


@pytest.mark.parametrize("lkernel", [smc.forward_proposal(), smc.asymptotic()])
def test_pooled_iterations_have_the_posteriors_moments(lkernel):
    """From a start far off, 64 islands: mean and variance within 4 standard errors of the closed form.

    The forward proposal's self-normalised weights bias a population of 6 by O(1/6) of the increments' variance, so its
    step is kept short enough for that to drown in the standard error; the asymptotic kernel's weights are equal.
    """
    model, data, exact = linear_problem()
    algorithm = sampler(model, 8, step_size=0.1, proposal=smc.hmc(8), lkernel=lkernel)
    algorithm = pooled(algorithm, burn_in=30, every=3, keep=10)
    away = jax.tree.map(lambda leaf: jnp.full((64, *leaf.shape), 3.0), model.init(jax.random.key(0)))
    result = fit(
        jax.random.key(1), algorithm, model, data, num_epochs=60, batch_size=8, islands=64, params=away, progress=False
    )
    theta = np.asarray(jax.tree.leaves(result.posterior.theta)[0], np.float64)  # [64, 60, 2]
    weights = np.exp(np.asarray(result.posterior.log_weights, np.float64))[..., None]
    assert theta.shape == (64, 60, 2)
    means = np.sum(weights * theta, axis=1)
    squares = np.sum(weights * (theta - exact.mean) ** 2, axis=1)
    for found, truth in ((means, exact.mean), (squares, np.diag(exact.cov))):
        errors = (found.mean(axis=0) - truth) / (found.std(axis=0, ddof=1) / 8)
        assert np.all(np.abs(errors) < 4), errors


def test_the_ring_keeps_the_newest_of_the_iterations_wanted():
    """An algorithm whose only particle is the number of its step."""

    def posterior(state):
        return Posterior(state[None], jnp.zeros(1), jnp.zeros(()))

    counter = Algorithm(
        lambda key, params, batch: jnp.zeros(()), lambda key, state, batch: (state + 1, None), posterior
    )  # pyright: ignore[reportArgumentType]
    algorithm = pooled(counter, burn_in=3, every=2, keep=3)
    state = algorithm.init(jax.random.key(0), (None, None), None)  # pyright: ignore[reportArgumentType]
    step = partial(algorithm.step, jax.random.key(0), batch=None)  # pyright: ignore[reportCallIssue]
    seen = {}
    for number in range(1, 12):
        state, _ = step(state)
        kept = algorithm.posterior(state)
        alive = np.isfinite(np.asarray(kept.log_weights))
        seen[number] = sorted(np.asarray(kept.theta)[alive].tolist())
        assert np.isclose(np.exp(np.asarray(kept.log_weights)).sum(), 1.0)
    assert seen[2] == [2.0]  # nothing kept yet: the current one
    assert seen[5] == [5.0]
    assert seen[8] == [5.0, 7.0]
    assert seen[11] == [7.0, 9.0, 11.0]
