"""The training loop: whole epochs scanned inside one compiled call, K islands side by side.

A run is the triple (state, step, key): batches and random numbers are pure functions of key and step, so a run that
stopped goes on from its `Run` as if it never had. Islands share data and code, nothing else; island k of K is the same
run as a single island started from its key.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from partbayes import hosts
from partbayes import tree as tm
from partbayes.algorithm import Algorithm, Info, Posterior
from partbayes.data.batching import batch_indices, epoch_order, steps_per_epoch, take
from partbayes.errors import PartbayesError
from partbayes.model import Model
from partbayes.runtime.progress import EpochProgress
from partbayes.runtime.sharding import check_mesh, each_island, on_all, place_run, spread_run
from partbayes.runtime.validation import joint_log_prob, mean_nll, mixture_log_prob
from partbayes.types import Array, Batch, Key, Tree

Select: TypeAlias = Literal["island", "joint"]


class Run(NamedTuple):
    """Everything needed to go on: states and keys of K islands, steps taken, and the best posterior so far."""

    state: Any
    step: Array
    key: Key
    best: Posterior
    best_loss: Array
    best_epoch: Array
    alive: Array
    """`[K]`: islands that never lost all their particles."""


class Fit(NamedTuple):
    """A finished training: the posterior to use, the run to resume, the history to look at, and what to tell people."""

    posterior: Posterior
    run: Run
    history: list[dict[str, float]]
    notes: list[str]
    seconds: float
    compile_seconds: float


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
    plan = Plan(num_epochs, length, patience, max_time, progress, label, started)
    return run_epochs(
        run, lambda run: advance(run, train, validation), algorithm, plan, on_epoch, validation is not None
    )


class Plan(NamedTuple):
    """How long to train, and how to show it."""

    num_epochs: int
    length: int
    patience: int | None
    max_time: float | None
    progress: bool | None
    label: str
    started: float


def run_epochs(
    run: Run,
    advance: Callable[[Run], tuple[Run, dict[str, Array]]],
    algorithm: Algorithm,
    plan: Plan,
    on_epoch: Callable[[Run, dict[str, float]], None] | None,
    validated: bool,
) -> Fit:
    """Epoch after epoch by `advance`, until one of the reasons to stop."""
    history: list[dict[str, float]] = []
    cut: list[str] = []
    compile_seconds = math.nan
    first = int(run.step) // plan.length
    show = plan.progress if hosts.is_first() else False
    with EpochProgress(plan.num_epochs, show=show, label=plan.label) as bar:
        for epoch in range(first, plan.num_epochs):
            # Asked before the epoch: a run that had stopped here stays stopped when it is resumed.
            if plan.patience is not None and epoch - int(jnp.max(run.best_epoch)) >= plan.patience:
                break
            run, record = advance(run)
            history.append(_on_host(record) | {"epoch": epoch + 1})
            if epoch == first:
                compile_seconds = time.perf_counter() - plan.started
            _stop_if_all_dead(run, epoch + 1)
            bar.update(epoch + 1, history[-1])
            if on_epoch is not None:
                on_epoch(run, history[-1])
            if epoch + 1 < plan.num_epochs and _out_of_time(plan.started, plan.max_time):
                cut = [f"The time limit ended it after {epoch + 1} of {plan.num_epochs} epochs."]
                break
    run = hosts.on_this_host(run)
    posterior, notes = _surviving(run, algorithm, validated)
    return Fit(posterior, run, history, notes + cut, time.perf_counter() - plan.started, compile_seconds)


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


@partial(jax.jit, static_argnames=("algorithm", "model", "batch_size", "mesh"))
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
        order = epoch_order(key_batch, jnp.array(0), train.x.shape[0])
        island_params = model.init(key_params) if given is None else given
        return algorithm.init(key_init, island_params, take(train, batch_indices(order, 0, batch_size)))

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


@partial(jax.jit, static_argnames=("algorithm", "model", "batch_size", "select", "mesh"))
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

    state, infos = each_island(one_island, mesh)(run.key, run.state)
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
        log_prob = each_island(lambda p: mixture_log_prob(model, p, validation), mesh)(posterior)
        log_prob = log_prob if select == "island" else joint_log_prob(log_prob, alive)
        loss = jax.vmap(lambda rows: mean_nll(rows, validation))(log_prob)
        better = alive & (loss < run.best_loss)
    step = run.step + length
    run = Run(
        state,
        step,
        run.key,
        tm.where(better, posterior, run.best),
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


def _on_host(record: dict[str, Array]) -> dict[str, float]:
    return {name: float(value) for name, value in jax.device_get(record).items()}


def check_request(
    num_epochs: int, islands: int, patience: int | None, validation: Batch | None, select: Select
) -> None:
    if select not in get_args(Select):
        raise PartbayesError(f"select is {select!r}, but one of {', '.join(get_args(Select))} is expected.")
    if num_epochs < 1:
        raise PartbayesError(f"{num_epochs} epochs were asked for, but at least one is needed.")
    if islands < 1:
        raise PartbayesError(f"{islands} islands were asked for, but at least one is needed.")
    if patience is not None and validation is None:
        raise PartbayesError(
            "Early stopping was asked for without validation data: pass `validation=`, or no `patience`."
        )


def _out_of_time(started: float, max_time: float | None) -> bool:
    return max_time is not None and hosts.agreed(time.perf_counter() - started >= max_time)


def _stop_if_all_dead(run: Run, epoch: int) -> None:
    if not bool(jnp.any(run.alive)):
        raise PartbayesError(
            f"Every particle of every island reached a non-finite log target by epoch {epoch}: use a smaller step size "
            "or learning rate, and check that inputs and targets are standardised."
        )


def _surviving(run: Run, algorithm: Algorithm, validated: bool) -> tuple[Posterior, list[str]]:
    """The posterior without lost islands, and a sentence on what was left out."""
    posterior = run.best if validated else jax.vmap(algorithm.posterior)(run.state)
    alive = np.flatnonzero(np.asarray(run.alive))
    if validated and not np.isfinite(np.asarray(run.best_loss)[alive]).any():
        raise PartbayesError(
            "The validation score was never finite, so no state could be chosen by it: check the validation rows, and "
            "use a smaller learning rate."
        )
    if len(alive) == run.alive.shape[0]:
        return posterior, []
    note = f"{run.alive.shape[0] - len(alive)} of {run.alive.shape[0]} islands diverged and were left out."
    return tm.gather(posterior, jnp.asarray(alive)), [note]
