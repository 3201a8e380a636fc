"""Room 6: the predictive mixture, its scores and its calibration."""

from __future__ import annotations

from partbayes.predict.calibration import (
    ReliabilityCurve,
    calibration_curve,
    calibration_error,
    coverage,
    expected_calibration_error,
    pit,
    reliability_curve,
)
from partbayes.predict.categorical import CategoricalMixture
from partbayes.predict.crps import crps
from partbayes.predict.metrics import classification_metrics, paper_metrics, regression_metrics
from partbayes.predict.mixture import GaussianMixture
from partbayes.predict.predictive import predictive, without_idle

__all__ = [
    "CategoricalMixture",
    "GaussianMixture",
    "ReliabilityCurve",
    "calibration_curve",
    "calibration_error",
    "classification_metrics",
    "coverage",
    "crps",
    "expected_calibration_error",
    "paper_metrics",
    "pit",
    "predictive",
    "regression_metrics",
    "reliability_curve",
    "without_idle",
]
