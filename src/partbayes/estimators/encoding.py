"""A fitted estimator as named arrays and JSON, and back. What comes back is checked before it is used."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import jax
import numpy as np

from partbayes._version import __version__
from partbayes.algorithm import Posterior
from partbayes.data.scaler import Scaler
from partbayes.data.whitening import Whitener
from partbayes.errors import PartbayesError
from partbayes.estimators.base import PartialBNN
from partbayes.estimators.classifier import PartialBNNClassifier
from partbayes.estimators.container import Damaged
from partbayes.estimators.networks import (
    ModelSpec,
    build_model,
    check_hidden,
    check_network,
    check_prior_scale,
    check_stochastic,
)
from partbayes.estimators.regressor import PartialBNNRegressor
from partbayes.model import Model, paths
from partbayes.runtime.stages import Stage
from partbayes.types import Tree

FORMAT_VERSION = 3
"""Version 1 had no whitening, and islands that all count equally; version 2 had no limits for means."""

ESTIMATORS: dict[str, type[PartialBNN]] = {
    "PartialBNNRegressor": PartialBNNRegressor,
    "PartialBNNClassifier": PartialBNNClassifier,
}

CLASS_TYPES = {"b": "bool", "i": "int64", "u": "int64", "f": "float64", "U": "str", "O": "object"}
"""How labels are written, by the kind of their array."""

CODE = ("network", "stochastic")
"""Parameters that predictions need and that may be code, which a file does not hold."""


def arrays_of(estimator: PartialBNN) -> dict[str, np.ndarray]:
    """All that was learned, by name."""
    posterior = estimator.posterior_
    arrays = {"log_weights": np.asarray(posterior.log_weights)}
    arrays |= _named("theta", posterior.theta) | _named("psi", posterior.psi)
    mean, scale, matrix = estimator.x_scaler_
    arrays |= _scaler_arrays("x_scaler", Scaler(mean, scale))
    if matrix is not None:
        arrays["x_scaler/matrix"] = matrix
    if isinstance(estimator, PartialBNNRegressor):
        arrays |= _scaler_arrays("y_scaler", estimator.y_scaler_)
        if estimator.y_limits_ is not None:
            arrays["y_limits"] = estimator.y_limits_
    return {name: np.ascontiguousarray(values) for name, values in arrays.items()}


def describe(estimator: PartialBNN, arrays: dict[str, np.ndarray], extra: dict[str, Any] | None) -> dict[str, Any]:
    spec = estimator._spec
    params = {name: _plain(value) for name, value in estimator.get_params(deep=False).items()}
    # Of what was fitted, not of what the parameters have been set to since.
    custom = {"network": spec.network is not None, "stochastic": callable(spec.stochastic)}
    code = [name for name in CODE if custom[name]]
    return {
        "format_version": FORMAT_VERSION,
        "package_version": __version__,
        "estimator": type(estimator).__name__,
        "params": {name: value for name, value in params.items() if value is not NotImplemented},
        "not_saved": sorted({*code, *(name for name in params if name not in CODE and params[name] is NotImplemented)}),
        "model": {
            "num_inputs": spec.num_inputs,
            "num_outputs": spec.num_outputs,
            "hidden": list(spec.hidden),
            "noise": _plain(spec.noise),
            "stochastic": None if callable(spec.stochastic) else _plain(spec.stochastic),
            "prior_scale": _plain(spec.prior_scale),
            "sample_noise": spec.sample_noise,
        },
        "schema": {
            "feature_names": _names(estimator),
            "classes": _labels(estimator.classes_) if isinstance(estimator, PartialBNNClassifier) else None,
            "one_target": estimator._one_target if isinstance(estimator, PartialBNNRegressor) else None,
            "arrays": {name: list(values.shape) for name, values in arrays.items()},
        },
        "preprocessing": {
            "x": "(x - x_scaler/mean) / x_scaler/scale"
            + ("" if estimator.x_scaler_.matrix is None else " @ x_scaler/matrix"),
            "y": "(y - y_scaler/mean) / y_scaler/scale" if isinstance(estimator, PartialBNNRegressor) else None,
        },
        "training": {
            "stages": [stage._asdict() | {"validation": _finite(stage.validation)} for stage in estimator.stages_],
            "notes": estimator.notes_,
            "n_iter": estimator.n_iter_,
            "seconds": estimator.training_seconds_,
        },
        "extra": {} if extra is None else extra,
    }


def restore(metadata: dict[str, Any], arrays: dict[str, np.ndarray], given: dict[str, Any]) -> PartialBNN:
    kind = ESTIMATORS.get(metadata["estimator"])
    if kind is None:
        raise Damaged(f"it names an unknown estimator, {metadata['estimator']!r}")
    schema, training = metadata["schema"], metadata["training"]
    shapes = {name: list(values.shape) for name, values in arrays.items()}
    if schema["arrays"] != shapes:
        raise Damaged("its arrays are not those that it lists")
    spec = _spec(metadata["model"], arrays, given)
    params = {name: tuple(v) if isinstance(v, list) else v for name, v in metadata["params"].items()}
    params |= {name: value for name, value in given.items() if value is not None}
    if metadata["format_version"] == 1:
        params["whiten"] = False
    estimator = kind(**{name: value for name, value in params.items() if name in kind._get_param_names()})
    estimator._spec = spec
    estimator.posterior_ = _posterior(build_model(spec), arrays)
    estimator.x_scaler_ = _whitener(arrays, spec.num_inputs)
    estimator.n_features_in_ = spec.num_inputs
    if schema["feature_names"] is not None:
        estimator.feature_names_in_ = _sized(np.array(schema["feature_names"], object), spec.num_inputs, "column names")
    if isinstance(estimator, PartialBNNRegressor):
        estimator.y_scaler_ = _scaler("y_scaler", arrays, spec.num_outputs)
        estimator.y_limits_ = _limits(arrays, spec.num_outputs)
        estimator._one_target = bool(schema["one_target"])
    elif isinstance(estimator, PartialBNNClassifier):
        labels = np.array(schema["classes"]["values"], _label_type(schema["classes"]["type"]))
        estimator.classes_ = _sized(labels, spec.num_outputs, "classes")
    stages = [stage | {"validation": _number(stage["validation"])} for stage in training["stages"]]
    estimator.stages_ = [Stage(**stage) for stage in stages]
    estimator.notes_ = [str(note) for note in training["notes"]]
    forgotten = [name for name in metadata["not_saved"] if name not in CODE]
    estimator.notes_ += [
        f"{name} was not in the file and is its default again: set it before a new fit." for name in forgotten
    ]
    estimator.n_iter_, estimator.training_seconds_ = int(training["n_iter"]), float(training["seconds"])
    return estimator


def _spec(model: dict[str, Any], arrays: dict[str, np.ndarray], given: dict[str, Any]) -> ModelSpec:
    num_inputs, num_outputs = int(model["num_inputs"]), int(model["num_outputs"])
    hidden, noise = check_hidden(model["hidden"]), model["noise"]
    # A network is built to learn its structure, so before that its size must be known to be the file's.
    weights = sum(a * b for a, b in pairwise((num_inputs, *hidden, num_outputs)))
    if given["network"] is None and weights > sum(values.size for values in arrays.values()):
        raise Damaged("its network is larger than the file")
    return ModelSpec(
        num_inputs,
        num_outputs,
        hidden,
        tuple(float(sigma) for sigma in noise) if isinstance(noise, list) else noise,
        check_stochastic(given["stochastic"] if given["stochastic"] is not None else model["stochastic"]),
        check_prior_scale(model["prior_scale"]),
        check_network(given["network"], num_inputs),
        bool(model["sample_noise"]),
    )


def _posterior(model: Model, arrays: dict[str, np.ndarray]) -> Posterior:
    """The model's own trees, filled from the file."""
    log_weights = arrays["log_weights"]
    if log_weights.ndim != 2 or log_weights.size == 0 or log_weights.dtype.kind != "f":
        raise Damaged("its weights are not [islands, particles]")
    if not np.isclose(np.exp(log_weights.astype(np.float64)).sum(axis=1).mean(), 1.0, atol=1e-3):  # nan is not close
        raise Damaged("its weights do not add up to one")
    theta, psi = jax.eval_shape(model.init, jax.random.key(0))

    def fill(tree: Tree, prefix: str, axes: tuple[int, ...]) -> Tree:
        leaves, structure = jax.tree.flatten(tree)
        found = [
            _array(arrays, f"{prefix}/{path}", (*axes, *leaf.shape))
            for path, leaf in zip(paths(tree), leaves, strict=True)
        ]
        return jax.tree.unflatten(structure, found)

    weights: Any = log_weights  # numpy here, as everything that an estimator keeps
    return Posterior(fill(theta, "theta", log_weights.shape), weights, fill(psi, "psi", log_weights.shape[:1]))


