"""Walk over the population in blocks of particles, so that memory and cache use are bounded by a setting."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp

from partbayes.smc.shards import add_up, num_shards, on_shards
from partbayes.types import Tree

Carry = TypeVar("Carry")


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
