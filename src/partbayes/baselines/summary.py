"""A baseline's step in numbers."""

from __future__ import annotations

import jax.numpy as jnp
from jax.typing import ArrayLike

from partbayes.algorithm import Info
from partbayes.types import Array, Batch


def summarise(
    log_likelihood: Array, batch: Batch, *, ess: ArrayLike, skipped: Array, log_evidence: Array | None = None
) -> Info:
    """`log_likelihood` is the batch's sum over rows, one entry for each θ that was looked at, `[S]`.

    No baseline accepts, rejects or resamples, and only VI has something to say about the evidence. Values of θ whose
    likelihood is not finite are counted as dead and left out of the loss.
    """
    alive = jnp.isfinite(log_likelihood)
    mean = jnp.sum(jnp.where(alive, log_likelihood, 0.0)) / jnp.sum(alive)
    missing = jnp.full_like(mean, jnp.nan)
    return Info(
        loss=-mean / jnp.sum(batch.weight),
        ess=jnp.asarray(ess, mean.dtype),
        acceptance=missing,
        resampled=jnp.array(False),
        dead=jnp.mean(~alive, dtype=mean.dtype),
        finite=jnp.any(alive),
        skipped=skipped,
        log_evidence=missing if log_evidence is None else log_evidence,
        num_gradients=missing,
    )
