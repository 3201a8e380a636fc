"""Weighted rows before training: repeated rows merged, a part set aside for validation, columns standardised."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partbayes.data import Dataset, batching
from partbayes.data.scaler import Scaler, fit_scaler
from partbayes.data.whitening import Whitener, fit_whitener
from partbayes.types import Batch

FEWEST_TO_SPLIT = 50
"""Below so many distinct rows none is set aside: a handful of rows tells validation little and training much."""

MOST_TO_COUNT = 1_000_000
"""Weights that add up to more are no counts of rows that somebody has seen."""

NEGLIGIBLE = 1e-6
"""A weighted spread this small beside the unweighted one says that the weights make the column constant."""


class Rows(NamedTuple):
    """`x [N, features]`, `y [N, outputs]` or class numbers `[N]`, `weight [N]`."""

    x: np.ndarray
    y: np.ndarray
    weight: np.ndarray


def merge(rows: Rows) -> Rows:
    """Every distinct row once, with the sum of its weights, in an order that the rows themselves decide.

    A row of weight two and a row given twice are thereby the same data set, so they train to the same model, bit for
    bit. Rows of weight zero are gone.
    """
    x, y, weight = (part[rows.weight > 0] for part in rows)
    # Adding zero makes one number of 0.0 and -0.0, which compare equal but differ in their bytes.
    table = np.ascontiguousarray(np.column_stack([x, y]), np.float64) + 0.0
    as_bytes = table.view(np.dtype((np.void, table.itemsize * table.shape[1])))[:, 0]
    _, first, member = np.unique(as_bytes, return_index=True, return_inverse=True)
    return Rows(x[first], y[first], np.bincount(member, weights=weight))


def split(rows: Rows, fraction: float, seed: int) -> tuple[Rows, Rows | None]:
    """Training rows, and a random `fraction` for validation; class labels are shared out in proportion.

    Repetitions of a row are drawn one by one, so that it may be on both sides: as often as new rows repeat those that
    were trained on, so often do the validation rows.
    """
    if fraction == 0 or len(rows.x) < FEWEST_TO_SPLIT:
        return rows, None
    times = _repetitions(rows.weight)
    row_of = np.repeat(np.arange(len(rows.x)), times)
    order = np.random.default_rng(seed).permutation(row_of)
    kept_for_training = np.zeros(len(order), bool)
    if rows.y.ndim == 1:
        order = order[np.argsort(rows.y[order], kind="stable")]
        # The first of each class trains, however rare the class is.
        kept_for_training = np.diff(rows.y[order], prepend=-1) != 0
    ticks = np.floor(np.arange(len(order) + 1) * fraction)
    chosen = (np.diff(ticks) > 0) & ~kept_for_training
    if not chosen.any():
        return rows, None
    return _counted(rows, order[~chosen], times), _counted(rows, order[chosen], times)


def _repetitions(weight: np.ndarray) -> np.ndarray:
    """How many rows each stands for: its weight, where all are whole numbers, otherwise one. A factor that all have in
    common repeats the table, and no row in it."""
    if np.any(weight != np.floor(weight)) or np.sum(weight) > MOST_TO_COUNT:
        return np.ones(len(weight), np.int64)
    times = weight.astype(np.int64)
    return times // np.gcd.reduce(times)


def _counted(rows: Rows, drawn: np.ndarray, times: np.ndarray) -> Rows:
    """Each row that was drawn, once, in the order of first draws, with its share of the weight."""
    index, first, count = np.unique(drawn, return_index=True, return_counts=True)
    by_draw = np.argsort(first)
    index, count = index[by_draw], count[by_draw]
    return Rows(rows.x[index], rows.y[index], rows.weight[index] * count / times[index])


def seen_before(train: Rows, validation: Rows) -> float:
    """The share of the validation rows' weight that lies on rows which also train."""
    train_rows = {row.tobytes() for row in np.column_stack([train.x, train.y])}
    seen = [row.tobytes() in train_rows for row in np.column_stack([validation.x, validation.y])]
    return float(np.sum(validation.weight[seen]) / np.sum(validation.weight))


def weighted_scaler(values: np.ndarray, weight: np.ndarray) -> Scaler:
    """Mean and standard deviation of each column, every row counted as often as its weight says."""
    plain = fit_scaler(values)
    if np.ptp(weight) == 0:
        return plain
    share = weight / np.sum(weight)
    standard = plain.transform(values)
    mean = share @ standard
    spread = np.sqrt(share @ np.square(standard - mean))
    return Scaler(plain.mean + mean * plain.scale, plain.scale * np.where(spread < NEGLIGIBLE, 1.0, spread))


def input_scaler(rows: Rows, whiten: bool) -> Whitener:
    """What is done to the inputs: standardised, and whitened if so wished."""
    scaler = weighted_scaler(rows.x, rows.weight)
    return fit_whitener(scaler, rows.x, rows.weight) if whiten else Whitener(*scaler, None)


def as_batch(rows: Rows, x_scaler: Whitener, y_scaler: Scaler | None) -> Batch:
    """Standardised, in the precision that JAX runs in; without a `y_scaler`, y holds class numbers."""
    y = rows.y if y_scaler is None else y_scaler.transform(rows.y)
    return batching.as_batch(Dataset(x_scaler.transform(rows.x), y, rows.weight, (), ()))
