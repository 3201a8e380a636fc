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


def test_they_are_drawn_once_however_often_they_are_read():
    """The border that keeps the compiler from drawing anew for every reader is there under `vmap`, too."""

    def readers(key):
        draws = tm.normal_like(key, TREE)
        return draws, tm.dot(draws, draws)

    keys = jax.random.split(jax.random.key(10), 6).reshape(2, 3)
    program = jax.jit(jax.vmap(jax.vmap(readers))).lower(keys).compile().as_text()
    assert program.count(" conditional(") == len(TREE)


@pytest.mark.parametrize("check_vma", [True, False])
def test_inside_a_shard_map(check_vma):
    mesh = jax.make_mesh((1,), ("islands",), axis_types=(jax.sharding.AxisType.Auto,))
    there = jax.sharding.PartitionSpec("islands")
    keys, again = (jax.random.split(jax.random.key(11), 4) for _ in range(2))
    spread = jax.shard_map(
        jax.vmap(lambda k: tm.normal_like(k, TREE)), mesh=mesh, in_specs=there, out_specs=there, check_vma=check_vma
    )
    assert same(jax.jit(spread)(keys), jax.jit(jax.vmap(lambda k: by_the_book(k, TREE)))(again))


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
