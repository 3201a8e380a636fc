"""Whitening: what it makes of columns that go together, its shrinkage, weights, and directions without spread."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.covariance import ledoit_wolf_shrinkage

from partbayes.data import fit_scaler
from partbayes.data.whitening import MOST_COLUMNS, Whitener, fit_whitener, shrunk_covariance

RNG = np.random.default_rng(0)
MIXING = np.array([[1.0, 0.9, 0.0], [0.0, 0.2, 0.0], [0.0, 0.0, 5.0]])


def columns(num: int) -> np.ndarray:
    """Two that go together (correlation 0.98) and one on its own."""
    return RNG.normal(size=(num, 3)) @ MIXING + [10.0, 0.0, -3.0]


def fitted(values: np.ndarray, weight: np.ndarray | None = None) -> Whitener:
    weight = np.ones(len(values)) if weight is None else weight
    return fit_whitener(fit_scaler(values), values, weight)


def test_many_rows_come_out_uncorrelated():
    values = columns(20_000)
    white = fitted(values).transform(values)
    _, shrinkage = shrunk_covariance(fit_scaler(values).transform(values), np.ones(len(values)))
    # The least variance λ comes out as λ / ((1 - δ) λ + δ): 1 - δ/λ to first order, and λ is 1 - 0.976 here.
    np.testing.assert_allclose(white.T @ white / len(white), np.eye(3), atol=1.1 * shrinkage / 0.02)
    assert shrinkage < 1e-3


@pytest.mark.parametrize("num", [5, 50, 5000])
def test_shrinkage_is_ledoit_and_wolfs(num):
    rows = fit_scaler(values := columns(num)).transform(values)
    expected = ledoit_wolf_shrinkage(rows, assume_centered=True)
    assert shrunk_covariance(rows, np.ones(num))[1] == pytest.approx(expected, rel=1e-9)


def test_unrelated_columns_stay_themselves():
    values = RNG.normal(size=(200, 3))
    whitener = fitted(values)
    np.testing.assert_allclose(whitener.matrix, np.eye(3), atol=0.2)
    np.testing.assert_allclose(whitener.matrix, whitener.matrix.T, atol=1e-12)


def test_a_weight_counts_rows():
    values = columns(40)
    weight = np.where(np.arange(40) < 10, 3.0, 1.0)
    repeated = np.repeat(values, weight.astype(int), axis=0)
    scaler = fit_scaler(repeated)
    np.testing.assert_allclose(
        fit_whitener(scaler, values, weight).matrix, fitted(repeated).matrix, rtol=1e-9, atol=1e-12
    )


def test_directions_without_spread_are_left_alone():
    """A constant column, and the difference of two equal ones: a new row that leaves them is not blown up."""
    free = RNG.normal(size=(300, 1))
    values = np.hstack([free, free, np.full((300, 1), 7.0)])
    whitener = fitted(values)
    moved = whitener.transform([[1.0, -1.0, 7.0], [0.0, 0.0, 8.0]]) - whitener.transform([[0.0, 0.0, 7.0]])
    np.testing.assert_allclose(np.linalg.norm(moved[0]), np.sqrt(2) / whitener.scale[0], rtol=1e-6)
    np.testing.assert_allclose(moved[1], [0.0, 0.0, 1.0], atol=1e-9)


def test_a_table_of_very_many_columns_is_standardised_only():
    values = RNG.normal(size=(3, MOST_COLUMNS + 1))
    whitener = fitted(values)
    assert whitener.matrix is None
    np.testing.assert_array_equal(whitener.transform(values), fit_scaler(values).transform(values))
