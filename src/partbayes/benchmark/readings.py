"""Which reading of the settings comes closest to the figures of the paper? Every combination, on three tables."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable

from partbayes.benchmark.lines import Line
from partbayes.benchmark.paper import paper_units
from partbayes.benchmark.settings import PaperSettings
from partbayes.benchmark.table import tabulate

READING_SETS = ("yacht", "concrete", "wine_red")
OPEN_SETTINGS = ("width", "kernel_scale", "target_scale", "denominator")
"""What the paper's text leaves open."""


def reading_units(datasets: list[str], methods: list[str], seeds: int, settings: PaperSettings) -> list[Line]:
    """Every combination with a 50-unit layer; the printed widths, which take far longer, with each method's
    settings as printed."""
    narrow = itertools.product(("sd", "variance"), ("full", "batch"), ("cached", "same_batch"))
    readings = [
        settings._replace(width=50, kernel_scale=kernel, target_scale=scale, denominator=denominator)
        for kernel, scale, denominator in narrow
    ]
    readings.append(readings[0]._replace(width="literal"))
    units = [
        unit | {"preset": "readings"} for reading in readings for unit in paper_units(datasets, methods, seeds, reading)
    ]
    distinct = {str(unit): unit for unit in units}  # OHSMC reads fewer settings than GOHSMC
    return sorted(distinct.values(), key=lambda unit: (unit["config"]["width"] == "literal", unit["seed"]))


def readings_table(lines: list[Line]) -> str:
    """Mean RMSE of each reading of the paper's settings, closest to the paper's first."""
    datasets = [name for name in READING_SETS if any(line["dataset"] == name for line in lines)]
    rows = ["| method | width | kernel scale | target scale | denominator | " + " | ".join(datasets) + " | distance |"]
    rows.append("|---|" + "---|" * (5 + len(datasets)))
    for reading, members in group_readings(lines).items():
        cells = {cell.dataset: cell for cell in tabulate(members, ["rmse"])}
        entries = [f"{cells[d].mean:.4f} ({cells[d].paper:.4f})" if d in cells else "–" for d in datasets]
        distance = f"{distance_to_paper(members):.3f}"
        rows.append("| " + " | ".join([*(str(part) for part in reading), *entries, distance]) + " |")
    return "\n".join(rows)


def group_readings(lines: Iterable[Line]) -> dict[tuple, list[Line]]:
    """Lines by method and reading, closest to the paper first within each method."""
    groups: dict[tuple, list[Line]] = {}
    for line in lines:
        reading = tuple(line["config"].get(name, "–") for name in OPEN_SETTINGS)
        groups.setdefault((line["method"], *reading), []).append(line)
    return dict(sorted(groups.items(), key=lambda item: (item[0][0], distance_to_paper(item[1]))))


def distance_to_paper(lines: list[Line]) -> float:
    """Mean over data sets of |log(our mean RMSE / the paper's)|: a factor too high counts like one too low."""
    cells = tabulate(lines, ["rmse"])
    return sum(abs(math.log(cell.mean / cell.paper)) for cell in cells) / len(cells)
