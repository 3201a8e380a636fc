"""The numbers of `jax.random.split` and `jax.random.normal`, in a form that the compiler turns into one loop.

On the CPU, JAX runs the rounds of Threefry as a loop over whole arrays, each a trip through memory. Written out (Salmon
et al., 2011, Threefry-2x32 with 20 rounds), rounds and inverse normal distribution function become one pass: the same
bits, sooner (docs/speed.md). Other kinds of keys, and types other than float32, go to `jax.random`.

One pass is also what the compiler would copy into every place that reads the numbers: a momentum is read by the kick
and by the kinetic energy, and would be drawn for each. `jax.lax.optimization_barrier` does not keep the CPU's compiler
from it; the border of a conditional does. Its condition always holds, but nobody tells the compiler.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType

from partbayes.types import Array, Key

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = np.uint32(0x1BD11BDA)


def normals(key: Key, shapes: list[tuple[int, ...]], dtypes: list[jnp.dtype]) -> list[Array]:
    """One array of standard normals for each shape: `jax.random.normal` of as many keys, split from `key`."""
    if _plain(key) and all(d == jnp.float32 for d in dtypes) and all(math.prod(s) < 2**32 for s in shapes):
        if jax.config.jax_debug_key_reuse:  # pyright: ignore[reportAttributeAccessIssue]
            jax.random.bits(key, ())  # taking a key apart does not count as use for the checker; this does
        first, second = jax.random.key_data(key)
        words = _threefry(first, second, jnp.arange(len(shapes), dtype=jnp.uint32))  # as `split` makes them
        return [_drawing(shape)(*(word[i] for word in words)) for i, shape in enumerate(shapes)]
    keys = jax.random.split(key, len(shapes))
    return [jax.random.normal(k, shape, dtype) for k, shape, dtype in zip(keys, shapes, dtypes, strict=True)]


def _plain(key: Key) -> bool:
    """Whether the key is JAX's default kind, with bits that depend on an element's position alone."""
    partitionable = jax.config.jax_threefry_partitionable  # pyright: ignore[reportAttributeAccessIssue]
    return bool(partitionable) and str(jax.random.key_impl(key)) == "threefry2x32"


@lru_cache(maxsize=256)
def _drawing(shape: tuple[int, ...]) -> Callable[[Array, Array], Array]:
    """Both words of a key, or of many (any leading axes), to normals `[..., *shape]`, made once.

    `vmap` adds a leading axis in place of mapping the conditional, which would become a choice between two arrays and
    no border at all.
    """

    @jax.custom_batching.custom_vmap
    def draw(first: Array, second: Array) -> Array:
        if _divided():
            return _numbers(first, second, shape)
        always = jnp.any((first | np.uint32(1)) > 0)
        return jax.lax.cond(always, lambda a, b: _numbers(a, b, shape), lambda a, b: _never(a, shape), first, second)

    @draw.def_vmap
    def _draw_for_many(size: int, batched: list[bool], *words: Array) -> tuple[Array, bool]:
        many = (w if b else jnp.broadcast_to(w, (size, *w.shape)) for w, b in zip(words, batched, strict=True))
        return draw(*many), True

    return draw


def _never(word: Array, shape: tuple[int, ...]) -> Array:
    """Something of the same type, made from the words as the numbers are: it lies where they lie on any mesh."""
    lead = word.shape
    return jnp.broadcast_to(word.astype(jnp.float32).reshape(*lead, *(1 for _ in shape)), (*lead, *shape))


def _divided() -> bool:
    """Whether the compiler spreads arrays over devices here: all of them would have to agree on a condition."""
    mesh = jax.sharding.get_abstract_mesh()
    kinds = zip(mesh.axis_names, mesh.axis_types, strict=True)
    return any(kind == AxisType.Auto and mesh.shape[name] > 1 for name, kind in kinds)


def _numbers(first: Array, second: Array, shape: tuple[int, ...]) -> Array:
    lead = first.shape
    first, second = (word.reshape(*lead, *(1 for _ in shape)) for word in (first, second))
    count = jnp.broadcast_to(jax.lax.iota(jnp.uint32, math.prod(shape)).reshape(shape), (*lead, *shape))
    high, low = _threefry(first, second, count)
    # 23 bits make a float in [1, 2), then one in (-1, 1), never -1 itself.
    mantissa = jax.lax.shift_right_logical(high ^ low, np.uint32(9)) | np.uint32(0x3F800000)
    unit = jax.lax.bitcast_convert_type(mantissa, jnp.float32) - np.float32(1.0)
    least = np.nextafter(np.float32(-1.0), np.float32(0.0))
    uniform = jnp.maximum(least, unit * (np.float32(1.0) - least) + least)
    return np.float32(math.sqrt(2)) * jax.lax.erf_inv(uniform)


def _threefry(first: Array, second: Array, count: Array) -> tuple[Array, Array]:
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
