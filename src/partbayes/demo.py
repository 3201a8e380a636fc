"""The demonstration: a shipped table, GOHSMC on eight islands, and predictions with uncertainty."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
import optax

from partbayes import smc
from partbayes.data import Splits, as_batch, load, split, standardise, steps_per_epoch
from partbayes.model import gaussian, mlp, partial_bnn
from partbayes.predict import GaussianMixture, regression_metrics
from partbayes.predict.predictive import predictive
from partbayes.report import save_overview
from partbayes.runtime import fit
from partbayes.training import gohsmc

ISLANDS, PARTICLES, EPOCHS, BATCH_SIZE = 8, 16, 250, 50


class Demo(NamedTuple):
    """What there is to show, in the target's own units."""

    mixture: GaussianMixture
    splits: Splits
    metrics: dict[str, float]
    seconds: float
    picture: Path


def run_demo(picture: str | os.PathLike[str], *, seed: int = 0, progress: bool | None = None) -> Demo:
    """Concrete's compressive strength from its mixture: 618 rows to train on, 103 to be surprised by."""
    raw = split(load("concrete"), seed)
    splits, _, scaler = standardise(raw)
    train, validation, test = (as_batch(part) for part in splits)
    num_data, num_inputs = train.x.shape
    likelihood = gaussian("learned")
    model = partial_bnn(mlp(num_inputs, (50, 20), likelihood.num_outputs), likelihood)
    num_steps = EPOCHS * steps_per_epoch(num_data, BATCH_SIZE)
    algorithm = gohsmc(
        model,
        num_data,
        num_particles=PARTICLES,
        # A step well inside the noise of a standardised target: ε ∝ σ/√N, σ about a quarter.
        step_size=0.25 / math.sqrt(num_data),
        denominator="same_batch",
        resampler=smc.adaptive(smc.systematic()),
        optimiser=optax.adam(optax.cosine_decay_schedule(0.01, num_steps)),
    )
    result = fit(
        jax.random.key(seed),
        algorithm,
        model,
        train,
        num_epochs=EPOCHS,
        batch_size=BATCH_SIZE,
        validation=validation,
        islands=ISLANDS,
        progress=progress,
    )
    standardised = predictive(model, result.posterior, test.x)
    assert isinstance(standardised, GaussianMixture)
    mixture = standardised.rescale(scaler.mean, scaler.scale)
    truth = np.asarray(raw.test.y)
    file = save_overview(picture, mixture, truth, "compressive strength (MPa)")
    return Demo(mixture, raw, regression_metrics(mixture, truth), result.seconds, file)
