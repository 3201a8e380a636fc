"""Sums over weighted components, which both mixtures share."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp

from partbayes.types import Array


def average(log_weights: Array, values: Array) -> Array:
    """Σ_c w_c values_c over the first axis of `[C, N, D]`.

    A component of weight zero is left out rather than multiplied by zero: a dead particle may predict nan.
    """
    weights = jax.nn.softmax(log_weights)[:, None, None]
    return jnp.sum(jnp.where(weights > 0, weights * values, 0), axis=0)


def log_average(log_weights: Array, log_values: Array) -> Array:
    """log Σ_c w_c exp(log_values_c) over the first axis of `[C, N]`, with the same care."""
    log_weights = jax.nn.log_softmax(log_weights)[:, None]
    return logsumexp(jnp.where(log_weights > -jnp.inf, log_weights + log_values, -jnp.inf), axis=0)
