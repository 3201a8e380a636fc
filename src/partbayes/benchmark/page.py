"""docs/results.md, made from the committed result lines: prose from a template, every number from the lines."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import fmean, median

import numpy as np

from partbayes.benchmark.fidelity_table import closest_samplers, fidelity_table, truths_table
from partbayes.benchmark.formats import format_table
from partbayes.benchmark.lines import Line, read_lines
from partbayes.benchmark.readings import readings_table
from partbayes.benchmark.table import paired_difference, tabulate
from partbayes.benchmark.tuning_table import chees_table, step_size_table
from partbayes.errors import PartbayesError

PRINTED_DIGITS = 4
"""Decimals in the paper's table."""

GUIDED_SETS = ("yacht", "concrete", "wine_red")


def write_page(template: str | os.PathLike[str], results: str | os.PathLike[str]) -> str:
    """The template with each `{{name}}` replaced by what the lines under `results` say."""
    text = Path(template).read_text(encoding="utf-8")
    folder = Path(results)
    for name, make in SECTIONS.items():
        mark = "{{" + name + "}}"
        if mark in text:
            text = text.replace(mark, make(folder))
    if "{{" in text:
        unknown = text.split("{{", 1)[1].split("}}", 1)[0]
        raise PartbayesError(f"The template asks for {unknown!r}, but only {', '.join(SECTIONS)} can be filled in.")
    return text


def _paper_table(folder: Path) -> str:
    return format_table(tabulate(read_lines(folder / "paper.jsonl"))).strip()


def _coverage(folder: Path) -> str:
    """How much of the grid is there: an unfinished one says so."""
    lines = read_lines(folder / "paper.jsonl")
    seeds: dict[str, list[int]] = {}
    for line in lines:
        seeds.setdefault(line["dataset"], []).append(line["seed"])
    return ", ".join(f"{name}: {len(found)} runs" for name, found in seeds.items())


def _paper_verdict(folder: Path) -> str:
    """For each of the paper's methods: on which data sets our mean RMSE, to as many digits, is at or below its own."""
    cells = [cell for cell in tabulate(read_lines(folder / "paper.jsonl"), ["rmse"]) if not math.isnan(cell.paper)]
    rows = ["| method | RMSE at or below the paper's | above it |", "|---|---|---|"]
    for method in dict.fromkeys(cell.method for cell in cells):
        of_method = [cell for cell in cells if cell.method == method]
        below = [cell for cell in of_method if round(cell.mean, PRINTED_DIGITS) <= cell.paper]
        above = [f"{cell.dataset} ({cell.mean:.4f}, not {cell.paper:.4f})" for cell in of_method if cell not in below]
        below = [cell.dataset for cell in below]
        rows.append(f"| {method} | {len(below)} of {len(of_method)}: {', '.join(below)} | {', '.join(above) or '–'} |")
    return "\n".join(rows)


def _guided_table(folder: Path) -> str:
    return format_table(tabulate(read_lines(folder / "guided.jsonl"))).strip()


def _first_seeds(folder: Path) -> str:
    """GOHSMC's RMSE on yacht for each of the first five seeds, and their mean."""
    lines = [line for line in read_lines(folder / "guided.jsonl") if line["seed"] < 5 and line["dataset"] == "yacht"]
    values = [line["metrics"]["paper"]["rmse"] for line in lines if line["method"] == "gohsmc"]
    return ", ".join(f"{value:.3f}" for value in values) + f" (mean {fmean(values):.3f})"


def _guided(folder: Path) -> str:
    """GOHSMC against OHSMC, paired over seeds."""
    lines = read_lines(folder / "guided.jsonl")
    rows = ["| data set | metric | seeds | GOHSMC − OHSMC | 95 % interval |", "|---|---|---|---|---|"]
    for dataset in GUIDED_SETS:
        for metric in ("rmse", "nll", "crps"):
            found = paired_difference(lines, "gohsmc", "ohsmc", dataset, metric)
            interval = f"{found['low']:+.4f} … {found['high']:+.4f}"
            rows.append(f"| {dataset} | {metric} | {found['seeds']} | {found['mean']:+.4f} | {interval} |")
    return "\n".join(rows)


