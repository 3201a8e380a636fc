"""One unit of the practitioner's comparison: a table, a method and a seed become one line of probabilistic scores.

The protocol is that of the other presets: rows shuffled by the seed, 60 % training, 30 % validation, 10 % test, inputs
and targets standardised on the training part, scores in standardised units. Methods that can use a validation part get
it as such; nobody trains on it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from partbayes.benchmark.lines import Line
from partbayes.benchmark.paper import versions
from partbayes.benchmark.rivals import RIVALS
from partbayes.data import Dataset, Splits, deduplicate, load, split, standardise
from partbayes.data.sources import DATASETS
from partbayes.errors import PartbayesError
from partbayes.estimators import PartialBNNRegressor
from partbayes.predict import GaussianMixture, regression_metrics

DEDUPLICATED = {"wine_red_unique": "wine_red", "wine_white_unique": "wine_white"}
"""The wine tables repeat rows, so some test rows are training rows: here each row is there once."""


class Ours(NamedTuple):
    """A configuration of our own estimator."""

    options: dict[str, Any]


OURS: dict[str, Ours] = {
    "default": Ours({}),
    "quick": Ours({"effort": "quick"}),
    "ensemble": Ours({"method": "ensemble"}),
    "ensemble_learned": Ours({"method": "ensemble", "noise": "learned"}),
    "ensemble_large": Ours({"method": "ensemble", "islands": 50}),
    "ensemble_learned_large": Ours({"method": "ensemble", "noise": "learned", "islands": 50}),
    "swag": Ours({"method": "swag"}),
    "vi": Ours({"method": "vi"}),
}
"""The default, our deep ensembles (ten members, and fifty for about the default's time), and two baselines."""


def practice_tables() -> tuple[str, ...]:
    """All tables of this preset."""
    return (*DATASETS, *DEDUPLICATED)


def practice_units(datasets: list[str], methods: list[str], seeds: int) -> list[Line]:
    """The grid, seed by seed so that an unfinished one is balanced."""
    for kind, names, known in (("data set", datasets, practice_tables()), ("method", methods, [*OURS, *RIVALS])):
        for name in names:
            if name not in known:
                raise PartbayesError(f"There is no {kind} {name!r}: choose among {', '.join(known)}.")
    if seeds < 1:
        raise PartbayesError(f"{seeds} seeds were asked for, but at least one is needed.")
    return [
        {"preset": "practice", "dataset": dataset, "method": method, "seed": seed, "config": {}}
        for seed in range(seeds)
        for dataset in datasets
        for method in methods
    ]


def run_practice_unit(unit: Line, data_dir: str | Path | None = None) -> Line:
    """Train on the seed's training part, score on its test part."""
    splits, _, _ = standardise(split(practice_table(unit["dataset"], data_dir), unit["seed"]))
    started = time.perf_counter()
    run: Callable[[Splits, int], Outcome] = _run_ours(unit["method"]) if unit["method"] in OURS else _run_rival(unit)
    outcome = run(splits, unit["seed"])
    seconds = time.perf_counter() - started
    metrics = regression_metrics(outcome.mixture, np.asarray(splits.test.y, np.float64))
    return {
        "metrics": {"mixture": metrics},
        "seconds": round(seconds, 3),
        "num_train": splits.train.num_data,
        "num_test": splits.test.num_data,
        "notes": outcome.notes,
        "stages": outcome.stages,
        "versions": versions(),
    }


class Outcome(NamedTuple):
    """A predictive for the test rows, and how it came about."""

    mixture: GaussianMixture
    notes: list[str]
    stages: list[dict[str, Any]]


def practice_table(name: str, data_dir: str | Path | None = None) -> Dataset:
    """A table by its name in this preset."""
    if name in DEDUPLICATED:
        return deduplicate(load(DEDUPLICATED[name], data_dir))
    return load(name, data_dir)


def _run_ours(method: str) -> Callable[[Splits, int], Outcome]:
    def run(splits: Splits, seed: int) -> Outcome:
        estimator = PartialBNNRegressor(random_state=seed, verbose=False, **OURS[method].options)
        train, validation = ((part.x, part.y[:, 0]) for part in (splits.train, splits.validation))
        estimator.fit(*train, validation=validation)
        stages = [stage._asdict() | {"validation": _or_none(stage.validation)} for stage in estimator.stages_]
        return Outcome(estimator.predict_dist(splits.test.x), estimator.notes_, stages)

    return run


def _run_rival(unit: Line) -> Callable[[Splits, int], Outcome]:
    def run(splits: Splits, seed: int) -> Outcome:
        loc, scale = RIVALS[unit["method"]](splits, seed)
        loc, scale = (jnp.asarray(values, float).reshape(1, -1, 1) for values in (loc, scale))
        return Outcome(GaussianMixture(jnp.zeros(1), loc, scale), [], [])

    return run


def _or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None
