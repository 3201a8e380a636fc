"""Batches: a pure function of key and step, every row every epoch, no row twice but to top up."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from partbayes.data import as_batch, batch_indices, epoch_order, make_dataset, steps_per_epoch, take
from partbayes.data.batching import first_indices
from partbayes.errors import PartbayesError

KEY = jax.random.key(0)


def epoch_indices(key, epoch, num_data, batch_size):
    order = epoch_order(key, epoch, num_data)
    return np.stack([batch_indices(order, step, batch_size) for step in range(steps_per_epoch(num_data, batch_size))])


@pytest.mark.parametrize(("num_data", "batch_size", "steps"), [(100, 50, 2), (184, 50, 4), (10, 10, 1), (10, 64, 1)])
def test_steps_per_epoch(num_data, batch_size, steps):
    assert steps_per_epoch(num_data, batch_size) == steps


@pytest.mark.parametrize("size", [0, -1, 2.0, True, "8", None])
def test_bad_sizes_are_refused(size):
    with pytest.raises(PartbayesError, match="batch_size"):
        steps_per_epoch(10, size)
    with pytest.raises(PartbayesError, match="batch_size"):
        batch_indices(jnp.arange(10), 0, size)
    with pytest.raises(PartbayesError, match="num_data"):
        epoch_order(KEY, 0, size)


def test_step_outside_the_epoch_is_refused():
    for step in (-1, 3, np.int64(3)):
        with pytest.raises(PartbayesError, match="steps 0 to 2"):
            batch_indices(jnp.arange(10), step, 4)


@pytest.mark.parametrize(("num_data", "batch_size"), [(12, 4), (13, 4), (7, 1), (9, 8)])
def test_every_row_every_epoch_and_twice_only_to_top_up(num_data, batch_size):
    topped_up = set()
    for epoch in range(30):
        rows = epoch_indices(KEY, epoch, num_data, batch_size).ravel()
        counts = np.bincount(rows, minlength=num_data)
        assert counts.min() == 1
        assert counts.max() <= 2
        assert len(rows) == -(-num_data // batch_size) * batch_size
        topped_up.add(frozenset(np.flatnonzero(counts == 2)))
    if num_data % batch_size:
        assert len(topped_up) > 1


def test_rows_top_up_equally_often():
    # 10 rows, batches of 4: two of them come twice, each with probability 0.2, independently over epochs.
    num_epochs = 2000
    orders = np.asarray(jax.vmap(lambda epoch: epoch_order(KEY, epoch, 10))(jnp.arange(num_epochs)))
    counts = np.bincount(orders[:, :2].ravel(), minlength=10)
    # 4.5 standard errors: one in 15,000 for ten rows, had the seed not been fixed.
    np.testing.assert_allclose(counts / num_epochs, 0.2, atol=4.5 * np.sqrt(0.2 * 0.8 / num_epochs))


def test_orders_are_like_random_permutations():
    """Three statistics that a shuffle of too few rounds, or one whose swaps hang together, gets wrong.

    Of a uniform permutation of n: fixed points have mean 1 and variance 1; inversions mean n(n-1)/4 and variance
    n(n-1)(2n+5)/72; two rows share a batch of b with probability (b-1)/(n-1). Bounds are 4.5 standard errors.
    """
    num_data, num_epochs, batch = 20, 4000, 5
    orders = np.asarray(jax.vmap(lambda epoch: epoch_order(KEY, epoch, num_data))(jnp.arange(num_epochs)))
    fixed = np.sum(orders == np.arange(num_data), axis=1)
    assert abs(fixed.mean() - 1) < 4.5 / np.sqrt(num_epochs)
    earlier, later = np.triu_indices(num_data, 1)
    inversions = np.sum(orders[:, earlier] > orders[:, later], axis=1)
    sd = np.sqrt(num_data * (num_data - 1) * (2 * num_data + 5) / 72)
    assert abs(inversions.mean() - num_data * (num_data - 1) / 4) < 4.5 * sd / np.sqrt(num_epochs)
    assert abs(inversions.std() / sd - 1) < 4.5 / np.sqrt(2 * num_epochs)
    in_batch = np.argsort(orders, axis=1) // batch
    together = np.mean(in_batch[:, earlier] == in_batch[:, later], axis=0)
    chance = (batch - 1) / (num_data - 1)
    np.testing.assert_allclose(together, chance, atol=4.5 * np.sqrt(chance * (1 - chance) / num_epochs))


def test_pure_in_key_and_epoch():
    first = epoch_indices(KEY, 3, 50, 8)
    np.testing.assert_array_equal(first, epoch_indices(KEY, 3, 50, 8))
    assert (first != epoch_indices(KEY, 4, 50, 8)).any()
    assert (first != epoch_indices(jax.random.key(1), 3, 50, 8)).any()


def test_key_is_not_reused():
    with jax.debug_key_reuse(True):
        key = jax.random.key(5)
        for epoch in range(3):
            epoch_order(key, epoch, 10)


def test_same_under_jit_scan_and_vmap():
    num_data, batch_size = 23, 5
    steps = steps_per_epoch(num_data, batch_size)

    def epochs(key):
        def body(carry, step):
            order = epoch_order(key, step // steps, num_data)
            return carry, batch_indices(order, step % steps, batch_size)

        return jax.lax.scan(body, None, jnp.arange(3 * steps))[1]

    keys = jax.random.split(jax.random.key(7), 4)
    together = np.asarray(jax.jit(jax.vmap(epochs))(keys)).reshape(4, 3, steps, batch_size)
    for island, key in zip(together, keys, strict=True):
        for epoch in range(3):
            np.testing.assert_array_equal(island[epoch], epoch_indices(key, epoch, num_data, batch_size))
    assert (together[0] != together[1]).any()


@pytest.mark.parametrize("batch_size", [6, 100])
def test_whole_data_set_stays_in_file_order(batch_size):
    order = epoch_order(KEY, 0, 6)
    np.testing.assert_array_equal(batch_indices(order, 0, batch_size), np.arange(6))
    traced = jax.jit(lambda step: batch_indices(order, step, batch_size))(0)
    np.testing.assert_array_equal(traced, np.arange(6))


def test_take_keeps_rows_together():
    rows = np.arange(6.0)
    batch = as_batch(make_dataset(np.column_stack([rows, -rows]), rows * 10, weight=rows + 1))
    part = take(batch, jnp.array([4, 1]))
    np.testing.assert_array_equal(part.x, [[4.0, -4.0], [1.0, -1.0]])
    np.testing.assert_array_equal(part.y, [[40.0], [10.0]])
    np.testing.assert_array_equal(part.weight, [5.0, 2.0])
    assert np.isnan(take(batch, jnp.array([6])).x).all()


@pytest.mark.parametrize("batch_size", [7, 50, 60])
def test_the_first_indices_are_those_of_the_first_step(batch_size):
    expected = batch_indices(epoch_order(KEY, 0, 50), 0, batch_size)
    np.testing.assert_array_equal(first_indices(KEY, 50, batch_size), expected)


def test_a_batch_has_its_own_memory():
    rows = np.arange(6.0)
    dataset = make_dataset(rows[:, None], rows, weight=rows + 1)
    with jax.enable_x64(True):
        batch = as_batch(dataset)  # of the same type, so that nothing but care makes a copy
    before = jax.tree.map(np.array, batch)
    for values in (dataset.x, dataset.y, dataset.weight):
        values.setflags(write=True)
        values += 1
    jax.tree.map(np.testing.assert_array_equal, batch, before)


def test_as_batch_types():
    dataset = make_dataset(np.full((2, 1), 0.1), [0.1, 0.2])
    labels = make_dataset(np.zeros((2, 1)), [1, 0])
    with jax.enable_x64(False):
        batch = as_batch(dataset)
        assert (batch.x.dtype, batch.y.dtype, batch.weight.dtype) == (jnp.float32,) * 3
        assert as_batch(dataset, jnp.bfloat16).x.dtype == jnp.bfloat16
        assert as_batch(labels).y.dtype == jnp.int32
        with pytest.raises(PartbayesError, match="jax_enable_x64"):
            as_batch(dataset, "float64")
    with jax.enable_x64(True):
        batch = as_batch(dataset)
        assert (batch.x.dtype, batch.y.dtype, batch.weight.dtype) == (jnp.float64,) * 3
        np.testing.assert_array_equal(batch.x, dataset.x)
        assert as_batch(dataset, jnp.float32).x.dtype == jnp.float32
        assert as_batch(labels).y.dtype == jnp.int32
    assert batch.y.shape == (2, 1)
    np.testing.assert_array_equal(as_batch(labels).y, [1, 0])


def test_as_batch_refuses_what_does_not_fit():
    dataset = make_dataset([[1e39], [0.0]], [0.0, 1.0])
    with pytest.raises(PartbayesError, match="x holds values too large for float32"):
        as_batch(dataset, jnp.float32)
    with pytest.raises(PartbayesError, match="floating-point"):
        as_batch(dataset, jnp.int32)
