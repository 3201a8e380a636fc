"""SVGD's closed form against blackjax's double sum, its memory, and its identities."""

from __future__ import annotations

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from blackjax.vi.svgd import median_heuristic
from problems import small_network, trees_close

from partbayes.baselines import map_estimate, svgd
from partbayes.baselines.svgd import median_bandwidth, squared_distances, stein_direction
from partbayes.model import log_target

STILL = optax.sgd(0.0)


def start(algorithm, model, data, seed=0):
    key_params, key_init = jax.random.split(jax.random.key(seed))
    return jax.jit(lambda *keys: algorithm.init(keys[0], model.init(keys[1]), data))(key_init, key_params)


@pytest.mark.parametrize("optimiser", [optax.sgd(1e-3), optax.adam(0.05)], ids=["SGD", "Adam"])
def test_three_updates_agree_with_blackjax(optimiser, x64):
    """The same sums in another order. Each loses about J·dim roundings of 1e-16, and three steps add up."""
    model, data = small_network()
    algorithm = svgd(model, 24, num_particles=9, theta_optimiser=optimiser, optimiser=STILL)
    state = start(algorithm, model, data)
    target = log_target(model, 24)
    peer = blackjax.svgd(jax.grad(lambda theta: target(theta, state.psi, data)), optimiser)
    other = peer.init(state.theta, median_heuristic({"length_scale": 1.0}, state.theta))
    before = state.theta
    step = jax.jit(algorithm.step)
    peer_step = jax.jit(peer.step)
    for i in range(3):
        state, _ = step(jax.random.key(i), state, data)
        other = peer_step(other)
    assert trees_close(state.theta, other.particles, rtol=1e-11, atol=1e-12)
    assert not trees_close(state.theta, before, rtol=1e-3)


def brute_force(theta, scores):
    """φ with its J × J × dim array of differences, in float64 numpy."""
    theta, scores = np.asarray(theta, np.float64), np.asarray(scores, np.float64)
    difference = theta[:, None] - theta[None, :]
    squared = np.sum(difference**2, axis=-1)
    num = len(theta)
    bandwidth = np.median(np.sqrt(squared[np.triu_indices(num, 1)])) ** 2 / np.log(num)
    kernel = np.exp(-squared / bandwidth)
    return (kernel @ scores + np.einsum("ij,ijd->id", kernel, difference) * 2 / bandwidth) / num


def test_far_from_the_origin_no_digits_are_lost():
    """Particles around 300, in float32. Taken about the origin, products of 1e5 × dim would swallow the distances."""
    rng = np.random.default_rng(0)
    theta = np.float32(300 + rng.normal(size=(20, 40)))
    scores = np.float32(rng.normal(size=(20, 40)))
    found = stein_direction({"a": theta[:, :15].reshape(20, 3, 5), "b": theta[:, 15:]}, {
        "a": scores[:, :15].reshape(20, 3, 5),
        "b": scores[:, 15:],
    })  # fmt: skip
    found = np.concatenate([found["a"].reshape(20, 15), found["b"]], axis=1)
    # About the mean, sums of 40 products of order one: 40 × 6e-8 relative to numbers of order one.
    assert np.allclose(found, brute_force(theta, scores), atol=40 * 6e-8)


def test_bandwidth_is_the_median_rule(x64):
    theta = np.random.default_rng(1).normal(size=(11, 3))
    distances = np.linalg.norm(theta[:, None] - theta[None], axis=-1)[np.triu_indices(11, 1)]
    expected = np.median(distances) ** 2 / np.log(11)
    assert np.isclose(median_bandwidth(squared_distances(jnp.asarray(theta))), expected, rtol=1e-12)


def test_particles_that_coincide_stay_finite():
    theta = jnp.ones((5, 3))
    scores = jnp.arange(15.0).reshape(5, 3)
    # All kernels are one: every particle gets the mean score, and nothing pushes them apart.
    assert np.allclose(stein_direction(theta, scores), jnp.mean(scores, axis=0), rtol=1e-6)


def test_one_particle_is_map(x64):
    """J = 1: φ is the score, N times MAP's per-row gradient."""
    model, data = small_network()
    alone = svgd(model, 24, num_particles=1, theta_optimiser=optax.sgd(0.1 / 24), optimiser=optax.sgd(0.1 / 24))
    state = start(alone, model, data)
    point = map_estimate(model, 24, optimiser=optax.sgd(0.1))
    other = point.init(jax.random.key(1), (jax.tree.map(lambda leaf: leaf[0], state.theta), state.psi), data)
    moved, _ = jax.jit(alone.step)(jax.random.key(2), state, data)
    other, _ = jax.jit(point.step)(jax.random.key(2), other, data)
    assert trees_close(alone.posterior(moved), point.posterior(other), rtol=1e-12, atol=1e-14)


def test_blocks_change_nothing_but_rounding(x64):
    model, data = small_network()
    whole, blocked = (svgd(model, 24, num_particles=7, block_size=size) for size in (None, 3))
    state = start(whole, model, data)
    after_whole, _ = jax.jit(whole.step)(jax.random.key(0), state, data)
    after_blocked, _ = jax.jit(blocked.step)(jax.random.key(0), state, data)
    assert trees_close(after_whole, after_blocked, rtol=1e-10, atol=1e-13)


def test_psi_follows_the_mean_gradient_of_the_particles(x64):
    model, data = small_network()
    batch = jax.tree.map(lambda rows: rows[:8], data)
    algorithm = svgd(model, 24, num_particles=5, optimiser=optax.sgd(1e-3))
    state = start(algorithm, model, batch)
    moved, info = jax.jit(algorithm.step)(jax.random.key(0), state, batch)

    def mean_log_likelihood(psi):
        return jnp.mean(jax.vmap(lambda theta: jnp.sum(model.log_likelihood(theta, psi, batch)))(state.theta))

    value, gradient = jax.value_and_grad(mean_log_likelihood)(state.psi)
    expected = jax.tree.map(lambda p, g: p + 1e-3 * (24 / 8) * g, state.psi, gradient)
    assert trees_close(moved.psi, expected, rtol=1e-12)
    assert np.isclose(info.loss, -value / 8, rtol=1e-12)


def test_no_array_of_particles_squared_times_dimension():
    """The largest array of a step is a leaf of all particles, `[J, 8, width]`; J times that is never built."""
    num_particles, width = 32, 40
    model, data = small_network(num_data=6, features=8, hidden=(width,))
    algorithm = svgd(model, 6, num_particles=num_particles)
    state = start(algorithm, model, data)
    sizes = list(array_sizes(jax.make_jaxpr(algorithm.step)(jax.random.key(0), state, data).jaxpr))
    assert num_particles**2 in sizes  # the walk does see the kernel matrix
    assert max(sizes) == num_particles * 8 * width


def array_sizes(jaxpr):
    for equation in jaxpr.eqns:
        for variable in equation.outvars:
            yield getattr(variable.aval, "size", 0)
        for parameter in jax.tree.leaves(list(equation.params.values()), is_leaf=lambda p: hasattr(p, "jaxpr")):
            inner = getattr(parameter, "jaxpr", parameter)
            if hasattr(inner, "eqns"):
                yield from array_sizes(inner)
