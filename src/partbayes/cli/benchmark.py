"""`partbayes benchmark` and `partbayes table`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from partbayes.cli.options import DataDir, Quiet
from partbayes.errors import PartbayesError

FORMS = {"paper": "paper", "readings": "paper", "practice": "mixture"}
"""Which form of the metrics a preset shows."""


def benchmark(
    preset: Annotated[
        str,
        typer.Option(
            help="What to run: 'paper' is the table of the GOHSMC paper; 'readings' is what its text leaves open, "
            "tried out on three tables; 'practice' is our default against deep ensembles and other libraries, on "
            "standardised targets."
        ),
    ] = "paper",
    datasets: Annotated[
        str | None, typer.Option(help="Data sets, separated by commas. [all six; yacht,concrete,wine_red for readings]")
    ] = None,
    methods: Annotated[
        str, typer.Option(help="Methods, separated by commas; 'all' for every one (readings: gohsmc,ohsmc).")
    ] = "all",
    seeds: Annotated[int, typer.Option(help="Seeds 0, 1, … of each data set and method.")] = 5,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="JSON lines; finished units in it are skipped. [results/PRESET.jsonl]"),
    ] = None,
    epochs: Annotated[
        int, typer.Option(help="Epochs (this and all below but the last three: presets 'paper' and 'readings').")
    ] = 100,
    particles: Annotated[int, typer.Option(help="Particles.")] = 100,
    width: Annotated[str, typer.Option(help="Units of the sampled layer, or 'literal' for the printed widths.")] = "50",
    kernel_scale: Annotated[str, typer.Option(help="Read the paper's kernel scales as 'sd' or 'variance'.")] = "sd",
    target_scale: Annotated[
        str, typer.Option(help="Likelihood factor of the target: 'full' (N/M) or 'batch' (1).")
    ] = "full",
    denominator: Annotated[str, typer.Option(help="GOHSMC weight denominator: 'cached' or 'same_batch'.")] = "cached",
    data_dir: DataDir = None,
    predictions: Annotated[Path | None, typer.Option(help="Folder for every unit's test predictions (.npz).")] = None,
    quiet: Quiet = False,
) -> None:
    """Run a benchmark grid, one JSON line per finished unit, and print means over seeds.

    Example: partbayes benchmark --preset paper --datasets yacht --methods gohsmc --seeds 5 -o results/yacht.jsonl
    """
    from partbayes.benchmark import (
        METHODS,
        OURS,
        READING_SETS,
        RIVALS,
        PaperSettings,
        check_settings,
        paper_units,
        practice_units,
        reading_units,
        run_missing,
        run_paper_unit,
        run_practice_unit,
        tabulate,
    )
    from partbayes.data import DATASETS
    from partbayes.report import summary_table

    names = list(READING_SETS if preset == "readings" else DATASETS) if datasets is None else datasets.split(",")
    if preset in ("paper", "readings"):
        settings = check_settings(
            PaperSettings(
                epochs=epochs,
                particles=particles,
                width=int(width) if width.isdigit() else width,  # pyright: ignore[reportArgumentType]
                kernel_scale=kernel_scale,  # pyright: ignore[reportArgumentType]
                target_scale=target_scale,  # pyright: ignore[reportArgumentType]
                denominator=denominator,  # pyright: ignore[reportArgumentType]
            )
        )
        everything = list(METHODS) if preset == "paper" else ["gohsmc", "ohsmc"]
        chosen = everything if methods == "all" else methods.split(",")
        units = (paper_units if preset == "paper" else reading_units)(names, chosen, seeds, settings)
        run = partial(run_paper_unit, data_dir=data_dir, predictions=predictions)
    elif preset == "practice":
        chosen = [*OURS, *RIVALS] if methods == "all" else methods.split(",")
        units = practice_units(names, chosen, seeds)
        run = partial(run_practice_unit, data_dir=data_dir)
    else:
        raise PartbayesError(f"There is no preset {preset!r}: use 'paper', 'readings' or 'practice'.")
    output = Path(f"results/{preset}.jsonl") if output is None else output
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("eta"),
    )
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), disable=quiet) as bar:
        task = bar.add_task("benchmark", total=len(units))

        def show(unit: dict, done: int, total: int) -> None:
            label = f"{unit['dataset']} {unit['method']} seed {unit['seed']}" if unit else "benchmark"
            bar.update(task, completed=done, description=label)

        lines = run_missing(units, output, run, on_unit=show)
    wanted = {unit["method"]: unit["config"] for unit in units}
    if preset == "readings":
        typer.echo(f"Done: {output} has {len(lines)} lines; `make results` puts them into docs/results.md.")
        return
    cells = tabulate((line for line in lines if line["config"] == wanted.get(line["method"])), form=FORMS[preset])
    Console().print(summary_table(cells, paper=preset == "paper"))


def table(
    results: Annotated[Path, typer.Argument(help="JSON lines written by `partbayes benchmark`.")],
    style: Annotated[str, typer.Option("--format", "-f", help="'markdown', 'csv' or 'latex'.")] = "markdown",
    metrics: Annotated[str, typer.Option(help="Metrics, separated by commas.")] = "rmse,nll,crps",
    form: Annotated[
        str, typer.Option(help="'paper': N(mean, 1) as in the paper; 'mixture': the true predictive.")
    ] = "paper",
    against: Annotated[str, typer.Option(help="What to set beside our means: 'paper' or 'nothing'.")] = "paper",
) -> None:
    """The paper's table from result lines: ours, the paper's in brackets, and the difference.

    Bold marks the best method only where paired t-tests over seeds support it against every other one.

    Example: partbayes table results/paper.jsonl --against paper --format latex
    """
    from partbayes.benchmark import format_table, read_lines, tabulate

    typer.echo(format_table(tabulate(read_lines(results), metrics.split(","), form, against), style))
