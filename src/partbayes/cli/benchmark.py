"""`partbayes benchmark` and `partbayes table`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from partbayes.cli.cores import use_cores
from partbayes.cli.options import Cores, DataDir, Quiet


def benchmark(
    preset: Annotated[
        str,
        typer.Option(
            help="What to run: 'paper' is the table of the GOHSMC paper; 'readings' is what its text leaves open, "
            "tried out; 'practice' is our default against deep ensembles and other libraries, on standardised "
            "targets; 'fidelity' is every proposal against long Hamiltonian Monte Carlo; 'step_size' and 'chees' are "
            "automatic tuning against grid search."
        ),
    ] = "paper",
    datasets: Annotated[
        str | None,
        typer.Option(help="Data sets, separated by commas. [paper, practice: all six; else yacht,concrete,wine_red]"),
    ] = None,
    methods: Annotated[str, typer.Option(help="Methods, separated by commas; 'all' for the preset's own.")] = "all",
    seeds: Annotated[
        int | None, typer.Option(help="Seeds 0, 1, … of each data set and method. [5; fidelity, step_size, chees: 1]")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="JSON lines; finished units in it are skipped. [results/PRESET.jsonl]"),
    ] = None,
    epochs: Annotated[
        int, typer.Option(help="Epochs (this and all down to --denominator: presets 'paper' and 'readings').")
    ] = 100,
    particles: Annotated[int, typer.Option(help="Particles.")] = 100,
    width: Annotated[str, typer.Option(help="Units of the sampled layer, or 'literal' for the printed widths.")] = "50",
    kernel_scale: Annotated[str, typer.Option(help="Read the paper's kernel scales as 'sd' or 'variance'.")] = "sd",
    target_scale: Annotated[
        str, typer.Option(help="Likelihood factor of the target: 'full' (N/M) or 'batch' (1).")
    ] = "full",
    denominator: Annotated[str, typer.Option(help="GOHSMC weight denominator: 'cached' or 'same_batch'.")] = "cached",
    data_dir: DataDir = None,
    predictions: Annotated[
        Path | None, typer.Option(help="Folder for every unit's test predictions, .npz (preset 'paper').")
    ] = None,
    truths: Annotated[
        Path | None, typer.Option(help="Folder for the long runs (preset 'fidelity'). [truths, beside the output]")
    ] = None,
    cores: Cores = None,
    quiet: Quiet = False,
) -> None:
    """Run a benchmark grid, one JSON line per finished unit, and print means over seeds.

    Example: partbayes benchmark --preset paper --datasets yacht --methods gohsmc --seeds 5 -o results/yacht.jsonl
    """
    use_cores(cores)
    from partbayes.benchmark import (
        PRACTICE_METRICS,
        Folders,
        PaperSettings,
        check_settings,
        find_preset,
        run_missing,
        tabulate,
    )
    from partbayes.report import summary_table

    chosen = find_preset(preset)
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
    output = Path(f"results/{preset}.jsonl") if output is None else output
    units = chosen.units(
        list(chosen.datasets) if datasets is None else datasets.split(","),
        list(chosen.methods) if methods == "all" else methods.split(","),
        chosen.seeds if seeds is None else seeds,
        settings,
    )
    folders = Folders(data_dir, predictions, truths or output.parent / "truths")
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

        lines = run_missing(units, output, lambda unit: chosen.run(unit, folders), on_unit=show)
    wanted = [(unit["method"], unit["config"]) for unit in units]
    lines = [line for line in lines if (line["method"], line["config"]) in wanted]
    if chosen.show is not None:
        typer.echo(chosen.show(lines))
    else:
        cells = tabulate(lines) if preset == "paper" else tabulate(lines, PRACTICE_METRICS, "mixture")
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
