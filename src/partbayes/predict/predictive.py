"""From posterior to predictions: every particle of every island becomes a component of one mixture."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp

from partbayes.algorithm import Posterior
from partbayes.model import Categorical, Gaussian, Model
from partbayes.predict.categorical import CategoricalMixture
from partbayes.predict.mixture import GaussianMixture
from partbayes.types import Array

BLOCK_ROWS = 50_000
"""Particles × rows that pass through the network together."""


def predictive(model: Model, posterior: Posterior, x: Array) -> GaussianMixture | CategoricalMixture:
    """The mixture over K × J components at the rows of `x`, islands by their shares."""
    components = _components(model, posterior, x)
    flat = jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:]), components)
    num_islands = posterior.log_weights.shape[0]
    log_weights = posterior.log_weights.reshape(-1) - jnp.log(num_islands)
    if isinstance(flat, Gaussian):
        return GaussianMixture(log_weights, flat.loc, flat.scale)
    return CategoricalMixture(log_weights, flat.logits)


@partial(jax.jit, static_argnames=("model",))
def _components(model: Model, posterior: Posterior, x: Array) -> Gaussian | Categorical:
    block = max(1, min(posterior.log_weights.shape[1], BLOCK_ROWS // max(1, x.shape[0])))

    def island(theta, psi):
        return jax.lax.map(lambda t: model.components(t, psi, x), theta, batch_size=block)

    return jax.lax.map(lambda island_params: island(*island_params), (posterior.theta, posterior.psi))
