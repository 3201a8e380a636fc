"""What is decided about each column, and what a table then becomes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from partbayes.data.table import (
    Schema,
    Table,
    encode,
    encode_target,
    infer_schema,
    plan_columns,
    read_table,
    with_target,
)
from partbayes.errors import PartbayesError


def table(rows: int = 20, **columns) -> Table:
    """A table with numbers `a` and `y`, and the given columns repeated to its length."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=rows)})
    for name, values in columns.items():
        frame[name] = pd.Series([values[i % len(values)] for i in range(rows)])
    if "y" not in columns:
        frame["y"] = rng.normal(size=rows)
    return Table(frame, "t.csv")


def csv(folder: Path, frame: pd.DataFrame, name: str = "t.csv") -> Path:
    frame.to_csv(folder / name, index=False)
    return folder / name


def treatment(source: Table, name: str, **options) -> str:
    schema = infer_schema(with_target(source, "y"), "y", **options)
    return next(column.treatment for column in schema.columns if column.name == name)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 2, 3], "number"),
        ([True, False], "number"),
        (["1", "2"], "number"),
        ([1.0, None, 3.0], "number; 7 missing filled with the median 1, plus an indicator"),
        ([True, None, False], "number; 7 missing filled with the median 1, plus an indicator"),
        (["x", "y", "z"], "one-hot of 3 categories"),
        (["x", None, "y"], "one-hot of 2 categories; 7 missing, plus an indicator"),
        ([5, 5], "ignored: constant, 5 in every row"),
        (["x"], "ignored: constant, 'x' in every row"),
        ([None], "ignored: every cell is missing"),
        ([f"id{i}" for i in range(20)], "ignored: text with 20 different values in 20 rows, like an identifier"),
        ([f"2024-01-{i + 1:02d}" for i in range(20)], "ignored: dates; turn them into numbers to use them"),
        (
            [f"2024-01-{i + 1:02d}T10:00:00Z" for i in range(20)],
            "ignored: dates; turn them into numbers to use them",
        ),
        ([[1], [2]], "ignored: dates or lists; turn them into numbers to use them"),
        (
            list(pd.date_range("2024-01-01", periods=20)),
            "ignored: dates or lists; turn them into numbers to use them",
        ),
    ],
)
def test_each_kind_of_column(values, expected):
    assert treatment(table(c=values), "c") == expected


def test_a_value_or_nothing_is_not_constant():
    assert treatment(table(c=[1.0, None]), "c").startswith("number; 10 missing")


def test_ignored_and_forced_categories():
    source = table(c=[1, 2, 3], d=[4, 5])
    assert treatment(source, "c", ignore=["c"]) == "ignored: as asked"
    assert treatment(source, "c", categorical=["c"]) == "one-hot of 3 categories"
    assert infer_schema(source, "y", categorical=["c"]).features == ("a", "c=1", "c=2", "c=3", "d")
    for option in ("ignore", "categorical"):
        with pytest.raises(PartbayesError, match=r"t\.csv has no column 'cc': did you mean 'c'\?"):
            infer_schema(source, "y", **{option: ["cc"]})
    with pytest.raises(PartbayesError, match="'y' is the target: use --task classification"):
        infer_schema(source, "y", categorical=["y"])
    with pytest.raises(PartbayesError, match="both the target and to be ignored"):
        infer_schema(source, "y", ignore=["y"])


def test_the_commonest_categories_get_a_feature():
    many = [f"v{i:03d}" for i in range(60)] + ["v000"] * 100 + ["v059"] * 100
    source = table(rows=len(many), c=many)
    column = next(column for column in infer_schema(source, "y").columns if column.name == "c")
    assert column.treatment == "one-hot of 50 categories, the commonest; 10 rarer values are coded as none of them"
    assert {"v000", "v059"} <= set(column.categories) and "v058" not in column.categories
    x = encode(infer_schema(source, "y"), source)
    assert np.asarray(x.x.filter(like="c=")).sum() == len(many) - 10
    assert "rare there (10 rows)" in x.notes[0]


