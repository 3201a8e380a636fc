"""SWAG's moments against numpy over the stored iterates, and its draws against the Gaussian they are to follow."""

from __future__ import annotations

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.flatten_util import ravel_pytree
from problems import small_network, trees_close, trees_equal

from partbayes.baselines import map_estimate, swag

BURN_IN, INTERVAL, RANK, STEPS = 4, 2, 3, 16  # a full batch: an epoch is one step
COLLECTED = [6, 8, 10, 12, 14, 16]


@pytest.fixture
def recorded(x64):
    """The algorithm, its states after every step (the first one before any), model and data."""
    return _recorded()


@cache
def _recorded():
    model, data = small_network()
    algorithm = swag(
        model,
        24,
        num_particles=5,
        rank=RANK,
        burn_in_epochs=BURN_IN,
        interval_epochs=INTERVAL,
        optimiser=optax.adam(0.05),
    )
    key_params, key_init = jax.random.split(jax.random.key(0))
    states = [jax.jit(lambda *keys: algorithm.init(keys[0], model.init(keys[1]), data))(key_init, key_params)]
    step = jax.jit(algorithm.step)
    for i in range(STEPS):
        state, _ = step(jax.random.key(i), states[-1], data)
        states.append(state)
    return algorithm._replace(posterior=jax.jit(algorithm.posterior)), states, (model, data)


def flat(tree):
    return np.asarray(ravel_pytree(tree)[0])


def test_moments_are_those_of_the_iterates(recorded):
    _, states, _ = recorded
    moments = states[-1].moments
    theta = np.stack([flat(states[t].iterate.theta) for t in COLLECTED])
    psi = np.stack([flat(states[t].iterate.psi) for t in COLLECTED])
    assert moments.count == len(COLLECTED)
    # Six additions in float64 on numbers of order one.
    assert np.allclose(flat(moments.mean), theta.mean(axis=0), rtol=1e-12, atol=1e-14)
    assert np.allclose(flat(moments.psi_mean), psi.mean(axis=0), rtol=1e-12, atol=1e-14)
    variance = (theta**2).mean(axis=0) - theta.mean(axis=0) ** 2  # the published form
    assert np.allclose(flat(moments.squares) / len(COLLECTED), variance, atol=1e-13)
    running_mean = np.cumsum(theta, axis=0) / np.arange(1, 7)[:, None]
    deviations = np.stack([flat(jax.tree.map(lambda leaf, r=r: leaf[r], moments.deviations)) for r in range(RANK)])
    assert np.allclose(deviations, (theta - running_mean)[-RANK:], atol=1e-13)  # six iterates fill the ring twice


def test_draws_follow_the_gaussian(recorded):
    """Mean and covariance of 20,000 draws, each entry within five standard errors (231 entries are looked at)."""
    _, states, (model, _) = recorded
    theta = np.stack([flat(states[t].iterate.theta) for t in COLLECTED])
    deviations = (theta - np.cumsum(theta, axis=0) / np.arange(1, 7)[:, None])[-RANK:]
    exact = 0.5 * (np.diag(theta.var(axis=0)) + deviations.T @ deviations / (RANK - 1))
    num = 20_000
    many = jax.jit(swag(model, 24, num_particles=num, rank=RANK).posterior)(states[-1])
    draws = np.asarray(jax.vmap(lambda one: ravel_pytree(one)[0])(many.theta))
    error = draws.mean(axis=0) - theta.mean(axis=0)
    assert np.max(np.abs(error) / np.sqrt(np.diag(exact) / num)) < 5
    # A Gaussian's sample covariance has variance (Σii Σjj + Σij²) / n.
    spread = np.sqrt((np.outer(np.diag(exact), np.diag(exact)) + exact**2) / num)
    assert np.max(np.abs(np.cov(draws.T) - exact) / spread) < 5
    assert np.allclose(flat(many.psi), np.mean([flat(states[t].iterate.psi) for t in COLLECTED], axis=0), rtol=1e-12)


def test_before_the_first_iterate_the_posterior_is_the_point(recorded):
    algorithm, states, _ = recorded
    for t in (0, BURN_IN + INTERVAL - 1):
        posterior = algorithm.posterior(states[t])
        assert states[t].moments.count == 0
        copies = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (5, *leaf.shape)), states[t].iterate.theta)
        assert trees_equal(posterior.theta, copies)
        assert trees_equal(posterior.psi, states[t].iterate.psi)
    # With the first one the Gaussian has no width yet: the draws are its mean, and finite.
    first = algorithm.posterior(states[BURN_IN + INTERVAL])
    copies = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (5, *leaf.shape)), states[6].iterate.theta)
    assert trees_close(first.theta, copies, rtol=1e-12)


def test_iterates_are_those_of_map(recorded):
    _, states, (model, data) = recorded
    algorithm = map_estimate(model, 24, optimiser=optax.adam(0.05))
    state = algorithm.init(jax.random.key(0), (states[0].iterate.theta, states[0].iterate.psi), data)
    step = jax.jit(algorithm.step)
    for i in range(STEPS):
        state, _ = step(jax.random.key(i), state, data)
    assert trees_close(state, states[-1].iterate, rtol=1e-9, atol=1e-12)


def test_epochs_are_counted_in_batches():
    """Ten of 24 rows make three steps an epoch: after one epoch of burn-in and one of waiting, step 6 is the first."""
    model, data = small_network()
    batch = jax.tree.map(lambda rows: rows[:10], data)
    algorithm = swag(model, 24, num_particles=2, rank=2, burn_in_epochs=1, interval_epochs=1)
    state = algorithm.init(jax.random.key(0), model.init(jax.random.key(1)), batch)
    step = jax.jit(algorithm.step)
    counts = []
    for i in range(9):
        state, _ = step(jax.random.key(i), state, batch)
        counts.append(int(state.moments.count))
    assert counts == [0, 0, 0, 0, 0, 1, 1, 1, 2]
