"""The training loop: whole epochs scanned inside one compiled call, K islands side by side.

A run is the triple (state, step, key): batches and random numbers are pure functions of key and step, so a run that
stopped goes on from its `Run` as if it never had. Islands share data and code, nothing else; island k of K is the same
run as a single island started from its key.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from partbayes import tree as tm
from partbayes.algorithm import Algorithm, Info
from partbayes.data.batching import batch_indices, epoch_order, first_indices, steps_per_epoch, take
from partbayes.model import Model
from partbayes.runtime.compiling import program
from partbayes.runtime.epochs import Fit, Plan, Run, Select, check_request, run_epochs
from partbayes.runtime.sharding import (
    check_mesh,
    each_island,
    on_all,
    outline_on_all,
    outline_run,
    place_run,
    spread_run,
)
from partbayes.runtime.validation import islands_together, joint_log_prob, mean_nll, mixture_log_prob
from partbayes.types import Array, Batch, Key, Tree


def fit(
    key: Key,
    algorithm: Algorithm,
    model: Model,
    train: Batch,
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
    mesh: Mesh | None = None,
    progress: bool | None = None,
    label: str = "training",
    on_epoch: Callable[[Run, dict[str, float]], None] | None = None,
) -> Fit:
    """Train, and return the posterior with the best validation loss (the last one without validation).

    With `select="island"` each island keeps the state that is best by itself, with "joint" all keep the state of the
    epoch in which their mixture is best. It may come later: what islands overfit each in its own way averages out.
    With a number, so many islands keep the epoch in which their mixture is best, and the others the last one.
    `key` is one key, or K stacked island keys. `patience` stops after so many epochs in which no island improved,
    `max_time` with the epoch in which so many seconds have passed.
    `params` is where to start in place of `Model.init`: θ and ψ with an island axis, `[K, ...]` (a warm start).
    `resume` takes `Fit.run` (or a restored checkpoint) and goes on to `num_epochs` in all. `on_epoch(run, record)` is
    called after every epoch, with numbers already on the host. `mesh` (`device_mesh`) divides islands and particles
    among devices; the result is the same up to the order of sums.
    """
    num_data = train.x.shape[0]
    check_request(num_epochs, islands, patience, validation, select)
    mesh = check_mesh(mesh)
    length = steps_per_epoch(num_data, batch_size)
    started = time.perf_counter()
    options: dict[str, Any] = {"batch_size": batch_size, "islands": islands, "params": params}
    train, validation = on_all((train, validation), mesh)
    run = start(key, algorithm, model, train, **options, mesh=mesh) if resume is None else place_run(resume, mesh)
    settings: dict[str, Any] = {"batch_size": min(batch_size, num_data), "select": select, "mesh": mesh}
    advance = partial(_run_epoch, algorithm=algorithm, model=model, **settings)
    judged = None if isinstance(select, str) else int(select)
    plan = Plan(num_epochs, length, patience, max_time, progress, label, started, judged)
    return run_epochs(
        run, lambda run: advance(run, train, validation), algorithm, plan, on_epoch, validation is not None
    )


def start(
    key: Key,
    algorithm: Algorithm,
    model: Model,
    train: Batch,
    *,
    batch_size: int,
    islands: int = 1,
    params: tuple[Tree, Tree] | None = None,
    mesh: Mesh | None = None,
) -> Run:
    """The run before its first step."""
    keys = jax.random.split(key, islands) if key.ndim == 0 else key
    keys, train, params = on_all((keys, train, params), mesh)
    settings: dict[str, Any] = {"batch_size": min(batch_size, train.x.shape[0]), "mesh": mesh}
    return place_run(_start(keys, train, params, algorithm=algorithm, model=model, **settings), mesh)


def prepare(
    key: Key,
    algorithm: Algorithm,
    model: Model,
    train: Batch,
    *,
    batch_size: int,
    validation: Batch | None = None,
    islands: int = 1,
    select: Select = "island",
    params: tuple[Tree, Tree] | None = None,
    mesh: Mesh | None = None,
) -> Run:
    """Compile what `fit` calls with these arguments, so that it finds it done. Shapes will do in place of arrays, and
    are what comes back."""
    mesh = check_mesh(mesh)
    settings: dict[str, Any] = {
        "algorithm": algorithm,
        "model": model,
        "batch_size": min(batch_size, train.x.shape[0]),
        "mesh": mesh,
    }
    keys = jax.eval_shape(lambda key: jax.random.split(key, islands), key) if key.ndim == 0 else key
    keys, train, validation, params = outline_on_all((keys, train, validation, params), mesh)
    start = _start.compiled
    run = outline_run(start.eval_shape(keys, train, params, **settings), mesh)
    start.lower(keys, train, params, **settings).compile()
    _run_epoch.compiled.lower(run, train, validation, select=select, **settings).compile()
    return run


@program(static_argnames=("algorithm", "model", "batch_size", "mesh"), once=True)
def _start(
    keys: Key,
    train: Batch,
    params: tuple[Tree, Tree] | None,
    *,
    algorithm: Algorithm,
    model: Model,
    batch_size: int,
    mesh: Mesh | None,
) -> Run:
    def one_island(key: Key, given: tuple[Tree, Tree] | None) -> Any:
        streams = streams_of(key)
        key_params, key_init, key_batch = jax.random.split(streams.start, 3)
        island_params = model.init(key_params) if given is None else given
        rows = take(train, first_indices(key_batch, train.x.shape[0], batch_size))
        return algorithm.init(key_init, island_params, rows)

    # Strong types from the start: a weakly typed scalar would make the second epoch compile anew.
    state = jax.tree.map(
        lambda a: jax.lax.convert_element_type(a, a.dtype), each_island(one_island, mesh)(keys, params)
    )
    posterior = jax.vmap(algorithm.posterior)(state)
    num_islands = keys.shape[0]
    run = Run(
        state,
        jnp.zeros((), jnp.int32),
        keys,
        posterior,
        jnp.full(num_islands, jnp.inf, posterior.log_weights.dtype),
        jnp.zeros(num_islands, jnp.int32),
        jnp.ones(num_islands, bool),
    )
    return spread_run(run, mesh)


class _Streams(NamedTuple):
    start: Key
    data: Key
    steps: Key


def streams_of(key: Key) -> _Streams:
    """An island's independent sources of randomness. Folded, not split: the island's key lives on in its `Run`."""
    return _Streams(*(jax.random.fold_in(key, purpose) for purpose in range(3)))


@program(static_argnames=("algorithm", "model", "batch_size", "select", "mesh"))
def _run_epoch(
    run: Run,
    train: Batch,
    validation: Batch | None,
    *,
    algorithm: Algorithm,
    model: Model,
    batch_size: int,
    select: Select,
    mesh: Mesh | None,
) -> tuple[Run, dict[str, Array]]:
    """One epoch of every island, its validation, and the better of old and new."""
    num_data = train.x.shape[0]
    length = steps_per_epoch(num_data, batch_size)
    epoch = run.step // length

    def one_island(key: Key, state: Any) -> tuple[Any, Info]:
        streams = streams_of(key)
        order = epoch_order(streams.data, epoch, num_data)

        def one_step(state: Any, i: Array) -> tuple[Any, Info]:
            batch = take(train, batch_indices(order, i, batch_size))
            return algorithm.step(jax.random.fold_in(streams.steps, run.step + i), state, batch)

        return jax.lax.scan(one_step, state, jnp.arange(length))

    batch = jax.eval_shape(lambda: take(train, jnp.arange(batch_size)))
    together = islands_together(model, run.best, batch)
    state, infos = each_island(one_island, mesh, together)(run.key, run.state)
    return close_epoch(
        run, state, _per_island(infos), length, validation, algorithm=algorithm, model=model, select=select, mesh=mesh
    )


def _per_island(infos: Info) -> Info:
    """An epoch's infos `[K, steps]` as one `[K]`: means, whether all were finite, and the evidence at the end."""
    means = jax.tree.map(lambda values: jnp.mean(values, axis=1), infos)
    return means._replace(finite=jnp.all(infos.finite, axis=1), log_evidence=infos.log_evidence[:, -1])