def _named(prefix: str, tree: Tree) -> dict[str, np.ndarray]:
    return {f"{prefix}/{path}": np.asarray(leaf) for path, leaf in zip(paths(tree), jax.tree.leaves(tree), strict=True)}


def _scaler_arrays(prefix: str, scaler: Scaler) -> dict[str, np.ndarray]:
    return {f"{prefix}/mean": scaler.mean, f"{prefix}/scale": scaler.scale}


def _scaler(prefix: str, arrays: dict[str, np.ndarray], columns: int) -> Scaler:
    mean, scale = (_array(arrays, f"{prefix}/{part}", (columns,)) for part in ("mean", "scale"))
    if not (np.isfinite(mean).all() and np.isfinite(scale).all() and (scale > 0).all()):
        raise Damaged(f"{prefix} is not a mean and a positive scale")
    return Scaler(mean, scale)


def _whitener(arrays: dict[str, np.ndarray], columns: int) -> Whitener:
    scaler, name = _scaler("x_scaler", arrays, columns), "x_scaler/matrix"
    return Whitener(*scaler, _array(arrays, name, (columns, columns)) if name in arrays else None)


def _limits(arrays: dict[str, np.ndarray], outputs: int) -> np.ndarray | None:
    if "y_limits" not in arrays:
        return None
    limits = _array(arrays, "y_limits", (2, outputs))
    if not (limits[0] < limits[1]).all():
        raise Damaged("its limits for means are not in order")
    return limits