def test_text_among_numbers_names_the_first_cell():
    source = table(c=[1, 2, 3, 4, 5])
    source.frame["c"] = source.frame["c"].astype(str)
    source.frame.loc[6, "c"] = "six"
    source.frame.loc[9, "c"] = "nine"
    with pytest.raises(PartbayesError) as error:
        infer_schema(source, "y")
    assert str(error.value) == (
        "Column 'c' of t.csv holds numbers, but 'six' in row 7 (2 such cells): correct the cell or leave it empty, or "
        "use --categorical c in fit if these are categories."
    )
    assert treatment(source, "c", categorical=["c"]) == "one-hot of 7 categories"


def test_rows_keep_their_numbers_when_others_are_left_out():
    source = table(c=[1.0, 2.0, 3.0])
    source.frame.loc[[0, 1], "y"] = None
    source.frame.loc[4, "c"] = -np.inf
    kept = with_target(source, "y")
    assert kept.notes == ("left out 2 of 20 rows, whose target is missing",)
    with pytest.raises(PartbayesError, match=r"Column 'c' of t\.csv holds '-inf' in row 5, but numbers must be finite"):
        infer_schema(kept, "y")


@pytest.mark.parametrize(
    ("values", "task", "expected"),
    [
        ([1.5, 2.5, 3.0], "auto", ("regression", ())),
        ([3, 4, 5, 6], "auto", ("regression", ())),
        ([3, 4, 5, 10], "classification", ("classification", ("3", "4", "5", "10"))),
        ([0, 1], "auto", ("classification", ("0", "1"))),
        ([0.0, 1.0], "auto", ("classification", ("0", "1"))),
        ([0, 1], "regression", ("regression", ())),
        ([0.5, 1.5], "auto", ("regression", ())),
        ([True, False], "auto", ("classification", ("False", "True"))),
        (["b", "a"], "auto", ("classification", ("a", "b"))),
        (["1", "2", "3"], "auto", ("regression", ())),
        (["1", "2", "x"], "classification", ("classification", ("1", "2", "x"))),
    ],
)
def test_the_task_follows_from_the_target(values, task, expected):
    target = infer_schema(table(y=values), "y", task=task).target
    assert (target.task, target.labels) == expected


@pytest.mark.parametrize(
    ("values", "task", "sentence"),
    [
        ([2.0], "auto", "The target 'y' of t.csv is 2.0 in every row"),
        (["x"], "auto", "The target 'y' of t.csv has only one class, 'x'"),
        ([True], "auto", "has only one class, 'True'"),
        ([7], "classification", "has only one class, '7'"),
        (["a", "b"], "regression", "is text (such as 'a'), but regression needs numbers: use --task classification"),
        (["1", "2", "x"], "auto", "Column 'y' of t.csv holds numbers, but 'x' in row 3"),
        ([1.0, np.inf, 2.0], "auto", "Column 'y' of t.csv holds 'inf' in row 2"),
        ([1.0, np.inf, 2.0], "classification", "Column 'y' of t.csv holds 'inf' in row 2"),
        (list(range(20)), "classification", "has 20 classes in 20 rows: use --task regression"),
        ([f"n{i}" for i in range(20)], "auto", "has 20 classes in 20 rows"),
        (list(pd.date_range("2024-01-01", periods=20)), "auto", "holds dates or lists"),
    ],
)
def test_targets_that_cannot_be(values, task, sentence):
    with pytest.raises(PartbayesError) as error:
        infer_schema(table(y=values), "y", task=task)
    assert sentence in str(error.value)


def test_target_by_the_wrong_name_or_without_a_value():
    with pytest.raises(PartbayesError, match=r"t\.csv has no target column 'Price': did you mean 'price'\?"):
        with_target(table(price=[1]), "Price")
    with pytest.raises(PartbayesError, match=r"has no target column 'zzz': its columns are 'a', 'y'"):
        with_target(table(), "zzz")
    with pytest.raises(PartbayesError, match=r"Every cell of the target column 'y' of t\.csv is missing"):
        with_target(table(y=[None]), "y")


