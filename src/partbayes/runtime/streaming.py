"""Training on tables larger than memory: a few steps per compiled call, the next rows read meanwhile.

The algorithm and its random numbers are those of `fit`; only the order of the rows is another (`data.stream`). All
islands see the same batches, so that a row is read once however many there are.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from partbayes.algorithm import Algorithm, Info
from partbayes.data.batching import steps_per_epoch
from partbayes.data.stream import HostRows, RowSource, batches
from partbayes.model import Model
from partbayes.runtime.compiling import program
from partbayes.runtime.epochs import Fit, Plan, Run, Select, check_request, run_epochs
from partbayes.runtime.loop import close_epoch, start, streams_of
from partbayes.types import Array, Batch, Key, Tree

Item = TypeVar("Item")

CHUNK_BYTES = 8 * 2**20
CHUNK_STEPS = 64
"""Steps per compiled call: as many as make its overhead small, and as few as keep two chunks in waiting small."""


def fit_stream(
    key: Key,
    algorithm: Algorithm,
    model: Model,
    source: RowSource,
    *,
    num_epochs: int,
    batch_size: int,
    validation: Batch | None = None,
    islands: int = 1,
    select: Select = "island",
    patience: int | None = None,
    max_time: float | None = None,
    params: tuple[Tree, Tree] | None = None,
    resume: Run | None = None,
    progress: bool | None = None,
    label: str = "training",
    on_epoch: Callable[[Run, dict[str, float]], None] | None = None,
) -> Fit:
    """`fit`, with rows that are read as they are needed. The options are `fit`'s; validation rows stay in memory."""
    check_request(num_epochs, islands, patience, validation, select)
    started = time.perf_counter()
    batch_size = min(batch_size, source.num_data)
    length = steps_per_epoch(source.num_data, batch_size)
    keys = jax.random.split(key, islands) if key.ndim == 0 else key
    seed = order_seed(keys if resume is None else resume.key)
    if resume is None:
        first = _on_device(next(batches(source, seed, 0, batch_size)))
        run = start(keys, algorithm, model, first, batch_size=batch_size, params=params)
    else:
        run = resume
    chunk = _chunk_steps(length, max(1, min(CHUNK_STEPS, length, CHUNK_BYTES // (batch_size * source.row_bytes))))

    def advance(run: Run) -> tuple[Run, dict[str, Array]]:
        epoch = int(run.step) // length
        state, total, step = run.state, _no_steps(run.alive.shape[0]), run.step
        with _Ahead(_chunks(batches(source, seed, epoch, batch_size), chunk)) as chunks:
            for rows in chunks:
                state, total = _run_chunk(state, total, run.key, step, _on_device(rows), algorithm=algorithm)
                step = step + rows.weight.shape[0]
        return _close(run, state, total, validation, algorithm=algorithm, model=model, length=length, select=select)

    judged = None if isinstance(select, str) else int(select)
    plan = Plan(num_epochs, length, patience, max_time, progress, label, started, judged)
    return run_epochs(run, advance, algorithm, plan, on_epoch, validation is not None)


def order_seed(keys: Key) -> list[int]:
    """The numbers that the order of the rows follows from: the first island's."""
    words = jax.random.key_data(streams_of(jax.random.clone(keys)[0]).data)
    return [int(word) for word in np.asarray(words).reshape(-1)]


def _chunk_steps(length: int, most: int) -> int:
    """A divisor of the epoch's steps if there is a good one: a shorter last chunk is a second program to compile."""
    return next((steps for steps in range(most, most // 2, -1) if length % steps == 0), most)


def _no_steps(num_islands: int) -> Info:
    zero = jnp.zeros(num_islands, jnp.result_type(float))
    return Info(*[zero] * len(Info._fields))._replace(finite=jnp.ones(num_islands, bool))


@program(static_argnames=("algorithm",))
def _run_chunk(
    state: Any, total: Info, keys: Key, first_step: Array, rows: Batch, *, algorithm: Algorithm
) -> tuple[Any, Info]:
    """Steps on the batches `rows [steps, M, ...]`, and the sums over steps so far."""

    def one_island(key: Key, state: Any) -> tuple[Any, Info]:
        steps_key = streams_of(key).steps

        def one_step(state: Any, numbered: tuple[Array, Batch]) -> tuple[Any, Info]:
            number, batch = numbered
            return algorithm.step(jax.random.fold_in(steps_key, number), state, batch)

        return jax.lax.scan(one_step, state, (first_step + jnp.arange(rows.weight.shape[0]), rows))

    state, infos = jax.vmap(one_island)(keys, state)
    sums = jax.tree.map(lambda before, values: before + jnp.sum(values, axis=1), total, infos)
    finite = total.finite & jnp.all(infos.finite, axis=1)
    return state, sums._replace(finite=finite, log_evidence=infos.log_evidence[:, -1])


@program(static_argnames=("algorithm", "model", "length", "select"))
def _close(
    run: Run,
    state: Any,
    total: Info,
    validation: Batch | None,
    *,
    algorithm: Algorithm,
    model: Model,
    length: int,
    select: Select,
) -> tuple[Run, dict[str, Array]]:
    info = jax.tree.map(lambda sums: sums / length, total)
    info = info._replace(finite=total.finite, log_evidence=total.log_evidence)
    return close_epoch(run, state, info, length, validation, algorithm=algorithm, model=model, select=select, mesh=None)


def _on_device(rows: HostRows) -> Batch:
    """In JAX's default precision."""
    default = jnp.result_type(float)
    y = jnp.asarray(rows.y) if np.issubdtype(rows.y.dtype, np.integer) else jnp.asarray(rows.y, default)
    return Batch(jnp.asarray(rows.x, default), y, jnp.asarray(rows.weight, default))


def _chunks(rows: Iterator[HostRows], length: int) -> Iterator[HostRows]:
    """`length` batches at a time, stacked; the last may be fewer."""
    while some := list(islice(rows, length)):
        yield HostRows(*(np.stack(fields) for fields in zip(*some, strict=True)))


class _Ahead(Iterator[Item]):
    """An iterator that a thread runs ahead of by two; what the thread raises is raised here."""

    _END = object()

    def __init__(self, items: Iterator[Item]):
        self._items = items
        self._ready: queue.Queue[Any] = queue.Queue(maxsize=2)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._fill, name="partbayes rows", daemon=True)

    def __enter__(self) -> _Ahead[Item]:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        while self._thread.is_alive():  # it may wait for room
            while not self._ready.empty():
                self._ready.get_nowait()
            self._thread.join(timeout=0.05)

    def __next__(self) -> Item:
        item = self._ready.get()
        if item is self._END:
            raise StopIteration
        if isinstance(item, BaseException):
            raise item
        return item

    def _fill(self) -> None:
        try:
            for item in self._items:
                if self._stop.is_set():
                    return
                self._ready.put(item)
            self._ready.put(self._END)
        except BaseException as error:
            self._ready.put(error)