def _readings(folder: Path) -> str:
    return readings_table(read_lines(folder / "readings.jsonl"))


SHOWN = {"rmse": "RMSE", "nll": "NLL", "crps": "CRPS", "coverage_90": "90 % coverage"}
SHOWN_OF_CLASSES = {"accuracy": "accuracy", "nll": "NLL", "brier": "Brier", "ece": "ECE"}
AS_QUICK = ("ensemble_20", "ensemble_60")
"""Ensembles that take about as long as `quick` does; the others are the default's rivals."""

WITHOUT_A_PART = ("selected", "normal_noise", "unrefined", "temperature_1")
"""The default with one part left out, on few seeds: in comparisons in pairs only."""

PRACTICE = "practice.jsonl"
"""The preset's own lines; those of other files are shown whole."""


def _practice_lines(folder: Path, classes: bool, file: str = PRACTICE) -> list[Line]:
    """The lines of tables to predict a class of, or of the others."""
    lines = read_lines(folder / file)
    return [line for line in lines if ("accuracy" in line["metrics"]["mixture"]) == classes]


PROTOCOL_SEEDS = 5
"""Seeds that means are taken over, at most: some tables have more, which pairs are taken over where both have them."""


def _practice_means(folder: Path, shown: dict[str, str], file: str = PRACTICE) -> str:
    """Means over the first five seeds (of the seconds, the median), a block per table."""
    rows = [
        f"| data set | method | seeds | {' | '.join(shown.values())} | seconds |",
        "|---|---|---|" + "---|" * (len(shown) + 1),
    ]
    lines = [line for line in _practice_lines(folder, "accuracy" in shown, file) if line["seed"] < PROTOCOL_SEEDS]
    if file == PRACTICE:
        lines = [line for line in lines if line["method"] not in WITHOUT_A_PART]
    for (dataset, method), members in _groups(lines).items():
        means = [fmean(line["metrics"]["mixture"][metric] for line in members) for metric in shown]
        scores = " | ".join(
            f"{mean:.3f}" if "9" in name else f"{mean:.4f}" for name, mean in zip(shown, means, strict=True)
        )
        seconds = median(line["seconds"] for line in members)  # one that had to wait for other work says little
        rows.append(f"| {dataset} | {method} | {len(members)} | {scores} | {seconds:.0f} |")
    return "\n".join(rows)


def _practice_paired(
    folder: Path, metrics: tuple[str, ...], rivals: Callable[[str], bool], ours: str = "default"
) -> str:
    """One of ours against some of the other methods, paired over seeds."""
    lines = _practice_lines(folder, "ece" in metrics)
    groups = _groups(lines)
    rows = [f"| data set | rival | metric | seeds | {ours} − rival | 95 % interval |", "|---|---|---|---|---|---|"]
    for dataset, method in groups:
        common = {line["seed"] for line in groups.get((dataset, ours), [])}
        common &= {line["seed"] for line in groups[dataset, method]}
        if not rivals(method) or len(common) < 2:
            continue
        for metric in metrics:
            found = paired_difference(lines, ours, method, dataset, metric, "mixture")
            interval = f"{found['low']:+.4f} … {found['high']:+.4f}"
            rows.append(f"| {dataset} | {method} | {metric} | {found['seeds']} | {found['mean']:+.4f} | {interval} |")
    return "\n".join(rows)


