"""Row by row in float64 on the host: how metrics read a mixture, whatever precision and device it came from."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import Protocol

import jax
import jax.numpy as jnp
import numpy as np

from partbayes.errors import PartbayesError
from partbayes.predict.categorical import CategoricalMixture
from partbayes.predict.mixture import GaussianMixture
from partbayes.types import Tree

BLOCK = 2**18
"""Numbers in one chunk of `loc`: 2 MB in float64, so that the dozen of arrays in flight stays below 25 MB."""


class RowFunction(Protocol):
    """`function(mixture, y)`: a tree of arrays whose first axis is the rows of the chunk."""

    def __call__(self, mixture: GaussianMixture | CategoricalMixture, y: jax.Array, /) -> Tree: ...


def over_rows(
    function: RowFunction, mixture: GaussianMixture | CategoricalMixture, y: np.ndarray, block: int = BLOCK
) -> Tree:
    """`function(mixture, y)` in chunks of rows, the mixture in float64; the chunks' results joined, as numpy arrays.

    A chunk holds at most `block` numbers per `[C, n, D]` array (and at least one row), so memory does not grow with N.
    """
    log_weights, *per_row = (np.asarray(field) for field in mixture)
    components, rows = per_row[0].shape[:2]
    if rows == 0:
        raise PartbayesError("The mixture has no rows: score it on at least one.")
    if not np.any(log_weights > -np.inf):
        raise PartbayesError(f"None of the mixture's {components} components has a positive weight: training diverged.")
    most = max(1, block // (per_row[0].size // rows))
    chunks = -(-rows // most)
    size = -(-rows // chunks)
    parts = []
    double = partial(jnp.asarray, dtype=np.float64)
    with jax.enable_x64(True), _on_cpu():
        for start in range(0, rows, size):
            # The last chunk repeats its last row up to full size: one shape, one compilation.
            index = np.minimum(np.arange(start, start + size), rows - 1)
            chunk = type(mixture)(double(log_weights), *(double(field[:, index]) for field in per_row))
            parts.append(jax.tree.map(np.asarray, function(chunk, jnp.asarray(y[index]))))
    return jax.tree.map(lambda *leaves: np.concatenate(leaves)[:rows], *parts)


def real_target(mixture: GaussianMixture, y: np.ndarray) -> np.ndarray:
    """`y` as float64 `[N, D]`, or an error if it does not fit the mixture."""
    y = np.asarray(y, np.float64)
    if y.shape != mixture.loc.shape[1:]:
        raise PartbayesError(
            f"y has shape {y.shape}, but the mixture has (rows, outputs) = {mixture.loc.shape[1:]}: reshape y."
        )
    if not np.all(np.isfinite(y)):
        raise PartbayesError(f"y has {np.sum(~np.isfinite(y))} values that are not finite: drop those rows.")
    return y


def class_target(y: np.ndarray, rows: int, classes: int) -> np.ndarray:
    """`y` as integers `[N]`, or an error if they are not class numbers of the mixture."""
    y = np.asarray(y)
    if y.shape != (rows,) or y.dtype.kind not in "iu" or (rows and (y.min() < 0 or y.max() >= classes)):
        raise PartbayesError(
            f"y is {y.dtype} of shape {y.shape}, but {rows} integers below {classes} are needed: encode the labels."
        )
    return y


def _on_cpu() -> contextlib.AbstractContextManager[object]:
    # Accelerators are slow in float64 or lack it; where no CPU backend was started, the default device has to do.
    try:
        return jax.default_device(jax.local_devices(backend="cpu")[0])
    except RuntimeError:
        return contextlib.nullcontext()
