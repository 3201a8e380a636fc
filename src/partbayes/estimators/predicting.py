"""Predictions in chunks of rows: memory stays bounded, and a row's prediction does not depend on its company.

Every chunk has the same number of rows (the last one is filled up), so one compiled program serves all calls of a
model, and a row gets the same numbers alone as among a million.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from partbayes.algorithm import Posterior
from partbayes.data.whitening import Whitener
from partbayes.model import Model
from partbayes.predict import CategoricalMixture, GaussianMixture
from partbayes.predict.predictive import predictive, without_idle
from partbayes.types import Tree

CHUNK_ROWS = 256
"""Rows that are predicted together, unless the mixture is so large that fewer must do."""

CHUNK_NUMBERS = 2**22
"""Numbers of one `[components, rows, outputs]` array: 16 MB in float32."""


def over_chunks(
    function: Callable[[Any], Tree],
    model: Model,
    posterior: Posterior,
    scaler: Whitener,
    x: np.ndarray,
    num_outputs: int,
    limits: np.ndarray | None = None,
) -> Tree:
    """`function(mixture)` of every chunk, joined along the rows, its first axis, as numpy arrays."""
    parts = [
        jax.tree.map(lambda leaf, used=used: np.asarray(leaf)[:used], function(mixture))
        for mixture, used in chunks(model, posterior, scaler, x, num_outputs, limits)
    ]
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)


def chunks(
    model: Model,
    posterior: Posterior,
    scaler: Whitener,
    x: np.ndarray,
    num_outputs: int,
    limits: np.ndarray | None = None,
) -> Iterator[tuple[GaussianMixture | CategoricalMixture, int]]:
    """The mixture of each chunk, its components' means kept within `limits`, and how many of its rows count."""
    pieces = without_idle(posterior)
    components = sum(piece.log_weights.size for piece in pieces)
    size = int(np.clip(CHUNK_NUMBERS // (components * num_outputs), 1, CHUNK_ROWS))
    on_device = jax.device_put(pieces)
    for start in range(0, len(x), size):
        rows = x[start : start + size]
        # Filled up before anything is computed: how a matrix product rounds depends on the number of rows.
        filled = np.pad(rows, ((0, size - len(rows)), (0, 0)), mode="edge")
        white = scaler.transform(filled).astype(on_device[0].log_weights.dtype)
        yield _within(predictive(model, on_device, jax.device_put(white)), limits), len(rows)


def target_limits(y: np.ndarray) -> np.ndarray:
    """How far a component's mean may go, `[2, outputs]`: the range of the targets, and half of it to either side.

    A network goes on along a straight line however far an input lies outside of what it was trained on: one component
    of hundreds may then be off by a hundred ranges, and the mixture's mean with it. Its spread is left as it is.
    """
    low, high = y.min(axis=0), y.max(axis=0)
    margin = 0.5 * np.where(high > low, high - low, 1.0)
    return np.stack([low - margin, high + margin])


def _within(
    mixture: GaussianMixture | CategoricalMixture, limits: np.ndarray | None
) -> GaussianMixture | CategoricalMixture:
    if limits is None or not isinstance(mixture, GaussianMixture):
        return mixture
    low, high = limits.astype(mixture.loc.dtype)
    return mixture._replace(loc=jnp.clip(mixture.loc, low, high))