def _pooled_reliability(folder: Path) -> str:
    """Calibration of classes over the test rows of all common seeds together, which fill the bins better than those of
    one seed do: the error, and what the top label's probability and accuracy are on the whole."""
    groups = _groups([line for line in _practice_lines(folder, classes=True) if "reliability" in line])
    rows = ["| data set | method | seeds | rows | ECE | mean confidence | accuracy |", "|---|---|---|---|---|---|---|"]
    for dataset in dict.fromkeys(dataset for dataset, _ in groups):
        methods = {m: members for (d, m), members in groups.items() if d == dataset and m not in WITHOUT_A_PART}
        seeds = [{line["seed"] for line in members} for members in methods.values()]
        common = set.intersection(*seeds) if seeds else set()
        for method, members in methods.items() if common else ():
            curves = [line["reliability"] for line in members if line["seed"] in common]
            count, sure, right = _pooled(curves)
            error = float(np.sum(np.abs(sure - right)) / count)
            shown = f"{error:.4f} | {np.sum(sure) / count:.4f} | {np.sum(right) / count:.4f}"
            rows.append(f"| {dataset} | {method} | {len(common)} | {count} | {shown} |")
    return "\n".join(rows)


def _pooled(curves: list[dict[str, list]]) -> tuple[int, np.ndarray, np.ndarray]:
    """How many rows; and for each bin the sum of the top label's probabilities, and how many of these labels were
    right."""
    which, count, confidence, accuracy = (
        np.concatenate([curve[name] for curve in curves]) for name in ("bin", "count", "confidence", "accuracy")
    )
    sure, right = (np.bincount(which.astype(int), count * mean) for mean in (confidence, accuracy))
    return int(np.sum(count)), sure, right


def _is_large_ensemble(method: str) -> bool:
    return method.startswith("ensemble") and method not in AS_QUICK


def _groups(lines: list[Line]) -> dict[tuple[str, str], list[Line]]:
    """Lines by data set and method, methods in the order in which they first came."""
    datasets, methods = (list(dict.fromkeys(line[name] for line in lines)) for name in ("dataset", "method"))
    found = {(d, m): [x for x in lines if (x["dataset"], x["method"]) == (d, m)] for d in datasets for m in methods}
    return {pair: members for pair, members in found.items() if members}


def _lines_as(table: Callable[[list[Line]], str], file: str) -> Callable[[Path], str]:
    return lambda folder: table(read_lines(folder / file))


SECTIONS: dict[str, Callable[[Path], str]] = {
    "paper_table": _paper_table,
    "coverage": _coverage,
    "paper_verdict": _paper_verdict,
    "guided": _guided,
    "guided_table": _guided_table,
    "first_seeds": _first_seeds,
    "readings": _readings,
    "practice": partial(_practice_means, shown=SHOWN),
    "practice_paired": partial(_practice_paired, metrics=("rmse", "nll", "crps"), rivals=_is_large_ensemble),
    "quick_paired": partial(_practice_paired, metrics=("nll", "crps"), rivals=AS_QUICK.__contains__, ours="quick"),
    "refinement_paired": partial(_practice_paired, metrics=("nll", "crps"), rivals=WITHOUT_A_PART.__contains__),
    "ablation": partial(_practice_means, shown=SHOWN, file="ablation.jsonl"),
    "classes": partial(_practice_means, shown=SHOWN_OF_CLASSES),
    "classes_pooled": _pooled_reliability,
    "classes_paired": partial(_practice_paired, metrics=("nll", "ece"), rivals=_is_large_ensemble),
    "temperature_paired": partial(_practice_paired, metrics=("nll", "ece"), rivals=WITHOUT_A_PART.__contains__),
    "fidelity": _lines_as(fidelity_table, "fidelity.jsonl"),
    "closest": _lines_as(closest_samplers, "fidelity.jsonl"),
    "truths": _lines_as(truths_table, "fidelity.jsonl"),
    "step_size": _lines_as(step_size_table, "step_size.jsonl"),
    "chees": _lines_as(chees_table, "chees.jsonl"),
}


if __name__ == "__main__":
    import sys

    sys.stdout.write(write_page(*sys.argv[1:]))