def test_too_few_rows_and_no_inputs():
    with pytest.raises(PartbayesError, match=r"t\.csv has 9 rows with a target, but at least 10 are needed"):
        infer_schema(table(rows=9), "y")
    infer_schema(table(rows=10), "y")
    only = Table(pd.DataFrame({"y": np.arange(20.0), "c": 1}), "t.csv")
    with pytest.raises(PartbayesError, match="has no input column that can be used beside the target 'y'"):
        infer_schema(only, "y")


def test_every_wrong_column_is_reported():
    source = table(c=[1.0, np.inf], d=["1", "2", "3", "x"], y=[4.0])
    assert [error.split(" of ")[0] for error in plan_columns(source, "y").errors] == [
        "Column 'c'",
        "Column 'd'",
        "The target 'y'",
    ]


def test_encoding_by_hand():
    source = table(rows=12, n=[1.0, None, 3.0], c=["r", "g", None], f=[True, False])
    schema = infer_schema(source, "y")
    encoded = encode(schema, source)
    assert list(encoded.x.columns) == ["a", "n", "n is missing", "c=g", "c=r", "c is missing", "f"]
    np.testing.assert_array_equal(
        encoded.x.to_numpy()[:3, 1:], [[1, 0, 0, 1, 0, 1], [2, 1, 1, 0, 0, 0], [3, 0, 0, 0, 1, 1]]
    )
    assert encoded.notes == () and encoded.x.dtypes.eq(np.float64).all()


def test_features_with_equal_names_stay_apart():
    source = table(c=["x", "y"], **{"c=x": [1, 2, 3]})
    schema = infer_schema(source, "y")
    assert schema.features == ("a", "c=x", "c=y", "c=x'")
    assert encode(schema, source).x.shape == (20, 4)


def test_columns_are_matched_by_name_in_any_order():
    source = table(c=["x", "y"], d=[1, 2, 3])
    schema = infer_schema(source, "y")
    shuffled = Table(source.frame[["y", "d", "c", "a"]], "new.csv")
    pd.testing.assert_frame_equal(encode(schema, shuffled).x, encode(schema, source).x)
    without_target = Table(source.frame[["d", "c", "a"]], "new.csv")
    pd.testing.assert_frame_equal(encode(schema, without_target).x, encode(schema, source).x)


def test_missing_renamed_and_extra_columns():
    source = table(c=["x", "y"], alcohol=[1, 2, 3], same=[1])
    schema = infer_schema(source, "y")
    with pytest.raises(
        PartbayesError, match=r"new lacks columns that the model needs, 'c', 'alcohol': columns are match"
    ):
        encode(schema, Table(source.frame[["a"]], "new"))
    renamed = source.frame.rename(columns={"alcohol": "Alcohol %"})
    with pytest.raises(
        PartbayesError, match=r"a column that the model needs, 'alcohol': rename 'Alcohol %' to 'alcohol'"
    ):
        encode(schema, Table(renamed, "new"))
    extra = Table(source.frame.assign(more=1), "new")
    assert encode(schema, extra).notes == ("ignored columns that the model does not know: 'more'",)
    # A column that was of no use in training is not missed.
    assert encode(schema, Table(source.frame.drop(columns="same"), "new")).notes == ()


def test_what_training_did_not_see_is_noted():
    source = table(rows=12, c=["x", "y"], d=[1.0, 2.0, 3.0])
    schema = infer_schema(source, "y")
    new = Table(pd.DataFrame({"a": [1.0, 2.0, 3.0], "c": ["mauve", None, "x"], "d": [None, 1, 2]}), "new")
    encoded = encode(schema, new)
    assert encoded.notes == (
        "'c' holds 'mauve', not seen in training (1 rows): coded as none of its categories",
        "'c' has 1 missing cells, training had none: coded as none of its categories",
        "'d' has 1 missing cells, training had none: filled with its median 2",
    )
    np.testing.assert_array_equal(encoded.x.to_numpy(), [[1, 0, 0, 2], [2, 0, 0, 1], [3, 1, 0, 2]])


