"""scikit-learn's own conformance checks: the whole list, none expected to fail.

All checks run with the quickest method. What could depend on the method (reproducibility, weights, chunks) runs once
more with the default training.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

from partbayes.estimators import PartialBNNClassifier, PartialBNNRegressor

SMALL = {"hidden": (16,), "islands": 2, "epochs": 100, "learning_rate": 0.03}
QUICKEST = {"method": "map", "batch_size": 512, **SMALL}  # whole tables: batches would be the costlier to compile
DEFAULT = {"effort": "quick", "particles": 2, "batch_size": 8, **SMALL}

DEPENDS_ON_THE_METHOD = {
    "check_sample_weight_equivalence_on_dense_data",
    "check_methods_subset_invariance",
    "check_methods_sample_order_invariance",
}


@parametrize_with_checks([PartialBNNRegressor(**QUICKEST), PartialBNNClassifier(**QUICKEST)])
def test_all_checks(estimator, check):
    check(estimator)


def chosen_checks() -> Iterator:
    for kind in (PartialBNNRegressor, PartialBNNClassifier):
        for estimator, check in estimator_checks_generator(kind(**DEFAULT)):
            name = check.func.__name__
            if name in DEPENDS_ON_THE_METHOD and not {"readonly_memmap", "X_dtype"} & set(check.keywords):
                yield pytest.param(estimator, check, id=f"{kind.__name__}-{name}")


@pytest.mark.parametrize(("estimator", "check"), chosen_checks())
def test_checks_with_the_default_training(estimator, check):
    check(estimator)


def test_no_chosen_check_has_been_renamed():
    assert {parameters.id.split("-")[1] for parameters in chosen_checks()} == DEPENDS_ON_THE_METHOD
