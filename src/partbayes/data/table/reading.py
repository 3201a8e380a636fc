"""A file of the user's to a data frame: CSV, TSV, Parquet, or CSV on standard input. Reading executes nothing.

Text is UTF-8, with or without a byte order mark. The separator of a CSV is found from its header line (comma,
semicolon, tab or bar), and decimal commas are understood where it is a semicolon. Missing are an empty cell and pandas'
markers, such as NA, NaN, null and None.
"""

from __future__ import annotations

import csv
import io
import re
import sys
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from partbayes.errors import PartbayesError

SEPARATORS = ",;\t|"
DECIMAL_COMMA = r"[-+]?\d+,\d+(?:[eE][-+]?\d+)?"
NAMELESS = "unnamed column "
"""How a column without a name is called, with its position from 1."""


class Table(NamedTuple):
    """A data frame with unique names, how to call it in a message, and what reading it took."""

    frame: pd.DataFrame
    name: str
    notes: tuple[str, ...] = ()

    def column(self, name: str) -> pd.Series:
        """One column."""
        column = self.frame[name]
        assert isinstance(column, pd.Series)
        return column


def read_table(source: str | Path, *, text: Sequence[str] = ()) -> Table:
    """Read a table by the ending of its name; `-` is CSV on standard input.

    Columns named in `text` are kept as they are written ("01" is not 1): a column of categories reads the same whatever
    other values come with it.
    """
    if str(source) == "-":
        if sys.stdin.isatty():
            raise PartbayesError(
                "The table was to come on standard input, which is a terminal: pipe one, or name a file."
            )
        return _read_text(sys.stdin.buffer.read(), "standard input", None, text)
    path = Path(source)
    ending = path.suffix.lower()
    if ending in (".parquet", ".pq"):
        return _read_parquet(_content(path), str(path))
    if ending in (".csv", ".tsv", ".tab", ".txt", ".data", ""):
        return _read_text(_content(path), str(path), "\t" if ending in (".tsv", ".tab") else None, text)
    raise PartbayesError(
        f"{path} ends in {ending!r}, but .csv, .tsv and .parquet files (or - for standard input) are read: convert it."
    )


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise PartbayesError(f"There is no file {path}: check the path.") from None
    except OSError as error:
        raise PartbayesError(f"{path} cannot be read ({error.strerror}): give a file that can be.") from error


def _read_text(content: bytes, name: str, separator: str | None, text: Sequence[str]) -> Table:
    _require_utf8(content, name)
    if not content.removeprefix(b"\xef\xbb\xbf").strip():
        raise PartbayesError(f"{name} is empty: a header line with column names and rows of data are needed.")
    names, separator = _header(content, separator, name)
    frame = _parse(content, name, names, separator, text)
    notes = []
    if separator == ";" and any(_has_decimal_commas(cells) for column, cells in frame.items() if column not in text):
        frame = _parse(content, name, names, separator, text, decimal=",")
        notes.append("read commas as decimal points")
    if separator != ",":
        notes.insert(0, f"columns are separated by {'tabs' if separator == chr(9) else repr(separator)}")
    return _with_rows(Table(frame, name, tuple(notes)))


def _parse(
    content: bytes, name: str, names: list[str], separator: str, text: Sequence[str], decimal: str = "."
) -> pd.DataFrame:
    try:
        with warnings.catch_warnings():
            # It warns where it would drop cells; that must not pass.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            frame = pd.read_csv(
                io.BytesIO(content),
                sep=separator,
                names=names,
                header=0,
                index_col=False,
                encoding="utf-8-sig",
                skipinitialspace=True,
                low_memory=False,
                decimal=decimal,
                dtype={column: str for column in text if column in names},  # pyright: ignore[reportArgumentType]
            )
    except pd.errors.ParserWarning:
        raise PartbayesError(
            f"{name} has rows with more cells than the header's {len(names)} names: name every column."
        ) from None
    except pd.errors.ParserError as error:
        long_line = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", str(error))
        if long_line:
            wanted, line, seen = long_line.groups()
            detail = f"has {seen} cells in line {line}, but {wanted} columns: quote cells that hold a {separator!r}"
        else:
            detail = (
                f"cannot be read as a table ({str(error).removeprefix('Error tokenizing data. C error: ')}): mend it"
            )
        raise PartbayesError(f"{name} {detail}.") from error
    for column, cells in frame.items():
        if isinstance(cells.dtype, pd.StringDtype):
            # "red " is red, and a cell of spaces is empty.
            stripped = cells.str.strip()
            frame[column] = stripped.mask(stripped == "")
    return frame


def _header(content: bytes, separator: str | None, name: str) -> tuple[list[str], str]:
    """The column names and the separator that gives most of them."""
    found: dict[str, list[str]] = {}
    for candidate in separator or SEPARATORS:
        with io.TextIOWrapper(io.BytesIO(content), encoding="utf-8-sig", newline="") as lines:
            try:
                records = csv.reader(lines, delimiter=candidate, skipinitialspace=True)
                found[candidate] = next(record for record in records if any(record))
            except (csv.Error, StopIteration):
                raise PartbayesError(f"The first line of {name} is no header of column names: add one.") from None
    best = max(found, key=lambda candidate: len(found[candidate]))
    return _unique_names(found[best], name), best


def _unique_names(header: Sequence[str], where: str) -> list[str]:
    names = [name.strip() or f"{NAMELESS}{place}" for place, name in enumerate(header, start=1)]
    twice = [repr(name) for name, count in Counter(names).items() if count > 1]
    if twice:
        raise PartbayesError(f"{where} has more than one column named {', '.join(twice)}: give each its own name.")
    return names


def _has_decimal_commas(column: pd.Series) -> bool:
    if not pd.api.types.is_string_dtype(column) or column.isna().all():
        return False
    return bool(column.dropna().str.strip().str.fullmatch(DECIMAL_COMMA + r"|[-+]?\d+").all())


def _require_utf8(content: bytes, name: str) -> None:
    if content.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in content[:4096]:
        raise PartbayesError(f"{name} is not UTF-8 text (UTF-16, or not text at all): save it as CSV in UTF-8.")
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise PartbayesError(
            f"{name} is not UTF-8 text (byte 0x{content[error.start]:02x} in line {line}): save it as CSV in UTF-8."
        ) from None


def _read_parquet(content: bytes, name: str) -> Table:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise PartbayesError(
            f"Reading {name} needs pyarrow: install it with pip install 'partbayes[parquet]', or convert it to CSV."
        ) from None
    try:
        table = parquet.ParquetFile(io.BytesIO(content)).read()
    except (pyarrow.ArrowException, OSError) as error:
        raise PartbayesError(f"{name} cannot be read as Parquet: check that it is one and complete.") from error
    # An index that pandas wrote is a column without a name of its own.
    header = ["" if re.fullmatch(r"__index_level_\d+__", column) else column for column in table.column_names]
    table = table.rename_columns(_unique_names(header, name))
    # Metadata is what would tell pandas to rebuild types of its own; the columns themselves are enough.
    frame = table.to_pandas(ignore_metadata=True)
    for column in frame.columns:
        if isinstance(frame[column].dtype, pd.CategoricalDtype):
            frame[column] = frame[column].astype(frame[column].cat.categories.dtype)
    return _with_rows(Table(frame, name))


def _with_rows(table: Table) -> Table:
    if len(table.frame) == 0:
        raise PartbayesError(f"{table.name} has column names but no rows: add rows of data.")
    return table
