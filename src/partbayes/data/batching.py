"""Which rows a training step sees, as a pure function of key and step: a loop resumes with no iterator to save.

    order = epoch_order(key, epoch, num_data)                      # once an epoch
    indices = batch_indices(order, step_in_epoch, batch_size)      # once a step
    rows = take(batch, indices)

All three work inside `jit`, `scan` and `vmap` over keys. Every epoch has its own permutation and sees every row; where
the rows do not fill the last batch, it is topped up with the epoch's first rows, so that all batches have one size.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike, DTypeLike

from partbayes.data.dataset import Dataset
from partbayes.errors import PartbayesError
from partbayes.types import Array, Batch, Key


def steps_per_epoch(num_data: int, batch_size: int) -> int:
    """Batches that it takes to see every row; one, if a batch is as large as the data or larger."""
    return -(-_count(num_data, "num_data") // _count(batch_size, "batch_size"))


def epoch_order(key: Key, epoch: ArrayLike, num_data: int, first: int | None = None) -> Array:
    r"""The epoch's permutation of the rows, `[num_data]`, without a sort, which is slow on the CPU (docs/speed.md).
    `first` asks for so many rows of it and costs no more than those.

    The swap-or-not shuffle (Hoang, Morris and Rogaway, 2012): in each round every row i has a partner
    $(k - i) \bmod N$, k drawn for the round, and one bit, the same for both, decides whether the two trade places. So
    any number of rounds is a permutation, and where a row ends is off uniform by $2^{-\mathrm{rounds}}$ at most.
    """
    num_data = _count(num_data, "num_data")
    rounds = 4 * num_data.bit_length() + 8
    draws = jax.random.bits(jax.random.fold_in(key, epoch), (2, rounds), jnp.uint32)
    sums, salts = (draws[0] % np.uint32(num_data)).astype(jnp.int32), draws[1]

    def swap_or_not(i: Array, places: Array) -> Array:
        partners = sums[i] - places
        partners = jnp.where(partners < 0, partners + num_data, partners)
        pairs = jnp.maximum(places, partners).astype(jnp.uint32)
        return jnp.where(_mixed(pairs ^ salts[i]) >> np.uint32(31) == 1, partners, places)

    return jax.lax.fori_loop(0, rounds, swap_or_not, jnp.arange(first or num_data, dtype=jnp.int32))


def _mixed(bits: Array) -> Array:
    """Every bit in, every bit out: two rounds of multiply and shift (MurmurHash3's finaliser)."""
    bits = (bits ^ (bits >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    bits = (bits ^ (bits >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return bits ^ (bits >> np.uint32(16))


def batch_indices(order: Array, step_in_epoch: ArrayLike, batch_size: int) -> Array:
    """Rows of one step, `[min(batch_size, num_data)]`, for steps from 0 to below `steps_per_epoch`.

    A batch of the whole data set is in file order, whatever `order` says.
    """
    num_data = order.shape[0]
    steps = steps_per_epoch(num_data, batch_size)
    # A step past the end would begin the epoch again in silence; a traced step cannot be looked at.
    if isinstance(step_in_epoch, int | np.integer) and not 0 <= step_in_epoch < steps:
        raise PartbayesError(f"step_in_epoch is {step_in_epoch}, but this epoch has the steps 0 to {steps - 1}.")
    if batch_size >= num_data:
        return jnp.arange(num_data, dtype=order.dtype)
    positions = jnp.asarray(step_in_epoch) * batch_size + jnp.arange(batch_size)
    return jnp.take(order, positions % num_data)


def first_indices(key: Key, num_data: int, batch_size: int) -> Array:
    """`batch_indices` of the first step of the first epoch, for what one batch costs."""
    if batch_size >= num_data:
        return jnp.arange(num_data, dtype=jnp.int32)
    return epoch_order(key, 0, num_data, first=batch_size)


def take(batch: Batch, indices: Array) -> Batch:
    """The rows at `indices`. One out of range comes back as nan, which training notices, not as some other row."""
    return jax.tree.map(lambda rows: jnp.take(rows, indices, axis=0, mode="fill"), batch)


def as_batch(dataset: Dataset, dtype: DTypeLike | None = None) -> Batch:
    """All rows as JAX arrays of `dtype` (default: float32, or float64 where x64 is enabled); labels are int32."""
    default = jnp.result_type(float)
    dtype = np.dtype(default if dtype is None else dtype)
    if not jnp.issubdtype(dtype, jnp.floating):
        raise PartbayesError(f"dtype is {dtype}, but a floating-point type is needed.")
    if dtype == np.float64 and default != np.float64:
        raise PartbayesError(
            "dtype is float64, but JAX runs in 32 bits; call jax.config.update('jax_enable_x64', True)."
        )

    def convert(values: np.ndarray, name: str) -> Array:
        with np.errstate(over="ignore"):
            values = values.astype(dtype)
        if not np.isfinite(values).all():
            raise PartbayesError(
                f"{name} holds values too large for {dtype}: standardise it, or look for a typing error."
            )
        # Not `jnp.asarray`, which compiles a program for each shape. It may share the memory, which `astype` made ours.
        return jax.device_put(values)

    labels = dataset.is_classification
    y = jax.device_put(dataset.y.astype(np.int32)) if labels else convert(dataset.y, "y")
    return Batch(convert(dataset.x, "x"), y, convert(dataset.weight, "weight"))


def _count(value: int, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise PartbayesError(f"{name} is {value!r}, but a whole number of at least 1 is needed.")
    return int(value)
