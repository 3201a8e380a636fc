"""Pictures of predictions: how close, how sure, and whether the sureness is earned."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from partbayes.errors import PartbayesError
from partbayes.predict import GaussianMixture, calibration_curve

BLUE, GREY = "#2a6fbb", "#8a8a8a"


def plot_predictions(axes: Axes, mixture: GaussianMixture, y: np.ndarray, label: str, level: float = 0.9) -> None:
    """Rows sorted by prediction: the mean, its central interval, and the truth."""
    mean = np.asarray(mixture.mean())[:, 0]
    lower, upper = (np.asarray(edge)[:, 0] for edge in mixture.interval(level))
    order = np.argsort(mean)
    rows = np.arange(len(order))
    inside = (y[:, 0] >= lower) & (y[:, 0] <= upper)
    axes.fill_between(rows, lower[order], upper[order], color=BLUE, alpha=0.2, lw=0, label=f"{level:.0%} interval")
    axes.plot(rows, mean[order], color=BLUE, lw=1.2, label="prediction")
    truth, covered = y[order, 0], inside[order]
    axes.plot(rows[covered], truth[covered], ".", color="black", ms=4, label="truth, inside")
    axes.plot(rows[~covered], truth[~covered], "x", color="#c0392b", ms=5, label="truth, outside")
    axes.set_xlabel("test rows, sorted by prediction")
    axes.set_ylabel(label)
    axes.set_title(f"{inside.mean():.0%} of the truths lie inside the {level:.0%} intervals", fontsize=10)
    axes.legend(frameon=False, fontsize=8, loc="upper left")


def plot_calibration(axes: Axes, mixture: GaussianMixture, y: np.ndarray) -> None:
    """Promised against observed coverage of central intervals; the diagonal is perfect."""
    levels = np.linspace(0.05, 0.95, 19)
    observed = np.asarray(calibration_curve(mixture, y, levels.tolist()))
    band = 2 * np.sqrt(levels * (1 - levels) / len(y))
    axes.fill_between(
        levels, levels - band, levels + band, color=GREY, alpha=0.2, lw=0, label="chance, two std. errors"
    )
    axes.plot([0, 1], [0, 1], color=GREY, lw=1)
    axes.plot(levels, observed, "o-", color=BLUE, ms=3, lw=1.2, label="observed")
    axes.set(xlabel="promised coverage", ylabel="observed coverage", xlim=(0, 1), ylim=(0, 1), aspect="equal")
    axes.set_title("calibration", fontsize=10)
    axes.legend(frameon=False, fontsize=8, loc="upper left")


def save_overview(path: str | os.PathLike[str], mixture: GaussianMixture, y: np.ndarray, label: str) -> Path:
    """Both pictures side by side, in the format that the file's ending asks for."""
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1.6, 1))
    plot_predictions(left, mixture, y, label)
    plot_calibration(right, mixture, y)
    file = Path(path)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(file, dpi=140)
    except (OSError, ValueError) as error:
        raise PartbayesError(
            f"The picture could not be written to {str(path)!r} ({error}): choose another file."
        ) from error
    return file