def test_text_in_a_number_when_predicting():
    source = table(d=[1.0, 2.0, 3.0])
    new = Table(pd.DataFrame({"a": [1.0, 2.0], "d": ["low", "1"]}), "new")
    with pytest.raises(PartbayesError, match=r"Column 'd' of new holds numbers, but 'low' in row 1"):
        encode(infer_schema(source, "y"), new)


def test_categories_written_as_numbers_read_the_same_alone(tmp_path):
    """A column of codes with letters among them reads as numbers when a later file has no letters."""
    source = csv(tmp_path, table(c=["01", "x", "y"]).frame)
    schema = infer_schema(read_table(source), "y")
    assert schema.text == ("c",)
    new = csv(tmp_path, pd.DataFrame({"a": [0.0], "c": ["01"]}), "new.csv")
    encoded = encode(schema, read_table(new, text=schema.text))
    assert encoded.notes == () and encoded.x["c=01"].tolist() == [1.0]


def test_class_targets_become_positions():
    source = table(y=["b", "a", "c"])
    target = infer_schema(source, "y").target
    assert encode_target(target, source)[:3].tolist() == [1, 0, 2]
    with pytest.raises(
        PartbayesError, match=r"The target 'y' of t\.csv holds 'd', but the model's classes are 'a', 'b'"
    ):
        encode_target(target, table(y=["a", "d"]))
    numbers = infer_schema(table(y=[3, 5, 4]), "y", task="classification").target
    # A missing cell somewhere turns whole numbers into floats; the classes stay the same.
    assert encode_target(numbers, table(y=[3.0, 4.0])).tolist()[:2] == [0, 1]


@pytest.fixture
def description() -> dict:
    source = table(c=["x", "y", None], d=[1.0, None], e=[1], y=["p", "q"])
    return infer_schema(source, "y").to_json()


def test_json_round_trip(description):
    schema = Schema.from_json(json.loads(json.dumps(description, allow_nan=False)))
    assert schema.to_json() == description
    assert schema.features == ("a", "c=x", "c=y", "c is missing", "d", "d is missing")


@pytest.mark.parametrize(
    "damage",
    [
        lambda d: None,
        lambda d: [],
        lambda d: {},
        lambda d: {**d, "more": 1},
        lambda d: {**d, "version": "1"},
        lambda d: {**d, "columns": d["columns"] * 2},
        lambda d: {**d, "columns": []},
        lambda d: {**d, "columns": [{**d["columns"][0], "use": "other"}]},
        lambda d: {**d, "columns": [{**d["columns"][0], "fill": "1"}]},
        lambda d: {**d, "columns": [{**d["columns"][0], "fill": float("nan")}]},
        lambda d: {**d, "columns": [{**d["columns"][0], "categories": ["x"]}]},
        lambda d: {**d, "columns": [{**d["columns"][1], "categories": [1]}]},
        lambda d: {**d, "columns": [{**d["columns"][1], "categories": ["x", "x"]}]},
        lambda d: {**d, "columns": [{**d["columns"][1], "missing": -1}]},
        lambda d: {**d, "columns": [{"name": "a"}]},
        lambda d: {**d, "columns": [{**d["columns"][0], "surprise": 1}]},
        lambda d: {**d, "target": {**d["target"], "labels": ["p"]}},
        lambda d: {**d, "target": {**d["target"], "task": "ranking"}},
        lambda d: {**d, "target": {**d["target"], "name": "a"}},
    ],
)
def test_damaged_descriptions_are_refused(description, damage):
    with pytest.raises(PartbayesError, match="holds no valid description of a table"):
        Schema.from_json(damage(description))


def test_a_newer_description_says_update(description):
    with pytest.raises(PartbayesError, match="version 2, but this partbayes reads up to 1: update partbayes"):
        Schema.from_json({**description, "version": 2})
