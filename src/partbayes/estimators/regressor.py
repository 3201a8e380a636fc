"""Regression with uncertainty: `PartialBNNRegressor`."""

from __future__ import annotations

import os
from numbers import Real
from typing import Any, Literal, Self, overload

import jax
import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight

from partbayes.data.scaler import Scaler
from partbayes.errors import PartbayesError
from partbayes.estimators.base import PartialBNN
from partbayes.estimators.rows import Rows
from partbayes.estimators.run import check_count
from partbayes.predict import GaussianMixture
from partbayes.runtime.resumable import Checkpoint

NOISES = {"heteroscedastic": "heteroscedastic", "learned": "learned", "sampled": "learned"}
"""What `noise=` may be called, and the likelihood's name for it."""


class PartialBNNRegressor(RegressorMixin, PartialBNN):
    """A partial Bayesian neural network for tables: predictions with standard deviations, intervals and quantiles.

    Inputs are whitened and targets standardised inside, and everything comes back in the target's own units. The
    defaults need no tuning from a hundred to a million rows.

    - `method`: "default" trains a deep ensemble, samples its stochastic layer (up to some thousand rows; beyond, more
      networks gain more) and refines the mixture (`partbayes.runtime.recipe`); or "ensemble" (only the first of these),
      "gohsmc", "ohsmc", "sgsmc", "smc_pbnn", "vi", "sghmc", "swag", "svgd", "map".
    - `proposal`: how particles move, for methods that leave it open: a name ("langevin", "hmc", "random_walk", "nuts",
      "nuts_adjusted", "chees", "second_order") or any `partbayes.smc` proposal.
    - `stochastic`: what is random: "first", "last", "all", path prefixes, or a predicate on (path, leaf).
    - `hidden`: widths of the hidden layers. `network`: one of your own in their place (Network, Equinox, Linen).
    - `islands`, `particles`: how many independent populations, and particles in each. The default may have others
      beside them in the end (`partbayes.runtime.overtraining`).
    - `noise`: "heteroscedastic" (depends on x), "learned" (one per target; the default training samples it with the
      stochastic layer), "sampled" (the same, sampled by every method), or a number in the target's units.
    - `prior_scale`: standard deviation of the prior of the stochastic parameters, or "fan_in".
    - `whiten`: turn the standardised inputs so that they no longer go together (`partbayes.data.whitening`).
    - `effort`: "quick", "standard" or "thorough"; `max_time` (seconds) ends training early; `epochs`, `batch_size` and
      `learning_rate` overrule what follows from the effort, and `recipe` any other number of the default training, by
      its name in `partbayes.runtime.recipe.Recipe`: `recipe={"leapfrog_steps": 50}`.
    - `validation_fraction`: share of the rows that picks the best state, islands' shares and parts, and the noise's
      shape and level (none below fifty distinct rows). A row that is there twice may be on both sides.
    - `random_state`, `verbose` (None: a progress bar where standard error is a terminal).

    After `fit`: `posterior_`, `stages_` (what was trained, with validation scores), `notes_` (what to know about it),
    `n_iter_` (epochs in all), `training_seconds_`, `x_scaler_`, `y_scaler_`, `y_limits_` (how far a component's
    mean may go, standardised), `n_features_in_`, `feature_names_in_`.
    """

    y_scaler_: Scaler
    _one_target: bool

    def __init__(
        self,
        method="default",
        *,
        proposal=None,
        stochastic="first",
        hidden=(50, 20),
        islands=None,
        particles=None,
        noise="heteroscedastic",
        prior_scale=1.0,
        whiten=True,
        network=None,
        effort="standard",
        max_time=None,
        epochs=None,
        batch_size=None,
        learning_rate=None,
        recipe=None,
        validation_fraction=0.1,
        random_state=None,
        verbose=None,
    ):
        self.method = method
        self.proposal = proposal
        self.stochastic = stochastic
        self.hidden = hidden
        self.islands = islands
        self.particles = particles
        self.noise = noise
        self.prior_scale = prior_scale
        self.whiten = whiten
        self.network = network
        self.effort = effort
        self.max_time = max_time
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.recipe = recipe
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        validation: tuple[Any, Any] | None = None,
        checkpoint: Checkpoint | str | os.PathLike[str] | None = None,
    ) -> Self:
        """Train on rows `X [N, features]` and targets `y [N]` or `[N, outputs]`.

        A row of weight two counts as two rows, one of which may be set aside for validation and one not; one of weight
        zero counts not at all. Where weights say how much a row matters, and not how often it is there, give numbers
        that are not all whole. `validation=(X_val, y_val)` takes the place of the rows that would be set aside.
        `checkpoint` saves the training as it goes, to be resumed.
        """
        options = {"multi_output": True, "y_numeric": True}
        x, targets = self._rows(X, y, ensure_min_samples=2, **options)
        weight = _check_sample_weight(sample_weight, x, dtype=np.float64, ensure_non_negative=True)
        rows = Rows(x, _columns(targets), weight)
        num_outputs = rows.y.shape[1]
        held_out = None
        if validation is not None:
            x_held, y_held = self._rows(*validation, reset=False, **options)
            held_out = Rows(x_held, _columns(y_held), np.ones(len(x_held)))
            if held_out.y.shape[1] != num_outputs:
                raise PartbayesError(
                    f"The validation targets have {held_out.y.shape[1]} columns, but those to train on {num_outputs}."
                )
        y_scaler = self._train(rows, held_out, checkpoint, num_outputs, self._noise)
        assert y_scaler is not None
        self.y_scaler_ = y_scaler
        self._one_target = np.ndim(targets) == 1
        return self

    @overload
    def predict(self, X: Any, return_std: Literal[False] = False) -> np.ndarray: ...
    @overload
    def predict(self, X: Any, return_std: Literal[True]) -> tuple[np.ndarray, np.ndarray]: ...
    def predict(self, X: Any, return_std: bool = False) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """The predictive mean `[N]` (`[N, outputs]` for several targets), and its standard deviation if asked for."""
        mean, std = self._over_chunks(_moments, X)
        mean = self._shaped(self.y_scaler_.inverse(mean))
        return (mean, self._shaped(std * self.y_scaler_.scale)) if return_std else mean

    def predict_interval(self, X: Any, level: float = 0.9) -> np.ndarray:
        """Lower and upper end of the central interval of probability `level`: `[N, 2]`, or `[N, outputs, 2]`."""
        if isinstance(level, bool) or not isinstance(level, Real) or not 0 < level < 1:
            raise PartbayesError(f"level is {level!r}, but a number strictly between 0 and 1 is expected, such as 0.9.")
        return self._ends(lambda mixture: np.stack(mixture.interval(float(level))), X)

    def predict_quantiles(self, X: Any, q: Any) -> np.ndarray:
        """Quantiles: `[N]` for one probability, `[N, len(q)]` for several (`[N, outputs, …]` for several targets)."""
        probabilities = np.asarray(q, np.float64)
        if probabilities.ndim > 1 or not np.all((probabilities > 0) & (probabilities < 1)):
            raise PartbayesError(f"q is {q!r}, but one or more numbers strictly between 0 and 1 are expected.")
        answer = self._ends(lambda mixture: mixture.quantile(np.atleast_1d(probabilities)), X)
        return answer[..., 0] if probabilities.ndim == 0 else answer

    def predict_dist(self, X: Any) -> GaussianMixture:
        """The whole predictive distribution at all rows, in the target's own units, `[N, outputs]`.

        It holds a mean and a standard deviation for every component, row and output: for millions of rows, go through
        them in parts.
        """
        mixture = self._whole(X)
        assert isinstance(mixture, GaussianMixture)
        return mixture.rescale(self.y_scaler_.mean, self.y_scaler_.scale)

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> np.ndarray:
        """Draws of y, `[N, n_samples]` or `[N, outputs, n_samples]`: each is one coherent function plus noise."""
        random = check_random_state(random_state)
        mixtures = self._mixtures(X)
        component = self._draw_components(check_count("n_samples", n_samples), random)
        parts = []
        for mixture, used in mixtures:
            loc, scale = (
                np.asarray(part)[component, :used].astype(np.float64) for part in (mixture.loc, mixture.scale)
            )
            parts.append(self.y_scaler_.inverse(loc + scale * random.standard_normal(loc.shape)))
        return self._shaped(np.moveaxis(np.concatenate(parts, axis=1), 0, -1))

    def _ends(self, function, X: Any) -> np.ndarray:
        """`[Q, rows, outputs]` of each chunk, to the target's units and with Q last."""
        answer = self._over_chunks(lambda mixture: np.swapaxes(function(mixture), 0, 1), X)
        return self._shaped(np.swapaxes(self.y_scaler_.inverse(answer), 1, 2))

    def _shaped(self, values: np.ndarray) -> np.ndarray:
        """Without the outputs' axis where y came without one."""
        return values[:, 0] if self._one_target else values

    def _noise(self, y_scaler: Scaler) -> str | tuple[float, ...]:
        noise: Any = self.noise
        if isinstance(noise, str) and noise in NOISES:
            return NOISES[noise]
        if isinstance(noise, bool) or not isinstance(noise, Real) or not 0 < float(noise) < np.inf:
            raise PartbayesError(
                f"noise is {noise!r}, but 'heteroscedastic', 'learned', 'sampled' or a positive number (in target "
                "units) is expected."
            )
        return tuple(float(noise / scale) for scale in y_scaler.scale)


@jax.jit
def _moments(mixture: GaussianMixture) -> tuple[jax.Array, jax.Array]:
    return mixture.mean(), mixture.std()


def _columns(y: np.ndarray) -> np.ndarray:
    y = np.asarray(y, np.float64)
    return y[:, None] if y.ndim == 1 else y
