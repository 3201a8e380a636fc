"""The validation score that picks the best state: each island's own mixture, a block of particles at a time."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp

from partbayes.algorithm import Posterior
from partbayes.model import Model
from partbayes.smc.blocks import fit_in_cache
from partbayes.types import Array, Batch

BLOCK_ROWS = 20_000
"""Particles × rows evaluated together: activations of a small network for as many rows stay in the megabytes."""


def mixture_nll(model: Model, posterior: Posterior, batch: Batch) -> Array:
    """Weighted mean over rows of one island's negative log score."""
    return mean_nll(mixture_log_prob(model, posterior, batch), batch)


def islands_nll(model: Model, posterior: Posterior, batch: Batch) -> Array:
    """The same for the mixture of all islands, by their shares."""
    return _joint_nll(island_log_prob(model, posterior, batch), batch)


@partial(jax.jit, static_argnames=("model",))
def island_log_prob(model: Model, posterior: Posterior, batch: Batch) -> Array:
    """Each row's log density by each island, `[K, M]`. One program for all who ask."""
    return jax.lax.map(lambda island: mixture_log_prob(model, island, batch), posterior)


@jax.jit
def _joint_nll(log_prob: Array, batch: Batch) -> Array:
    return mean_nll(joint_log_prob(log_prob, jnp.ones(log_prob.shape[0], bool))[0], batch)


def mixture_log_prob(model: Model, posterior: Posterior, batch: Batch) -> Array:
    r"""$\log \sum_j \tilde w_j\, p(y_n \mid x_n, \theta_j, \psi)$ of each row, `[M]`, for one island."""
    num_particles = posterior.log_weights.shape[0]
    block = max(1, min(num_particles, BLOCK_ROWS // max(1, batch.x.shape[0])))
    log_prob = jax.lax.map(
        lambda theta: model.log_likelihood(theta, posterior.psi, batch), posterior.theta, batch_size=block
    )
    return jax.nn.logsumexp(log_prob + posterior.log_weights[:, None], axis=0)


def islands_together(model: Model, posterior: Posterior, batch: Batch) -> int:
    """How many islands `[K, ...]` to take side by side, so that their particles' passes over `batch` stay in cache.

    Many islands on many rows at once send every activation to main memory and back (docs/speed.md). All particles of
    the posterior count, also where an algorithm moves fewer of them at a time: taking turns costs next to nothing.
    """
    theta = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[2:], leaf.dtype), posterior.theta)
    psi = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), posterior.psi)
    particles = fit_in_cache(model.log_likelihood, theta, psi, batch)
    return max(1, particles // posterior.log_weights.shape[1])


def joint_log_prob(log_prob: Array, alive: Array) -> Array:
    """The mixture of the living islands, `[K, M]`: the same row for each."""
    share = jnp.where(alive, -jnp.log(jnp.maximum(1, jnp.sum(alive))), -jnp.inf)
    # An island that is lost may say nan, which no weight of zero would remove; a living one that does is no help.
    rows = jnp.where(alive[:, None] & ~jnp.isnan(log_prob), log_prob, -jnp.inf)
    return jnp.broadcast_to(jax.nn.logsumexp(rows + share[:, None], axis=0), log_prob.shape)


@jax.jit
def mean_nll(log_prob: Array, batch: Batch) -> Array:
    """Weighted mean over rows."""
    return -jnp.sum(batch.weight * log_prob) / jnp.sum(batch.weight)
