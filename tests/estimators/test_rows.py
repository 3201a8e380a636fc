"""Weights and repeated rows are one thing; scaling counts them; validation takes its share of every class."""

from __future__ import annotations

import numpy as np
import pytest

from partbayes.data import fit_scaler
from partbayes.estimators import PartialBNNRegressor
from partbayes.estimators.rows import Rows, merge, seen_before, split, weighted_scaler


@pytest.fixture
def table() -> Rows:
    random = np.random.default_rng(0)
    return Rows(random.normal(size=(30, 2)), random.normal(size=(30, 1)), random.integers(0, 4, 30).astype(float))


def repeat(rows: Rows) -> Rows:
    times = rows.weight.astype(int)
    return Rows(rows.x.repeat(times, axis=0), rows.y.repeat(times, axis=0), np.ones(times.sum()))


def test_a_weight_is_a_number_of_rows_in_any_order(table):
    shuffled = Rows(
        *(part[np.random.default_rng(1).permutation(table.weight.sum().astype(int))] for part in repeat(table))
    )
    for mine, theirs in zip(merge(table), merge(shuffled), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_merging_keeps_rows_and_weights(table):
    merged = merge(table)
    assert len(merged.x) == np.sum(table.weight > 0)
    assert merged.weight.sum() == table.weight.sum()
    expected = {(*x, *y): w for x, y, w in zip(*map(np.ndarray.tolist, table), strict=True) if w > 0}
    found = {(*x, *y): w for x, y, w in zip(*map(np.ndarray.tolist, merged), strict=True)}
    assert found == expected


def test_rows_that_differ_in_y_alone_stay_apart_and_signs_of_zero_do_not_matter():
    x = np.array([[0.0], [-0.0], [0.0]])
    merged = merge(Rows(x, np.array([[1.0], [1.0], [2.0]]), np.ones(3)))
    assert sorted(merged.weight) == [1.0, 2.0]


def test_the_scaler_counts_weights_as_rows(table):
    scaler = weighted_scaler(table.x, table.weight)
    expected = fit_scaler(repeat(table).x)
    np.testing.assert_allclose(scaler.mean, expected.mean, rtol=1e-12)
    np.testing.assert_allclose(scaler.scale, expected.scale, rtol=1e-12)


def test_a_constant_column_is_not_blown_up():
    values = np.full((5, 1), 0.1)
    assert weighted_scaler(values, np.arange(1.0, 6.0)).scale == [1.0]


def test_the_split_takes_its_share_of_every_class():
    y = np.repeat([0, 1, 2], [150, 49, 1])
    rows = Rows(np.arange(200.0)[:, None], y, np.ones(200))
    train, validation = split(rows, 0.2, seed=0)
    assert validation is not None
    assert sorted([*train.x[:, 0], *validation.x[:, 0]]) == list(range(200))
    counts = np.bincount(validation.y, minlength=3)
    assert counts[0] in (29, 30, 31) and counts[1] in (9, 10) and counts[2] == 0


def test_a_row_that_repeats_may_be_on_both_sides(table):
    """As new rows will repeat those trained on. Its repetitions are drawn one by one, as many as its weight says."""
    random = np.random.default_rng(2)
    once = Rows(random.normal(size=(60, 2)), random.normal(size=(60, 1)), random.integers(1, 60, 60).astype(float))
    train, validation = split(merge(repeat(once)), 0.25, seed=3)
    for mine, theirs in zip(split(merge(once), 0.25, seed=3), (train, validation), strict=True):
        for part, other in zip(mine or (), theirs or (), strict=True):
            np.testing.assert_array_equal(part, other)
    assert validation is not None
    assert validation.weight.sum() == once.weight.sum() // 4
    weights = {tuple(x): weight for x, weight in zip(once.x, once.weight, strict=True)}
    found = dict.fromkeys(weights, 0.0)
    for part in (train, validation):
        assert len(np.unique(part.x, axis=0)) == len(part.x)
        for x, weight in zip(part.x, part.weight, strict=True):
            found[tuple(x)] += weight
    assert found == weights
    shared = np.intersect1d(train.x[:, 0], validation.x[:, 0])
    assert len(shared) > 30, "three quarters of four or more repetitions on one side is seldom all of them"


def test_weights_that_count_nothing_leave_rows_whole():
    """What is no whole number says how much a row matters, and a row is then on one side."""
    random = np.random.default_rng(2)
    weighted = Rows(random.normal(size=(60, 2)), random.normal(size=(60, 1)), random.uniform(0.5, 5.0, 60))
    train, validation = split(weighted, 0.25, seed=3)
    assert validation is not None
    assert len(validation.x) == 15 and not np.intersect1d(train.x[:, 0], validation.x[:, 0]).size
    assert sorted([*train.weight, *validation.weight]) == sorted(weighted.weight)
    for census in (np.full(60, 10.0), np.arange(1.0, 61.0) * 1e9):
        assert len((split(weighted._replace(weight=census), 0.25, seed=3)[1] or weighted).x) == 15


def test_validation_by_rows_that_also_train_is_noticed(quickest):
    """Copies that were made to give some rows more weight."""
    random = np.random.default_rng(2)
    x, y, weight = random.normal(size=(60, 2)), random.normal(size=60), random.integers(2, 9, 60).astype(float)
    train, validation = split(Rows(x, y[:, None], weight), 0.1, seed=0)
    assert validation is not None
    rows = {tuple(row) for row in train.x}
    repeats = np.array([tuple(row) in rows for row in validation.x])
    assert seen_before(train, validation) == pytest.approx(validation.weight[repeats].sum() / validation.weight.sum())
    notes = [PartialBNNRegressor(**quickest).fit(x, y, w).notes_ for w in (weight, weight + 0.5)]
    assert [any("repeat training rows" in note for note in each) for each in notes] == [True, False]


def test_few_rows_are_not_split(table):
    assert split(table, 0.5, seed=0) == (table, None)


def test_weights_are_used(table, quickest):
    """That they equal repetition is among scikit-learn's checks; ignored weights would pass a part of them."""
    plain = PartialBNNRegressor(**quickest).fit(table.x, table.y[:, 0])
    weighted = PartialBNNRegressor(**quickest).fit(table.x, table.y[:, 0], 1.0 + 4.0 * (table.x[:, 0] > 0))
    assert not np.array_equal(weighted.predict(table.x), plain.predict(table.x))


def test_relative_weights_are_noticed(table, quickest):
    """A weight counts rows; weights that sum to one would leave the prior alone with one row."""
    model = PartialBNNRegressor(**quickest).fit(table.x, table.y[:, 0], np.full(30, 1 / 30))
    assert "scale relative weights to a mean of one" in model.notes_[-1]
    assert not PartialBNNRegressor(**quickest).fit(table.x, table.y[:, 0]).notes_
