"""Results as JSON lines, one per finished unit, appended at once: a killed run loses the unit in progress only."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from partbayes.errors import PartbayesError

Line: TypeAlias = dict[str, Any]


def grid(
    preset: str,
    datasets: tuple[Sequence[str], Collection[str]],
    methods: tuple[Sequence[str], Collection[str]],
    seeds: int,
    config: Line,
) -> list[Line]:
    """A preset's units, seed by seed so that an unfinished grid is balanced; kinds are (names wanted, names known)."""
    for kind, (wanted, known) in (("data set", datasets), ("method", methods)):
        for name in wanted:
            if name not in known:
                raise PartbayesError(f"There is no {kind} {name!r}: choose among {', '.join(known)}.")
    if seeds < 1:
        raise PartbayesError(f"{seeds} seeds were asked for, but at least one is needed.")
    config = json.loads(json.dumps(config))  # as a line that is read back has it: lists, no tuples
    return [
        {"preset": preset, "dataset": dataset, "method": method, "seed": seed, "config": config}
        for seed in range(seeds)
        for dataset in datasets[0]
        for method in methods[0]
    ]


def read_lines(path: str | os.PathLike[str]) -> list[Line]:
    """All complete lines. A last line that was cut off by a kill is passed over."""
    file = Path(path)
    if not file.exists():
        raise PartbayesError(f"There is no results file {str(path)!r}: run `partbayes benchmark -o {path}` first.")
    lines = []
    content = file.read_text(encoding="utf-8")
    complete = content.split("\n")[:-1]
    for number, text in enumerate(complete, start=1):
        try:
            lines.append(json.loads(text))
        except json.JSONDecodeError as error:
            raise PartbayesError(f"Line {number} of {str(path)!r} is not JSON: mend or remove it.") from error
    return lines


def append_line(path: str | os.PathLike[str], line: Line) -> None:
    """Add one line and push it to the disk. A torn last line is removed first."""
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    with open(file, "ab+") as handle:
        handle.seek(0)
        content = handle.read()
        handle.truncate(content.rfind(b"\n") + 1)
        handle.write(json.dumps(line, sort_keys=True).encode() + b"\n")
        handle.flush()
        os.fsync(handle.fileno())


def run_missing(
    units: Iterable[Line],
    path: str | os.PathLike[str],
    run: Callable[[Line], Line],
    *,
    on_unit: Callable[[Line, int, int], None] = lambda unit, done, total: None,
) -> list[Line]:
    """Run every unit that the file does not have yet; a unit is the part of a line that identifies it."""
    units = list(units)
    present = read_lines(path) if Path(path).exists() else []
    done = {_identity(line, units[0]) for line in present} if units else set()
    for number, unit in enumerate(units):
        on_unit(unit, number, len(units))
        if _identity(unit, unit) not in done:
            append_line(path, unit | run(unit))
    on_unit({}, len(units), len(units))
    return read_lines(path) if Path(path).exists() else []


def _identity(line: Line, unit: Line) -> str:
    return json.dumps({name: line.get(name) for name in unit}, sort_keys=True)
