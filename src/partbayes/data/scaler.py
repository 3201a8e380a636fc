"""Standardisation by column: (value - mean) / scale, fitted on the training part only."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from partbayes.data.dataset import Splits
from partbayes.errors import PartbayesError

# A column counts as constant when its range is at most this many relative roundings (machine epsilons of the dtype it
# came in) of its largest magnitude. One operation errs by half an epsilon to either side, so k operations spread
# equal values over k epsilons: 16 is a short formula's worth, and still only 2e-6 in float32.
ROUNDINGS = 16


class Scaler(NamedTuple):
    """`mean` and `scale` are float64, one number per column; so is everything `transform` and `inverse` return."""

    mean: np.ndarray
    scale: np.ndarray

    def transform(self, values: ArrayLike) -> np.ndarray:
        """Standardise `[..., columns]`."""
        return (self._columns(values) - self.mean) / self.scale

    def inverse(self, values: ArrayLike) -> np.ndarray:
        """Back to the original units. For a standard deviation, multiply by `scale` instead: it has no mean."""
        return self._columns(values) * self.scale + self.mean

    def _columns(self, values: ArrayLike) -> np.ndarray:
        values = np.asarray(values, np.float64)
        # A one-column scaler would broadcast silently over anything.
        if values.ndim == 0 or values.shape[-1] != len(self.mean):
            raise PartbayesError(
                f"The values have shape {values.shape}, but a last axis of {len(self.mean)} columns is needed."
            )
        return values


def fit_scaler(values: ArrayLike) -> Scaler:
    """Mean and population standard deviation of each column of `[N, columns]`; a constant column gets scale 1."""
    values = np.asarray(values)
    if values.ndim != 2 or len(values) == 0:
        raise PartbayesError(f"The values have shape {values.shape}, but [N, columns] with N > 0 is needed.")
    epsilon = np.finfo(values.dtype if values.dtype.kind == "f" else np.float64).eps
    values = values.astype(np.float64)
    # Summing the differences from the first row, not the values, keeps the mean of a constant column exact and the
    # error of all others in proportion to their spread. The range then decides: unlike a standard deviation
    # (2.5e-13 on naval's constant inlet pressure when summed plainly) it has no summation error.
    origin = values[0]
    mean = origin + (values - origin).mean(axis=0)
    constant = np.ptp(values, axis=0) <= ROUNDINGS * epsilon * np.abs(values).max(axis=0)
    return Scaler(mean, np.where(constant, 1.0, (values - mean).std(axis=0)))


def identity_scaler(columns: int) -> Scaler:
    """Leaves values as they are."""
    return Scaler(np.zeros(columns), np.ones(columns))


def standardise(splits: Splits, inputs: bool = True, targets: bool = True) -> tuple[Splits, Scaler, Scaler]:
    """Standardise all three parts with mean and scale of `train`; also returns the scalers of `x` and of `y`.

    What is switched off gets the identity, and so do class labels, which stay integers.
    """
    train = splits.train
    x_scaler = fit_scaler(train.x) if inputs else identity_scaler(train.x.shape[1])
    if train.is_classification:
        parts = (part._replace(x=x_scaler.transform(part.x)) for part in splits)
        return Splits(*parts), x_scaler, identity_scaler(1)
    y_scaler = fit_scaler(train.y) if targets else identity_scaler(train.y.shape[1])
    parts = (part._replace(x=x_scaler.transform(part.x), y=y_scaler.transform(part.y)) for part in splits)
    return Splits(*parts), x_scaler, y_scaler
