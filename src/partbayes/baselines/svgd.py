r"""Stein variational gradient descent (Liu and Wang, 2016): J particles drawn to the target and pushed apart.

With $K_{ij} = \exp(-\|\theta_i - \theta_j\|^2 / h)$ and scores $s_j = \nabla_\theta \log \pi_S(\theta_j \mid \psi)$,

$$\phi_i = \frac1J \sum_j \big[K_{ij} s_j + \nabla_{\theta_j} K_{ij}\big]
= \frac1J \Big[K s + \frac2h \big(\mathrm{diag}(K \mathbf 1)\, \theta - K \theta\big)\Big]_i,
\qquad h = \frac{\mathrm{median}_{i<j} \|\theta_i - \theta_j\|^2}{\log J}.$$

The right-hand form needs J×J and J×dim matrices only. φ goes to any optax optimiser in place of θ's gradient; ψ takes a
step with $\frac{N}{M} \frac1J \sum_j \nabla_\psi \log p(y_S \mid \theta_j, \psi)$, from the same backward pass.
With J = 1, φ is the score: MAP.
"""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from partbayes import tree as tm
from partbayes.algorithm import Algorithm, Info, Posterior
from partbayes.baselines.population import log_likelihoods, population_gradients, sample_population
from partbayes.baselines.settings import check_count
from partbayes.baselines.summary import summarise
from partbayes.model import Model, Target, log_target
from partbayes.optimise import ascend
from partbayes.smc.blocks import BlockSize, check_block_size
from partbayes.smc.weights import uniform
from partbayes.types import Array, Batch, Key, Tree


def svgd(
    model: Model,
    num_data: int,
    *,
    num_particles: int = 100,
    theta_optimiser: optax.GradientTransformation | None = None,
    optimiser: optax.GradientTransformation | None = None,
    block_size: BlockSize = "auto",
) -> Algorithm:
    """Build SVGD for `num_data` training rows.

    `theta_optimiser` moves the particles and `optimiser` ψ (default for both: Adam(0.01)). Particles pass through the
    network `block_size` at a time (see `smc.blocks`).
    """
    check_count("num_data", num_data)
    check_count("num_particles", num_particles)
    check_block_size(block_size)
    theta_optimiser = optax.adam(0.01) if theta_optimiser is None else theta_optimiser
    optimiser = optax.adam(0.01) if optimiser is None else optimiser
    target = log_target(model, num_data)
    settings = {"target": target, "theta_optimiser": theta_optimiser, "optimiser": optimiser}
    return Algorithm(
        partial(init, **settings, num_particles=num_particles),
        partial(step, **settings, block_size=block_size),
        posterior,
    )


class SVGDState(NamedTuple):
    """Particles `[J, ...]`, ψ, and the state of an optimiser for each."""

    theta: Tree
    psi: Tree
    theta_optimiser: optax.OptState
    optimiser: optax.OptState


def init(
    key: Key,
    params: tuple[Tree, Tree],
    batch: Batch,
    *,
    target: Target,
    theta_optimiser: optax.GradientTransformation,
    optimiser: optax.GradientTransformation,
    num_particles: int,
) -> SVGDState:
    """J draws from the prior."""
    _, psi = params
    theta = sample_population(key, target, num_particles)
    return SVGDState(theta, psi, theta_optimiser.init(theta), optimiser.init(psi))


def step(
    key: Key,
    state: SVGDState,
    batch: Batch,
    *,
    target: Target,
    theta_optimiser: optax.GradientTransformation,
    optimiser: optax.GradientTransformation,
    block_size: BlockSize,
) -> tuple[SVGDState, Info]:
    """Move all particles and ψ; it uses no random numbers.

    A particle without a finite score counts as score zero: its neighbours' may still carry it back.
    """
    values, scores, gradient = population_gradients(state.theta, state.psi, batch, target, block_size)
    usable = jax.vmap(tm.all_finite)(scores)
    scores = tm.where(usable, scores, jax.tree.map(jnp.zeros_like, scores))
    theta, theta_optimiser_state, _ = ascend(
        theta_optimiser, stein_direction(state.theta, scores), state.theta, state.theta_optimiser
    )
    psi, optimiser_state, skipped = ascend(optimiser, gradient, state.psi, state.optimiser)
    log_likelihood = log_likelihoods(values, state.theta, batch, target)
    info = summarise(log_likelihood, batch, ess=len(values), skipped=skipped)
    return SVGDState(theta, psi, theta_optimiser_state, optimiser_state), info


