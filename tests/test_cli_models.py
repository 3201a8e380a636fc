"""fit, evaluate and predict through the command line on a small network, and files that do not fit."""

from __future__ import annotations

import errno
import io
import json
import os
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import refused, run

from partbayes.cli import fit as fit_module
from partbayes.errors import PartbayesError
from partbayes.estimators import PartialBNNClassifier, PartialBNNRegressor, load_model, save_model

ROWS = 120
SMALL = {"method": "map", "hidden": (8,), "islands": 2, "epochs": 60, "learning_rate": 0.05}


def houses(seed: int, rows: int = ROWS) -> pd.DataFrame:
    """Prices in tens of thousands with a known dependence, and three grades of size whose names sort oddly as text."""
    rng = np.random.default_rng(seed)
    size = rng.uniform(20, 200, rows)
    colour = rng.choice(["red", "blue"], rows)
    price = 50_000 + 900 * size + 20_000 * (colour == "red") + 5_000 * rng.normal(size=rows)
    grade = np.select([size < 80, size < 140], [3, 4], 10)
    return pd.DataFrame(
        {"size": size, "colour": colour, "who": [f"p{i}" for i in range(rows)], "price": price, "grade": grade}
    )


@pytest.fixture
def small(monkeypatch) -> None:
    """Estimators that train in a moment."""
    monkeypatch.setattr(fit_module, "_estimator", small_estimator)


def small_estimator(
    task: str, method: str, effort: str, max_time: float | None, noise: str | None, seed: int, quiet: bool
):
    settings = SMALL | {"random_state": seed}
    return PartialBNNRegressor(**settings) if task == "regression" else PartialBNNClassifier(**settings)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Iterator[Path]:
    """`train.csv`, `test.csv`, and the models `price` and `grade` made from the first."""
    folder = tmp_path_factory.mktemp("houses")
    houses(0).to_csv(folder / "train.csv", index=False)
    houses(1, 60).to_csv(folder / "test.csv", index=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fit_module, "_estimator", small_estimator)
        fit = ["fit", folder / "train.csv", "--target"]
        price = run(*fit, "price", "-o", folder / "price", "--ignore", "grade")
        grade = run(*fit, "grade", "-o", folder / "grade", "--task", "classification", "--ignore", "price", "--json")
    assert price.code == grade.code == 0, (price, grade)
    (folder / "price.txt").write_text(price.out)
    (folder / "grade.json").write_text(grade.out)
    yield folder


def test_fit_says_what_it_did(folder):
    text = (folder / "price.txt").read_text()
    for words in (
        "train.csv: 120 rows",
        "target 'price': a quantity (regression)",
        "1 column used as numbers: size",
        "one-hot of 2 categories",
        "ignored: text with 120 different values in 120 rows, like an identifier",
        "grade   ignored: as asked",
        "trained in ",
        "map: 60 epochs",
        f"Model written to {folder / 'price'}",
    ):
        assert words in text
    content = json.loads((folder / "grade.json").read_text())
    assert content["task"] == "classification" and content["classes"] == ["3", "4", "10"] and content["rows"] == 120
    assert content["stages"][0]["epochs"] == 60


def test_options_reach_the_estimator():
    estimator = fit_module._estimator("regression", "gohsmc", "thorough", 9.0, "0.5", 3, True)
    wanted = {"method": "gohsmc", "effort": "thorough", "max_time": 9.0, "noise": 0.5, "random_state": 3}
    assert wanted.items() <= estimator.get_params().items()
    plain = fit_module._estimator("regression", "default", "standard", None, None, 0, False).get_params()
    assert plain == PartialBNNRegressor(random_state=0).get_params()
    classes = fit_module._estimator("classification", "default", "standard", None, None, 0, False).get_params()
    assert classes == PartialBNNClassifier(random_state=0).get_params()


def test_the_model_file_keeps_the_table(folder):
    estimator, extra = load_model(folder / "price")
    assert (extra["target"], extra["task"]) == ("price", "regression")
    assert [column["name"] for column in extra["table"]["columns"]] == ["size", "colour", "who", "grade"]
    assert list(estimator.feature_names_in_) == ["size", "colour=blue", "colour=red"]


