"""Epoch after epoch on the host: what a run is, when it stops, and what is told and kept of it.

The epochs themselves are compiled programs: `loop` has that for data in memory, `streaming` that for large tables.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from partbayes import hosts
from partbayes import tree as tm
from partbayes.algorithm import Algorithm, Posterior
from partbayes.errors import PartbayesError
from partbayes.runtime.progress import EpochProgress
from partbayes.types import Array, Batch, Key

Select: TypeAlias = Literal["island", "joint"] | int
"""By which score an epoch is kept: each island's own, or that of the mixture of all, or of the first so many islands,
while the others keep the last epoch."""


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


def check_request(
    num_epochs: int, islands: int, patience: int | None, validation: Batch | None, select: Select
) -> None:
    if num_epochs < 1:
        raise PartbayesError(f"{num_epochs} epochs were asked for, but at least one is needed.")
    if islands < 1:
        raise PartbayesError(f"{islands} islands were asked for, but at least one is needed.")
    count = isinstance(select, int | np.integer) and not isinstance(select, bool) and 1 <= select <= islands
    if not count and select not in ("island", "joint"):
        raise PartbayesError(
            f"select is {select!r}, but 'island', 'joint' or how many of the {islands} islands to judge by is expected."
        )
    if patience is not None and validation is None:
        raise PartbayesError(
            "Early stopping was asked for without validation data: pass `validation=`, or no `patience`."
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
    judged: int | None
    """How many islands there must be some of, None for all: without those by which epochs are kept there is nothing to
    keep."""


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
            if plan.patience is not None and epoch - int(np.asarray(run.best_epoch).max()) >= plan.patience:
                break
            run, record = advance(run)
            history.append(_on_host(record) | {"epoch": epoch + 1})
            if epoch == first:
                compile_seconds = time.perf_counter() - plan.started
            _stop_if_all_dead(run, epoch + 1, plan.judged)
            bar.update(epoch + 1, history[-1])
            if on_epoch is not None:
                on_epoch(run, history[-1])
            if epoch + 1 < plan.num_epochs and _out_of_time(plan.started, plan.max_time):
                cut = [f"The time limit ended it after {epoch + 1} of {plan.num_epochs} epochs."]
                break
    run = hosts.on_this_host(run)
    posterior, notes = _surviving(run, algorithm, validated, moved=bool(history))
    return Fit(posterior, run, history, notes + cut, time.perf_counter() - plan.started, compile_seconds)


def _on_host(record: dict[str, Array]) -> dict[str, float]:
    return {name: float(value) for name, value in jax.device_get(record).items()}


def _out_of_time(started: float, max_time: float | None) -> bool:
    return max_time is not None and hosts.agreed(time.perf_counter() - started >= max_time)


def _stop_if_all_dead(run: Run, epoch: int, judged: int | None) -> None:
    if not np.asarray(run.alive)[:judged].any():
        which = "every island" if judged is None else f"all {judged} islands by which epochs are kept"
        raise PartbayesError(
            f"Every particle of {which} reached a non-finite log target by epoch {epoch}: use a smaller step size "
            "or learning rate, and check that inputs and targets are standardised."
        )


def _surviving(run: Run, algorithm: Algorithm, validated: bool, moved: bool) -> tuple[Posterior, list[str]]:
    """The posterior without lost islands, and a sentence on what was left out."""
    # An epoch without validation keeps its last state; a run that came with none to go may have been validated before.
    posterior = run.best if validated or moved else jax.vmap(algorithm.posterior)(run.state)
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
