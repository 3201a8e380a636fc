"""Each finding appears for a table that has the fault, and none for one that does not."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from partbayes.data.table import Finding, Table, find_problems, infer_schema

ROWS = 300


def clean() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.normal(size=(ROWS, 3)), columns=["a", "b", "y"])
    return frame.assign(c=rng.choice(["u", "v"], ROWS), k=rng.choice(["p", "q", "r"], ROWS))


def findings(frame: pd.DataFrame, target: str = "y", **options) -> list[Finding]:
    table = Table(frame, "t")
    return find_problems(table, infer_schema(table, target, **options))


@pytest.mark.parametrize("target", ["y", "k"])
def test_nothing_to_say_about_a_clean_table(target):
    assert findings(clean(), target) == []


def spoil(name: str, rows: slice, value: object) -> pd.DataFrame:
    frame = clean()
    frame.loc[rows, name] = value
    return frame


@pytest.mark.parametrize(
    ("frame", "column", "words"),
    [
        (clean().head(50), "", "only 50 rows"),
        (clean().head(30), "", "7 features for only 30 rows"),
        (pd.concat([clean(), clean().head(7)], ignore_index=True), "", "7 rows repeat another row"),
        (spoil("a", slice(0, 200), np.nan), "a", "201 of 300 cells are missing"),
        (spoil("a", slice(4, 4), 1e6), "a", "1 cells lie more than 10 interquartile ranges out, such as 1e+06"),
        (spoil("a", slice(4, 4), -1e6), "a", "such as -1e+06"),
        (clean().assign(y=np.exp(3 * clean()["y"])), "y", "a logarithm of it may be easier"),
        (clean().assign(y=-np.exp(3 * clean()["y"])), "y", "it is skewed (skewness -"),
        (clean().assign(y=np.arange(ROWS) % 5), "y", "5 different whole numbers: --task classification"),
        (clean().assign(d=clean()["a"]), "d", "it equals 'a' in every row"),
        (clean().assign(d=clean()["c"]), "d", "it equals 'c' in every row"),
    ],
)
def test_each_fault_is_found(frame, column, words):
    found = findings(frame)
    assert any(one.column == column and words in one.sentence and not one.grave for one in found), found


@pytest.mark.parametrize(
    ("frame", "target", "column", "words"),
    [
        (clean().assign(d=clean()["y"]), "y", "d", "it is the target"),
        (clean().assign(d=32 - 1.8 * clean()["y"]), "y", "d", "it is the target"),
        (clean().assign(d=clean()["k"].map({"p": 7, "q": 1, "r": 5})), "k", "d", "one class of its own"),
        (clean().assign(d=clean()["k"].str.upper()), "k", "d", "one class of its own"),
        (clean().assign(d=np.arange(ROWS) + 17), "y", "d", "it counts the rows"),
    ],
)
def test_what_the_model_will_not_have_is_grave(frame, target, column, words):
    found = findings(frame, target)
    assert [(one.column, one.grave) for one in found if words in one.sentence] == [(column, True)]
    # A little noise, and it is an honest predictor.
    if frame[column].dtype.kind == "f":
        noisy = frame.assign(**{column: frame[column] + 0.01 * np.random.default_rng(2).normal(size=ROWS)})
        assert findings(noisy, target) == []


def test_ignored_columns_are_not_complained_about():
    assert findings(clean().assign(d=clean()["y"]), ignore=["d"]) == []


def test_rare_and_dominant_classes():
    frame = clean().assign(k=["p"] * 292 + ["q"] * 8)
    assert [one.sentence for one in findings(frame, "k")] == [
        "classes with fewer than 10 rows: 'q (8)'",
        "97.3% of the rows are 'p': mind accuracy's baseline",
    ]
