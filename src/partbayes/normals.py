"""The numbers of `jax.random.split` and `jax.random.normal`, in a form that the compiler turns into one loop.

On the CPU, JAX runs the rounds of Threefry as a loop over whole arrays, each a trip through memory. Written out (Salmon
et al., 2011, Threefry-2x32 with 20 rounds), rounds and inverse normal distribution function become one pass: the same
bits, sooner (docs/speed.md). Other kinds of keys, and types other than float32, go to `jax.random`.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np

from partbayes.types import Array, Key

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = np.uint32(0x1BD11BDA)


def normals(key: Key, shapes: list[tuple[int, ...]], dtypes: list[jnp.dtype]) -> list[Array]:
    """One array of standard normals for each shape: `jax.random.normal` of as many keys, split from `key`."""
    if _plain(key) and all(d == jnp.float32 for d in dtypes) and all(math.prod(s) < 2**32 for s in shapes):
        if jax.config.jax_debug_key_reuse:  # pyright: ignore[reportAttributeAccessIssue]
            jax.random.bits(key, ())  # taking a key apart does not count as use for the checker; this does
        first, second = jax.random.key_data(key)
        return [_normal(_threefry(first, second, np.uint32(i)), shape) for i, shape in enumerate(shapes)]
    keys = jax.random.split(key, len(shapes))
    return [jax.random.normal(k, shape, dtype) for k, shape, dtype in zip(keys, shapes, dtypes, strict=True)]


def _plain(key: Key) -> bool:
    """Whether the key is JAX's default kind, with bits that depend on an element's position alone."""
    partitionable = jax.config.jax_threefry_partitionable  # pyright: ignore[reportAttributeAccessIssue]
    return bool(partitionable) and str(jax.random.key_impl(key)) == "threefry2x32"


def _normal(key_words: tuple[Array, Array], shape: tuple[int, ...]) -> Array:
    # The barrier keeps the compiler from working the key out anew for every number.
    first, second = jax.lax.optimization_barrier(key_words)
    count = jax.lax.iota(jnp.uint32, math.prod(shape)).reshape(shape)
    high, low = _threefry(first, second, count)
    # 23 bits make a float in [1, 2), then one in (-1, 1), never -1 itself.
    mantissa = jax.lax.shift_right_logical(high ^ low, np.uint32(9)) | np.uint32(0x3F800000)
    unit = jax.lax.bitcast_convert_type(mantissa, jnp.float32) - np.float32(1.0)
    least = np.nextafter(np.float32(-1.0), np.float32(0.0))
    uniform = jnp.maximum(least, unit * (np.float32(1.0) - least) + least)
    return np.float32(math.sqrt(2)) * jax.lax.erf_inv(uniform)


def _threefry(first: Array, second: Array, count: Array | np.uint32) -> tuple[Array, Array]:
    """Both words of the block cipher at the counter (0, count)."""
    words = (first, second, first ^ second ^ _PARITY)
    x, y = jnp.broadcast_to(first, jnp.shape(count)), count + second
    for round_of_four in range(5):
        for distance in _ROTATIONS[round_of_four % 2]:
            x = x + y
            y = x ^ ((y << np.uint32(distance)) | (y >> np.uint32(32 - distance)))
        x = x + words[(round_of_four + 1) % 3]
        y = y + words[(round_of_four + 2) % 3] + np.uint32(round_of_four + 1)
    return x, y
