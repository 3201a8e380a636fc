"""Walk over the population in blocks of particles, so that memory and cache use are bounded by a setting.

How many particles a block has changes speed and memory, and results only by rounding. By default ("auto") it is chosen
so that the largest array which the log density makes for a block stays in cache: a pure function of shapes, never of a
clock, so the same program gives the same numbers on every day. docs/speed.md has what it buys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal, TypeAlias, TypeVar

import jax
import jax.numpy as jnp

from partbayes.errors import PartbayesError
from partbayes.smc.shards import add_up, num_shards, on_shards
from partbayes.types import Array, Tree

Carry = TypeVar("Carry")
BlockSize: TypeAlias = int | Literal["auto"] | None
"""Particles per block; None is one block for all."""

CACHE_BYTES = 900 * 2**10
"""What a block's largest array may take: a little less than half of one core's second-level cache in server processors,
since a pass reads one such array while it writes another. Much more sends every activation to main memory and back."""


def check_block_size(block_size: BlockSize) -> BlockSize:
    """Complain early."""
    if isinstance(block_size, str):
        if block_size != "auto":
            raise PartbayesError(f"The block size is {block_size!r}, but a number, None or 'auto' is expected.")
    elif block_size is not None and block_size < 1:
        raise PartbayesError(f"The block size is {block_size}, but at least one particle per block is needed.")
    return block_size


def resolve_block_size(block_size: BlockSize, density: Callable[..., Array], theta: Tree, *shared: Tree) -> int | None:
    """The number behind "auto" for `density(one_theta, *shared)` and stacked `theta`; other settings as they are."""
    if block_size != "auto":
        return block_size
    total = jax.tree.leaves(theta)[0].shape[0]
    one = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), theta)
    return even_block(total, fit_in_cache(density, one, *shared))


def fit_in_cache(density: Callable[..., Array], *one: Tree) -> int:
    """How many evaluations of `density(*one)` side by side keep their largest array in cache; at least one."""
    largest = max(_array_bytes(jax.make_jaxpr(density)(*one).jaxpr), default=1)
    return max(1, CACHE_BYTES // max(1, largest))


def even_block(total: int, at_most: int) -> int:
    """A block of up to `at_most` particles, one that divides the population if there is such from half that size on.

    A remainder is a second program to compile.
    """
    if at_most >= total:
        return total
    divisors = [size for size in range(-(-at_most // 2), at_most + 1) if total % size == 0]
    return max(divisors, default=at_most)


def scan_blocks(
    body: Callable[[Carry, Tree], tuple[Carry, Tree]],
    carry: Carry,
    population: Tree,
    block_size: int | None,
    merge: Callable[[Carry], Carry] = add_up,
) -> tuple[Carry, Tree]:
    """`lax.scan` of `body` over blocks of `population`'s first axis; outputs are put back together in order.

    With `block_size=None`, or at least the population's size, there is one block and no loop. A remainder that does
    not fill a block goes through last. On several devices each goes over its own particles, beginning with `carry`;
    `merge` puts their carries, stacked `[devices, ...]`, together.
    """
    if num_shards() > 1:
        return on_shards(lambda share: _scan(body, carry, share, block_size), population, merge)
    return _scan(body, carry, population, block_size)


def _scan(
    body: Callable[[Carry, Tree], tuple[Carry, Tree]], carry: Carry, population: Tree, block_size: int | None
) -> tuple[Carry, Tree]:
    total = jax.tree.leaves(population)[0].shape[0]
    if block_size is None or block_size >= total:
        return body(carry, population)
    count = total // block_size
    cut = count * block_size
    blocked = jax.tree.map(lambda a: a[:cut].reshape(count, block_size, *a.shape[1:]), population)
    carry, outputs = jax.lax.scan(body, carry, blocked)
    outputs = jax.tree.map(lambda a: a.reshape(cut, *a.shape[2:]), outputs)
    if cut < total:
        carry, rest = body(carry, jax.tree.map(lambda a: a[cut:], population))
        outputs = jax.tree.map(lambda a, b: jnp.concatenate([a, b]), outputs, rest)
    return carry, outputs


def _array_bytes(jaxpr: Any) -> Iterator[int]:
    """Sizes of all arrays that a program makes, those inside its loops and calls included."""
    for equation in jaxpr.eqns:
        for variable in equation.outvars:
            if jnp.issubdtype(variable.aval.dtype, jnp.number):
                yield variable.aval.size * variable.aval.dtype.itemsize
        for inner in jax.tree.leaves(tuple(equation.params.values()), is_leaf=_is_program):
            if _is_program(inner):
                yield from _array_bytes(getattr(inner, "jaxpr", inner))


def _is_program(value: Any) -> bool:
    return hasattr(value, "eqns") or hasattr(getattr(value, "jaxpr", None), "eqns")
