"""Classification with uncertainty: `PartialBNNClassifier`."""

from __future__ import annotations

import os
from typing import Any, NamedTuple, Self

import jax
import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight

from partbayes.errors import PartbayesError
from partbayes.estimators.base import PartialBNN
from partbayes.estimators.rows import Rows
from partbayes.estimators.run import check_count
from partbayes.predict import CategoricalMixture
from partbayes.runtime.resumable import Checkpoint


class Entropy(NamedTuple):
    """Of each row's class, in nats, `[N]`: total = epistemic (more data would settle it) + aleatoric (it would not)."""

    total: np.ndarray
    epistemic: np.ndarray
    aleatoric: np.ndarray


class PartialBNNClassifier(ClassifierMixin, PartialBNN):
    """A partial Bayesian neural network for tables with classes: probabilities, and where their uncertainty is from.

    Parameters are those of `PartialBNNRegressor`, without `noise`, and inputs are standardised unless `whiten=True`.
    After `fit` there is `classes_` besides.
    """

    classes_: np.ndarray

    def __init__(
        self,
        method="default",
        *,
        proposal=None,
        stochastic="first",
        hidden=(50, 20),
        islands=None,
        particles=None,
        prior_scale=1.0,
        whiten=False,
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

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        validation: tuple[Any, Any] | None = None,
        checkpoint: Checkpoint | str | os.PathLike[str] | None = None,
    ) -> Self:
        """Train on rows `X [N, features]` and labels `y [N]` of any kind.

        A row of weight two counts as two rows, one of which may be set aside for validation and one not; one of weight
        zero counts not at all: a class that only such rows have is unknown. Where weights say how much a row matters,
        and not how often it is there, give numbers that are not all whole. `validation=(X_val, y_val)` takes the place
        of the rows that would be set aside. `checkpoint` saves the training as it goes, to be resumed.
        """
        x, labels = self._rows(X, y, ensure_min_samples=2)
        check_classification_targets(labels)
        weight = _check_sample_weight(sample_weight, x, dtype=np.float64, ensure_non_negative=True)
        classes, numbers = np.unique(labels[weight > 0], return_inverse=True)
        if len(classes) < 2:
            raise PartbayesError(
                f"y has one class, {classes[0]!r}, in the rows that count, but at least two are needed to tell apart."
            )
        rows = Rows(x[weight > 0], numbers, weight[weight > 0])
        held_out = None if validation is None else self._held_out(*validation, classes)
        self._train(rows, held_out, checkpoint, len(classes), None)
        self.classes_ = classes
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of each row, `[N]`."""
        probabilities = self.predict_proba(X)
        return self.classes_[np.argmax(probabilities, axis=1)]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Class probabilities `[N, classes]`, in the order of `classes_`."""
        probabilities = self._over_chunks(_probs, X).astype(np.float64)
        return probabilities / np.sum(probabilities, axis=1, keepdims=True)

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of the class probabilities."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def predict_entropy(self, X: Any) -> Entropy:
        """How uncertain each row's class is, and how much of that is due to what the particles disagree about."""
        return Entropy(*(part.astype(np.float64) for part in self._over_chunks(_entropies, X)))

    def predict_dist(self, X: Any) -> CategoricalMixture:
        """The whole predictive distribution at all rows; its classes are numbered as in `classes_`."""
        mixture = self._whole(X)
        assert isinstance(mixture, CategoricalMixture)
        return mixture

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> np.ndarray:
        """Draws of the class, `[N, n_samples]`: each follows one particle at all rows."""
        random = check_random_state(random_state)
        mixtures = self._mixtures(X)
        component = self._draw_components(check_count("n_samples", n_samples), random)
        parts = []
        for mixture, used in mixtures:
            logits = np.asarray(mixture.logits)[component, :used].astype(np.float64)
            # The largest of logits + Gumbel noise is a draw from their softmax.
            parts.append(np.argmax(logits + random.gumbel(size=logits.shape), axis=-1))
        return self.classes_[np.concatenate(parts, axis=1).T]

    def _held_out(self, X: Any, y: Any, classes: np.ndarray) -> Rows:
        x, labels = self._rows(X, y, reset=False)
        known = np.isin(labels, classes)
        if not known.all():
            raise PartbayesError(
                f"The validation labels have {labels[~known][0]!r}, which no training row has: leave such rows out."
            )
        return Rows(x, np.asarray(np.searchsorted(classes, labels)), np.ones(len(x)))


@jax.jit
def _probs(mixture: CategoricalMixture) -> jax.Array:
    return mixture.probs()


@jax.jit
def _entropies(mixture: CategoricalMixture) -> tuple[jax.Array, jax.Array, jax.Array]:
    return mixture.total_entropy(), mixture.epistemic_entropy(), mixture.aleatoric_entropy()
