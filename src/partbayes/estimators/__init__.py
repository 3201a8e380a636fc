"""Room 7: scikit-learn estimators, and their saved form."""

from partbayes.estimators.classifier import Entropy, PartialBNNClassifier
from partbayes.estimators.encoding import FORMAT_VERSION
from partbayes.estimators.files import load_model, save_model
from partbayes.estimators.regressor import PartialBNNRegressor

__all__ = [
    "FORMAT_VERSION",
    "Entropy",
    "PartialBNNClassifier",
    "PartialBNNRegressor",
    "load_model",
    "save_model",
]