def test_evaluate_and_predict_agree_in_the_targets_own_units(folder, tmp_path):
    result = run("evaluate", folder / "price", folder / "test.csv", "--target", "price", "--json")
    assert result.code == 0 and result.err == ""
    content = json.loads(result.out)
    assert content["rows"] == 60 and content["task"] == "regression" and content["notes"] == []
    metrics = content["metrics"]
    assert {"rmse", "nll", "crps", "coverage_90"} <= set(metrics)
    written = run("predict", folder / "price", folder / "test.csv", "-o", tmp_path / "out.csv")
    assert written.code == 0 and "60 predictions written" in written.out
    predicted = pd.read_csv(tmp_path / "out.csv")
    assert list(predicted.columns) == ["mean", "std", "q05", "q50", "q95"] and len(predicted) == 60
    truth = houses(1, 60)["price"]
    # The file has five digits of the smallest standard deviation, and float32 seven of the mean.
    np.testing.assert_allclose(np.sqrt(np.mean((predicted["mean"] - truth) ** 2)), metrics["rmse"], rtol=1e-4)
    inside = (predicted["q05"] <= truth) & (truth <= predicted["q95"])
    np.testing.assert_allclose(inside.mean(), metrics["coverage_90"], atol=1e-12)
    np.testing.assert_allclose((predicted["q95"] - predicted["q05"]).mean(), metrics["width_90"], rtol=1e-4)
    # The noise is 5000 and the prices spread by ten times that: a model that learned is far below.
    assert 4_000 < metrics["rmse"] < 15_000


def test_scores_do_not_depend_on_where_zero_is(folder, tmp_path):
    """A target such as a time in seconds: its offset has more digits than float32."""
    estimator, extra = load_model(folder / "price")
    estimator.y_scaler_ = estimator.y_scaler_._replace(mean=estimator.y_scaler_.mean + 2.0**40)
    save_model(tmp_path / "late", estimator, extra)
    frame = pd.read_csv(folder / "test.csv")
    frame.assign(price=frame["price"] + 2.0**40).to_csv(tmp_path / "late.csv", index=False)
    here = json.loads(run("evaluate", folder / "price", folder / "test.csv", "--json").out)["metrics"]
    there = json.loads(run("evaluate", tmp_path / "late", tmp_path / "late.csv", "--json").out)["metrics"]
    # 2^40 leaves float64 steps of 2^-12, against standard deviations of thousands.
    assert here == pytest.approx(there, rel=1e-6)


def test_evaluate_in_text(folder):
    result = run("evaluate", folder / "price", folder / "test.csv", "--target", "price")
    assert result.code == 0
    for name in ("rmse", "nll", "crps", "coverage_90", "width_90"):
        assert name in result.out
    assert "price: 60 rows" in result.out


def test_names_may_look_like_markup(folder, tmp_path):
    (tmp_path / "[").mkdir()
    odd = tmp_path / "[" / "red].csv"
    odd.write_bytes((folder / "test.csv").read_bytes())
    result = run("evaluate", folder / "price", odd, "--target", "price")
    assert result.code == 0 and "red].csv" in result.out.replace("\n", "")


def test_predictions_that_are_not_finite_are_refused(folder, tmp_path, monkeypatch):
    nothing = lambda self, X, return_std: (np.full(len(X), np.nan), np.ones(len(X)))  # noqa: E731
    monkeypatch.setattr(PartialBNNRegressor, "predict", nothing)
    (tmp_path / "out.csv").write_text("precious")
    result = run("predict", folder / "price", folder / "test.csv", "-o", tmp_path / "out.csv")
    refused(result, "not finite in 60 of 60 rows")
    assert (tmp_path / "out.csv").read_text() == "precious"


def test_evaluating_on_the_training_rows_is_noted(folder):
    result = run("evaluate", folder / "price", folder / "train.csv")
    assert result.code == 0 and "the model was trained on" in result.err
    assert "trained on" not in run("evaluate", folder / "price", folder / "train.csv", "--quiet").err


