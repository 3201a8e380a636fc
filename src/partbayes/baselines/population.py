r"""Gradients for a population of equal weight: each particle's score, and the ψ-gradient of all.

$$s_j = \nabla_\theta \log \pi_S(\theta_j \mid \psi), \qquad
g = \frac1J \sum_j \nabla_\psi \log \pi_S(\theta_j \mid \psi)
= \frac{N}{M} \frac1J \sum_j \nabla_\psi \log p(y_S \mid \theta_j, \psi).$$

The weights are equal and known beforehand, so one backward pass of the sum gives both; J ψ-gradients are never stored.
(`smc.weighted_gradient` is for weights that are not, and gives g alone.)
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from partbayes import tree as tm
from partbayes.model import Target
from partbayes.smc.blocks import BlockSize, resolve_block_size, scan_blocks
from partbayes.types import Array, Batch, Key, Tree


def sample_population(key: Key, target: Target, num_particles: int) -> Tree:
    """Draws from the prior, stacked."""
    return jax.vmap(target.model.sample_prior)(jax.random.split(key, num_particles))


def population_gradients(
    theta: Tree, psi: Tree, batch: Batch, target: Target, block_size: BlockSize = "auto"
) -> tuple[Array, Tree, Tree]:
    """Each particle's log target `[J]` and score `[J, ...]`, and g. Particles pass `block_size` at a time."""

    def body(total: Tree, theta: Tree) -> tuple[Tree, tuple[Array, Tree]]:
        def log_targets(theta: Tree, flipped: Tree) -> Array:
            return jax.vmap(lambda one: target(one, tm.unflip(flipped, psi), batch))(theta)

        values, pullback = jax.vjp(log_targets, theta, tm.flip(psi))
        scores, gradient = pullback(jnp.ones_like(values))
        return jax.tree.map(jnp.add, total, gradient), (values, scores)

    block_size = resolve_block_size(block_size, lambda one: target(one, psi, batch), theta)
    total, (values, scores) = scan_blocks(body, jax.tree.map(jnp.zeros_like, tm.flip(psi)), theta, block_size)
    return values, scores, tm.unflip(jax.tree.map(lambda g: g / len(values), total), psi)


def log_likelihoods(values: Array, theta: Tree, batch: Batch, target: Target) -> Array:
    """Each particle's plain log-likelihood of the batch, from its log target."""
    return jax.vmap(lambda value, one: target.log_likelihood(value, one, batch))(values, theta)
