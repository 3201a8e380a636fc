"""Standardisation: moments, round trip, constant columns, and that only train is looked at."""

from __future__ import annotations

import numpy as np
import pytest

from partbayes.data import Splits, fit_scaler, make_dataset, split, standardise
from partbayes.errors import PartbayesError

RNG = np.random.default_rng(0)
VALUES = RNG.normal(size=(500, 3)) * [1e-3, 1.0, 1e4] + [5.0, 0.0, -1e6]


def test_transformed_columns_have_mean_zero_and_variance_one():
    scaled = fit_scaler(VALUES).transform(VALUES)
    # Each scaled value carries the relative rounding of its original divided by the spread: at most 1e6/1e4 = 100 and
    # 5/1e-3 = 5000 epsilons, and mean and variance average over them.
    np.testing.assert_allclose(scaled.mean(axis=0), 0.0, atol=5000 * np.finfo(float).eps)
    np.testing.assert_allclose(scaled.std(axis=0), 1.0, atol=5000 * np.finfo(float).eps)


def test_inverse_undoes_transform_on_any_leading_axes():
    scaler = fit_scaler(VALUES)
    stacked = VALUES.reshape(5, 100, 3)
    np.testing.assert_allclose(scaler.inverse(scaler.transform(stacked)), stacked, rtol=1e-14)


@pytest.mark.parametrize("value", [0.0, 0.998, 288.0, -1e30])
def test_constant_column_becomes_exactly_zero(value):
    # 0.998 is naval's inlet pressure: summed plainly over its 11934 rows, next to other columns, it shows a spread of
    # 2.5e-13. (A single column numpy would sum pairwise, and exactly.)
    values = np.full((11934, 2), value)
    scaler = fit_scaler(values)
    np.testing.assert_array_equal(scaler.scale, 1.0)
    np.testing.assert_array_equal(scaler.transform(values), 0.0)
    np.testing.assert_array_equal(scaler.inverse(scaler.transform(values)), values)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rounding_noise_counts_as_constant_and_small_spread_does_not(dtype):
    epsilon = np.finfo(dtype).eps
    pattern = np.array([0.0, 1.0, 1.0, 0.0])[:, None]
    noise = (1.0 + 2 * epsilon * pattern).astype(dtype)
    small = (1.0 + 1000 * epsilon * pattern).astype(dtype)
    assert fit_scaler(noise).scale[0] == 1.0
    np.testing.assert_allclose(fit_scaler(small).scale[0], 500 * epsilon, rtol=1e-6)


def test_only_train_is_used():
    dataset = make_dataset(VALUES, VALUES[:, 0] * 2.0 + 1.0)
    parts = split(dataset, seed=0)
    wild = parts._replace(test=parts.test._replace(x=parts.test.x * 100.0))
    scaled, x_scaler, y_scaler = standardise(wild)
    np.testing.assert_array_equal(x_scaler.mean, fit_scaler(parts.train.x).mean)
    np.testing.assert_array_equal(y_scaler.scale, fit_scaler(parts.train.y).scale)
    np.testing.assert_array_equal(scaled.test.x, x_scaler.transform(wild.test.x))
    np.testing.assert_array_equal(scaled.validation.y, y_scaler.transform(parts.validation.y))
    np.testing.assert_array_equal(scaled.test.weight, parts.test.weight)


def test_switches_leave_values_alone():
    parts = split(make_dataset(VALUES, VALUES[:, :2]), seed=0)
    scaled, x_scaler, y_scaler = standardise(parts, inputs=False, targets=False)
    for before, after in zip(parts, scaled, strict=True):
        np.testing.assert_array_equal(after.x, before.x)
        np.testing.assert_array_equal(after.y, before.y)
    np.testing.assert_array_equal(x_scaler.scale, np.ones(3))
    np.testing.assert_array_equal(y_scaler.mean, np.zeros(2))


def test_labels_stay_labels():
    parts = split(make_dataset(VALUES, np.arange(500) % 3), seed=0)
    scaled, _, _ = standardise(parts)
    assert scaled.train.is_classification
    np.testing.assert_array_equal(scaled.train.y, parts.train.y)


def test_empty_part_passes_through():
    part = make_dataset(VALUES, VALUES[:, 0])
    empty = part._replace(x=part.x[:0], y=part.y[:0], weight=part.weight[:0])
    scaled, _, _ = standardise(Splits(part, empty, part))
    assert scaled.validation.x.shape == (0, 3)


def test_wrong_shapes_are_refused():
    with pytest.raises(PartbayesError, match="last axis of 3 columns"):
        fit_scaler(VALUES).transform(VALUES[:, :1])
    with pytest.raises(PartbayesError, match="last axis of 1 columns"):
        fit_scaler(VALUES[:, :1]).inverse(VALUES)
    with pytest.raises(PartbayesError, match=r"\[N, columns\]"):
        fit_scaler(VALUES[:, 0])
