"""The predictive of a regression: one Gaussian per particle and row, mixed with the particles' weights."""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.typing import ArrayLike

from partbayes.errors import PartbayesError
from partbayes.predict.quantile import normal_cdf, tail_quantiles
from partbayes.predict.weighting import average, log_average
from partbayes.types import Array, Key


class GaussianMixture(NamedTuple):
    r"""`p(y_n) = Σ_c w_c Π_d N(y_nd | loc_cnd, scale_cnd²)` for N rows and D outputs.

    C runs over islands × particles. Given its component a row's outputs are independent; the mixture couples them.
    `log_weights` is `[C]` and normalised; `loc` and `scale` (standard deviations) are `[C, N, D]`.
    A component of weight zero never contributes, whatever its `loc`: a dead particle may predict nan.

    Every method is pure and works on any subset of rows (`rows`); none builds more than a few `[C, N, D]` arrays.
    """

    log_weights: Array
    loc: Array
    scale: Array

    def rows(self, index: slice | ArrayLike) -> GaussianMixture:
        """The same mixture for some of the rows."""
        return GaussianMixture(self.log_weights, self.loc[:, index], self.scale[:, index])

    def rescale(self, mean: ArrayLike, scale: ArrayLike) -> GaussianMixture:
        """The mixture of `y * scale + mean`: from standardised targets to their own units (`scale > 0`, per output)."""
        mean, scale = jnp.asarray(mean, self.loc.dtype), jnp.asarray(scale, self.scale.dtype)
        return GaussianMixture(self.log_weights, self.loc * scale + mean, self.scale * scale)

    def mean(self) -> Array:
        """Mean, `[N, D]`."""
        reference = self._reference()
        return reference + average(self.log_weights, self.loc - reference)

    def epistemic_variance(self) -> Array:
        """Variance of the components' means, `[N, D]`: what the particles disagree about."""
        offset = self.loc - self._reference()
        return average(self.log_weights, (offset - average(self.log_weights, offset)) ** 2)

    def aleatoric_variance(self) -> Array:
        """Mean of the components' variances, `[N, D]`: the noise that every particle expects."""
        return average(self.log_weights, self.scale**2)

    def variance(self) -> Array:
        """Total variance, `[N, D]`: epistemic + aleatoric (law of total variance)."""
        return self.epistemic_variance() + self.aleatoric_variance()

    def std(self) -> Array:
        """Standard deviation, `[N, D]`."""
        return jnp.sqrt(self.variance())

    def log_prob(self, y: ArrayLike) -> Array:
        """Joint log density of each row's outputs, `[N, D] -> [N]`."""
        z = (self._target(y) - self.loc) / self.scale
        component = jnp.sum(-0.5 * z**2 - jnp.log(self.scale) - 0.5 * math.log(2 * math.pi), axis=-1)
        return log_average(self.log_weights, component)

    def cdf(self, y: ArrayLike) -> Array:
        """Marginal distribution function of each output, `[N, D] -> [N, D]`."""
        # The weights sum to one only up to rounding, and a probability above one breaks what is built on it.
        return jnp.minimum(average(self.log_weights, normal_cdf((self._target(y) - self.loc) / self.scale)), 1.0)

    def quantile(self, q: ArrayLike) -> Array:
        """Marginal quantiles: `[N, D]` for one probability, `[Q, N, D]` for a vector of them.

        The answer is exact to the spacing of the floating point numbers, for any mix of scales (see `tail_quantiles`).
        Where the distribution function is flat, it is some point of the flat stretch.
        """
        # Numbers that are known now keep their float64 digits until the smaller tail has been taken.
        probability: Array | np.ndarray = jnp.asarray(q) if isinstance(q, Tracer) else np.asarray(q, np.float64)
        if isinstance(probability, np.ndarray) and not np.all((probability >= 0) & (probability <= 1)):
            raise PartbayesError(f"Quantiles were asked for at {q}, but probabilities lie between 0 and 1.")
        if probability.ndim > 1:
            raise PartbayesError(f"Probabilities came with shape {probability.shape}: give one number or a vector.")
        upper = probability > 0.5
        answer = self._tail_quantiles(abs(probability - upper), upper)
        return answer[0] if probability.ndim == 0 else answer

    def interval(self, level: float) -> tuple[Array, Array]:
        """Lower and upper end of the central interval of probability `level`, each `[N, D]`."""
        if not 0 < level < 1:
            raise PartbayesError(f"The interval's level is {level}, but it must lie strictly between 0 and 1.")
        lower, upper = self._tail_quantiles(np.full(2, (1 - level) / 2), np.array([False, True]))
        return lower, upper

    def sample(self, key: Key, num: int) -> Array:
        """`num` joint draws, `[num, N, D]`: one component for all rows of a draw, then noise.

        So each draw is one coherent function plus noise. Draws made from row chunks are coherent when the key is the
        same for every chunk, but then the noise repeats as well: draw all rows at once where the noise matters.
        """
        key_component, key_noise = jax.random.split(key)
        component = jax.random.choice(key_component, self.loc.shape[0], (num,), p=jax.nn.softmax(self.log_weights))
        noise = jax.random.normal(key_noise, (num, *self.loc.shape[1:]), self.loc.dtype)
        return self.loc[component] + self.scale[component] * noise

    def _reference(self) -> Array:
        """The heaviest component's means: sums of differences from it lose no digits to a common offset."""
        return self.loc[jnp.argmax(self.log_weights)]

    def _target(self, y: ArrayLike) -> Array:
        if jnp.shape(y) != self.loc.shape[1:]:
            raise PartbayesError(
                f"y has shape {jnp.shape(y)}, but the mixture has (rows, outputs) = {self.loc.shape[1:]}: reshape y."
            )
        return jnp.asarray(y, self.loc.dtype)

    def _tail_quantiles(self, tail: ArrayLike, upper: ArrayLike) -> Array:
        tail = jnp.atleast_1d(jnp.asarray(tail, self.loc.dtype))
        return tail_quantiles(self.log_weights, self.loc, self.scale, tail, jnp.atleast_1d(upper))