def close_epoch(
    run: Run,
    state: Any,
    info: Info,
    length: int,
    validation: Batch | None,
    *,
    algorithm: Algorithm,
    model: Model,
    select: Select,
    mesh: Mesh | None,
) -> tuple[Run, dict[str, Array]]:
    """What follows an epoch's steps: validation, the better of old and new, and the record. `info` is per island."""
    posterior = jax.vmap(algorithm.posterior)(state)
    alive = run.alive & info.finite
    if validation is None:
        loss = info.loss
        better = alive  # without validation the newest state is kept
    else:
        together = islands_together(model, posterior, validation)
        log_prob = each_island(lambda p: mixture_log_prob(model, p, validation), mesh, together)(posterior)
        if select != "island":
            judged = alive if select == "joint" else alive & (jnp.arange(alive.shape[0]) < select)
            log_prob = joint_log_prob(log_prob, judged)
        loss = jax.vmap(lambda rows: mean_nll(rows, validation))(log_prob)
        better = alive & (loss < run.best_loss)
    kept = better
    if validation is not None and select not in ("island", "joint"):
        kept = jnp.where(jnp.arange(alive.shape[0]) < select, better, alive)
    step = run.step + length
    run = Run(
        state,
        step,
        run.key,
        tm.where(kept, posterior, run.best),
        jnp.where(better, loss, run.best_loss),
        jnp.where(better, step // length, run.best_epoch),
        alive,
    )
    return spread_run(run, mesh), _record(info, loss, alive)


def _record(info: Info, validation: Array, alive: Array) -> dict[str, Array]:
    """Means over the living islands."""
    share = alive / jnp.maximum(1, jnp.sum(alive))

    def average(values: Array) -> Array:
        return jnp.sum(jnp.where(alive, values * share, 0.0))

    names = ("loss", "ess", "acceptance", "resampled", "dead", "skipped", "log_evidence")
    return {name: average(getattr(info, name)) for name in names} | {"validation": average(validation)}
