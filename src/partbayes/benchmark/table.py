"""From JSON lines to a table: means over seeds beside the paper's figures."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
import pandas as pd

from partbayes.benchmark.lines import Line

METRICS = ("rmse", "nll", "crps")


@cache
def paper_figures() -> dict[tuple[str, str, str], float]:
    """(method, data set, metric) -> the mean printed in the GOHSMC paper (Millard et al., 2025, Table 1)."""
    frame = pd.read_csv(str(files("partbayes.benchmark") / "paper_table.csv"))
    columns = (frame[name] for name in ("method", "dataset", "metric", "value"))
    return {(method, dataset, metric): float(value) for method, dataset, metric, value in zip(*columns, strict=True)}


def summarise(lines: Iterable[Line], metrics: Iterable[str] = METRICS, form: str = "paper") -> list[dict[str, Any]]:
    """One row per data set, method and metric: seeds, mean, standard deviation over seeds, the paper's mean."""
    groups: dict[tuple[str, str], list[Line]] = {}
    for line in lines:
        groups.setdefault((line["dataset"], line["method"]), []).append(line)
    rows = []
    for (dataset, method), members in groups.items():
        for metric in metrics:
            values = np.array([line["metrics"][form][metric] for line in members])
            rows.append(
                {
                    "dataset": dataset,
                    "method": method,
                    "metric": metric,
                    "seeds": len(values),
                    "mean": float(values.mean()),
                    "sd": float(values.std(ddof=1)) if len(values) > 1 else math.nan,
                    "paper": paper_figures().get((method, dataset, metric), math.nan),
                }
            )
    return rows
