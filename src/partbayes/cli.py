"""The command line: parsing only. Each command hands its options to one function of the library."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from partbayes._version import __version__
from partbayes.errors import PartbayesError

# Plain tracebacks: a decorated one prints local variables, which here are whole arrays.
app = typer.Typer(name="partbayes", no_args_is_help=True, pretty_exceptions_enable=False)
data_app = typer.Typer(no_args_is_help=True, help="The six public tables: what they are, and where to get them.")
app.add_typer(data_app, name="data")

# Imports of the library stand inside the commands: `partbayes --help` should not wait for JAX.

Seed = Annotated[int, typer.Option(help="Seed: the same seed on the same machine gives the same numbers.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bars.")]
DataDir = Annotated[Path | None, typer.Option(help="Folder with the data sets' CSV files (else PARTBAYES_DATA).")]


@app.command()
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the picture goes.")] = Path(
        "partbayes-demo.png"
    ),
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Train on a shipped table (concrete strength) and show predictions with uncertainty.

    Example: partbayes demo -o demo.png
    """
    from partbayes.demo import run_demo
    from partbayes.report import metrics_table, predictions_table

    console = Console()
    console.print(
        "Concrete: compressive strength from the mix, 618 rows to learn from. First layer stochastic, 8 islands."
    )
    result = run_demo(output, seed=seed, progress=False if quiet else None)
    console.print(predictions_table(result.mixture, result.splits.test.y, unit="MPa"))
    console.print(metrics_table(result.metrics))
    console.print(f"Trained in {result.seconds:.0f} s. Picture: {result.picture}", soft_wrap=True)


@app.command()
def benchmark(
    preset: Annotated[str, typer.Option(help="What to run: 'paper' is the table of the GOHSMC paper.")] = "paper",
    datasets: Annotated[str, typer.Option(help="Data sets, separated by commas.")] = (
        "yacht,concrete,wine_red,wine_white,naval,california"
    ),
    methods: Annotated[str, typer.Option(help="Methods, separated by commas; 'all' for every one.")] = "all",
    seeds: Annotated[int, typer.Option(help="Seeds 0, 1, … of each data set and method.")] = 5,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="JSON lines; finished units in it are skipped.")
    ] = Path("results/paper.jsonl"),
    epochs: Annotated[int, typer.Option(help="Epochs.")] = 100,
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
        PaperSettings,
        check_settings,
        paper_units,
        run_missing,
        run_paper_unit,
        tabulate,
    )
    from partbayes.report import summary_table

    if preset != "paper":
        raise PartbayesError(f"There is no preset {preset!r}: use 'paper'.")
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
    chosen = list(METHODS) if methods == "all" else methods.split(",")
    units = paper_units(datasets.split(","), chosen, seeds, settings)
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

        lines = run_missing(units, output, lambda unit: run_paper_unit(unit, data_dir, predictions), on_unit=show)
    wanted = [unit["config"] for unit in units[:1]]
    Console().print(summary_table(tabulate(line for line in lines if line["config"] in wanted)))


@app.command()
def table(
    results: Annotated[Path, typer.Argument(help="JSON lines written by `partbayes benchmark`.")],
    style: Annotated[str, typer.Option("--format", "-f", help="'markdown', 'csv' or 'latex'.")] = "markdown",
    metrics: Annotated[str, typer.Option(help="Metrics, separated by commas.")] = "rmse,nll,crps",
    form: Annotated[
        str, typer.Option(help="'paper': N(mean, 1) as in the paper; 'mixture': the true predictive.")
    ] = "paper",
) -> None:
    """The paper's table from result lines: ours, the paper's in brackets, and the difference.

    Bold marks the best method only where paired t-tests over seeds support it against every other one.

    Example: partbayes table results/paper.jsonl --format latex
    """
    from partbayes.benchmark import format_table, read_lines, tabulate

    typer.echo(format_table(tabulate(read_lines(results), metrics.split(","), form), style))


@data_app.command("list")
def data_list() -> None:
    """Show the data sets with licence and citation."""
    from partbayes.report import datasets_table

    Console().print(datasets_table())


@data_app.command("get")
def data_get(name: str, data_dir: DataDir = None) -> None:
    """Download a data set and check it. This is the only command that uses the network.

    Example: partbayes data get california
    """
    from partbayes.data import download

    Console().print(f"{name} is at {download(name, data_dir)}", soft_wrap=True)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"partbayes {__version__}")
        raise typer.Exit()


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Partial Bayesian neural networks trained with sequential Monte Carlo."""


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line. Exit code 1 is a request that cannot be met, 2 a usage error, 130 an interrupt."""
    try:
        app(args=args, prog_name="partbayes")
    except PartbayesError as error:
        # One line even if the message quotes something that has line breaks.
        typer.echo(f"partbayes: {' '.join(str(error).split())}", err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        # Typer turns an interrupt inside a command into 130 itself; this one came before or after.
        sys.exit(130)
