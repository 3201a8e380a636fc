"""From posterior to predictions: every particle of every island becomes a component of one mixture."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from partbayes.algorithm import Posterior
from partbayes.model import Categorical, Gaussian, Model
from partbayes.predict.categorical import CategoricalMixture
from partbayes.predict.mixture import GaussianMixture
from partbayes.types import Array

BLOCK_ROWS = 50_000
"""Particles × rows that pass through the network together."""

MOST_WIDTHS = 4
"""Each is a program of its own."""


def without_idle(posterior: Posterior) -> list[Posterior]:
    """The islands in the same order, those side by side that are equally wide together, without particles at their
    ends that have no weight: what fills up the narrower ones need not be predicted."""
    used = np.isfinite(np.asarray(posterior.log_weights))
    width = used.shape[1] - np.argmax(used[:, ::-1], axis=1)  # of an island without any weight, all
    ends = np.flatnonzero(np.diff(width)) + 1
    if len(ends) >= MOST_WIDTHS:
        return [posterior]
    ranges = zip([0, *ends], [*ends, len(width)], strict=True)
    return [_cut(posterior, slice(first, last), int(width[first])) for first, last in ranges]


def _cut(posterior: Posterior, islands: slice, width: int) -> Posterior:
    theta, log_weights = jax.tree.map(lambda leaf: leaf[islands, :width], (posterior.theta, posterior.log_weights))
    return Posterior(theta, log_weights, jax.tree.map(lambda leaf: leaf[islands], posterior.psi))


def predictive(model: Model, posterior: Posterior | list[Posterior], x: Array) -> GaussianMixture | CategoricalMixture:
    """The mixture over K × J components at the rows of `x`, islands by their shares. A list (from `without_idle`) is
    taken as one posterior."""
    pieces = [posterior] if isinstance(posterior, Posterior) else posterior
    components = [_components(model, piece, x) for piece in pieces]
    flat = jax.tree.map(lambda *a: _along_components([one.reshape(-1, *one.shape[2:]) for one in a]), *components)
    num_islands = sum(piece.log_weights.shape[0] for piece in pieces)
    log_weights = _along_components([piece.log_weights.reshape(-1) for piece in pieces]) - jnp.log(num_islands)
    if isinstance(flat, Gaussian):
        return GaussianMixture(log_weights, flat.loc, flat.scale)
    return CategoricalMixture(log_weights, flat.logits)


def _along_components(arrays: list[Array]) -> Array:
    return arrays[0] if len(arrays) == 1 else jnp.concatenate(arrays)


@partial(jax.jit, static_argnames=("model",))
def _components(model: Model, posterior: Posterior, x: Array) -> Gaussian | Categorical:
    block = max(1, min(posterior.log_weights.shape[1], BLOCK_ROWS // max(1, x.shape[0])))

    def island(theta, psi):
        return jax.lax.map(lambda t: model.components(t, psi, x), theta, batch_size=block)

    return jax.lax.map(lambda island_params: island(*island_params), (posterior.theta, posterior.psi))
