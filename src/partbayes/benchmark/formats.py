"""Tables as text: Markdown, CSV and LaTeX, in the paper's layout (methods down, data sets across)."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence

from partbayes.benchmark.table import Cell
from partbayes.errors import PartbayesError

NAMES = {
    "california": "California",
    "concrete": "Concrete",
    "yacht": "Yacht",
    "wine_red": "Red wine",
    "wine_white": "White wine",
    "naval": "Naval",
}


def format_table(cells: Sequence[Cell], style: str = "markdown") -> str:
    """The whole table in one of three styles."""
    styles = {"markdown": _markdown, "csv": _csv, "latex": _latex}
    if style not in styles:
        raise PartbayesError(f"There is no table style {style!r}: choose among {', '.join(styles)}.")
    return styles[style](cells)


def _markdown(cells: Sequence[Cell]) -> str:
    blocks = []
    for metric, datasets, methods, found in _blocks(cells):
        rows = [f"### {metric}", "", "| method | " + " | ".join(NAMES.get(d, d) for d in datasets) + " |"]
        rows.append("|---|" + "---|" * len(datasets))
        for method in methods:
            rows.append(f"| {method} | " + " | ".join(_entry(found.get((d, method)), "**") for d in datasets) + " |")
        blocks.append("\n".join(rows))
    return "\n\n".join(blocks) + "\n"


def _latex(cells: Sequence[Cell]) -> str:
    rows = []
    for metric, datasets, methods, found in _blocks(cells):
        rows.append(r"\begin{tabular}{l" + "c" * len(datasets) + "}\n\\toprule")
        rows.append(f"{metric} & " + " & ".join(NAMES.get(d, d) for d in datasets) + r" \\" + "\n\\midrule")
        for method in methods:
            entries = (_latex_entry(found.get((d, method))) for d in datasets)
            rows.append(method.replace("_", r"\_") + " & " + " & ".join(entries) + r" \\")
        rows.append("\\bottomrule\n\\end{tabular}\n")
    return "\n".join(rows)


def _csv(cells: Sequence[Cell]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["dataset", "method", "metric", "seeds", "mean", "sd", "paper", "difference", "best"])
    for cell in cells:
        numbers = (cell.mean, cell.sd, cell.paper, cell.mean - cell.paper)
        texts = ["" if math.isnan(v) else repr(round(v, 6)) for v in numbers]
        writer.writerow([cell.dataset, cell.method, cell.metric, len(cell.values), *texts, int(cell.best)])
    return out.getvalue()


def _blocks(cells: Sequence[Cell]):
    """Per metric: its data sets, its methods, and the cells by (data set, method)."""
    for metric in dict.fromkeys(cell.metric for cell in cells):
        part = [cell for cell in cells if cell.metric == metric]
        datasets = list(dict.fromkeys(cell.dataset for cell in part))
        methods = list(dict.fromkeys(cell.method for cell in part))
        yield metric, datasets, methods, {(cell.dataset, cell.method): cell for cell in part}


def _entry(cell: Cell | None, bold: str) -> str:
    """Our mean ± sd over seeds, and in brackets the paper's mean and how far ours is from it."""
    if cell is None:
        return "–"
    spread = "" if math.isnan(cell.sd) else f" ± {cell.sd:.4f}"
    mean = f"{bold}{cell.mean:.4f}{bold}{spread}" if cell.best else f"{cell.mean:.4f}{spread}"
    return mean if math.isnan(cell.paper) else f"{mean} ({cell.paper:.4f}, {cell.mean - cell.paper:+.4f})"


def _latex_entry(cell: Cell | None) -> str:
    if cell is None:
        return "--"
    mean = rf"\textbf{{{cell.mean:.4f}}}" if cell.best else f"{cell.mean:.4f}"
    spread = "" if math.isnan(cell.sd) else rf" $\pm$ {cell.sd:.4f}"
    beside = "" if math.isnan(cell.paper) else f" ({cell.paper:.4f}, ${cell.mean - cell.paper:+.4f}$)"
    return mean + spread + beside