def posterior(state: SVGDState) -> Posterior:
    """The particles, equally weighted."""
    return Posterior(state.theta, uniform(jax.tree.leaves(state.theta)[0].shape[0]), state.psi)


def stein_direction(theta: Tree, scores: Tree) -> Tree:
    """φ of the module's docstring, for stacked particles and scores."""
    num_particles = jax.tree.leaves(theta)[0].shape[0]
    if num_particles == 1:
        return scores
    # φ does not depend on where the origin is; about the mean, the differences below lose the fewest digits.
    theta = jax.tree.map(lambda leaf: leaf - jnp.mean(leaf, axis=0), theta)
    squared = squared_distances(theta)
    bandwidth = median_bandwidth(squared)
    kernel = jnp.exp(-squared / bandwidth)
    row_sums = jnp.sum(kernel, axis=1)

    def direction(position: Array, score: Array) -> Array:
        flat = position.reshape(num_particles, -1)
        attraction = kernel @ score.reshape(num_particles, -1)
        repulsion = (2 / bandwidth) * (row_sums[:, None] * flat - kernel @ flat)
        return ((attraction + repulsion) / num_particles).reshape(position.shape).astype(position.dtype)

    return jax.tree.map(direction, theta, scores)


def squared_distances(theta: Tree) -> Array:
    """‖θ_i − θ_j‖² from the Gram matrix, `[J, J]`, with an exact zero diagonal."""

    def gram(leaf: Array) -> Array:
        flat = leaf.reshape(leaf.shape[0], -1)
        return jnp.matmul(flat, flat.T, precision="highest")  # small differences of large numbers follow

    products = jax.tree.reduce(jnp.add, jax.tree.map(gram, theta))
    norms = jnp.diagonal(products)
    return jnp.maximum(norms[:, None] + norms[None, :] - 2 * products, 0.0)


def median_bandwidth(squared: Array) -> Array:
    """h: the squared median distance over log J; one, where more than half of the particles coincide."""
    num_particles = squared.shape[0]
    pairs = num_particles * (num_particles - 1) // 2
    # In order, the matrix has its J zeros of the diagonal first, then every pair twice.
    middle = [_order_statistic(squared, num_particles + 2 * rank) for rank in {(pairs - 1) // 2, pairs // 2}]
    median = jnp.mean(jnp.sqrt(jnp.stack(middle)))
    bandwidth = jnp.square(median) / math.log(num_particles)
    return jnp.where(bandwidth > 0, bandwidth, 1.0)


def _order_statistic(values: Array, rank: int) -> Array:
    """The number at place `rank` (from 0) among non-negative `values`, exactly, and sooner than a sort on the CPU.

    Such numbers are ordered as their bits are, read as integers; so the bits are found one by one, from the highest.
    """
    bits = jax.lax.bitcast_convert_type(values, jnp.dtype(f"int{8 * values.dtype.itemsize}"))
    highest = 8 * values.dtype.itemsize - 2  # below the sign

    def settle(i: Array, found: Array) -> Array:
        candidate = found | jnp.left_shift(jnp.ones_like(found), (highest - i).astype(found.dtype))
        return jnp.where(jnp.sum(bits < candidate) <= rank, candidate, found)

    found = jax.lax.fori_loop(0, highest + 1, settle, jnp.zeros((), bits.dtype))
    return jax.lax.bitcast_convert_type(found, values.dtype)
