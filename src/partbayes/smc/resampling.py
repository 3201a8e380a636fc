"""Resampling: which particle each survivor descends from. Schemes come from blackjax; adaptivity wraps any of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Protocol

import blackjax.smc.resampling as schemes
import jax.numpy as jnp

from partbayes.errors import PartbayesError
from partbayes.smc.shards import everywhere
from partbayes.smc.weights import ess, uniform
from partbayes.types import Array, Key


class Ancestry(NamedTuple):
    """Each survivor's ancestor, the log-weights afterwards, and what was decided on."""

    indices: Array
    log_weights: Array
    ess: Array
    resampled: Array


class Resampler(Protocol):
    """`resampler(key, log_weights)` for normalised log-weights."""

    def __call__(self, key: Key, log_weights: Array, /) -> Ancestry: ...


def multinomial() -> Resampler:
    """Independent draws (the paper's choice; the noisiest)."""
    return partial(_always, scheme=schemes.multinomial)


def systematic() -> Resampler:
    """One uniform shift of an even grid: least noise, cheapest."""
    return partial(_always, scheme=schemes.systematic)


def stratified() -> Resampler:
    """One uniform draw in each of J strata."""
    return partial(_always, scheme=schemes.stratified)


def residual() -> Resampler:
    """⌊J w⌋ copies for certain, the rest multinomially."""
    return partial(_always, scheme=schemes.residual)


def adaptive(resampler: Resampler, fraction: float = 0.5) -> Resampler:
    """Resample only when the effective sample size is below `fraction` of J (the paper: one half)."""
    if not 0.0 <= fraction <= 1.0:
        raise PartbayesError(
            f"The resampling threshold is {fraction}, but a fraction of J between 0 and 1 is expected."
        )
    return partial(_adaptive, resampler=resampler, fraction=fraction)


def _always(key: Key, log_weights: Array, *, scheme: Callable) -> Ancestry:
    log_weights = everywhere(log_weights)
    num_particles = log_weights.shape[0]
    weights = jnp.exp(log_weights)
    indices = everywhere(scheme(key, weights, num_particles))
    # Cumulated in float32 the weights may end a little below one. blackjax then answers "the last particle", which may
    # have weight zero: a dead particle would come back to life. The last living one is the right answer.
    last_alive = num_particles - 1 - jnp.argmax(weights[::-1] > 0)
    indices = jnp.minimum(indices, last_alive)
    return Ancestry(indices, uniform(num_particles), ess(log_weights), jnp.array(True))


def _adaptive(key: Key, log_weights: Array, *, resampler: Resampler, fraction: float) -> Ancestry:
    log_weights = everywhere(log_weights)
    proposed = resampler(key, log_weights)
    low = proposed.ess < fraction * log_weights.shape[0]
    return Ancestry(
        jnp.where(low, proposed.indices, jnp.arange(log_weights.shape[0])),
        jnp.where(low, proposed.log_weights, log_weights),
        proposed.ess,
        low & proposed.resampled,
    )
