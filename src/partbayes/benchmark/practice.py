"""One unit of the practitioner's comparison: a table, a method and a seed become one line of probabilistic scores.

The protocol is that of the other presets: rows shuffled by the seed, 60 % training, 30 % validation, 10 % test, inputs
and targets standardised on the training part, scores in standardised units. Methods that can use a validation part get
it as such; nobody trains on it.
"""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from partbayes.benchmark.lines import Line, grid
from partbayes.benchmark.paper import versions
from partbayes.benchmark.rivals import RIVALS
from partbayes.benchmark.tables import TABLES, practice_table
from partbayes.data import Splits, split, standardise
from partbayes.errors import PartbayesError
from partbayes.estimators import PartialBNNClassifier, PartialBNNRegressor
from partbayes.predict import (
    CategoricalMixture,
    GaussianMixture,
    classification_metrics,
    regression_metrics,
    reliability_curve,
)
from partbayes.runtime.recipe import Recipe

MEMBERS = (20, 60, 80, 120, 160, 300, 600, 900, 1200)
"""Sizes of our deep ensembles."""

OURS: dict[str, dict[str, Any]] = {
    "default": {},
    "quick": {"effort": "quick"},
    "unwhitened": {"whiten": False},
    "one_noise": {"noise": "learned"},
    "last_layer": {"stochastic": "last"},
    "all_layers": {"stochastic": "all"},
    **{f"ensemble_{members}": {"method": "ensemble", "islands": members} for members in MEMBERS},
    **{
        f"ensemble_learned_{members}": {"method": "ensemble", "noise": "learned", "islands": members}
        for members in MEMBERS
    },
    "swag": {"method": "swag"},
    "vi": {"method": "vi"},
    # As many gradients (a random walk: densities) as the default's 20 leapfrog steps and the one before them.
    "langevin": {"recipe": {"leapfrog_steps": 1, "adaptation_steps": 1000, "sampling_steps": 1000}},
    "random_walk": {"recipe": {"leapfrog_steps": 0, "adaptation_steps": 1000, "sampling_steps": 1000}},
    "normal_noise": {"recipe": {"noise_shape": False}},
    "unrefined": {"recipe": {"refine": False}},
    "selected": {"recipe": {"overtrained": 0}},
    "temperature_1": {"recipe": {"temperature": 1.0}},
    "no_warm_start": {"epochs": 2},
    "sampled": {"recipe": {"keep": Recipe().keep}},  # on large tables, too: what it says is the default's own
    "one_island": {"islands": 1, "particles": 80, "recipe": {"overtrained": 40}},
    "eight_islands": {"islands": 8, "particles": 10, "recipe": {"overtrained": 40}},
    "eight_islands_smc": {"islands": 8, "particles": 10, "recipe": {"overtrained": 40, "weights": "forward"}},
}
"""The default, what it would be without one of its parts or with another in its place, our deep ensembles
(heteroscedastic, and with one noise level), and two baselines."""


def practice_units(datasets: list[str], methods: list[str], seeds: int) -> list[Line]:
    """Our estimator in several configurations, and other libraries."""
    return grid("practice", (datasets, TABLES), (methods, [*OURS, *RIVALS]), seeds, {})


def run_practice_unit(unit: Line, data_dir: str | Path | None = None) -> Line:
    """Train on the seed's training part, score on its test part."""
    splits, _, _ = standardise(split(practice_table(unit["dataset"], data_dir), unit["seed"]))
    started = time.perf_counter()
    run = _run_ours if unit["method"] in OURS else _run_rival
    outcome = run(unit["method"], splits, unit["seed"])
    return scored(splits, outcome, time.perf_counter() - started)


def scored(splits: Splits, outcome: Outcome, seconds: float) -> Line:
    """What a line says of an outcome."""
    return {
        "metrics": {"mixture": _scores(outcome.mixture, splits.test.y)},
        **_reliability(outcome.mixture, splits.test.y),
        "seconds": round(seconds, 3),
        "num_train": splits.train.num_data,
        "num_test": splits.test.num_data,
        "notes": outcome.notes,
        "stages": outcome.stages,
        "versions": versions(),
    }


class Outcome(NamedTuple):
    """A predictive for the test rows, and how it came about."""

    mixture: GaussianMixture | CategoricalMixture
    notes: list[str]
    stages: list[dict[str, Any]]


def _scores(mixture: GaussianMixture | CategoricalMixture, y: np.ndarray) -> dict[str, float]:
    if isinstance(mixture, CategoricalMixture):
        return classification_metrics(mixture, y)
    return regression_metrics(mixture, np.asarray(y, np.float64))


def _reliability(mixture: GaussianMixture | CategoricalMixture, y: np.ndarray) -> Line:
    """Of classes, what lines of several seeds are pooled by: a test part of a few rows has little to fill bins with."""
    if not isinstance(mixture, CategoricalMixture):
        return {}
    curve = reliability_curve(np.asarray(mixture.probs()), y)
    full = curve.count > 0
    columns = {"bin": np.flatnonzero(full)} | {name: values[full] for name, values in curve._asdict().items()}
    return {"reliability": {name: values.tolist() for name, values in columns.items()}}


def _run_ours(method: str, splits: Splits, seed: int) -> Outcome:
    classes = splits.train.is_classification
    options = {name: value for name, value in OURS[method].items() if not (classes and name == "noise")}
    kind = PartialBNNClassifier if classes else PartialBNNRegressor
    estimator = kind(random_state=seed, verbose=False, **options)
    train, validation = ((part.x, part.y if classes else part.y[:, 0]) for part in (splits.train, splits.validation))
    estimator.fit(*train, validation=validation)
    stages = [stage._asdict() | {"validation": _or_none(stage.validation)} for stage in estimator.stages_]
    return Outcome(estimator.predict_dist(splits.test.x), estimator.notes_, stages)


def _run_rival(method: str, splits: Splits, seed: int) -> Outcome:
    if splits.train.is_classification:
        raise PartbayesError(f"{method} is not set up for classes: use {', '.join(OURS)} on this table.")
    loc, scale = (jnp.asarray(values, float).reshape(1, -1, 1) for values in RIVALS[method](splits, seed))
    return Outcome(GaussianMixture(jnp.zeros(1), loc, scale), [], [])


def _or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None
