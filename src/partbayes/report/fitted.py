"""What was done to a table, how training went and what came of it: text for a terminal."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from rich.table import Table as RichTable
from rich.text import Text

from partbayes.data.table import Column, Finding, Table, Target

MEANINGS = {
    "rmse": "root mean squared error of the mean",
    "mae": "mean absolute error of the mean",
    "r2": "share of the variance explained",
    "bias": "absolute mean error",
    "nll": "negative log-likelihood (lower is better)",
    "crps": "ranked probability score (lower is better)",
    "coverage_50": "share of truths inside the 50 % intervals",
    "coverage_90": "share of truths inside the 90 % intervals",
    "coverage_95": "share of truths inside the 95 % intervals",
    "width_90": "mean width of the 90 % intervals",
    "calibration_error": "mean gap of promised and observed coverage",
    "accuracy": "share of rows whose likeliest class is right",
    "brier": "squared error of the probabilities, 0 to 2",
    "ece": "calibration error of the probabilities",
    "auc": "area under the ROC curve, class against rest",
}


def describe_plan(table: Table, columns: Sequence[Column], target: Target | None) -> list[str]:
    """The target, then what is done to which column; plain numbers share one line."""
    lines = [f"{table.name}: {len(table.frame)} rows", *(f"  {sentence}" for sentence in table.notes)]
    if target is not None:
        lines.append(f"target {target.name!r}: {_describe_target(target)}")
    plain = [column.name for column in columns if column.treatment == "number"]
    if plain:
        lines.append(f"{len(plain)} {'columns' if len(plain) > 1 else 'column'} used as numbers: {', '.join(plain)}")
    special = [column for column in columns if column.treatment != "number"]
    width = max((len(column.name) for column in special), default=0)
    return [*lines, *(f"  {column.name:<{width}}  {column.treatment}" for column in special)]


def describe_findings(findings: Iterable[Finding], errors: Iterable[str]) -> list[str]:
    """What stops training, then what looks wrong."""
    wrong = [f"  {finding.column or 'table'}: {finding.sentence}" for finding in findings]
    stops = [f"  {error}" for error in errors]
    lines = ["stops training:", *stops] if stops else []
    lines += ["look at:", *wrong] if wrong else []
    return lines or ["nothing looks wrong"]


def describe_grave(findings: Iterable[Finding]) -> list[str]:
    """Only what nobody should train without knowing."""
    return [f"column {finding.column!r}: {finding.sentence}" for finding in findings if finding.grave]


def describe_training(stages: Iterable[Any], seconds: float) -> list[str]:
    """One line per stage, with its score on the rows held out (of the standardised target)."""
    lines = []
    for stage in stages:
        score = "" if math.isnan(stage.validation) else f", validation NLL {stage.validation:.4f}"
        epochs = f"{stage.epochs} epochs in " if stage.epochs else ""
        lines.append(f"  {stage.name}: {epochs}{stage.seconds:.1f} s{score}")
    return [f"trained in {seconds:.1f} s", *lines]


def scores_table(metrics: dict[str, float], title: str) -> RichTable:
    """Every score with its meaning."""
    table = RichTable(title=Text(title), title_justify="left")
    table.add_column("score")
    table.add_column("value", justify="right")
    table.add_column("meaning")
    for name, value in metrics.items():
        table.add_row(name, "–" if math.isnan(value) else f"{value:.4g}", MEANINGS.get(name, ""))
    return table


def _describe_target(target: Target) -> str:
    if target.task == "regression":
        return "a quantity (regression)"
    shown = ", ".join(target.labels[:6]) + (", …" if len(target.labels) > 6 else "")
    return f"{len(target.labels)} classes (classification): {shown}"
