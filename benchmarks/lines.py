"""A result line as a table in Markdown."""

from __future__ import annotations

from typing import Any

CLOCKS = ("median", "best", "cpu")
"""By which a row is compared with its limit: median and least wall time, and processor time."""


def table(line: dict[str, Any]) -> str:
    """A line as Markdown. A row's limit is the sum of the limit's parts, all by the same clock as the row."""
    title = ", ".join(f"{name} {size}" for name, size in line["shape"].items())
    heads = ["step", "ms (median)", "quartiles", "least", "CPU ms", "limit, ms", *(f"× limit, {c}" for c in CLOCKS)]
    out = [f"\n{title}\n", "| " + " | ".join(heads) + " |", "|---|" + "--:|" * (len(heads) - 1)]
    for name, t in line["rows"].items():
        if name.startswith("limit/"):
            continue
        cells = [name, f"{t['median']:.2f}", f"{t['lower']:.2f} to {t['upper']:.2f}", f"{t['best']:.2f}"]
        cells.append(f"{t['cpu']:.2f}")
        if name in line["limits"]["median"]:
            bounds = {clock: sum(line["limits"][clock][name].values()) for clock in CLOCKS}
            cells += [f"{bounds['median']:.2f}", *(f"{t[clock] / bounds[clock]:.2f}" for clock in CLOCKS)]
        else:
            cells += [""] * 4
        out.append("| " + " | ".join(cells) + " |")
    return "\n".join(out)
