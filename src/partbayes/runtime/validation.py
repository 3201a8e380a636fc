"""The validation score that picks the best state: each island's own mixture, a block of particles at a time."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from partbayes.algorithm import Posterior
from partbayes.model import Model
from partbayes.types import Array, Batch

BLOCK_ROWS = 20_000
"""Particles × rows evaluated together: activations of a small network for as many rows stay in the megabytes."""


def mixture_nll(model: Model, posterior: Posterior, batch: Batch) -> Array:
    r"""Weighted mean over rows of $-\log \sum_j \tilde w_j\, p(y_n \mid x_n, \theta_j, \psi)$, for one island."""
    num_particles = posterior.log_weights.shape[0]
    block = max(1, min(num_particles, BLOCK_ROWS // max(1, batch.x.shape[0])))
    log_prob = jax.lax.map(
        lambda theta: model.log_likelihood(theta, posterior.psi, batch), posterior.theta, batch_size=block
    )
    mixture = jax.nn.logsumexp(log_prob + posterior.log_weights[:, None], axis=0)
    return -jnp.sum(batch.weight * mixture) / jnp.sum(batch.weight)