def test_classes_keep_their_names(folder):
    result = run("evaluate", folder / "grade", folder / "test.csv", "-t", "grade", "--json")
    metrics = json.loads(result.out)["metrics"]
    assert set(metrics) == {"accuracy", "nll", "brier", "ece", "auc"}
    out = run("predict", folder / "grade", folder / "test.csv").out
    predicted = pd.read_csv(io.StringIO(out))
    assert list(predicted.columns) == ["class", "p_3", "p_4", "p_10"]
    probs = predicted[["p_3", "p_4", "p_10"]].to_numpy()
    np.testing.assert_allclose(probs.sum(axis=1), 1, atol=1e-5)
    np.testing.assert_array_equal(np.array([3, 4, 10])[probs.argmax(axis=1)], predicted["class"])
    truth = houses(1, 60)["grade"]
    np.testing.assert_allclose((predicted["class"] == truth).mean(), metrics["accuracy"], atol=1e-12)
    # A third by chance; names that were mixed up would be below it.
    assert metrics["accuracy"] > 0.8


def test_columns_in_another_order_give_the_same_bytes(folder, tmp_path):
    frame = pd.read_csv(folder / "test.csv")
    frame[["price", "who", "colour", "size"]].to_csv(tmp_path / "turned.csv", index=False)
    frame.to_csv(tmp_path / "wide.tsv", index=False, sep="\t")
    frame.to_parquet(tmp_path / "same.parquet")
    answers = [run("predict", folder / "price", tmp_path / name) for name in ("turned.csv", "wide.tsv", "same.parquet")]
    assert {answer.out for answer in answers} == {run("predict", folder / "price", folder / "test.csv").out}


def test_predict_from_standard_input(folder, monkeypatch):
    content = (folder / "test.csv").read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    assert run("predict", folder / "price", "-").out == run("predict", folder / "price", folder / "test.csv").out


def test_what_training_did_not_see_is_noted(folder, tmp_path):
    frame = houses(2, 12).assign(more=1)
    frame.loc[3, "colour"] = "mauve"
    frame.loc[4, "size"] = None
    frame.to_csv(tmp_path / "new.csv", index=False)
    result = run("predict", folder / "price", tmp_path / "new.csv")
    assert result.code == 0 and len(result.out.splitlines()) == 13
    for words in (
        "does not know: 'more'",
        "'colour' holds 'mauve', not seen in training",
        "'size' has 1 missing cells",
    ):
        assert f"{words}" in result.err
    assert all(line.startswith("note: ") for line in result.err.splitlines())
    assert run("predict", folder / "price", tmp_path / "new.csv", "--quiet").err == ""


def test_missing_and_renamed_columns(folder, tmp_path):
    out = tmp_path / "out.csv"
    out.write_text("precious")
    frame = houses(2, 12)
    frame[["size", "who"]].to_csv(tmp_path / "missing.csv", index=False)
    frame.rename(columns={"colour": "Colour"}).to_csv(tmp_path / "renamed.csv", index=False)
    refused(run("predict", folder / "price", tmp_path / "missing.csv", "-o", out), "missing.csv lacks", "'colour'")
    refused(run("predict", folder / "price", tmp_path / "renamed.csv", "-o", out), "rename 'Colour' to 'colour'?")
    refused(run("evaluate", folder / "price", tmp_path / "missing.csv", "-t", "price"), "no target column 'price'")
    assert out.read_text() == "precious" and sorted(os.listdir(tmp_path)) == ["missing.csv", "out.csv", "renamed.csv"]


def test_evaluate_leaves_out_rows_without_a_target_and_refuses_unknown_classes(folder, tmp_path):
    frame = houses(2, 12).astype({"grade": "Int64"})
    frame.loc[0, "grade"] = None
    frame.to_csv(tmp_path / "holes.csv", index=False)
    content = json.loads(run("evaluate", folder / "grade", tmp_path / "holes.csv", "--json").out)
    assert content["rows"] == 11 and content["notes"] == ["left out 1 of 12 rows, whose target is missing"]
    houses(2, 12).assign(grade=7).to_csv(tmp_path / "strange.csv", index=False)
    refused(run("evaluate", folder / "grade", tmp_path / "strange.csv"), "'7'", "classes are '3', '4', '10'")


