r"""GOHSMC-LD as a good first draft would write it: everything `vmap`ped over particles, nothing shared or blocked.

Value and gradient at both ends of the move, then a pass of its own for the ψ-gradient.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import optax

from benchmarks.ours import STEP_SIZE
from benchmarks.problem import LEARNING_RATE, NUM_DATA, Call, Problem

NAME = "GOHSMC-LD straightforward"


def row(problem: Problem) -> Call:
    """The compiled step and its fixed state."""
    shape, model, batch = problem
    num_particles = shape.particles
    optimiser = optax.adam(LEARNING_RATE)

    def log_target(theta, psi):
        likelihood = jnp.sum(model.log_likelihood(theta, psi, batch))
        return NUM_DATA / shape.batch * likelihood + model.log_prior(theta)

    value_and_grad = jax.vmap(jax.value_and_grad(log_target), (0, None))

    def normals(key, theta):
        leaves, treedef = jax.tree.flatten(theta)
        keys = jax.random.split(key, len(leaves))
        draws = [jax.random.normal(k, leaf.shape) for k, leaf in zip(keys, leaves, strict=True)]
        return jax.tree.unflatten(treedef, draws)

    def square(momentum):
        return sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(momentum))

    def step(key, theta, log_weights, log_targets, psi, optimiser_state):
        key_resample, key_move = jax.random.split(key)
        weights = jnp.exp(log_weights)
        low = 1 / jnp.sum(weights**2) < num_particles / 2
        drawn = jax.random.choice(key_resample, num_particles, (num_particles,), p=weights)
        ancestors = jnp.where(low, drawn, jnp.arange(num_particles))
        log_weights = jnp.where(low, -jnp.log(num_particles), log_weights)
        theta, log_targets = jax.tree.map(lambda leaf: leaf[ancestors], (theta, log_targets))

        _, gradient = value_and_grad(theta, psi)
        momentum = jax.vmap(normals)(jax.random.split(key_move, num_particles), theta)
        half = jax.tree.map(lambda r, g: r + 0.5 * STEP_SIZE * g, momentum, gradient)
        theta = jax.tree.map(lambda t, r: t + STEP_SIZE * r, theta, half)
        values, gradient = value_and_grad(theta, psi)
        last = jax.tree.map(lambda r, g: r + 0.5 * STEP_SIZE * g, half, gradient)
        kinetic = 0.5 * (jax.vmap(square)(momentum) - jax.vmap(square)(last))
        log_weights = jax.nn.log_softmax(log_weights + values - log_targets + kinetic)

        def loss(psi):
            return -jnp.sum(jnp.exp(log_weights) * jax.vmap(log_target, (0, None))(theta, psi))

        updates, optimiser_state = optimiser.update(jax.grad(loss)(psi), optimiser_state)
        return theta, log_weights, values, optax.apply_updates(psi, updates), optimiser_state

    theta = jax.vmap(model.sample_prior)(jax.random.split(jax.random.key(2), num_particles))
    _, psi = model.init(jax.random.key(1))
    state = (
        theta,
        jnp.full(num_particles, -jnp.log(num_particles)),
        jax.vmap(log_target, (0, None))(theta, psi),
        psi,
        optimiser.init(psi),
    )
    compiled, key = jax.jit(step), jax.random.key(3)
    return lambda: compiled(key, *state)
