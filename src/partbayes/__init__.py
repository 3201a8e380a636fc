"""Partial Bayesian neural networks trained with sequential Monte Carlo.

Some parameters of a network are random (θ), the rest are fitted (ψ): any subset of any JAX parameter tree may be
random. Training ends in weighted particles of θ with the ψ that belongs to them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from partbayes._version import __version__

if TYPE_CHECKING:
    from partbayes.estimators import PartialBNNClassifier, PartialBNNRegressor

__all__ = ["PartialBNNClassifier", "PartialBNNRegressor", "__version__"]


def __getattr__(name: str) -> Any:
    """The estimators, imported when first asked for: they need scikit-learn, which the rest does not."""
    if name in ("PartialBNNClassifier", "PartialBNNRegressor"):
        return getattr(import_module("partbayes.estimators"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