def test_model_files_that_are_none(folder, tmp_path):
    content = (folder / "price").read_bytes()
    (tmp_path / "cut").write_bytes(content[: len(content) // 2])
    (tmp_path / "text").write_text("size,price\n1,2\n")
    (tmp_path / "empty").write_bytes(b"")
    (length,) = struct.unpack("<Q", content[:8])
    newer = content[8 : 8 + length].replace(rb"\"format_version\": 3,", rb"\"format_version\": 9,")
    assert newer != content[8 : 8 + length]
    (tmp_path / "newer").write_bytes(content[:8] + newer + content[8 + length :])
    estimator, _ = load_model(folder / "price")
    save_model(tmp_path / "bare", estimator)
    for name, words in [
        ("cut", "cut short or damaged"),
        ("text", "is not a partbayes model"),
        ("empty", "is not a partbayes model"),
        ("newer", "update partbayes"),
        ("none", "There is no model file"),
        ("bare", "holds no valid description of a table"),
    ]:
        for command in ("predict", "evaluate"):
            refused(run(command, tmp_path / name, folder / "test.csv"), words)


def test_predictions_that_cannot_be_written(folder, tmp_path, monkeypatch):
    predict = ["predict", folder / "price", folder / "test.csv", "-o"]
    refused(run(*predict, tmp_path / "none" / "out.csv"), "There is no folder")
    refused(run(*predict, tmp_path), "is a folder")
    if Path("/dev/full").exists():
        refused(run(*predict, "/dev/full"), "/dev/full cannot be written (No space left on device)")
    refused(run(*predict, "-", "--json"), "cannot both go to standard output")
    (tmp_path / "out.csv").write_text("precious")
    _fill_the_disk(monkeypatch)
    refused(run(*predict, tmp_path / "out.csv"), "No space left on device")
    assert (tmp_path / "out.csv").read_text() == "precious" and os.listdir(tmp_path) == ["out.csv"]


def _fill_the_disk(monkeypatch) -> None:
    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)


def test_a_full_disk_keeps_the_old_model(folder, tmp_path, monkeypatch, small):
    (tmp_path / "model").write_text("precious")
    _fill_the_disk(monkeypatch)
    result = run("fit", folder / "train.csv", "-t", "price", "-o", tmp_path / "model", "--ignore", "grade", "--quiet")
    refused(result, "No space left on device")
    assert (tmp_path / "model").read_text() == "precious" and os.listdir(tmp_path) == ["model"]


class Stopped(PartialBNNRegressor):
    """Interrupted in the middle of training, or failing there."""

    def fit(self, X, y, sample_weight=None, *, validation=None, checkpoint=None):
        if checkpoint is not None and self.effort == "saves":
            (Path(checkpoint.folder) / "step").touch()
        if self.effort == "fails":
            raise PartbayesError("All islands died: use smaller steps.")
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("effort", "options", "code", "words"),
    [
        ("saves", ["--checkpoint-dir", "my ck"], 130, "repeat the command with --checkpoint-dir 'my ck' --resume"),
        ("early", ["--checkpoint-dir", "my ck"], 130, "nothing was saved to my ck yet"),
        ("early", [], 130, "interrupted; nothing was kept"),
        ("fails", [], 1, "All islands died"),
    ],
)
def test_an_interrupt_says_how_to_go_on(folder, tmp_path, monkeypatch, effort, options, code, words):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(fit_module, "_estimator", lambda *_: Stopped(effort=effort))
    Path("model").write_text("precious")
    result = run("fit", folder / "train.csv", "-t", "price", "-o", "model", "--quiet", *options)
    assert result.code == code and words in result.err and result.err.count("\n") == 1 and result.out == ""
    assert Path("model").read_text() == "precious"


def test_resuming_another_configuration_is_refused(folder, tmp_path, small):
    fit = [
        "fit",
        folder / "train.csv",
        "-t",
        "price",
        "--ignore",
        "grade",
        "--checkpoint-dir",
        tmp_path / "ck",
        "--quiet",
    ]
    begun = run(*fit, "-o", tmp_path / "first", "--resume")
    assert begun.code == 0 and "training begins anew" in begun.err
    (tmp_path / "model").write_text("precious")
    refused(run(*fit, "-o", tmp_path / "model"), "already holds a run: resume it, or choose another folder")
    refused(run(*fit, "-o", tmp_path / "model", "--resume", "--seed", 1), "made with other settings", "random_state")
    refused(run(*fit, "-o", tmp_path / "model", "--resume", "--ignore", "colour"), "made with other settings", "data")
    assert (tmp_path / "model").read_text() == "precious"
    # Nothing is left to train, so the same comes out as the first time.
    assert run(*fit, "-o", tmp_path / "model", "--resume").code == 0
    first, again = (run("predict", tmp_path / name, folder / "test.csv").out for name in ("first", "model"))
    assert first == again and first == run("predict", folder / "price", folder / "test.csv").out
