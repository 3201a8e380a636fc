r"""The ψ-gradient $\sum_j \tilde w_j \nabla_\psi \log\pi(\theta_j, \psi)$ (the paper's `approx-grad`), block by block.

Weights are known up to a constant, and only as blocks come in. So the sum runs like an online softmax: a running
maximum m, the sum of $e^{\log w - m}$ and the gradient of the same weighted sum, both rescaled when m grows. One
backward pass per block; J gradients are never stored. The sum is over flipped matrices (`tree.flip`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from partbayes import tree as tm
from partbayes.smc.blocks import BlockSize, resolve_block_size, scan_blocks
from partbayes.types import Array, LogDensity, Tree


class RunningGradient(NamedTuple):
    """Largest log-weight so far, and the two sums relative to it; the gradient is by the flipped ψ."""

    maximum: Array
    total: Array
    gradient: Tree


def start(shared: Tree, dtype: jnp.dtype) -> RunningGradient:
    """Nothing summed yet."""
    return RunningGradient(
        jnp.array(-jnp.inf, dtype), jnp.zeros((), dtype), jax.tree.map(jnp.zeros_like, tm.flip(shared))
    )


def add_block(running: RunningGradient, log_weights: Array, pullback: Callable[[Array], Tree]) -> RunningGradient:
    """Add a block: `pullback(w)` is the gradient of Σ w_j log π(θ_j, ψ) with respect to the flipped ψ."""
    maximum = jnp.maximum(running.maximum, jnp.max(log_weights))
    reference = jnp.where(jnp.isfinite(maximum), maximum, 0.0)  # all dead so far: exp(-inf - 0) = 0, never nan
    shrink = jnp.exp(running.maximum - reference)
    weights = jnp.exp(log_weights - reference)
    gradient = jax.tree.map(lambda old, new: shrink * old + new, running.gradient, pullback(weights))
    return RunningGradient(maximum, shrink * running.total + jnp.sum(weights), gradient)


def merge(parts: RunningGradient) -> RunningGradient:
    """Sums over disjoint parts of the population, stacked along a first axis, as one."""
    maximum = jnp.max(parts.maximum)
    reference = jnp.where(jnp.isfinite(maximum), maximum, 0.0)
    shrink = jnp.exp(parts.maximum - reference)
    return RunningGradient(
        maximum,
        jnp.sum(shrink * parts.total),
        jax.tree.map(lambda g: jnp.tensordot(shrink, g, axes=1), parts.gradient),
    )


def finish(running: RunningGradient, shared: Tree) -> Tree:
    """The gradient under normalised weights, in the shape of `shared`."""
    return tm.unflip(jax.tree.map(lambda g: g / running.total, running.gradient), shared)


def weighted_gradient(
    log_density: LogDensity, theta: Tree, log_weights: Array, shared: Tree, block_size: BlockSize = "auto"
) -> Tree:
    """The same for particles that stand still: `theta` stacked `[J, ...]`, any log-weights `[J]`."""

    def body(running: RunningGradient, block: tuple[Tree, Array]) -> tuple[RunningGradient, None]:
        theta, log_weights = block
        _, pullback = jax.vjp(
            lambda flipped: jax.vmap(log_density, (0, None))(theta, tm.unflip(flipped, shared)), tm.flip(shared)
        )
        return add_block(running, log_weights, lambda weights: pullback(weights)[0]), None

    # A dead particle may stand where the density is not finite, and 0 × nan is nan: a living one stands in for it.
    living = jax.tree.map(lambda a: a[jnp.argmax(log_weights)], theta)
    theta = tm.where(
        jnp.isfinite(log_weights), theta, jax.tree.map(lambda a, b: jnp.broadcast_to(a, b.shape), living, theta)
    )
    block_size = resolve_block_size(block_size, log_density, theta, shared)
    running, _ = scan_blocks(body, start(shared, log_weights.dtype), (theta, log_weights), block_size, merge)
    return finish(running, shared)
