"""`partbayes demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from partbayes.cli.cores import use_cores
from partbayes.cli.options import Cores, Quiet, Seed


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the picture goes.")] = Path(
        "partbayes-demo.png"
    ),
    seed: Seed = 0,
    cores: Cores = None,
    quiet: Quiet = False,
) -> None:
    """Train on a shipped table (concrete strength) and show predictions with uncertainty.

    Example: partbayes demo -o demo.png
    """
    use_cores(cores)
    from partbayes.demo import run_demo
    from partbayes.report import describe_training, metrics_table, predictions_table

    console = Console()
    console.print(
        "Concrete: compressive strength from the mix, 618 rows to learn from. Eighty networks, first layer sampled."
    )
    result = run_demo(output, seed=seed, progress=False if quiet else None)
    console.print(predictions_table(result.mixture, result.splits.test.y, unit="MPa"))
    console.print(metrics_table(result.metrics))
    for line in (*describe_training(result.stages, result.seconds), *result.notes):
        console.print(line, highlight=False, soft_wrap=True)
    console.print(f"Picture: {result.picture}", soft_wrap=True)
