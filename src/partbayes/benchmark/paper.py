"""One unit of the paper's table: a data set, a method and a seed become one line of metrics."""

from __future__ import annotations

import importlib.metadata
import platform
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from partbayes.algorithm import Algorithm
from partbayes.benchmark.lines import Line, grid
from partbayes.benchmark.methods import METHODS, climber
from partbayes.benchmark.settings import STANDARDISED_TARGETS, PaperSettings
from partbayes.data import DATASETS, as_batch, load, split, standardise
from partbayes.errors import PartbayesError
from partbayes.model import Model, gaussian, mlp, partial_bnn
from partbayes.predict import GaussianMixture, paper_metrics, regression_metrics
from partbayes.predict.predictive import predictive
from partbayes.runtime import fit
from partbayes.runtime.stages import from_point


def paper_units(datasets: list[str], methods: list[str], seeds: int, settings: PaperSettings) -> list[Line]:
    """The paper's table, and methods that it does not have."""
    units = grid("paper", (datasets, DATASETS), (methods, METHODS), seeds, {})
    for method in (name for name in methods if METHODS[name].warm_start):
        if settings.epochs < 2 or settings.particles % METHODS[method].islands:
            raise PartbayesError(
                f"{method} came with {settings.epochs} epochs and {settings.particles} particles, but needs two epochs "
                f"or more, and particles that {METHODS[method].islands} islands can share evenly."
            )
    return [unit | {"config": METHODS[unit["method"]].config(settings)} for unit in units]


def run_paper_unit(unit: Line, data_dir: str | Path | None = None, predictions: str | Path | None = None) -> Line:
    """Train on the seed's split, test at the best validation loss, in both forms of each metric.

    With `predictions`, the mixture and the truth of every test row go into a file in that folder, so that anybody can
    compute the metrics again.
    """
    settings = PaperSettings(**unit["config"])
    name = unit["dataset"]
    splits, _, _ = standardise(split(load(name, data_dir), unit["seed"]), targets=name in STANDARDISED_TARGETS)
    train, validation, test = (as_batch(part) for part in splits)
    num_data, num_inputs = train.x.shape
    built = _build(unit["method"], num_data, num_inputs, settings.first_layer(name), settings)
    options: dict[str, Any] = {
        "batch_size": settings.batch_size(name),
        "validation": validation,
        "islands": METHODS[unit["method"]].islands,
    }
    key, epochs, start, before = jax.random.key(unit["seed"]), settings.epochs, {}, (0.0, 0.0)
    if built.warm_start is not None:
        key, key_warm = jax.random.split(key)
        first, epochs = epochs - epochs // 2, epochs // 2
        warm = fit(key_warm, built.warm_start, built.model, train, num_epochs=first, **options)
        start, before = from_point(warm.posterior), (warm.seconds, warm.compile_seconds)
    result = fit(key, built.algorithm, built.model, train, num_epochs=epochs, **(options | start))
    model = built.model
    mixture = predictive(model, result.posterior, test.x)
    assert isinstance(mixture, GaussianMixture)
    target = np.asarray(splits.test.y)
    if predictions is not None:
        save_predictions(Path(predictions) / f"{name}-{unit['method']}-{unit['seed']}.npz", mixture, target)
    return {
        "metrics": {"paper": paper_metrics(mixture, target), "mixture": regression_metrics(mixture, target)},
        "best_epoch": int(result.run.best_epoch[0]),
        "ess": result.history[-1]["ess"],
        "num_train": num_data,
        "num_test": len(target),
        "seconds": round(before[0] + result.seconds, 3),
        "compile_seconds": round(before[1] + result.compile_seconds, 3),
        "versions": versions(),
    }


def save_predictions(file: Path, mixture: GaussianMixture, y: np.ndarray) -> None:
    """Arrays only (`numpy.load` needs no pickle): log_weights [C], loc and scale [C, N, D], y [N, D]."""
    file.parent.mkdir(parents=True, exist_ok=True)
    log_weights, loc, scale = (np.asarray(value) for value in mixture)
    np.savez_compressed(file, log_weights=log_weights, loc=loc, scale=scale, y=y)


def versions() -> dict[str, Any]:
    """What the numbers depend on."""
    packages = ("partbayes", "jax", "jaxlib", "optax", "numpy")
    return {name: importlib.metadata.version(name) for name in packages} | {"python": platform.python_version()}


class _Built(NamedTuple):
    model: Model
    algorithm: Algorithm
    warm_start: Algorithm | None


@lru_cache(maxsize=64)
def _build(method: str, num_data: int, num_inputs: int, width: int, settings: PaperSettings) -> _Built:
    """One model and algorithm per configuration, so that all seeds share one compilation."""
    likelihood = gaussian(1.0)
    model = partial_bnn(mlp(num_inputs, (width, settings.second_layer), likelihood.num_outputs), likelihood)
    warm_start = climber(model, num_data, settings) if METHODS[method].warm_start else None
    return _Built(model, METHODS[method].build(model, num_data, settings), warm_start)
