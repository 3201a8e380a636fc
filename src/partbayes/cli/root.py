"""The application that the commands register with, and the way out: errors become one line and an exit code."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from partbayes._version import __version__
from partbayes.cli.benchmark import benchmark, table
from partbayes.cli.check import check
from partbayes.cli.compiled import VARIABLE, keep_compiled_programs
from partbayes.cli.datasets import data_app
from partbayes.cli.demo import demo
from partbayes.cli.evaluate import evaluate
from partbayes.cli.fit import fit
from partbayes.cli.predict import predict
from partbayes.errors import PartbayesError

# Plain tracebacks: a decorated one prints local variables, which here are whole arrays. Plain help: its examples keep
# their lines and can be copied.
app = typer.Typer(name="partbayes", no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None)
for _command in (fit, predict, evaluate, check, demo, benchmark, table):
    app.command()(_command)
app.add_typer(data_app, name="data")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"partbayes {__version__}")
        raise typer.Exit()


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    compile_cache: Annotated[
        bool, typer.Option(envvar=VARIABLE, help="Keep compiled programs in the cache folder for the next command.")
    ] = True,
) -> None:
    """Predictions with uncertainty, from partial Bayesian neural networks.

    \b
    Examples:
      partbayes demo
      partbayes check houses.csv --target price
      partbayes fit houses.csv --target price -o houses.model
      partbayes evaluate houses.model test.csv --target price
      partbayes predict houses.model new.csv -o predictions.csv
    """
    if compile_cache:
        keep_compiled_programs()


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
