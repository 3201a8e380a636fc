"""Progress on a long run: one bar with loss, effective sample size, acceptance statistic and time left."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


class EpochProgress:
    """A bar over epochs on standard error; silent unless asked for or standard error is a terminal."""

    def __init__(self, num_epochs: int, *, show: bool | None = None, label: str = "training"):
        visible = sys.stderr.isatty() if show is None else show
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[numbers]}"),
            TimeElapsedColumn(),
            TextColumn("eta"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            disable=not visible,
        )
        self._task = self._bar.add_task(label, total=num_epochs, numbers="compiling")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def update(self, epoch: int, record: dict[str, float]) -> None:
        """Show the numbers of a finished epoch."""
        shown = [("loss", "loss"), ("validation", "val"), ("ess", "ess"), ("acceptance", "acc")]
        numbers = "  ".join(f"{label} {record[name]:.3g}" for name, label in shown if record[name] == record[name])
        self._bar.update(self._task, completed=epoch, numbers=numbers)
