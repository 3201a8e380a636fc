"""Pytree maths that two or more rooms need and `optax.tree` does not have."""

from __future__ import annotations

from functools import reduce

import jax
import jax.numpy as jnp

from partbayes.normals import normals
from partbayes.types import Array, Key, Tree


def all_finite(tree: Tree) -> Array:
    """Whether every number in the tree is finite (True for an empty tree)."""
    return reduce(jnp.logical_and, (jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(tree)), jnp.array(True))


def gather(tree: Tree, indices: Array) -> Tree:
    """Rows `indices` of every leaf's first axis."""
    return jax.tree.map(lambda leaf: jnp.take(leaf, indices, axis=0), tree)


def where(condition: Array, yes: Tree, no: Tree) -> Tree:
    """`yes` where `condition` holds, leaf by leaf.

    `condition` may have leading axes (`[J]`, `[K]`): it is broadcast over the rest of each leaf.
    Unlike `optax.tree.where` it therefore works on stacked trees.
    """

    def choose(a: Array, b: Array) -> Array:
        return jnp.where(jnp.reshape(condition, condition.shape + (1,) * (a.ndim - condition.ndim)), a, b)

    return jax.tree.map(choose, yes, no)


def flip(tree: Tree) -> Tree:
    """Every matrix with more rows than columns transposed (its last two axes swapped), everything else as it is.

    A gradient by a flipped matrix comes as (outputs × rows)(rows × inputs), which matrix libraries do faster than the
    other order when there are few outputs.
    """
    return jax.tree.map(lambda leaf: jnp.swapaxes(leaf, -1, -2) if _tall(leaf.shape) else leaf, tree)


def unflip(tree: Tree, like: Tree) -> Tree:
    """What was flipped by the shapes of `like` turned back."""
    return jax.tree.map(lambda leaf, a: jnp.swapaxes(leaf, -1, -2) if _tall(a.shape) else leaf, tree, like)


def _tall(shape: tuple[int, ...]) -> bool:
    return len(shape) >= 2 and shape[-2] > shape[-1]


def normal_like(key: Key, tree: Tree) -> Tree:
    """Independent standard normals in the shape and dtype of `tree`."""
    leaves, treedef = jax.tree.flatten(tree)
    draws = normals(key, [jnp.shape(leaf) for leaf in leaves], [jnp.result_type(leaf) for leaf in leaves])
    return jax.tree.unflatten(treedef, draws)


def dot(a: Tree, b: Tree) -> Array:
    """Inner product of two trees. (`optax.tree.vdot` flattens each leaf, which costs a copy under `vmap`.)"""
    return reduce(jnp.add, (jnp.sum(x * y) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)))
