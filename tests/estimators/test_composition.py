"""Inside scikit-learn's own machinery: pipelines, clones, searches, frames and pickles."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import VotingClassifier
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

import partbayes
from partbayes import smc
from partbayes.estimators import PartialBNNClassifier, PartialBNNRegressor
from partbayes.model import mlp


def test_the_estimators_are_found_at_the_top():
    assert partbayes.PartialBNNRegressor is PartialBNNRegressor
    assert partbayes.PartialBNNClassifier is PartialBNNClassifier
    with pytest.raises(AttributeError, match="PartialBNNTransformer"):
        _ = partbayes.PartialBNNTransformer


def test_pipeline(curve, quickest):
    pipeline = make_pipeline(PolynomialFeatures(2), PartialBNNRegressor(**quickest))
    pipeline.set_output(transform="pandas").fit(*curve, partialbnnregressor__sample_weight=np.ones(160))
    mean, std = pipeline.predict(curve.x, return_std=True)
    assert mean.shape == std.shape == (160,)
    assert "x0^2" in pipeline[-1].feature_names_in_


def test_wrappers(curve, blobs, quickest):
    logged = TransformedTargetRegressor(PartialBNNRegressor(**quickest), func=np.log, inverse_func=np.exp).fit(*curve)
    assert np.all(logged.predict(curve.x) > 0)
    votes = VotingClassifier([("a", PartialBNNClassifier(**quickest))], voting="soft").fit(*blobs)
    assert votes.predict_proba(blobs.x).shape == (120, 3)


def test_clones_are_unfitted_and_train_alike(curve, quickest):
    original = PartialBNNRegressor(**quickest).fit(*curve)
    copy = clone(original)
    assert not hasattr(copy, "posterior_")
    np.testing.assert_array_equal(copy.fit(*curve).predict(curve.x), original.predict(curve.x))


def test_clones_of_settings_that_are_code():
    network = mlp(3, (4,), 2)
    copy = clone(PartialBNNRegressor("gohsmc", stochastic=["network/layers/0"], network=network, proposal=smc.hmc(2)))
    assert copy.stochastic == ["network/layers/0"]
    assert copy.proposal.num_gradients == 3
    assert copy.network.apply.func is network.apply.func


def test_cross_validation(curve, quickest):
    scores = cross_val_score(PartialBNNRegressor(**{**quickest, "epochs": 200}), *curve, cv=2)
    assert scores.shape == (2,)
    assert np.all(scores > 0.3)


def test_grid_search_in_two_processes(blobs, quickest, monkeypatch):
    monkeypatch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")  # in the workers as here
    grid = {"hidden": [(4,), (8,)], "stochastic": ["first"]}
    search = GridSearchCV(PartialBNNClassifier(**quickest), grid, cv=2, n_jobs=2, error_score="raise")
    search.fit(*blobs)
    assert search.best_params_["hidden"] in grid["hidden"]
    assert search.best_estimator_.predict(blobs.x).shape == (120,)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames(curve, quickest, frame):
    columns = dict(zip("abc", curve.x.T, strict=True))
    x = frame(columns)
    model = PartialBNNRegressor(**quickest).fit(x, frame({"y": curve.y})["y"])
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    plain = PartialBNNRegressor(**quickest).fit(*curve)
    np.testing.assert_array_equal(model.predict(x), plain.predict(curve.x))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame({"c": curve.x[:, 2], "b": curve.x[:, 1], "a": curve.x[:, 0]}))


def test_pickle_keeps_everything(regressor, curve):
    again = pickle.loads(pickle.dumps(regressor))
    np.testing.assert_array_equal(again.predict(curve.x), regressor.predict(curve.x))
    assert again.stages_ == regressor.stages_
    assert again.get_params() == regressor.get_params()


def test_a_pickle_may_hold_a_network(curve, quickest):
    model = PartialBNNRegressor(**quickest, network=mlp(3, (4,), 2)).fit(*curve)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(curve.x), model.predict(curve.x))
