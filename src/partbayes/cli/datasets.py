"""`partbayes data list` and `partbayes data get`."""

from __future__ import annotations

import typer
from rich.console import Console

from partbayes.cli.options import DataDir

data_app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="The six public tables: what they are, and where to get them."
)


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
