"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

Seed = Annotated[int, typer.Option(help="Seed: the same seed on the same machine gives the same numbers.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bars.")]
Silent = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
DataDir = Annotated[Path | None, typer.Option(help="Folder with the data sets' CSV files (else PARTBAYES_DATA).")]

Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="Table with a header: .csv, .tsv or .parquet, or - for CSV on standard input. Text is UTF-8. Empty cells, "
        "NA, NaN, null and None are missing values.",
    ),
]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="Model file written by `partbayes fit`.")]
TargetColumn = Annotated[str, typer.Option("--target", "-t", metavar="COL", help="Column to predict.")]
Task = Literal["auto", "regression", "classification"]
TaskOption = Annotated[
    Task,
    typer.Option(
        help="'auto': text, true/false and two whole numbers are classes, other numbers are quantities.",
    ),
]
Ignore = Annotated[
    list[str] | None, typer.Option("--ignore", metavar="COL", help="Column to leave out; may be given several times.")
]
Categorical = Annotated[
    list[str] | None,
    typer.Option(
        "--categorical", metavar="COL", help="Column of numbers that are codes of categories; may be repeated."
    ),
]
Cores = Annotated[
    int | None,
    typer.Option(
        help="Cores to share the islands among. [all, at most 8; several processes: JAX_NUM_CPU_DEVICES of each]"
    ),
]
