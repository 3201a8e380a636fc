"""The ψ-gradient is Σ w̃ ∇ of the single particles, in one pass, without J gradients in memory."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import small_network, trees_close

from partbayes import smc
from partbayes.model import log_target
from partbayes.smc.step import move_with_gradient

J = 23
weighted_gradient = jax.jit(smc.weighted_gradient, static_argnums=(0, 4))


def population(sigma="learned"):
    model, data = small_network(sigma=sigma)
    _, psi = model.init(jax.random.key(0))
    theta = jax.vmap(model.sample_prior)(jax.random.split(jax.random.key(1), J))
    log_weights = 40 * jax.random.normal(jax.random.key(2), (J,))  # spread so that the running maximum matters
    target = log_target(model, 24)
    return (lambda theta, psi: target(theta, psi, data)), theta, log_weights, psi


@partial(jax.jit, static_argnums=0)
def one_by_one(log_density, theta, log_weights, psi):
    """The plain sum: J gradients, then their weighted mean."""
    gradients = jax.vmap(jax.grad(log_density, argnums=1), (0, None))(theta, psi)
    weights = jax.nn.softmax(log_weights)
    return jax.tree.map(lambda g: jnp.tensordot(weights, g, 1), gradients)


@pytest.mark.parametrize("block_size", [None, 1, 5, 23, 100])
def test_equals_the_sum_over_particles(x64, block_size):
    log_density, theta, log_weights, psi = population()
    ours = weighted_gradient(log_density, theta, log_weights, psi, block_size)
    assert trees_close(ours, one_by_one(log_density, theta, log_weights, psi), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("lkernel", [smc.forward_proposal(), smc.asymptotic()], ids=["forward", "asymptotic"])
@pytest.mark.parametrize("proposal", [smc.random_walk(), smc.langevin(), smc.hmc(3)], ids=["RW", "LD", "HMC"])
@pytest.mark.parametrize("block_size", [None, 5])
def test_moving_and_differentiating_in_one_pass(x64, proposal, lkernel, block_size):
    """The gradient that comes with a move is the one at the particles' new places under their new weights."""
    log_density, theta, log_weights, psi = population()
    values_at = jax.jit(jax.vmap(log_density, (0, None)))
    values = values_at(theta, psi)
    state = smc.ParticleState(theta, jax.nn.log_softmax(log_weights), values)
    kernel = smc.Kernel(proposal, lkernel, "cached", block_size)
    tuning = smc.Tuning(jnp.asarray(0.05))
    new, _, gradient = jax.jit(lambda k, s, p: move_with_gradient(k, s, log_density, p, kernel, tuning))(
        jax.random.key(3), state, psi
    )
    assert trees_close(gradient, one_by_one(log_density, new.theta, new.log_weights, psi), rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(new.log_target, values_at(new.theta, psi), rtol=1e-10)


def test_j_gradients_are_never_stored():
    """Temporary memory of a step stays far below J copies of ψ."""
    size, num_particles = 200_000, 64

    def log_density(theta, psi):
        return -0.5 * jnp.sum((psi["w"] * jnp.tanh(theta["w"])) ** 2)

    state = smc.ParticleState({"w": jnp.zeros((num_particles, 1))}, jnp.zeros(num_particles), jnp.zeros(num_particles))
    kernel = smc.Kernel(smc.langevin(), smc.forward_proposal(), "cached", block_size=4)
    step = jax.jit(
        lambda k, s, p: move_with_gradient(k, s, log_density, p, kernel, smc.Tuning(jnp.asarray(0.1))),
    )
    compiled = step.lower(jax.random.key(0), state, {"w": jnp.ones(size)}).compile()
    analysis = compiled.memory_analysis()
    assert analysis is not None
    one_copy = 4 * size
    assert analysis.temp_size_in_bytes < 16 * one_copy  # a few per particle of a block; 64 and more would be J copies


def test_dead_particles_weigh_nothing():
    log_density, theta, log_weights, psi = population()
    log_weights = log_weights.at[::2].set(-jnp.inf)
    alive = jax.tree.map(lambda a: a[1::2], theta)
    expected = one_by_one(log_density, alive, log_weights[1::2], psi)
    assert trees_close(weighted_gradient(log_density, theta, log_weights, psi, 4), expected, rtol=1e-4, atol=1e-5)
