"""Resampling: unbiased in every scheme, never the dead, and the cached target travels with its particle."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from partbayes import smc
from partbayes.errors import PartbayesError
from partbayes.smc.step import resample

SCHEMES = {
    "multinomial": smc.multinomial(),
    "systematic": smc.systematic(),
    "stratified": smc.stratified(),
    "residual": smc.residual(),
}
REPEATS = 20_000


@pytest.mark.parametrize("scheme", SCHEMES)
def test_expected_copies_are_proportional_to_weights(scheme):
    weights = np.array([0.4, 0.0, 0.05, 0.25, 0.3, 0.0])
    log_weights = jnp.log(weights)
    keys = jax.random.split(jax.random.key(0), REPEATS)
    indices = np.asarray(jax.vmap(lambda key: SCHEMES[scheme](key, log_weights).indices)(keys))
    copies = np.stack([np.sum(indices == i, axis=1) for i in range(6)], axis=1)
    error = np.abs(copies.mean(axis=0) - 6 * weights)
    assert np.all(error <= 4 * np.maximum(copies.std(axis=0), 1e-12) / np.sqrt(REPEATS) + 1e-6), copies.mean(axis=0)
    assert copies[:, [1, 5]].max() == 0


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_dead_last_particle_stays_dead(scheme):
    """Cumulated in float32, 10,000 weights end below one; the gap must not go to the last particle."""
    weights = np.full(10_000, 1 / 9_000, np.float32)
    weights[-1000:] = 0
    log_weights = jnp.log(jnp.asarray(weights))
    keys = jax.random.split(jax.random.key(1), 50)
    indices = jax.vmap(lambda key: SCHEMES[scheme](key, log_weights).indices)(keys)
    assert int(indices.max()) < 9000


def test_adaptive_resamples_only_below_the_threshold():
    even, uneven = jnp.log(jnp.full(4, 0.25)), jnp.log(jnp.array([0.97, 0.01, 0.01, 0.01]))
    resampler = smc.adaptive(smc.systematic(), 0.5)
    kept = resampler(jax.random.key(0), even)
    assert not kept.resampled and np.array_equal(kept.indices, np.arange(4)) and np.array_equal(kept.log_weights, even)
    redone = resampler(jax.random.key(1), uneven)
    assert redone.resampled and np.sum(np.asarray(redone.indices) == 0) >= 3
    np.testing.assert_allclose(redone.log_weights, -np.log(4), rtol=1e-6)
    np.testing.assert_allclose(redone.ess, 1 / (0.97**2 + 3 * 0.01**2), rtol=1e-5)
    with pytest.raises(PartbayesError, match="between 0 and 1"):
        smc.adaptive(smc.systematic(), 1.5)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_cached_target_travels_with_its_particle(scheme):
    theta = {"w": jnp.arange(50.0)[:, None] * jnp.ones(3)}
    log_weights = jax.nn.log_softmax(3 * jax.random.normal(jax.random.key(2), (50,)))
    state = smc.ParticleState(theta, log_weights, -7.0 * jnp.arange(50.0))
    new, _, resampled = resample(jax.random.key(3), state, SCHEMES[scheme])
    assert bool(resampled)
    np.testing.assert_array_equal(new.log_target, -7.0 * new.theta["w"][:, 0])
    assert len(np.unique(new.log_target)) < 50
