"""The command line: parsing only. Each command hands its options to one function of the library."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from partbayes._version import __version__
from partbayes.errors import PartbayesError

# Plain tracebacks: a decorated one prints local variables, which here are whole arrays.
app = typer.Typer(name="partbayes", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


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