def _array(arrays: dict[str, np.ndarray], name: str, shape: tuple[int, ...]) -> np.ndarray:
    if name not in arrays or arrays[name].shape != shape or arrays[name].dtype.kind != "f":
        found = f"{arrays[name].dtype} {arrays[name].shape}" if name in arrays else "missing"
        raise Damaged(f"the array {name} is {found}, not floats {shape}")
    if not np.isfinite(arrays[name]).all():
        raise Damaged(f"the array {name} holds values that are not finite")
    return arrays[name]


def _plain(value: Any) -> Any:
    """A JSON value, or NotImplemented for what cannot be one."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        items = [_plain(item) for item in value]
        return NotImplemented if any(item is NotImplemented for item in items) else items
    if isinstance(value, dict):
        items = {str(name): _plain(item) for name, item in value.items()}
        return NotImplemented if NotImplemented in items.values() else items
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return NotImplemented


def _names(estimator: PartialBNN) -> list[str] | None:
    names = getattr(estimator, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]


def _labels(classes: np.ndarray) -> dict[str, Any]:
    values = [_plain(label) for label in classes]
    if classes.dtype.kind not in CLASS_TYPES or any(value is NotImplemented for value in values):
        raise PartbayesError(
            f"The class labels are of type {classes.dtype}, but a file holds numbers and text only: encode them first."
        )
    return {"type": CLASS_TYPES[classes.dtype.kind], "values": values}


def _label_type(name: str) -> type:
    return {"bool": bool, "int64": np.int64, "float64": np.float64, "str": str, "object": object}[name]


def _sized(values: np.ndarray, count: int, what: str) -> np.ndarray:
    if values.shape != (count,):
        raise Damaged(f"it has {values.size} {what}, not {count}")
    return values


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _number(value: float | None) -> float:
    return float("nan") if value is None else float(value)
