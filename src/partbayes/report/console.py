"""Results as readable text in a terminal."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from rich.markup import escape
from rich.table import Table

from partbayes.data import DATASETS
from partbayes.predict import GaussianMixture

SENTENCES = {
    "rmse": "root mean squared error of the mean",
    "nll": "negative log-likelihood (lower is better)",
    "crps": "continuous ranked probability score (lower is better)",
    "coverage_90": "share of truths inside the 90 % intervals",
    "width_90": "mean width of the 90 % intervals",
}


def predictions_table(mixture: GaussianMixture, y: np.ndarray, *, rows: int = 8, unit: str = "") -> Table:
    """A few rows: truth, prediction, interval, and where the doubt comes from."""
    count = min(rows, len(y))
    picked = np.linspace(0, len(y) - 1, count).astype(int)
    part = mixture.rows(picked)
    lower, upper = (np.asarray(edge)[:, 0] for edge in part.interval(0.9))
    model = np.sqrt(np.asarray(part.epistemic_variance())[:, 0])
    noise = np.sqrt(np.asarray(part.aleatoric_variance())[:, 0])
    table = Table(title=f"Predictions with uncertainty{f' ({unit})' if unit else ''}", title_justify="left")
    for name in ("row", "truth", "prediction", "90 % interval", "± model", "± noise", ""):
        table.add_column(name, justify="right")
    for i, row in enumerate(picked):
        truth = float(y[row, 0])
        table.add_row(
            str(row),
            f"{truth:.1f}",
            f"{float(np.asarray(part.mean())[i, 0]):.1f}",
            f"{lower[i]:.1f} … {upper[i]:.1f}",
            f"{model[i]:.1f}",
            f"{noise[i]:.1f}",
            "inside" if lower[i] <= truth <= upper[i] else "outside",
        )
    return table


def metrics_table(metrics: dict[str, float]) -> Table:
    """The scores that people read first, each with its meaning."""
    table = Table(title="On rows the model has not seen", title_justify="left")
    table.add_column("score")
    table.add_column("value", justify="right")
    table.add_column("meaning")
    for name, sentence in SENTENCES.items():
        table.add_row(name, f"{metrics[name]:.3f}", sentence)
    return table


def summary_table(cells: Iterable[Any], *, paper: bool = True) -> Table:
    """Means over seeds, beside the paper's where that has the same quantity."""
    table = Table(title="Means over seeds. Paper: Millard et al. (2025)." if paper else "Means over seeds.")
    table.caption = "* best, supported by paired tests"
    for name in ("data set", "method", "metric"):
        table.add_column(name)
    for name in ("seeds", "mean", "sd", *(("paper", "difference") if paper else ())):
        table.add_column(name, justify="right")
    for cell in cells:
        table.add_row(
            cell.dataset,
            cell.method,
            cell.metric,
            str(len(cell.values)),
            _number(cell.mean) + ("*" if cell.best else ""),
            _number(cell.sd),
            *((_number(cell.paper), _number(cell.mean - cell.paper, sign=True)) if paper else ()),
        )
    return table


def datasets_table() -> Table:
    """The six public tables, their licence and source."""
    table = Table(show_header=False, show_lines=True, box=None, padding=(0, 2, 1, 0))
    for source in DATASETS.values():
        size = f"{source.num_rows} rows, {source.num_features} inputs, target {', '.join(source.targets)}"
        place = "shipped with the package" if source.bundled else f"`partbayes data get {source.name}` downloads it"
        lines = (size, place, f"Licence: {source.licence}", f"{source.citation} doi:{source.doi}")
        table.add_row(f"[bold]{source.name}[/bold]", "\n".join(escape(line) for line in lines))
    return table


def _number(value: float, *, sign: bool = False) -> str:
    return "–" if math.isnan(value) else f"{value:+.4f}" if sign else f"{value:.4f}"
