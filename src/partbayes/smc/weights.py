"""Log-weights: normalising and effective sample size. Nothing in the package leaves the log scale elsewhere."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp

from partbayes.types import Array


def normalise(log_weights: Array) -> tuple[Array, Array]:
    r"""Log-weights with $\sum_j \tilde w_j = 1$ (the paper's eq. `normalise`), and $\log \sum_j w_j$.

    With every particle dead the sum is $-\infty$; the weights then come back uniform so that nothing turns into
    `nan`, and the caller sees the infinite sum.
    """
    total = jax.nn.logsumexp(log_weights)
    return jnp.where(jnp.isfinite(total), log_weights - total, uniform(log_weights.shape[0])), total


def uniform(num_particles: int) -> Array:
    """The log-weights after resampling: $-\\log J$ each."""
    return jnp.full(num_particles, -math.log(num_particles))


def ess(log_weights: Array) -> Array:
    r"""Effective sample size $1 / \sum_j \tilde w_j^2$ (the paper's eq. `jeff`) of normalised log-weights."""
    return jnp.exp(-jax.nn.logsumexp(2.0 * log_weights))
