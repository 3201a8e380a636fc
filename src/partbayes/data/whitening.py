r"""Inputs that no longer go together: standardised columns, turned so that their covariance is close to the identity.

A network's first layer sees directions, not columns. Where columns go together (two temperatures of one engine), their
difference varies far less than either, and what it tells is learned slowly and sampled in tiny steps. With
$S = U \Lambda U^\top$ the covariance of the standardised columns,

$$x' = U \, ((1 - \delta) \Lambda + \delta)^{-1/2} \, U^\top z$$

gives every direction about the same spread, and stays as close to the columns as such a map can. The shrinkage δ is
that of Ledoit & Wolf (2004), here for weighted rows: the fewer the rows, the more of S is chance, and the less is made
of it. Directions in which the training rows do not vary at all are left alone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from partbayes.data.scaler import Scaler

MOST_COLUMNS = 2000
"""Beyond so many columns the map would be larger than the network: they are standardised only."""

NO_SPREAD = 1e-9
"""A direction's variance, in standardised columns, that counts as none."""


class Whitener(NamedTuple):
    """`(x - mean) / scale`, then `@ matrix` (None: not turned). All float64."""

    mean: np.ndarray
    scale: np.ndarray
    matrix: np.ndarray | None

    def transform(self, values: ArrayLike) -> np.ndarray:
        """Whiten `[..., columns]`."""
        standard = Scaler(self.mean, self.scale).transform(values)
        return standard if self.matrix is None else standard @ self.matrix


def fit_whitener(scaler: Scaler, values: np.ndarray, weight: np.ndarray) -> Whitener:
    """The map for rows `values [N, columns]`, which `scaler` standardises, each counted as often as its weight says."""
    if values.shape[1] > MOST_COLUMNS:
        return Whitener(*scaler, None)
    rows = scaler.transform(values)
    covariance, shrinkage = shrunk_covariance(rows, weight)
    variances, directions = np.linalg.eigh(covariance)
    spread = np.where(variances > NO_SPREAD, (1 - shrinkage) * variances + shrinkage, 1.0)
    return Whitener(*scaler, (directions / np.sqrt(spread)) @ directions.T)


def shrunk_covariance(rows: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, float]:
    r"""The covariance S of standardised, weighted rows, and the share δ of the identity to mix in.

    $\delta = \min(1, b^2 / d^2)$ with $d^2 = \|S - I\|^2$ and $b^2 = \sum_n w_n \|x_n x_n^\top - S\|^2 / W^2$, the
    error that S is expected to have. A weight counts rows, so a row of weight two errs like two independent ones.
    """
    total = np.sum(weight)
    covariance = (rows * weight[:, None]).T @ rows / total
    distance = np.sum(np.square(covariance - np.eye(len(covariance))))
    products = np.sum((rows @ covariance) * rows, axis=1)  # <x xᵀ, S>
    errors = np.square(np.sum(np.square(rows), axis=1)) - 2 * products + np.sum(np.square(covariance))
    error = np.sum(weight * errors) / total**2
    return covariance, float(min(1.0, error / distance)) if distance > 0 else 1.0
