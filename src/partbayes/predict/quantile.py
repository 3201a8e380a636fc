"""Quantiles of Gaussian mixtures, exact to the spacing of the floating point numbers, for any mix of scales."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jax.scipy.special import ndtri

from partbayes.predict.weighting import average
from partbayes.types import Array


# Compiled here, once per shape: an eager loop would be compiled anew at every call (0.2 s each).
@jax.jit
def tail_quantiles(log_weights: Array, loc: Array, scale: Array, tail: Array, upper: Array) -> Array:
    """The points with probability `tail [Q]` below them, or above them where `upper [Q]`: `[Q, N, D]`.

    Given as the smaller tail, because near one neither a probability nor a distribution function has digits left.

    The bracket is that of the components' own quantiles. Bisecting the bit patterns rather than the values takes at
    most as many steps as a number has bits, and is as exact around 1e-6 as around 1e3. The Q levels go one after
    another, so that memory does not grow with them.
    """
    alive = (jax.nn.softmax(log_weights) > 0)[:, None, None]

    def one(level: tuple[Array, Array]) -> Array:
        tail, upper = level
        sign = jnp.where(upper, -1, 1).astype(loc.dtype)
        component = loc + sign * scale * ndtri(tail)
        low = jnp.min(jnp.where(alive, component, jnp.inf), axis=0)
        high = jnp.max(jnp.where(alive, component, -jnp.inf), axis=0)

        def halve(bracket: tuple[Array, Array]) -> tuple[Array, Array]:
            low, high = bracket
            middle = _middle(low, high)
            mass = average(log_weights, normal_cdf(sign * (_from_ordered(middle, loc.dtype) - loc) / scale))
            right = jnp.where(upper, mass > tail, mass < tail)
            return jnp.where(right, middle, low), jnp.where(right, high, middle)

        def unfinished(bracket: tuple[Array, Array]) -> Array:
            return jnp.any(_middle(*bracket) > bracket[0])

        _, answer = jax.lax.while_loop(unfinished, halve, (_to_ordered(low), _to_ordered(high)))
        return jnp.where(jnp.isnan(low + high), jnp.nan, _from_ordered(answer, loc.dtype))

    return jax.lax.map(one, (tail, upper))


def normal_cdf(z: Array) -> Array:
    """Φ(z). As exact as `jax.scipy.special.ndtr`, in the far left tail too, and cheaper in float64."""
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
