"""A training in stages: what all of them share, and the record of those that are done."""

from __future__ import annotations

import math
import time
from typing import Any, NamedTuple

import jax

from partbayes.algorithm import Algorithm, Posterior
from partbayes.data.batching import steps_per_epoch
from partbayes.model import Model
from partbayes.runtime.epochs import Fit
from partbayes.runtime.resumable import Checkpoint, fit_resumable
from partbayes.runtime.sharding import every_device
from partbayes.runtime.validation import islands_nll
from partbayes.types import Batch, Key


class Stage(NamedTuple):
    """What a stage took, and the mean validation NLL of the islands' mixture after it (nan without validation)."""

    name: str
    epochs: int
    seconds: float
    validation: float


class Trained(NamedTuple):
    """The posterior to predict with, the stages that led to it, and what to tell people."""

    posterior: Posterior
    stages: list[Stage]
    notes: list[str]
    seconds: float


class Stages:
    """Runs stages one after another, keeps the time, and remembers."""

    def __init__(
        self,
        data: Batch,
        validation: Batch | None,
        max_time: float | None = None,
        progress: bool | None = None,
        checkpoint: Checkpoint | None = None,
    ):
        self._begun = time.perf_counter()
        self._data, self._validation = data, validation
        self._max_time, self._progress, self._checkpoint = max_time, progress, checkpoint
        self._notes: dict[str, None] = {}  # in order, each once: stages of one run say the same of their islands
        self.num_data = data.x.shape[0]
        self.done: list[Stage] = []

    def run(
        self,
        name: str,
        key: Key,
        algorithm: Algorithm,
        model: Model,
        num_epochs: int,
        *,
        share: float = 1.0,
        validate: bool = True,
        folder: str | None = None,
        after: int = 0,
        **options: Any,
    ) -> Fit:
        """One stage: `num_epochs` in all, `after` of them behind it, done by `share` of the time there is.

        `validate` lets the validation rows choose the state; they score it in any case. Checkpoints go to `folder`
        (default: the stage's name); the other options are `fit`'s.
        """
        started = time.perf_counter()
        fit = fit_resumable(
            self._checkpoint,
            key,
            algorithm,
            model,
            self._data,
            stage=folder or name,
            num_epochs=num_epochs,
            max_time=None if self._max_time is None else max(0.0, share * self._max_time - (started - self._begun)),
            progress=self._progress,
            label=name,
            mesh=every_device(options["islands"]),
            validation=self._validation if validate else None,
            **options,
        )
        # Counted from the run, not from the history: a resumed training has epochs behind it.
        epochs = int(fit.run.step) // steps_per_epoch(self.num_data, options["batch_size"])
        self.record(name, min(num_epochs, epochs) - after, started, model, fit.posterior)
        self._notes |= {f"{(folder or name).capitalize()}: {note}": None for note in fit.notes}
        return fit

    def record(self, name: str, epochs: int, started: float, model: Model, posterior: Posterior) -> None:
        """Remember a stage that began at `started`, with the score of what it led to."""
        score = math.nan
        if self._validation is not None:
            score = float(islands_nll(model, posterior, self._validation))
        self.done.append(Stage(name, epochs, time.perf_counter() - started, score))

    def finish(self, posterior: Posterior, *notes: str) -> Trained:
        """The whole training, with what the stages and `notes` have to say."""
        return Trained(posterior, self.done, [*self._notes, *notes], time.perf_counter() - self._begun)


def from_point(posterior: Posterior) -> dict[str, Any]:
    """`fit`'s options to set out from another's result: each surviving island's first particle, and its ψ."""
    point = (jax.tree.map(lambda leaf: leaf[:, 0], posterior.theta), posterior.psi)
    return {"params": point, "islands": posterior.log_weights.shape[0]}
