"""Saved models: the same predictions to the bit, in a new process too; every kind of bad file in one sentence."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from safetensors.numpy import load as from_safetensors
from safetensors.numpy import save as to_safetensors

from partbayes.errors import PartbayesError
from partbayes.estimators import PartialBNNClassifier, PartialBNNRegressor, load_model, save_model
from partbayes.model import mlp


@pytest.fixture
def saved(regressor, tmp_path):
    path = tmp_path / "model.pbnn"
    save_model(path, regressor, {"table": {"columns": ["a", "b"]}})
    return path


def rewrite(path, change) -> None:
    """The file again, with its metadata or arrays changed."""
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    metadata = json.loads(json.loads(content[8 : 8 + length])["__metadata__"]["partbayes"])
    arrays = dict(from_safetensors(content))
    change(metadata, arrays)
    path.write_bytes(to_safetensors(arrays, {"partbayes": json.dumps(metadata)}))


def complaint(path, **options) -> str:
    with pytest.raises(PartbayesError) as caught:
        load_model(path, **options)
    message = str(caught.value)
    assert message.endswith(".") and "\n" not in message and path.name in message
    return message


def test_a_regressor_comes_back_whole(regressor, curve, saved):
    again, extra = load_model(saved)
    assert extra == {"table": {"columns": ["a", "b"]}}
    assert type(again) is PartialBNNRegressor
    assert again.get_params() == regressor.get_params()
    for one, other in zip(
        regressor.predict(curve.x, return_std=True), again.predict(curve.x, return_std=True), strict=True
    ):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(regressor.sample_y(curve.x, 3), again.sample_y(curve.x, 3))
    assert (again.stages_, again.notes_, again.n_iter_) == (regressor.stages_, regressor.notes_, regressor.n_iter_)
    assert again.n_features_in_ == 3
    again.set_params(epochs=2, method="map", particles=None).fit(*curve)  # and it can be trained anew


@pytest.mark.parametrize("kind", [str, object, np.int64, bool])
def test_a_classifier_comes_back_with_its_labels(classifier, blobs, tmp_path, kind):
    labels = {str: classifier.classes_, object: classifier.classes_.astype(object)}
    classes = labels.get(kind, np.array([0, 1, 7], kind))
    classifier.__dict__["classes_"], before = classes, classifier.classes_
    try:
        classifier.save(tmp_path / "model")
    finally:
        classifier.classes_ = before
    again = PartialBNNClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(again.classes_, classes)
    assert again.classes_.dtype == classes.dtype
    np.testing.assert_array_equal(again.predict_proba(blobs.x), classifier.predict_proba(blobs.x))


FIRST = """
import sys, numpy as np
from partbayes.estimators import PartialBNNRegressor
x = np.random.default_rng(0).normal(size=(70, 2))
model = PartialBNNRegressor("map", hidden=(8,), islands=3, epochs=5, random_state=0).fit(x, x[:, 0])
model.save(sys.argv[1] + "/model")
np.savez(sys.argv[1] + "/first.npz", mean=model.predict(x), ends=model.predict_interval(x), draws=model.sample_y(x, 2))
"""
SECOND = """
import sys, numpy as np
from partbayes.estimators import PartialBNNRegressor
x = np.random.default_rng(0).normal(size=(70, 2))
model = PartialBNNRegressor.load(sys.argv[1] + "/model")
np.savez(sys.argv[1] + "/second.npz", mean=model.predict(x), ends=model.predict_interval(x), draws=model.sample_y(x, 2))
"""


def test_a_new_process_predicts_the_same_bits(tmp_path):
    for script in (FIRST, SECOND):
        subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True, env={**os.environ})
    first, second = (np.load(tmp_path / f"{name}.npz") for name in ("first", "second"))
    for name in ("mean", "ends", "draws"):
        np.testing.assert_array_equal(first[name], second[name])


def test_feature_names_come_back(curve, quickest, tmp_path):
    import pandas as pd

    x = pd.DataFrame(curve.x, columns=["a", "b", "c"])
    PartialBNNRegressor(**quickest).fit(x, curve.y).save(tmp_path / "model")
    again = PartialBNNRegressor.load(tmp_path / "model")
    assert list(again.feature_names_in_) == ["a", "b", "c"]
    with pytest.raises(ValueError, match="feature names"):
        again.predict(x[["c", "b", "a"]])


def test_code_is_not_in_the_file(curve, quickest, tmp_path):
    network = mlp(3, (4,), 2)
    path = tmp_path / "model"
    model = PartialBNNRegressor(**quickest, network=network, stochastic=lambda path, leaf: "0" in path).fit(*curve)
    with pytest.warns(UserWarning, match="network and stochastic of .* is code"):
        model.save(path)
    assert "has a network of its own" in complaint(path)
    again = PartialBNNRegressor.load(path, network=network, stochastic=lambda path, leaf: "0" in path)
    np.testing.assert_array_equal(again.predict(curve.x), model.predict(curve.x))
    message = complaint(path, network=mlp(3, (5,), 2), stochastic=lambda path, leaf: "0" in path)
    assert "does not fit the model" in message


def test_settings_that_predictions_do_not_need_are_left_out_with_a_note(curve, quickest, tmp_path):
    model = PartialBNNRegressor(**{**quickest, "random_state": np.random.RandomState(0)}).fit(*curve)
    model.save(tmp_path / "model")
    again = PartialBNNRegressor.load(tmp_path / "model")
    assert again.random_state is None
    assert "random_state was not in the file" in again.notes_[-1]


def test_not_a_model(tmp_path):
    path = tmp_path / "thing"
    assert "no model file" in complaint(path)
    for content in (b"", b"a,b\n1,2\n", b"\x80\x04K\x01.", bytes(100), to_safetensors({"a": np.ones(3)})):
        path.write_bytes(content)
        assert "is not a partbayes model" in complaint(path)
    path.write_bytes(to_safetensors({"a": np.ones(3)}, {"other": "partbayes"}))
    assert "is not a partbayes model" in complaint(path)
    folder = tmp_path / "folder"
    folder.mkdir()
    assert "could not be read" in complaint(folder)


def test_a_truncated_file_never_loads(saved):
    content = saved.read_bytes()
    for length in (0, 7, 8, 9, 100, 1000, len(content) // 2, len(content) - 1):
        saved.write_bytes(content[:length])
        assert ("cut short" if length >= 100 else "not a partbayes model") in complaint(saved)
    saved.write_bytes(content + b"more")
    assert "damaged" in complaint(saved)


def test_a_newer_format_says_so(saved):
    rewrite(saved, lambda metadata, arrays: metadata.update(format_version=4, package_version="9.0"))
    message = complaint(saved)
    assert "format version 4" in message and "partbayes 9.0" in message and "update partbayes" in message


def test_the_first_format_had_no_whitening(saved):
    def first(metadata, arrays):
        metadata.update(format_version=1)
        arrays.pop("x_scaler/matrix")
        metadata["schema"]["arrays"].pop("x_scaler/matrix")

    rewrite(saved, first)
    model = PartialBNNRegressor.load(saved)
    assert model.x_scaler_.matrix is None and model.whiten is False


def test_the_second_format_had_no_limits(saved):
    def second(metadata, arrays):
        metadata.update(format_version=2)
        arrays.pop("y_limits")
        metadata["schema"]["arrays"].pop("y_limits")

    rewrite(saved, second)
    assert PartialBNNRegressor.load(saved).y_limits_ is None


CHANGES = {
    "limits that are not in order": lambda m, a: a.update({"y_limits": a["y_limits"][::-1].copy()}),
    "a map of another shape": lambda m, a: (
        a.update({"x_scaler/matrix": np.eye(4)}),
        m["schema"]["arrays"].update({"x_scaler/matrix": [4, 4]}),
    ),
    "a missing array": lambda m, a: (a.pop("log_weights"), m["schema"]["arrays"].pop("log_weights")),
    "an array too many": lambda m, a: a.update(more=np.ones(2)),
    "another shape": lambda m, a: (
        a.update({"x_scaler/mean": np.ones(4)}),
        m["schema"]["arrays"].update({"x_scaler/mean": [4]}),
    ),
    "whole numbers": lambda m, a: a.update({"x_scaler/mean": np.ones(3, np.int64)}),
    "a scale of zero": lambda m, a: a.update({"x_scaler/scale": np.zeros(3)}),
    "no particles": lambda m, a: (
        a.update(log_weights=np.ones((0, 0), np.float32)),
        m["schema"]["arrays"].update(log_weights=[0, 0]),
    ),
    "weights of whole numbers": lambda m, a: a.update(log_weights=np.zeros(a["log_weights"].shape, np.int32)),
    "weights that do not add up": lambda m, a: a.update(log_weights=a["log_weights"] + 5),
    "weights that are none": lambda m, a: a.update(log_weights=a["log_weights"] * np.nan),
    "parameters that are not finite": lambda m, a: a.update(
        {name: np.full_like(values, np.inf) for name, values in a.items() if name.startswith("psi/")}
    ),
    "an extra part of another type": lambda m, a: m.update(extra=["table"]),
    "a wider network": lambda m, a: m["model"].update(hidden=[17]),
    "a network beyond memory": lambda m, a: m["model"].update(hidden=[10**12]),
    "hidden layers of text": lambda m, a: m["model"].update(hidden="wide"),
    "another estimator": lambda m, a: m.update(estimator="os.system"),
    "no estimator": lambda m, a: m.pop("estimator"),
    "an estimator of another type": lambda m, a: m.update(estimator=["PartialBNNRegressor"]),
    "a classifier without classes": lambda m, a: m.update(estimator="PartialBNNClassifier"),
    "another noise": lambda m, a: m["model"].update(noise="none"),
    "names of too many columns": lambda m, a: m["schema"].update(feature_names=["a", "b", "c", "d"]),
    "strange stages": lambda m, a: m["training"].update(stages=[{"name": "x", "run": "y", "validation": 0}]),
    "parameters that are none": lambda m, a: m.update(params=[1, 2]),
    "no format": lambda m, a: m.update(format_version=None),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_changed_file_is_refused(saved, change):
    rewrite(saved, change)
    assert "is damaged or was changed" in complaint(saved)


def test_the_wrong_class_is_named(saved):
    with pytest.raises(PartbayesError, match=r"holds a PartialBNNRegressor, not a PartialBNNClassifier"):
        PartialBNNClassifier.load(saved)


def test_a_network_that_is_not_asked_for(saved):
    assert "leave it out" in complaint(saved, network=mlp(3, (4,), 2))


def test_nothing_is_overwritten_when_writing_fails(regressor, saved, monkeypatch):
    before = saved.read_bytes()

    def no_space(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(PartbayesError, match="No space left on device"):
        regressor.save(saved)
    assert saved.read_bytes() == before
    assert [path.name for path in saved.parent.iterdir()] == [saved.name]  # no temporary file is left


def test_impossible_places(regressor, tmp_path):
    with pytest.raises(PartbayesError, match="does not exist"):
        regressor.save(tmp_path / "nowhere" / "model")
    with pytest.raises(PartbayesError, match="is a folder"):
        regressor.save(tmp_path)


def test_an_extra_that_is_no_json_writes_nothing(regressor, tmp_path):
    with pytest.raises(PartbayesError, match="JSON"):
        save_model(tmp_path / "model", regressor, {"table": object()})
    assert not any(tmp_path.iterdir())
