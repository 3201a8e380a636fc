"""Run the benchmark: `python -m benchmarks [--quick] [--shapes 0,1,2] [--rows NAME,...] [--cores N] [-o FILE]`.

One JSON line per shape is appended to the output, and a table printed. Times are milliseconds per step.

Everything runs on one core unless told otherwise: training takes several cores by giving each a device and islands of
its own (`partbayes fit --cores`), so what one core does is what counts, and it is measured with less noise.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks import limit, loop, ours, peers, straightforward
from benchmarks.lines import CLOCKS, table
from benchmarks.problem import SHAPES, Call, Problem, problem
from benchmarks.timing import interleaved, summarise, warm_up

PACKAGES = ("partbayes", "jax", "jaxlib", "optax", "numpy", "blackjax", "numpyro")


def main() -> None:
    """Parse, measure each shape, print and append."""
    options = _options()
    _keep_to(options.cores)
    for index in options.shapes:
        line = measure(problem(SHAPES[index]), options)
        print(table(line), flush=True)
        options.output.parent.mkdir(parents=True, exist_ok=True)
        with open(options.output, "a", encoding="utf-8") as file:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")


def measure(built: Problem, options: argparse.Namespace) -> dict[str, Any]:
    """All rows of one shape."""
    builders = {**ours.rows(built), straightforward.NAME: lambda: straightforward.row(built), **peers.rows(built)}
    calls: dict[str, Call] = {}
    skipped: dict[str, str] = {}
    for name, build in builders.items():
        if options.rows and name not in options.rows:
            continue
        try:
            calls[name] = build()
        except ImportError as error:
            skipped[name] = str(error)
            print(f"{name} is left out: {error}", file=sys.stderr)
    if built.shape == SHAPES[0] and not (options.rows and loop.FIT not in options.rows):
        calls |= loop.rows(built.shape)
    calls |= limit.parts(built)
    warm_up(calls, lambda name: print(f"\r{built.shape.name}: {name:40}", end="", file=sys.stderr, flush=True))
    seconds = interleaved(calls, options.repeats)
    times = {name: summarise(pairs, peers.STEPS_PER_CALL.get(name, 1)) for name, pairs in seconds.items()}
    print("\r" + " " * 70 + "\r", end="", file=sys.stderr)
    limits: dict[str, dict[str, Any]] = {}
    for clock in CLOCKS:
        each = {name: getattr(t, clock) for name, t in times.items()}
        sums = {name: limit.total(name, built.shape, each) for name in calls}
        limits[clock] = {name: parts for name, parts in sums.items() if parts is not None}
    return {
        "shape": built.shape._asdict(),
        "rows": {name: t._asdict() for name, t in times.items()},
        "limits": limits,
        "skipped": skipped,
        "config": {"repeats": options.repeats, "rows": options.rows or "all", "cores": options.cores},
        "cpus": os.cpu_count(),
        "machine": f"{platform.machine()} {platform.system()}",
        "date": str(date.today()),
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in PACKAGES}},
    }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="5 rounds in place of 25")
    parser.add_argument("--repeats", type=int, help="rounds")
    parser.add_argument("--shapes", type=_indices, default=list(range(len(SHAPES))), help="such as 0,2")
    parser.add_argument("--rows", type=lambda text: text.split(","), help="names of rows; all by default")
    parser.add_argument("--cores", type=int, default=1, help="cores to run on")
    parser.add_argument("-o", "--output", type=Path, default=Path("results/bench/steps.jsonl"))
    options = parser.parse_args()
    options.repeats = options.repeats or (5 if options.quick else 25)
    return options


def _keep_to(cores: int) -> None:
    """Start anew on so many cores: libraries look at them once, when they are loaded."""
    if not hasattr(os, "sched_setaffinity"):
        raise SystemExit("This system cannot bind a program to cores: use Linux.")
    allowed = sorted(os.sched_getaffinity(0))
    if not 1 <= cores <= len(allowed):
        raise SystemExit(f"--cores is {cores}, but from 1 to {len(allowed)} are there to run on.")
    if cores < len(allowed):
        os.sched_setaffinity(0, allowed[-cores:])
        os.execv(sys.executable, [sys.executable, "-m", "benchmarks", *sys.argv[1:]])


def _indices(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


if __name__ == "__main__":
    main()
