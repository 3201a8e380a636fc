"""The predictive of a regression: one Gaussian per particle and row, mixed with the particles' weights."""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtri
from jax.typing import ArrayLike

from partbayes.errors import PartbayesError
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
        return jnp.minimum(average(self.log_weights, _normal_cdf((self._target(y) - self.loc) / self.scale)), 1.0)

    def quantile(self, q: ArrayLike) -> Array:
        """Marginal quantiles: `[N, D]` for one probability, `[Q, N, D]` for a vector of them.

        The answer is exact to the spacing of the floating point numbers (bisection over their ordered bit patterns,
        see `_tail_quantile`). Where the distribution function is flat, it is the left end of the flat stretch.
        """
        if not isinstance(q, jax.core.Tracer):
            q = np.asarray(q, np.float64)
            if not np.all((q >= 0) & (q <= 1)):
                raise PartbayesError(f"Quantiles were asked for at {q}, but probabilities lie between 0 and 1.")
        if q.ndim > 1:
            raise PartbayesError(f"Probabilities came with shape {q.shape}: give one number or a vector of them.")
        # Work with the smaller tail: near one, neither q nor the distribution function has digits left.
        upper = q > 0.5
        tail = jnp.asarray(abs(upper - q), self.loc.dtype)
        if q.ndim == 0:
            return self._tail_quantile(tail, upper)
        return jax.lax.map(lambda one: self._tail_quantile(*one), (tail, jnp.asarray(upper)))

    def interval(self, level: float) -> tuple[Array, Array]:
        """Lower and upper end of the central interval of probability `level`, each `[N, D]`."""
        if not 0 < level < 1:
            raise PartbayesError(f"The interval's level is {level}, but it must lie strictly between 0 and 1.")
        tail = jnp.asarray((1 - level) / 2, self.loc.dtype)
        return self._tail_quantile(tail, False), self._tail_quantile(tail, True)

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

    def _tail_quantile(self, tail: Array, upper: Array | bool) -> Array:
        """The point with probability `tail` below it, or above it where `upper`.

        Bracketed by the components' own quantiles. Bisecting the bit patterns rather than the values takes at most
        as many steps as a number has bits, and is as exact around 1e-6 as around 1e3.
        """
        sign = jnp.where(upper, -1, 1).astype(self.loc.dtype)
        alive = (jax.nn.softmax(self.log_weights) > 0)[:, None, None]
        component = self.loc + sign * self.scale * ndtri(tail)
        low = jnp.min(jnp.where(alive, component, jnp.inf), axis=0)
        high = jnp.max(jnp.where(alive, component, -jnp.inf), axis=0)

        def too_low(x: Array) -> Array:
            mass = average(self.log_weights, _normal_cdf(sign * (x - self.loc) / self.scale))
            return jnp.where(upper, mass > tail, mass < tail)

        def halve(bracket: tuple[Array, Array]) -> tuple[Array, Array]:
            low, high = bracket
            middle = _middle(low, high)
            right = too_low(_from_ordered(middle, self.loc.dtype))
            return jnp.where(right, middle, low), jnp.where(right, high, middle)

        def unfinished(bracket: tuple[Array, Array]) -> Array:
            return jnp.any(_middle(*bracket) > bracket[0])

        _, answer = jax.lax.while_loop(unfinished, halve, (_to_ordered(low), _to_ordered(high)))
        return jnp.where(jnp.isnan(low + high), jnp.nan, _from_ordered(answer, self.loc.dtype))


def _normal_cdf(z: Array) -> Array:
    # As exact as `jax.scipy.special.ndtr`, in the far left tail too, and five times faster in float64.
    return 0.5 * jax.lax.erfc(-math.sqrt(0.5) * z)


def _middle(low: Array, high: Array) -> Array:
    """Floor of the mean of two integers, without overflow."""
    return (low & high) + ((low ^ high) >> 1)


def _flip_negative(bits: Array) -> Array:
    # Negative floats are ordered backwards by their bit pattern; flipping all bits but the sign repairs that.
    return bits ^ ((bits >> (jnp.iinfo(bits.dtype).bits - 1)) & jnp.iinfo(bits.dtype).max)


def _to_ordered(x: Array) -> Array:
    """Integers in the same order as the floats, neighbours next to each other."""
    return _flip_negative(jax.lax.bitcast_convert_type(x, jnp.dtype(f"int{8 * x.dtype.itemsize}")))


def _from_ordered(integers: Array, dtype: jnp.dtype) -> Array:
    return jax.lax.bitcast_convert_type(_flip_negative(integers), dtype)
