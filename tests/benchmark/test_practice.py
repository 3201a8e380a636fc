"""The practitioner's comparison: its grid, a rival scored by hand, deduplicated tables, and clear refusals."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from scipy import stats
from sklearn.ensemble import HistGradientBoostingRegressor

from partbayes.benchmark import practice_units, run_practice_unit
from partbayes.benchmark.practice import practice_table
from partbayes.data import load, split, standardise
from partbayes.errors import PartbayesError


def test_units_go_seed_by_seed():
    units = practice_units(["yacht", "wine_red_unique"], ["default", "ngboost"], 2)
    assert [unit["seed"] for unit in units] == [0] * 4 + [1] * 4
    assert {unit["dataset"] for unit in units} == {"yacht", "wine_red_unique"}


@pytest.mark.parametrize(
    ("datasets", "methods", "seeds", "word"),
    [(["yatch"], ["default"], 1, "yatch"), (["yacht"], ["best"], 1, "best"), (["yacht"], ["default"], 0, "seeds")],
)
def test_what_there_is_not(datasets, methods, seeds, word):
    with pytest.raises(PartbayesError, match=word):
        practice_units(datasets, methods, seeds)


def test_a_rival_is_scored_on_the_test_part_in_standardised_units():
    """Against scikit-learn and scipy alone: trained on train, its noise from validation, scored on test."""
    line = run_practice_unit({"dataset": "yacht", "method": "hist_gradient_boosting", "seed": 1})
    (train, validation, test), _, _ = standardise(split(load("yacht"), 1))
    model = HistGradientBoostingRegressor(random_state=1, max_iter=1000, n_iter_no_change=50, early_stopping=True)  # pyright: ignore[reportArgumentType]
    model.fit(train.x, train.y[:, 0], X_val=validation.x, y_val=validation.y[:, 0])
    scale = np.sqrt(np.mean((validation.y[:, 0] - model.predict(validation.x)) ** 2))
    mean = model.predict(test.x)
    metrics = line["metrics"]["mixture"]
    assert metrics["rmse"] == pytest.approx(np.sqrt(np.mean((mean - test.y[:, 0]) ** 2)), rel=1e-5)
    assert metrics["nll"] == pytest.approx(-np.mean(stats.norm.logpdf(test.y[:, 0], mean, scale)), rel=1e-4)
    assert (line["num_train"], line["num_test"]) == (len(train.x), len(test.x))


def test_deduplicated_tables_repeat_no_row():
    table = practice_table("wine_red_unique")
    rows = np.column_stack([table.x, table.y])
    assert len(np.unique(rows, axis=0)) == len(rows) < load("wine_red").num_data


def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ngboost", None)  # what an import then finds is that it is not there
    with pytest.raises(PartbayesError, match=r"partbayes\[rivals\]"):
        run_practice_unit({"dataset": "yacht", "method": "ngboost", "seed": 0})
