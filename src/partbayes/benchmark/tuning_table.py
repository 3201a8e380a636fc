"""Result lines of the presets `step_size` and `chees` as tables."""

from __future__ import annotations

from collections.abc import Sequence

from partbayes.benchmark.lines import Line


def step_size_table(lines: Sequence[Line]) -> str:
    """Where both automatic runs ended, and how they predict beside the best fixed step."""
    rows = [
        "| data set | sampler | seed | ε from 1e-5 | ε from 1 | log-scores | best fixed ε | its log-score | density | "
        "relative |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for line in lines:
        low, high = line["auto"]
        best, summary = line["best"], line["summary"]
        scores = ", ".join(_number(run["score"]) for run in (low, high))
        rows.append(
            f"| {line['dataset']} | {line['method']} | {line['seed']} | {low['step_size']:.2g} | "
            f"{high['step_size']:.2g} | {scores} | {best['first']:.2g} | {_number(best['score'])} | "
            f"{_number(summary['density'])} | {_number(summary['relative'])} |"
        )
    return "\n".join(rows)


def chees_table(lines: Sequence[Line]) -> str:
    """The length that was found beside the grid search's."""
    rows = ["| data set | sampler | seed | T found | best T | ratio | ε |", "|---|---|---|---|---|---|---|"]
    for line in lines:
        rows.append(
            f"| {line['dataset']} | {line['method']} | {line['seed']} | {line['length']:.2f} | "
            f"{line['best_length']:.2f} | {line['ratio']:.2f} | {line['step_size']:.2g} |"
        )
    return "\n".join(rows)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
