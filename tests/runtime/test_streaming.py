"""Training from files: the same steps as in memory, and a run that stops and goes on."""

from __future__ import annotations

import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import small_network, trees_close, trees_equal

from partbayes.data import take
from partbayes.data.stream import open_rows, row_order
from partbayes.errors import PartbayesError
from partbayes.runtime import fit_stream, loop, streaming
from partbayes.training import gohsmc

N, BATCH = 24, 7


@pytest.fixture
def problem(tmp_path, monkeypatch):
    """A small network with its data in files; chunks of three steps, so that an epoch's four make two of two sizes."""
    monkeypatch.setattr(streaming, "CHUNK_STEPS", 3)
    model, data = small_network()
    np.save(tmp_path / "x.npy", data.x)
    np.save(tmp_path / "y.npy", data.y)
    algorithm = gohsmc(model, N, num_particles=6, step_size=0.01)
    return model, data, algorithm, open_rows(tmp_path / "x.npy", tmp_path / "y.npy")


def test_the_steps_are_those_of_memory_in_the_same_order(problem):
    model, data, algorithm, source = problem
    keys = jax.random.split(jax.random.key(0), 2)
    result = fit_stream(
        jax.random.clone(keys), algorithm, model, source, num_epochs=2, batch_size=BATCH, validation=data
    )

    def island(key):
        seed = streaming.order_seed(keys)
        order = np.concatenate([row_order(source, seed, 0), row_order(source, seed, 0)[:4]])
        first = take(data, jnp.asarray(order[:BATCH]))
        run = loop.start(jax.random.clone(key)[None], algorithm, model, first, batch_size=BATCH)
        state = jax.tree.map(lambda leaf: leaf[0], run.state)
        step = jax.jit(algorithm.step)
        for number in range(8):
            epoch, i = divmod(number, 4)
            order = row_order(source, seed, epoch)
            rows = np.concatenate([order, order[:4]])[BATCH * i : BATCH * (i + 1)]
            key_step = jax.random.fold_in(loop.streams_of(key).steps, number)
            state, _ = step(key_step, state, take(data, jnp.asarray(rows)))
        return state

    for k in range(2):
        found = jax.tree.map(lambda leaf, k=k: leaf[k], result.run.state)
        assert trees_close(island(jax.random.clone(keys)[k]), found, rtol=1e-4, atol=1e-5)
    assert int(result.run.step) == 8
    assert {record["epoch"] for record in result.history} == {1, 2}
    assert all(np.isfinite(record["loss"]) for record in result.history)


def test_a_run_that_stopped_goes_on_to_the_same_bits(problem):
    model, data, algorithm, source = problem
    options = {"batch_size": BATCH, "validation": data, "islands": 2}
    whole = fit_stream(jax.random.key(0), algorithm, model, source, num_epochs=3, **options)
    half = fit_stream(jax.random.key(0), algorithm, model, source, num_epochs=1, **options)
    other = jax.random.key(9)  # the run brings its own
    rest = fit_stream(other, algorithm, model, source, num_epochs=3, **options, resume=half.run)
    assert trees_equal(whole.posterior, rest.posterior)
    assert trees_equal(whole.run.state, rest.run.state)


def test_trouble_while_reading_ends_the_training_and_its_thread(problem):
    model, _, algorithm, source = problem

    def read(block):
        if threading.current_thread() is not threading.main_thread():
            raise PartbayesError("The disk is gone: look for it.")
        return source.read(block)

    with pytest.raises(PartbayesError, match="disk is gone"):
        fit_stream(jax.random.key(0), algorithm, model, source._replace(read=read), num_epochs=1, batch_size=BATCH)
    assert not [thread for thread in threading.enumerate() if thread.name == "partbayes rows"]
