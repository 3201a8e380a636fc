"""Result lines of the preset `fidelity` as tables."""

from __future__ import annotations

from collections.abc import Sequence

from partbayes.benchmark.lines import Line
from partbayes.benchmark.samplers import SAMPLERS


def fidelity_table(lines: Sequence[Line]) -> str:
    """Each sampler's errors, per cent, mean over seeds; within a data set by the error of f's standard deviation."""
    rows = [
        "| data set | sampler | seeds | sd of f | ratio | mean of f | sd, with noise | ε | iterations |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for dataset in dict.fromkeys(line["dataset"] for line in lines):
        methods = dict.fromkeys(line["method"] for line in lines if line["dataset"] == dataset)
        found = {m: [x for x in lines if (x["dataset"], x["method"]) == (dataset, m)] for m in methods}
        for method in sorted(methods, key=lambda method: _error(found[method], "sd")):
            members = found[method]
            sd, mean, total = (_percent(_error(members, name)) for name in ("sd", "mean", "total_sd"))
            step = _mean([line["step_size"] for line in members])
            iterations = _mean([line["iterations"] for line in members])
            ratio = _error(members, "sd_ratio")
            rows.append(
                f"| {dataset} | {method} | {len(members)} | {sd} | {ratio:.2f} | {mean} | {total} | {step:.2g} | "
                f"{iterations:.0f} |"
            )
    return "\n".join(rows)


def closest_samplers(lines: Sequence[Line]) -> str:
    """On each data set the sampler with the least error of f's standard deviation, in words."""
    found = []
    for dataset in dict.fromkeys(line["dataset"] for line in lines):
        methods = {m: [x for x in lines if (x["dataset"], x["method"]) == (dataset, m)] for m in _methods(lines)}
        least = min((m for m in methods if methods[m]), key=lambda method: _error(methods[method], "sd"))
        sd, total = (_percent(_error(methods[least], name)) for name in ("sd", "total_sd"))
        found.append(f"`{least}` on {dataset} ({sd} for f, {total} with noise)")
    return ", ".join(found)


def _methods(lines: Sequence[Line]) -> list[str]:
    return list(dict.fromkeys(line["method"] for line in lines))


def by_sampler(lines: Sequence[Line]) -> str:
    """The error of f's standard deviation alone, samplers down and data sets across: the short form in the docs."""
    datasets, methods = (list(dict.fromkeys(line[name] for line in lines)) for name in ("dataset", "method"))
    rows = ["| sampler | " + " | ".join(datasets) + " |", "|---|" + "---|" * len(datasets)]
    for method in (name for name in SAMPLERS if name in methods):
        found = {d: [x for x in lines if (x["dataset"], x["method"]) == (d, method)] for d in datasets}
        cells = (_percent(_error(members, "sd")) if members else "–" for members in found.values())
        rows.append(f"| {method} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def truths_table(lines: Sequence[Line]) -> str:
    """How long each truth is, and how well it is known."""
    rows = [
        "| data set | seed | parameters | gradients | largest R-hat | least ESS | median ESS | even/odd chains | "
        "mean sd of f | noise |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for dataset, seed in dict.fromkeys((line["dataset"], line["seed"]) for line in lines):
        line = next(x for x in lines if (x["dataset"], x["seed"]) == (dataset, seed))
        truth = line["truth"]
        rows.append(
            f"| {dataset} | {seed} | {line['num_parameters']} | {truth['gradients']:,.0f} | {truth['rhat']:.3f} | "
            f"{truth['least_ess']:.0f} | {truth['median_ess']:.0f} | {_percent(truth['halves'])} | "
            f"{truth['mean_sd']:.3f} | {truth['noise']:.3f} |"
        )
    return "\n".join(rows)


def _error(members: Sequence[Line], name: str) -> float:
    return _mean([line["errors"][name] for line in members])


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"
