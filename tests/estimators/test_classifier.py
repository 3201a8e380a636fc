"""Classification: probabilities, labels of any kind, and where the uncertainty is from."""

from __future__ import annotations

import numpy as np
import pytest

from partbayes.errors import PartbayesError
from partbayes.estimators import PartialBNNClassifier, PartialBNNRegressor
from partbayes.estimators import run as running
from partbayes.runtime.recipe import OF_CLASSES


def test_it_tells_the_classes_apart(classifier, blobs):
    assert list(classifier.classes_) == ["ash", "oak", "yew"]
    assert classifier.score(*blobs) > 0.9
    probabilities = classifier.predict_proba(blobs.x)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_array_equal(classifier.predict(blobs.x), classifier.classes_[probabilities.argmax(axis=1)])
    np.testing.assert_allclose(classifier.predict_log_proba(blobs.x), np.log(probabilities))
    np.testing.assert_allclose(classifier.predict_dist(blobs.x).probs(), probabilities, atol=1e-6)


def test_entropy_has_its_two_parts(classifier, blobs):
    total, epistemic, aleatoric = classifier.predict_entropy(blobs.x)
    np.testing.assert_allclose(total, epistemic + aleatoric, atol=1e-6)
    probabilities = classifier.predict_proba(blobs.x)
    np.testing.assert_allclose(total, -np.sum(probabilities * np.log(probabilities), axis=1), atol=1e-5)
    between = classifier.predict_entropy(np.array([[2.0, 0.0]])).total
    assert between > np.median(total)


def test_draws_follow_the_probabilities(classifier, blobs):
    x = blobs.x[:2]
    draws = classifier.sample_y(x, 4000)
    assert draws.shape == (2, 4000)
    share = np.stack([(draws == name).mean(axis=1) for name in classifier.classes_], axis=1)
    np.testing.assert_allclose(share, classifier.predict_proba(x), atol=5 * 0.5 / np.sqrt(4000))  # 5 standard errors


@pytest.mark.parametrize("labels", [np.array([False, True]), np.array([-1.0, 2.0]), np.array(["x", "y"], object)])
def test_labels_of_any_kind(blobs, quickest, labels):
    y = labels[np.arange(120) % 2]
    model = PartialBNNClassifier(**quickest).fit(blobs.x, y)
    assert model.classes_.dtype == labels.dtype
    np.testing.assert_array_equal(model.classes_, labels)
    assert set(model.predict(blobs.x)) <= set(labels)


def test_a_class_of_one_row_trains(blobs, quickest):
    y = blobs.y.copy()
    y[y == "yew"] = "oak"
    y[7] = "yew"
    model = PartialBNNClassifier(**quickest, validation_fraction=0.5).fit(blobs.x, y)
    assert model.predict_proba(blobs.x).shape == (120, 3)


def test_one_class_is_refused(blobs):
    with pytest.raises(PartbayesError, match="one class"):
        PartialBNNClassifier().fit(blobs.x, np.full(120, "ash"))


def test_an_unknown_validation_label_is_named(blobs, quickest):
    with pytest.raises(PartbayesError, match="'elm'"):
        PartialBNNClassifier(**quickest).fit(*blobs, validation=(blobs.x[:2], ["ash", "elm"]))
    model = PartialBNNClassifier(**quickest).fit(*blobs, validation=(blobs.x[:9], blobs.y[:9]))
    assert np.isfinite(model.stages_[0].validation)


def test_only_classes_are_sampled_cold(blobs, monkeypatch):
    temperatures = []

    def note(key, model, data, validation, recipe, **options):
        temperatures.append(recipe.temperature)
        raise KeyboardInterrupt  # no need to train

    monkeypatch.setattr(running, "train", note)
    numbers = np.arange(120) % 3
    own = {"recipe": {"temperature": 0.5}}
    for estimator in (PartialBNNClassifier(), PartialBNNClassifier(**own), PartialBNNRegressor()):
        with pytest.raises(KeyboardInterrupt):
            estimator.fit(blobs.x, numbers)
    assert temperatures == [OF_CLASSES, 0.5, 1.0]
