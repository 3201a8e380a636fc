"""The demonstration: a shipped table, the default training, and predictions with uncertainty."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np

from partbayes.data import Splits, load, split
from partbayes.estimators import PartialBNNRegressor
from partbayes.predict import GaussianMixture, regression_metrics
from partbayes.report import save_overview
from partbayes.runtime.stages import Stage


class Demo(NamedTuple):
    """What there is to show, in the target's own units."""

    mixture: GaussianMixture
    splits: Splits
    metrics: dict[str, float]
    stages: list[Stage]
    notes: list[str]
    seconds: float
    picture: Path


def run_demo(picture: str | os.PathLike[str], *, seed: int = 0, progress: bool | None = None) -> Demo:
    """Concrete's compressive strength from its mixture: 618 rows to train on, 103 to be surprised by."""
    splits = split(load("concrete"), seed)
    train, validation, test = ((part.x, part.y[:, 0]) for part in splits)
    model = PartialBNNRegressor(random_state=seed, verbose=progress).fit(*train, validation=validation)
    mixture = model.predict_dist(test[0])
    truth = np.asarray(splits.test.y)
    file = save_overview(picture, mixture, truth, "compressive strength (MPa)")
    metrics = regression_metrics(mixture, truth)
    return Demo(mixture, splits, metrics, model.stages_, model.notes_, model.training_seconds_, file)
