"""What both estimators share: from validated rows to a posterior, and from a posterior to chunks of predictions."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from itertools import chain
from numbers import Real
from typing import Any, Self, cast

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from partbayes.algorithm import Posterior
from partbayes.data.scaler import Scaler
from partbayes.data.whitening import Whitener
from partbayes.errors import PartbayesError
from partbayes.estimators.networks import (
    ModelSpec,
    build_model,
    check_hidden,
    check_network,
    check_prior_scale,
    check_stochastic,
)
from partbayes.estimators.predicting import chunks, over_chunks, target_limits
from partbayes.estimators.rows import Rows, as_batch, input_scaler, merge, seen_before, split, weighted_scaler
from partbayes.estimators.run import BY_RECIPE, Request, check_request, run
from partbayes.model import Model
from partbayes.predict import CategoricalMixture, GaussianMixture, without_idle
from partbayes.runtime.resumable import Checkpoint
from partbayes.runtime.stages import Stage
from partbayes.types import Tree

FLOATS = (np.float64, np.float32)
"""Input columns: float32 stays (half the memory), anything else becomes float64."""

MUCH = 0.5
"""Of the validation rows: repetitions beyond that are more likely to have been made than met with."""


class PartialBNN(BaseEstimator):
    """Training and chunked prediction. Subclasses know what y is, and have the parameters."""

    method: str
    proposal: Any
    stochastic: Any
    hidden: Any
    islands: int | None
    particles: int | None
    prior_scale: float | str
    whiten: bool
    network: Any
    effort: str
    max_time: float | None
    epochs: int | None
    batch_size: int | None
    learning_rate: float | None
    recipe: dict[str, Any] | None
    validation_fraction: float
    random_state: Any
    verbose: Any

    posterior_: Posterior
    x_scaler_: Whitener
    y_limits_: np.ndarray | None = None
    stages_: list[Stage]
    notes_: list[str]
    n_iter_: int
    training_seconds_: float
    n_features_in_: int
    feature_names_in_: np.ndarray
    _spec: ModelSpec

    def _train(
        self,
        rows: Rows,
        validation: Rows | None,
        checkpoint: Checkpoint | str | os.PathLike[str] | None,
        num_outputs: int,
        noise: Callable[[Scaler], str | tuple[float, ...]] | None,
    ) -> Scaler | None:
        """Set all learned attributes but those that only a subclass has; returns the targets' scaler, if any.

        `noise` turns that scaler into the model's noise; without it the rows hold class numbers.
        """
        request = check_request(Request(**{name: getattr(self, name) for name in Request._fields}))
        fraction = self._fraction()
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        light = 2 * np.sum(rows.weight) < np.sum(rows.weight > 0)
        rows = merge(rows)
        checkpoint = self._described(checkpoint, seed, [rows] if validation is None else [rows, validation])
        seen = 0.0
        if validation is None:
            rows, validation = split(rows, fraction, seed)
            seen = 0.0 if validation is None else seen_before(rows, validation)
        x_scaler = input_scaler(rows, self._whiten())
        y_scaler = None if noise is None else weighted_scaler(rows.y, rows.weight)
        spec = ModelSpec(
            num_inputs=rows.x.shape[1],
            num_outputs=num_outputs,
            hidden=check_hidden(self.hidden),
            noise=None if noise is None or y_scaler is None else noise(y_scaler),
            stochastic=check_stochastic(self.stochastic),
            prior_scale=check_prior_scale(self.prior_scale),
            network=check_network(self.network, rows.x.shape[1]),
            # The default moves θ with ψ held: a noise level in ψ would stay at what the warm start made of it.
            sample_noise=request.method in BY_RECIPE or getattr(self, "noise", None) == "sampled",
        )
        trained = run(
            jax.random.key(seed),
            build_model(spec),
            as_batch(rows, x_scaler, y_scaler),
            None if validation is None else as_batch(validation, x_scaler, y_scaler),
            request,
            checkpoint=checkpoint,
        )
        self._spec = spec
        self.x_scaler_ = x_scaler
        self.y_limits_ = None if y_scaler is None else target_limits(y_scaler.transform(rows.y))
        # numpy only: what is learned can be pickled, sent to another process and read without JAX.
        self.posterior_ = jax.tree.map(np.asarray, trained.posterior)
        self.stages_ = list(trained.stages)
        self.notes_ = list(trained.notes)
        if light:
            self.notes_.append(
                f"The weights add up to {np.sum(rows.weight):.3g} rows, fewer than half of those given: a weight "
                "counts rows, so scale relative weights to a mean of one."
            )
        if seen > MUCH:
            self.notes_.append(
                f"Of the rows set aside for validation {100 * seen:.0f} % repeat training rows: if new rows will not, "
                "pass validation rows of your own, or weights that are no whole numbers, which do not count rows."
            )
        self.n_iter_ = sum(stage.epochs for stage in trained.stages)
        self.training_seconds_ = float(trained.seconds)
        return y_scaler

    def _model(self) -> Model:
        return build_model(self._spec)

    def _inputs(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        return cast(np.ndarray, validate_data(self, X, dtype=FLOATS, reset=False))

    def _rows(self, X: Any, y: Any, **options: Any) -> tuple[np.ndarray, np.ndarray]:
        return cast(Any, validate_data(self, X, y, dtype=FLOATS, **options))

    def _over_chunks(self, function: Callable[[Any], Tree], X: Any) -> Tree:
        """`function(mixture)` in standardised units, chunk by chunk, joined along the rows."""
        x = self._inputs(X)
        outputs, limits = self._spec.num_outputs, self.y_limits_
        return over_chunks(function, self._model(), self.posterior_, self.x_scaler_, x, outputs, limits)

    def _mixtures(self, X: Any) -> Iterator[tuple[Any, int]]:
        """The mixture of each chunk, in standardised units, and how many of its rows count."""
        x = self._inputs(X)
        return chunks(self._model(), self.posterior_, self.x_scaler_, x, self._spec.num_outputs, self.y_limits_)

    def _whole(self, X: Any) -> GaussianMixture | CategoricalMixture:
        """One mixture over all rows, in standardised units."""
        parts = [mixture.rows(slice(used)) for mixture, used in self._mixtures(X)]
        per_row = zip(*(part[1:] for part in parts), strict=True)
        joined = (jnp.concatenate(fields, axis=1) for fields in per_row)
        return type(parts[0])(parts[0].log_weights, *joined)

    def _draw_components(self, num: int, random: np.random.RandomState) -> np.ndarray:
        """Which component each of `num` draws follows, `[num]`, islands by their shares."""
        pieces = without_idle(self.posterior_)
        weights = np.concatenate([np.exp(np.asarray(piece.log_weights, np.float64)).reshape(-1) for piece in pieces])
        return random.choice(weights.size, num, p=weights / weights.sum())

    def _fraction(self) -> float:
        fraction = self.validation_fraction
        if not isinstance(fraction, Real) or not 0 <= fraction < 1:
            raise PartbayesError(
                f"validation_fraction is {fraction!r}, but a number from 0 (no validation) to below 1 is expected."
            )
        return float(fraction)

    def _whiten(self) -> bool:
        if not isinstance(self.whiten, bool | np.bool_):
            raise PartbayesError(f"whiten is {self.whiten!r}, but True or False is expected.")
        return bool(self.whiten)

    def _described(
        self, checkpoint: Checkpoint | str | os.PathLike[str] | None, seed: int, data: list[Rows]
    ) -> Checkpoint | None:
        """The checkpoint with all that must be the same for a run to go on: settings, seed and rows."""
        if checkpoint is None:
            return None
        if not isinstance(checkpoint, Checkpoint):
            checkpoint = Checkpoint(checkpoint)
        digest = hashlib.sha256()
        for part in chain.from_iterable(data):
            digest.update(np.ascontiguousarray(part).tobytes())
        settings = {name: _text(value) for name, value in self.get_params(deep=False).items()}
        settings.pop("verbose")
        ours = {"estimator": type(self).__name__, **settings, "random_state": seed, "data": digest.hexdigest()}
        return checkpoint._replace(description={**checkpoint.description, **ours})

    def save(self, path: str | os.PathLike[str], extra: dict[str, Any] | None = None) -> None:
        """Write the fitted model to one file (see `partbayes.estimators.save_model`)."""
        from partbayes.estimators.files import save_model

        save_model(path, self, extra)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, network: Any = None, stochastic: Any = None) -> Self:
        """A model that `save` wrote. A network or predicate of your own is code, not in the file: pass it again."""
        from partbayes.estimators.files import load_model

        estimator, _ = load_model(path, network=network, stochastic=stochastic)
        if type(estimator) is not cls:
            raise PartbayesError(
                f"{os.fspath(path)!r} holds a {type(estimator).__name__}, not a {cls.__name__}: load it with "
                f"{type(estimator).__name__}.load."
            )
        return estimator


def _text(value: Any) -> str:
    """A setting as text that is the same in another process; code has only its name."""
    try:
        return json.dumps(value)
    except TypeError:
        return getattr(value, "__qualname__", type(value).__name__)
