"""Result lines as tables in Markdown."""

from __future__ import annotations

from typing import Any

CLOCKS = ("median", "best", "cpu")
"""By which a row is compared with its limit: median and least wall time, and processor time."""


COMPARED = {
    "GOHSMC-LD / its limit": ("GOHSMC-LD", None),
    "OHSMC-RW / its limit": ("OHSMC-RW", None),
    "straightforward / GOHSMC-LD": ("GOHSMC-LD straightforward", "GOHSMC-LD"),
    "HMC(5) / GOHSMC-LD": ("GOHSMC-HMC(5)", "GOHSMC-LD"),
    "blackjax SVGD / SVGD": ("blackjax SVGD", "SVGD"),
    "numpyro SVGD / SVGD": ("numpyro SVGD", "SVGD"),
}
"""What docs/speed.md sets side by side: a row, and another one or (None) its limit."""


def ratios(lines: list[dict[str, Any]]) -> str:
    """The comparisons of all shapes, by each clock."""
    widths = [f"width {line['shape']['width']}" for line in lines]
    out = ["| | " + " | ".join(widths) + " |", "|---|" + "--:|" * len(widths)]
    for title, (row, other) in COMPARED.items():
        cells = []
        for line in lines:
            below = {
                c: sum(line["limits"][c][row].values()) if other is None else line["rows"][other][c] for c in CLOCKS
            }
            cells.append(" / ".join(f"{line['rows'][row][clock] / below[clock]:.2f}" for clock in CLOCKS))
        out.append(f"| {title} | " + " | ".join(cells) + " |")
    return "\n".join(out)


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
