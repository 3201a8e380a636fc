"""`fit` that survives being stopped: it saves its run every so often, on an interrupt and at the end.

A run is a pure function of (state, step, key), so a resumed one ends in the same bits as one that was never stopped.
A killed process loses what came after its last save, an interrupted one nothing. Where several processes take part, an
interrupted one cannot save what lies with the others: they all lose what came after the last save.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax

from partbayes import hosts
from partbayes.algorithm import Algorithm
from partbayes.errors import PartbayesError
from partbayes.model import Model
from partbayes.runtime.checkpoint import has_checkpoint, restore_checkpoint, save_checkpoint
from partbayes.runtime.epochs import Fit, Run
from partbayes.runtime.loop import fit, start
from partbayes.types import Batch, Key


class Checkpoint(NamedTuple):
    """Where to save, whether to go on from what is there, and what the run is made of (JSON, compared on resuming)."""

    folder: str | os.PathLike[str]
    resume: bool = False
    description: dict[str, Any] = {}  # noqa: RUF012  (never written to)
    every_seconds: float = 30.0


def check_folder(checkpoint: Checkpoint | None, stages: list[str]) -> None:
    """Complain before any work if saving there would mix two runs."""
    if checkpoint is None or checkpoint.resume:
        return
    if any(has_checkpoint(Path(checkpoint.folder) / stage) for stage in stages):
        raise PartbayesError(
            f"The folder {str(checkpoint.folder)!r} already holds a run: resume it, or choose another folder."
        )


def fit_resumable(
    checkpoint: Checkpoint | None,
    key: Key,
    algorithm: Algorithm,
    model: Model,
    train: Batch,
    *,
    stage: str = "train",
    **options: Any,
) -> Fit:
    """`runtime.fit(key, algorithm, model, train, **options)`, saved under `checkpoint.folder / stage`.

    Without a checkpoint it is `fit` itself. Interrupts (and SIGTERM) save, then raise `KeyboardInterrupt`.
    """
    if checkpoint is None:
        return fit(key, algorithm, model, train, **options)
    folder = Path(checkpoint.folder) / stage
    resumed: Run | None = options.pop("resume", None)
    if checkpoint.resume and has_checkpoint(folder):
        names = ("batch_size", "islands", "params")
        given = {name: options[name] for name in names if name in options}
        fresh = start(jax.random.clone(key), algorithm, model, train, **given)  # for its shapes only
        resumed = restore_checkpoint(folder, fresh, checkpoint.description)
    latest: list[Run] = []  # only what is newer than the file: a step is written once
    saved_at = time.monotonic()

    def save() -> None:
        if latest:
            save_checkpoint(folder, latest[0], checkpoint.description)
            latest.clear()  # not before: an interrupt during the write comes here again

    def on_epoch(run: Run, record: dict[str, float]) -> None:
        nonlocal saved_at
        latest[:] = [run]
        if hosts.agreed(time.monotonic() - saved_at >= checkpoint.every_seconds):
            save()
            saved_at = time.monotonic()

    try:
        with _termination_interrupts():
            result = fit(key, algorithm, model, train, resume=resumed, on_epoch=on_epoch, **options)
            save()
    except KeyboardInterrupt:
        if not hosts.several():
            save()
        raise
    return result


@contextlib.contextmanager
def _termination_interrupts() -> Iterator[None]:
    """SIGTERM as an interrupt, where signals can be handled at all (the main thread)."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
