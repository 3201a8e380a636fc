"""A population divided among devices: each walks over its own particles, and what was summed up is merged at the end.

Particles are divided where the surrounding program runs on a mesh with an axis `particles` (`runtime.sharding` makes
one); everywhere else the functions here change nothing. Inside a device's share nothing is exchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec

from partbayes.types import Array, Tree

Carry = TypeVar("Carry")

PARTICLES = "particles"
"""The mesh axis that particles are divided along."""


def num_shards() -> int:
    """Into how many shares the population is divided here."""
    mesh = jax.sharding.get_abstract_mesh()
    return 1 if mesh.empty else mesh.shape.get(PARTICLES, 1)


def on_shards(
    walk: Callable[[Tree], tuple[Carry, Tree]], population: Tree, merge: Callable[[Carry], Carry]
) -> tuple[Carry, Tree]:
    """`walk` over every device's share; `merge` gets the shares' sums stacked, `[shards, ...]`, and makes one of them.

    Outputs stay with the particles that they belong to.
    """
    shards = num_shards()

    def divide(leaf: Array) -> Array:
        return _along_particles(leaf.reshape(shards, leaf.shape[0] // shards, *leaf.shape[1:]))

    # One batch entry for each device: the compiler keeps it there, and nothing inside can mix two of them.
    carries, outputs = jax.tree.map(_along_particles, jax.vmap(walk)(jax.tree.map(divide, population)))
    outputs = jax.tree.map(lambda leaf: _along_particles(leaf.reshape(-1, *leaf.shape[2:])), outputs)
    return merge(carries), outputs


def _along_particles(leaf: Array) -> Array:
    return jax.lax.with_sharding_constraint(leaf, PartitionSpec(PARTICLES))


def everywhere(tree: Tree) -> Tree:
    """The whole of it on every device: for weights, of which there is one number per particle."""
    if num_shards() == 1:
        return tree
    return jax.tree.map(lambda leaf: jax.lax.with_sharding_constraint(leaf, PartitionSpec()), tree)


def add_up(carries: Tree) -> Tree:
    """The merge of plain sums."""
    return jax.tree.map(lambda leaf: jnp.sum(leaf, axis=0), carries)
