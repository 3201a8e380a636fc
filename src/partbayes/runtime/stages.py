"""A training in stages: what all of them share, and the record of those that are done."""

from __future__ import annotations

import contextvars
import math
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh

from partbayes import hosts
from partbayes.algorithm import Algorithm, Posterior
from partbayes.data.batching import steps_per_epoch
from partbayes.model import Model
from partbayes.runtime.epochs import Fit
from partbayes.runtime.loop import prepare
from partbayes.runtime.overtraining import judged
from partbayes.runtime.resumable import Checkpoint, fit_resumable
from partbayes.runtime.sharding import every_device, outline_on_all
from partbayes.runtime.validation import island_log_prob, islands_nll
from partbayes.types import Batch, Key, Tree


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
    """Runs stages one after another, keeps the time, and remembers. Later ones may be compiled `ahead`, by a thread
    that leaving the context ends."""

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
        self._compiler = ThreadPoolExecutor(max_workers=1, thread_name_prefix="partbayes compiler")
        self._ahead: dict[str, Future[None]] = {}

    def __enter__(self) -> Stages:
        return self

    def __exit__(self, failure: object, *_: object) -> None:
        # Whoever was interrupted does not want to wait; the process does, when it ends.
        self._compiler.shutdown(wait=failure is None, cancel_futures=True)

    def ahead(
        self, name: str, key: Key, algorithm: Algorithm, model: Model, *, validate: bool = True, **options: Any
    ) -> None:
        """Begin to compile a stage while others run; its options are those of `run` that are `prepare`'s as well."""
        # Processes that compile in different orders might wait for each other; a resumed stage may be done; and other
        # devices are measured while they compile for them.
        resumed = self._checkpoint is not None and self._checkpoint.resume
        if hosts.several() or resumed or jax.default_backend() != "cpu":
            return
        # A thread has its own of both.
        wide = jax.config.read("jax_enable_x64")
        device = jax.config.jax_default_device  # pyright: ignore[reportAttributeAccessIssue]

        def compile_it() -> None:
            mesh = every_device(options["islands"])
            validation = self._validation if validate else None
            with jax.enable_x64(wide), jax.default_device(device):
                run = prepare(key, algorithm, model, self._data, mesh=mesh, validation=validation, **options)
                if self._validation is not None and not validate:  # otherwise its score is known
                    island_log_prob.lower(model, _as_handed_on(run.best, mesh), self._validation).compile()

        self._ahead[name] = self._compiler.submit(contextvars.copy_context().run, compile_it)

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
        if name in self._ahead:
            self._ahead.pop(name).exception()  # waits; what is wrong will show again here, where it can be told
        left = (
            None if self._max_time is None else max(0.0, share * self._max_time - (time.perf_counter() - self._begun))
        )
        fit = fit_resumable(
            self._checkpoint,
            key,
            algorithm,
            model,
            self._data,
            stage=folder or name,
            num_epochs=num_epochs,
            max_time=left,
            progress=self._progress,
            label=name,
            mesh=every_device(options["islands"]),
            validation=self._validation if validate else None,
            **options,
        )
        fit = fit._replace(posterior=_on_one_device(fit.posterior))
        # Counted from the run, not from the history: a resumed training has epochs behind it.
        epochs = int(fit.run.step) // steps_per_epoch(self.num_data, options["batch_size"])
        select = options.get("select", "island")
        known = _score_of_all(fit) if validate and select != "island" else None
        self.record(name, min(num_epochs, epochs) - after, started, model, judged(fit, select), known)
        self._notes |= {f"{(folder or name).capitalize()}: {note}": None for note in fit.notes}
        return fit

    def record(
        self,
        name: str,
        epochs: int,
        started: float,
        model: Model,
        posterior: Posterior,
        score: float | None = None,
    ) -> None:
        """Remember a stage that began at `started`, with the score of what it led to, if that is known already."""
        if self._validation is None:
            score = math.nan
        elif score is None:
            score = float(islands_nll(model, posterior, self._validation))
        self.done.append(Stage(name, epochs, time.perf_counter() - started, score))

    def finish(self, posterior: Posterior, *notes: str) -> Trained:
        """The whole training, with what the stages and `notes` have to say."""
        return Trained(posterior, self.done, [*self._notes, *notes], time.perf_counter() - self._begun)


def _on_one_device(posterior: Posterior) -> Posterior:
    """What is done with all islands at once takes one device; on several it would be one exchange after another."""

    def whole(leaf: jax.Array) -> jax.Array:
        return leaf if len(leaf.sharding.device_set) == 1 else jax.device_put(np.asarray(leaf))

    return jax.tree.map(whole, posterior)


def _as_handed_on(outline: Posterior, mesh: Mesh | None) -> Posterior:
    """The shapes of a posterior that went through `_on_one_device`: a copy has lost its weak types."""
    return outline if mesh is None else outline_on_all(outline, None, weak=False)


def _score_of_all(fit: Fit) -> float | None:
    """The score by which islands were chosen together; None if some of them are no longer there."""
    return float(np.asarray(fit.run.best_loss).min()) if np.asarray(fit.run.alive).all() else None


def outline_of_points(model: Model, islands: int) -> tuple[Tree, Tree]:
    """The shapes of θ and ψ that stages hand on, `[K, ...]`."""
    found = jax.eval_shape(lambda: jax.vmap(model.init)(jax.random.split(jax.random.key(0), islands)))
    return outline_on_all(found, None, weak=False)


def from_point(posterior: Posterior) -> dict[str, Any]:
    """`fit`'s options to set out from another's result: each surviving island's first particle, and its ψ."""
    # By numpy: a program, however small, waits for those that are compiled meanwhile.
    first = jax.tree.map(lambda leaf: jax.device_put(np.asarray(leaf)[:, 0]), posterior.theta)
    return {"params": (first, posterior.psi), "islands": posterior.log_weights.shape[0]}
