"""The predictive of a classification: one categorical per particle and row, mixed with the particles' weights."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.special import entr, logsumexp
from jax.typing import ArrayLike

from partbayes.errors import PartbayesError
from partbayes.predict.weighting import average, log_average
from partbayes.types import Array, Key


class CategoricalMixture(NamedTuple):
    """`p(y_n = k) = Σ_c w_c softmax(logits_cn)_k`; `log_weights` is `[C]` and normalised, `logits` `[C, N, classes]`.

    Entropies are in nats. A component of weight zero never contributes, whatever its logits.
    """

    log_weights: Array
    logits: Array

    def rows(self, index: slice | ArrayLike) -> CategoricalMixture:
        """The same mixture for some of the rows."""
        return CategoricalMixture(self.log_weights, self.logits[:, index])

    def probs(self) -> Array:
        """Class probabilities, `[N, classes]`."""
        return average(self.log_weights, jax.nn.softmax(self.logits, axis=-1))

    def log_prob(self, y: ArrayLike) -> Array:
        """Log probability of each row's class, integers `[N] -> [N]`."""
        y = jnp.asarray(y)
        if y.shape != self.logits.shape[1:2] or not jnp.issubdtype(y.dtype, jnp.integer):
            raise PartbayesError(
                f"y is {y.dtype} of shape {y.shape}, but the mixture needs integers of shape {self.logits.shape[1:2]}."
            )
        chosen = jnp.take_along_axis(self.logits, y[None, :, None], axis=-1)[..., 0]
        component = chosen - logsumexp(self.logits, axis=-1)
        return log_average(self.log_weights, component)

    def predict(self) -> Array:
        """Most probable class, `[N]`."""
        return jnp.argmax(self.probs(), axis=-1)

    def total_entropy(self) -> Array:
        """Entropy of the mixture, `[N]`."""
        return jnp.sum(entr(self.probs()), axis=-1)

    def aleatoric_entropy(self) -> Array:
        """Mean of the components' entropies, `[N]`: the ambiguity that every particle expects."""
        return jnp.sum(average(self.log_weights, entr(jax.nn.softmax(self.logits, axis=-1))), axis=-1)

    def epistemic_entropy(self) -> Array:
        """Mutual information between class and component, `[N]`: what the particles disagree about."""
        # Never negative in exact arithmetic (Jensen); rounding can make it so.
        return jnp.maximum(self.total_entropy() - self.aleatoric_entropy(), 0.0)

    def sample(self, key: Key, num: int) -> Array:
        """`num` joint draws of the classes, integers `[num, N]`: one component for all rows of a draw."""
        key_component, key_class = jax.random.split(key)
        component = jax.random.choice(key_component, self.logits.shape[0], (num,), p=jax.nn.softmax(self.log_weights))

        def draw(one: tuple[Array, Key]) -> Array:
            return jax.random.categorical(one[1], self.logits[one[0]])

        # One draw after another: all at once would need a [num, N, classes] array of noise.
        return jax.lax.map(draw, (component, jax.random.split(key_class, num)))
