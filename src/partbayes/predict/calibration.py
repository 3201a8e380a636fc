"""Do the stated probabilities come true? PIT and central coverage for regression, reliability for classification."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np

from partbayes.errors import PartbayesError
from partbayes.predict.host import class_target, over_rows, real_target
from partbayes.predict.mixture import GaussianMixture

LEVELS = tuple(np.linspace(0.05, 0.95, 19).tolist())
"""Nominal levels at which calibration is checked: 5 %, 10 %, … 95 %."""

_cdf = jax.jit(GaussianMixture.cdf)


def pit(mixture: GaussianMixture, y: np.ndarray) -> np.ndarray:
    """Probability integral transform F(y), `[N, D]`: uniform on (0, 1) if the predictive is the truth."""
    return over_rows(_cdf, mixture, real_target(mixture, y))


def central_coverage(transform: np.ndarray, levels: Sequence[float]) -> np.ndarray:
    """From PIT values to the fraction of them inside each central interval, `[L]`.

    y lies in the central interval of level p exactly when |F(y) − ½| ≤ p/2, so one transform serves all levels.
    """
    grid = np.asarray(levels, np.float64)
    if grid.ndim != 1 or grid.size == 0 or not np.all((grid > 0) & (grid < 1)):
        raise PartbayesError(f"Levels are {levels}: give a list of numbers strictly between 0 and 1.")
    return np.array([np.mean(np.abs(transform - 0.5) <= level / 2) for level in grid])


def coverage(mixture: GaussianMixture, y: np.ndarray, level: float) -> float:
    """Fraction of targets inside the central interval of probability `level`, over rows and outputs."""
    return float(central_coverage(pit(mixture, y), [level])[0])


def calibration_curve(mixture: GaussianMixture, y: np.ndarray, levels: Sequence[float] = LEVELS) -> np.ndarray:
    """Empirical coverage at each nominal level, `[L]`: on the diagonal if calibrated."""
    return central_coverage(pit(mixture, y), levels)


def calibration_error(mixture: GaussianMixture, y: np.ndarray, levels: Sequence[float] = LEVELS) -> float:
    """Mean absolute difference between nominal and empirical central coverage over the levels."""
    return float(np.mean(np.abs(calibration_curve(mixture, y, levels) - np.asarray(levels))))


class ReliabilityCurve(NamedTuple):
    """Per bin of the top label's probability; `confidence` and `accuracy` are nan in an empty bin."""

    confidence: np.ndarray
    accuracy: np.ndarray
    count: np.ndarray


def reliability_curve(probs: np.ndarray, y: np.ndarray, bins: int = 15) -> ReliabilityCurve:
    """Mean confidence and accuracy of the top label in `bins` bins of equal width, (0, 1/bins], …; each `[bins]`."""
    probs = np.asarray(probs, np.float64)
    if probs.ndim != 2:
        raise PartbayesError(f"probs has shape {probs.shape}, but (rows, classes) is needed.")
    y = class_target(y, *probs.shape)
    confidence = probs.max(axis=-1)
    correct = probs.argmax(axis=-1) == y
    # Clipped: a sum of weights can round to just above one.
    which = np.clip(np.digitize(confidence, np.linspace(0, 1, bins + 1), right=True) - 1, 0, bins - 1)
    count = np.bincount(which, minlength=bins)
    with np.errstate(invalid="ignore"):
        return ReliabilityCurve(
            np.bincount(which, confidence, bins) / count, np.bincount(which, correct, bins) / count, count
        )


def expected_calibration_error(probs: np.ndarray, y: np.ndarray, bins: int = 15) -> float:
    """Σ_b (n_b / N) |accuracy_b − confidence_b| of the top label, over bins of equal width."""
    curve = reliability_curve(probs, y, bins)
    full = curve.count > 0
    gap = np.abs(curve.accuracy[full] - curve.confidence[full])
    return float(np.sum(curve.count[full] * gap) / np.sum(curve.count))
