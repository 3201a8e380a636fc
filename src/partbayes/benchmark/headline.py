"""The README's table of scores: the default, the deep ensemble that takes about as long, and other libraries."""

from __future__ import annotations

from statistics import fmean

from partbayes.benchmark.lines import Line, read_lines
from partbayes.benchmark.page import PROTOCOL_SEEDS
from partbayes.data import DATASETS

COLUMNS = {
    "default": "partbayes",
    "ensemble": "deep ensemble",
    "catboost": "CatBoost",
    "ngboost": "NGBoost",
    "hist_gradient_boosting": "hist. gradient boosting",
    "gaussian_process": "Gaussian process",
}
BEGIN, END = "<!-- scores, by `make results` -->", "<!-- end of scores -->"


def headline_table(lines: list[Line]) -> str:
    """NLL and CRPS, means over the first five seeds, a row per public table; fewer seeds are said."""
    rows = [f"| data set | {' | '.join(COLUMNS.values())} |", "|---" * (len(COLUMNS) + 1) + "|"]
    for dataset in DATASETS:
        of_dataset = [line for line in lines if line["dataset"] == dataset and line["seed"] < PROTOCOL_SEEDS]
        cells = [_cell(of_dataset, _largest_ensemble(of_dataset) if name == "ensemble" else name) for name in COLUMNS]
        rows.append(f"| {dataset} | {' | '.join(cells)} |")
    return "\n".join(rows)


def with_headline(text: str, lines: list[Line]) -> str:
    """The text with the table between its two marks."""
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{headline_table(lines)}\n{END}{after}"


def _cell(lines: list[Line], method: str | None) -> str:
    scores = [line["metrics"]["mixture"] for line in lines if line["method"] == method]
    if not scores:
        return "–"
    nll, crps = (fmean(score[name] for score in scores) for name in ("nll", "crps"))
    fewer = "" if len(scores) == PROTOCOL_SEEDS else f" ({len(scores)} seed{'s' * (len(scores) > 1)})"
    return f"{nll:.3f} / {crps:.4f}{fewer}".replace("-", "−")


def _largest_ensemble(lines: list[Line]) -> str | None:
    """The one that took the longest: with a noise that may differ between rows, as the default's."""
    sizes = [line["method"].removeprefix("ensemble_") for line in lines if line["method"].startswith("ensemble_")]
    members = [int(size) for size in sizes if size.isdigit()]
    return f"ensemble_{max(members)}" if members else None


if __name__ == "__main__":
    import sys
    from pathlib import Path

    page, results = sys.argv[1:]
    sys.stdout.write(with_headline(Path(page).read_text(encoding="utf-8"), read_lines(results)))
