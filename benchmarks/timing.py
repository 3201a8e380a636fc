"""Times of several calls in turn, so that whatever else the machine does meets all of them alike.

Two clocks: what passed on the wall, and what the threads of this process spent; the second hardly minds other work.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

import jax

from benchmarks.problem import Call


class Times(NamedTuple):
    """Milliseconds per call: median, quartiles and least on the wall, and the processors' median."""

    median: float
    lower: float
    upper: float
    best: float
    cpu: float
    count: int


def summarise(pairs: list[tuple[float, float]], steps_per_call: int = 1) -> Times:
    """The repeats of one row, per step."""
    wall, cpu = ([1e3 * pair[clock] / steps_per_call for pair in pairs] for clock in (0, 1))
    lower, middle, upper = statistics.quantiles(wall, n=4) if len(wall) > 1 else wall * 3
    return Times(middle, lower, upper, min(wall), statistics.median(cpu), len(wall))


def warm_up(calls: dict[str, Call], on_row: Callable[[str], None]) -> None:
    """Compile everything, and touch all memory once."""
    for name, call in calls.items():
        on_row(name)
        jax.block_until_ready(call())


def interleaved(
    calls: dict[str, Call], repeats: int, max_seconds: float = 10.0
) -> dict[str, list[tuple[float, float]]]:
    """Seconds of every call on both clocks, round after round. A very slow row leaves once it had its share."""
    pairs: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            if len(pairs[name]) >= 3 and sum(wall for wall, _ in pairs[name]) > max_seconds:
                continue
            wall, cpu = time.perf_counter(), time.process_time()
            jax.block_until_ready(call())
            pairs[name].append((time.perf_counter() - wall, time.process_time() - cpu))
    return pairs
