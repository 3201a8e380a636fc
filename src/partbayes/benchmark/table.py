"""From JSON lines to tables: means over seeds beside the paper's; bold only where a paired test supports it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from partbayes.benchmark.lines import Line
from partbayes.errors import PartbayesError

METRICS = ("rmse", "nll", "crps")
PRACTICE_METRICS = (*METRICS, "accuracy", "ece")
"""Of numbers and of classes: a table has those that fit its target."""
ORDER = ("california", "concrete", "yacht", "wine_red", "wine_white", "naval")
"""The paper's columns."""
AGAINST = ("paper", "nothing")
HIGHER_IS_BETTER = ("r2", "accuracy", "auc")
SIGNIFICANCE = 0.05
PRINTED_AS = {"gohsmc_islands": "gohsmc"}
"""Methods that stand beside another one's figures in the paper."""


class Cell(NamedTuple):
    """One method on one data set in one metric."""

    dataset: str
    method: str
    metric: str
    values: tuple[float, ...]
    """By seed."""
    best: bool
    paper: float = math.nan
    """The mean that the paper printed, nan where it has none or was not asked for."""

    @property
    def mean(self) -> float:
        return float(np.mean(self.values))

    @property
    def sd(self) -> float:
        return float(np.std(self.values, ddof=1)) if len(self.values) > 1 else math.nan


@cache
def paper_figures() -> dict[tuple[str, str, str], float]:
    """(method, data set, metric) -> the mean printed in the GOHSMC paper (Millard et al., 2025, Table 1)."""
    frame = pd.read_csv(str(files("partbayes.benchmark") / "paper_table.csv"))
    columns = (frame[name] for name in ("method", "dataset", "metric", "value"))
    return {(method, dataset, metric): float(value) for method, dataset, metric, value in zip(*columns, strict=True)}


def tabulate(
    lines: Iterable[Line], metrics: Sequence[str] = METRICS, form: str = "paper", against: str = "paper"
) -> list[Cell]:
    """All cells, in the paper's order of data sets and the lines' order of methods, beside the paper's means."""
    if against not in AGAINST:
        raise PartbayesError(f"There is nothing called {against!r} to set beside: choose {' or '.join(AGAINST)}.")
    figures = paper_figures() if against == "paper" else {}
    lines = list(lines)
    configs: dict[str, Any] = {}
    if any(line.get("config") != configs.setdefault(line["method"], line.get("config")) for line in lines):
        raise PartbayesError("The lines come from different settings: pass one file per setting, or filter them first.")
    methods: list[str] = list(dict.fromkeys(line["method"] for line in lines))
    datasets = sorted({line["dataset"] for line in lines}, key=lambda name: (*ORDER, name).index(name))
    cells = []
    for dataset in datasets:
        for metric in metrics:
            by_method = {
                method: {
                    line["seed"]: line["metrics"][form][metric]
                    for line in lines
                    if line["dataset"] == dataset and line["method"] == method and metric in line["metrics"][form]
                }
                for method in methods
            }
            winner = _winner({method: seeds for method, seeds in by_method.items() if seeds}, metric)
            cells += [
                Cell(
                    dataset,
                    method,
                    metric,
                    tuple(seeds[s] for s in sorted(seeds)),
                    method == winner,
                    figures.get((PRINTED_AS.get(method, method), dataset, metric), math.nan),
                )
                for method, seeds in by_method.items()
                if seeds
            ]
    return cells


def _winner(by_method: dict[str, dict[int, float]], metric: str) -> str | None:
    """The best method, if a paired t-test over common seeds tells it from every other one.

    Two-sided: the winner is picked by looking at the same numbers, so a one-sided test would flatter it.
    """
    sign = -1.0 if metric in HIGHER_IS_BETTER else 1.0
    ranked = sorted(by_method, key=lambda method: sign * float(np.mean(list(by_method[method].values()))))
    if len(ranked) < 2:
        return None
    best = by_method[ranked[0]]
    for rival in ranked[1:]:
        seeds = sorted(best.keys() & by_method[rival].keys())
        differences = np.array([sign * (by_method[rival][s] - best[s]) for s in seeds])
        if len(seeds) < 2:
            return None
        _, pvalue = np.asarray(stats.ttest_1samp(differences, 0.0))
        if not pvalue < SIGNIFICANCE:
            return None
    return ranked[0]


def paired_difference(
    lines: Iterable[Line], first: str, second: str, dataset: str, metric: str, form: str = "paper"
) -> dict[str, Any]:
    """first − second over common seeds, with a 95 % t-interval."""
    values: dict[str, dict[int, float]] = {first: {}, second: {}}
    for line in lines:
        if line["dataset"] == dataset and line["method"] in values:
            values[line["method"]][line["seed"]] = line["metrics"][form][metric]
    seeds = sorted(values[first].keys() & values[second].keys())
    differences = np.array([values[first][s] - values[second][s] for s in seeds])
    if len(seeds) < 2:
        raise PartbayesError(
            f"{first} and {second} share {len(seeds)} seeds on {dataset}, but at least two are needed."
        )
    low, high = stats.t.interval(0.95, len(seeds) - 1, differences.mean(), stats.sem(differences))
    return {"seeds": len(seeds), "mean": float(differences.mean()), "low": float(low), "high": float(high)}
