"""What a column of a data frame holds, and its cells as numbers or as text."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Literal

import numpy as np
import pandas as pd

from partbayes.errors import PartbayesError

Kind = Literal["number", "boolean", "text", "other"]


def kind_of(column: pd.Series) -> Kind:
    """Numbers, true/false, text, or what is none of these (dates, lists). Missing cells do not count."""
    if pd.api.types.is_bool_dtype(column):
        return "boolean"
    if pd.api.types.is_numeric_dtype(column):
        return "number" if not pd.api.types.is_complex_dtype(column) else "other"
    if isinstance(column.dtype, pd.StringDtype):
        return "text"
    types = set(map(type, column.dropna()))
    if types <= {bool, np.bool_} and types:
        return "boolean"
    if types <= {int, float, Decimal} and types:
        return "number"
    return "text" if types <= {str} else "other"


def as_numbers(column: pd.Series, table: str) -> np.ndarray:
    """The cells as float64 `[N]`, nan where missing; text and infinite cells are errors that name the first one."""
    if kind_of(column) == "other":
        raise PartbayesError(f"Column {str(column.name)!r} of {table} holds dates or lists: give numbers.")
    numbers = _coerce(column)
    bad = np.isnan(numbers) & column.notna().to_numpy()
    if bad.any():
        raise PartbayesError(
            f"Column {str(column.name)!r} of {table} holds numbers, but {first_cell(column, bad)}: correct the cell or "
            f"leave it empty, or use --categorical {column.name} in fit if these are categories."
        )
    infinite = np.isinf(numbers)
    if infinite.any():
        raise PartbayesError(
            f"Column {str(column.name)!r} of {table} holds {first_cell(column, infinite)}, but numbers must be finite: "
            "correct the cell or leave it empty."
        )
    return numbers


def as_text(column: pd.Series) -> pd.Series:
    """The cells as text, missing ones as None; whole numbers without a decimal point, whatever type they came in."""
    kind = kind_of(column)
    if kind == "number":
        numbers = _coerce(column).tolist()
        texts = [None if math.isnan(n) else f"{n:.0f}" if n.is_integer() else repr(n) for n in numbers]
    else:
        texts = [None if missing else str(cell) for cell, missing in zip(column, column.isna(), strict=True)]
    return pd.Series(texts, index=column.index, dtype=object, name=column.name)


def numeric_share(column: pd.Series) -> float:
    """Of the cells that are not missing, the share that can be read as numbers."""
    present = int(column.notna().sum())
    return float(np.sum(~np.isnan(_coerce(column))) / present) if present else 0.0


def _coerce(column: pd.Series) -> np.ndarray:
    """float64, nan for what is not a number."""
    return np.asarray(pd.to_numeric(column, errors="coerce"), np.float64)


def first_cell(column: pd.Series, where: np.ndarray) -> str:
    """`'abc' in row 7` for the first cell of `where`, and how many there are. Rows count from 1 below the header."""
    first = int(np.argmax(where))
    more = f" ({where.sum()} such cells)" if where.sum() > 1 else ""
    # The index, not the position: rows without a target may have been taken out.
    return f"{str(column.iloc[first])!r} in row {int(column.index[first]) + 1}{more}"


def listed(names: Iterable[object], most: int = 6) -> str:
    """`'a', 'b' and 3 more`."""
    words = [repr(str(name)) for name in names]
    shown = ", ".join(words[:most])
    return shown if len(words) <= most else f"{shown} and {len(words) - most} more"


def nearest(name: str, names: Sequence[str]) -> str | None:
    """The most similar of the names, if one is similar at all; capitals do not count."""
    lower = {other.lower(): other for other in reversed(names)}
    close = difflib.get_close_matches(name.lower(), list(lower), n=1, cutoff=0.6)
    return lower[close[0]] if close else None
