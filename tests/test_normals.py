"""Normals are those of `jax.random`, to the last bit, however they are drawn."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from partbayes import tree as tm

TREE = {"weight": jnp.zeros((7, 33)), "bias": jnp.zeros(33), "scale": jnp.zeros(())}


def by_the_book(key, tree):
    leaves, treedef = jax.tree.flatten(tree)
    keys = jax.random.split(key, len(leaves))
    draws = [jax.random.normal(k, leaf.shape, leaf.dtype) for k, leaf in zip(keys, leaves, strict=True)]
    return jax.tree.unflatten(treedef, draws)


def same(ours, theirs):
    return all(jax.tree.leaves(jax.tree.map(lambda a, b: bool(np.array_equal(a, b)), ours, theirs)))


@pytest.mark.parametrize("seed", [0, 1, 2**31 + 5])
def test_the_same_bits_as_jax_random(seed):
    assert same(jax.jit(tm.normal_like)(jax.random.key(seed), TREE), jax.jit(by_the_book)(jax.random.key(seed), TREE))


def test_the_same_bits_under_vmap_and_in_a_scan():
    keys, again, once_more = (jax.random.split(jax.random.key(3), 6) for _ in range(3))
    book = jax.jit(jax.vmap(lambda k: by_the_book(k, TREE)))(keys)
    assert same(jax.jit(jax.vmap(lambda k: tm.normal_like(k, TREE)))(again), book)
    assert same(jax.jit(lambda keys: jax.lax.map(lambda k: tm.normal_like(k, TREE), keys))(once_more), book)


def test_other_keys_and_other_types_go_to_jax_random(x64):
    doubles = jax.tree.map(lambda leaf: leaf.astype(jnp.float64), TREE)
    assert same(tm.normal_like(jax.random.key(4), doubles), by_the_book(jax.random.key(4), doubles))
    other = jax.random.key(5, impl="rbg")
    assert same(tm.normal_like(other, TREE), by_the_book(jax.random.clone(other), TREE))


def test_using_a_key_twice_is_still_noticed():
    def twice(key):
        return tm.normal_like(key, TREE), tm.normal_like(key, TREE)

    with pytest.raises(jax.errors.KeyReuseError):
        jax.jit(twice)(jax.random.key(6))
