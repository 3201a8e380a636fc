"""Run a training as an estimator asks for it: the default recipe, or one method of the table."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from partbayes.errors import PartbayesError
from partbayes.estimators.methods import METHODS, STEPS, Plan, as_proposal, build_algorithm, make_plan
from partbayes.model import Model
from partbayes.runtime.recipe import Recipe, recipe_for, train
from partbayes.runtime.resumable import Checkpoint, check_folder
from partbayes.runtime.stages import Stages, Trained
from partbayes.types import Batch, Key

BY_RECIPE: dict[str, dict[str, Any]] = {"default": {}, "ensemble": {"sampling_steps": 0, "refine": False}}
"""Methods that follow the recipe, and what they change in it: a deep ensemble is its warm start alone."""


class Request(NamedTuple):
    """An estimator's parameters that say how to train, by their names there."""

    method: Any
    proposal: Any
    islands: Any
    particles: Any
    effort: Any
    max_time: Any
    epochs: Any
    batch_size: Any
    learning_rate: Any
    recipe: Any
    verbose: Any


def check_request(request: Request) -> Request:
    """Complain before training starts; numbers come back as Python's own."""
    if request.method not in (*BY_RECIPE, *METHODS):
        known = ", ".join((*BY_RECIPE, *METHODS))
        raise PartbayesError(f"method is {request.method!r}, but one of {known} is expected.")
    if request.effort not in STEPS:
        raise PartbayesError(f"effort is {request.effort!r}, but one of {', '.join(STEPS)} is expected.")
    if request.proposal is not None:
        as_proposal(request.proposal)
        if request.method in BY_RECIPE:
            raise PartbayesError(
                "A proposal was given, but the default training moves by its own: leave it out, or use method='gohsmc'."
            )
    _check_recipe(request)
    counts = {name: _count(name, getattr(request, name)) for name in ("islands", "particles", "epochs", "batch_size")}
    positive = {name: _positive(name, getattr(request, name)) for name in ("max_time", "learning_rate")}
    return request._replace(**counts, **positive)


def run(
    key: Key,
    model: Model,
    data: Batch,
    validation: Batch | None,
    request: Request,
    *,
    checkpoint: Checkpoint | None = None,
) -> Trained:
    """Train as requested; the posterior comes with its islands, the stages with their validation scores."""
    num_data = data.x.shape[0]
    if request.max_time is not None and checkpoint is not None and checkpoint.resume:
        raise PartbayesError(
            "A resumed training came with max_time, but where a time limit ends it cannot be repeated: leave one out."
        )
    overrules = {name: getattr(request, name) for name in ("islands", "particles", "epochs", "batch_size")}
    overrules["learning_rate"] = request.learning_rate
    options: dict[str, Any] = {
        "max_time": request.max_time,
        "progress": None if request.verbose is None else bool(request.verbose),
        "checkpoint": checkpoint,
    }
    if request.method in BY_RECIPE:
        changes = {**(request.recipe or {}), **BY_RECIPE[request.method]}
        classes = bool(np.issubdtype(data.y.dtype, np.integer))
        recipe = recipe_for(request.effort, num_data, classes=classes, **overrules, **changes)
        return train(key, model, data, validation, recipe, **options)
    plan = make_plan(request.method, request.effort, num_data, proposal=request.proposal, **overrules)
    return _train_by(plan, key, model, data, validation, **options)


def _train_by(
    plan: Plan,
    key: Key,
    model: Model,
    data: Batch,
    validation: Batch | None,
    *,
    max_time: float | None,
    progress: bool | None,
    checkpoint: Checkpoint | None,
) -> Trained:
    """One stage of one method."""
    check_folder(checkpoint, [plan.method])
    stages = Stages(data, validation, max_time, progress, checkpoint)
    result = stages.run(
        plan.method,
        key,
        build_algorithm(model, plan),
        model,
        plan.epochs,
        validate=not METHODS[plan.method].keep_last,
        batch_size=plan.batch_size,
        islands=plan.islands,
    )
    return stages.finish(result.posterior)


def _check_recipe(request: Request) -> None:
    if request.recipe is None:
        return
    if request.method not in BY_RECIPE:
        raise PartbayesError(f"A recipe was given, but method {request.method!r} follows none: leave it out.")
    # What the estimator has a parameter for is said there.
    known = [name for name in Recipe._fields if name not in Request._fields]
    if not isinstance(request.recipe, dict) or not set(request.recipe) <= set(known):
        raise PartbayesError(f"recipe is {request.recipe!r}, but a dict with some of {', '.join(known)} is expected.")
    recipe_for("standard", 1, particles=request.particles, **request.recipe)


def check_count(name: str, value: Any) -> int:
    """A whole number of at least one."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise PartbayesError(f"{name} is {value!r}, but a whole number of at least 1 is expected.")
    return int(value)


def _count(name: str, value: Any) -> int | None:
    return None if value is None else check_count(name, value)


def _positive(name: str, value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < math.inf:
        raise PartbayesError(f"{name} is {value!r}, but a positive number is expected.")
    return float(value)
