"""One noise level for all rows to begin with, then the model as it is: both by one program, with the level as an input.

It travels beside ψ, which every stage hands on.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from partbayes.algorithm import Posterior
from partbayes.model import Model, with_more_beside_psi
from partbayes.types import Array, Batch, Tree


class Levelled(NamedTuple):
    """ψ, and the level that `Model.level_log_likelihood` asks for: one at first, zero when it is let go."""

    psi: Tree
    level: Array


@lru_cache(maxsize=32)  # the same object for the same model, so that a second training compiles nothing
def with_level(model: Model) -> Model:
    """The model as it begins, with a `Levelled` for its ψ."""
    log_likelihood_at = model.level_log_likelihood
    assert log_likelihood_at is not None

    def log_likelihood(theta: Tree, held: Levelled, batch: Batch) -> Array:
        return log_likelihood_at(theta, held.psi, batch, jax.lax.stop_gradient(held.level))

    return with_more_beside_psi(model, lambda theta, psi: Levelled(psi, jnp.ones(())), log_likelihood)


def let_go(posterior: Posterior) -> Posterior:
    """From here on the noise may differ between rows."""
    level = posterior.psi.level
    none = jax.device_put(np.zeros(level.shape, level.dtype))  # by numpy: there is nothing to compile
    return posterior._replace(psi=posterior.psi._replace(level=none))


def without_level(posterior: Posterior) -> Posterior:
    """As the model itself has it."""
    return posterior._replace(psi=posterior.psi.psi)
