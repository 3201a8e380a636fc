"""What looks wrong with a table before training: each finding is one sentence about the table or a column."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from partbayes.data.table.encoding import encode_target
from partbayes.data.table.reading import Table
from partbayes.data.table.schema import Column, Schema
from partbayes.data.table.values import as_numbers, listed

FEW_ROWS = 100
FEW_OF_A_CLASS = 10
"""Some rows are held out for validation, and a class this rare may be absent there."""
MOST_MISSING = 0.5
FAR = 10.0
"""Interquartile ranges beyond the quartiles: a normal distribution puts less than one cell in 10^40 there."""
LEAK = "use --ignore for it unless it is known before the target is"
SKEWED = 2.0
"""Skewness of an exponential distribution."""


class Finding(NamedTuple):
    """`column` is empty where the finding is about the whole table."""

    column: str
    sentence: str
    grave: bool = False
    """Worth saying even to someone who did not ask: the model would learn what it will not have."""


def find_problems(table: Table, schema: Schema) -> list[Finding]:
    """Everything that looks wrong but does not stop training. `table` comes from `with_target`."""
    target = encode_target(schema.target, table)
    found = [*_about_rows(table, schema), *_about_target(schema, target)]
    for column in schema.used:
        found += _about_column(column, table, schema, target)
    return found + _copies(table, schema)


def _about_rows(table: Table, schema: Schema) -> list[Finding]:
    rows, features = len(table.frame), len(schema.features)
    found = []
    if rows < FEW_ROWS:
        found.append(Finding("", f"there are only {rows} rows, expect wide intervals"))
    if rows < 5 * features:
        found.append(
            Finding("", f"there are {features} features for only {rows} rows: leave out columns that cannot matter")
        )
    copies = int(table.frame.duplicated([schema.target.name, *(column.name for column in schema.used)]).sum())
    if copies:
        found.append(
            Finding("", f"{copies} rows repeat another row: if they are in both training and test, scores flatter")
        )
    return found


def _about_target(schema: Schema, target: np.ndarray) -> list[Finding]:
    name, task, labels, _ = schema.target
    if task == "classification":
        counts = np.bincount(target, minlength=len(labels))
        rare = [f"{label} ({count})" for label, count in zip(labels, counts, strict=True) if count < FEW_OF_A_CLASS]
        found = [Finding(name, f"classes with fewer than {FEW_OF_A_CLASS} rows: {listed(rare)}")] if rare else []
        share = counts.max() / counts.sum()
        if share > 0.9:
            found.append(
                Finding(name, f"{share:.1%} of the rows are {labels[counts.argmax()]!r}: mind accuracy's baseline")
            )
        return found
    found = []
    spread = target.std()
    skewness = float(np.mean(((target - target.mean()) / spread) ** 3))
    if abs(skewness) > SKEWED:
        hint = ", a logarithm of it may be easier to predict" if target.min() > 0 and skewness > 0 else ""
        found.append(Finding(name, f"it is skewed (skewness {skewness:.1f}){hint}"))
    values = np.unique(target)
    if len(values) <= 10 and np.all(values == np.round(values)):
        found.append(
            Finding(
                name, f"it has {len(values)} different whole numbers: --task classification would make them classes"
            )
        )
    return found


def _about_column(column: Column, table: Table, schema: Schema, target: np.ndarray) -> list[Finding]:
    name, cells = column.name, table.column(column.name)
    found = []
    if column.missing > MOST_MISSING * len(cells):
        found.append(Finding(name, f"{column.missing} of {len(cells)} cells are missing"))
    if column.use == "number":
        numbers = as_numbers(cells, table.name)
        found += _about_numbers(name, numbers, cells.index.to_numpy())
        if schema.target.task == "regression" and not column.missing and _is_copy(numbers, target):
            found.append(Finding(name, f"it is the target, perhaps shifted or scaled: {LEAK}", grave=True))
    if schema.target.task == "classification" and not column.missing and _names_classes(cells, target):
        found.append(Finding(name, f"each of its values has one class of its own: {LEAK}", grave=True))
    return found


def _about_numbers(name: str, numbers: np.ndarray, rows: np.ndarray) -> list[Finding]:
    found = []
    if np.ptp(numbers - rows) == 0:
        found.append(Finding(name, "it counts the rows: use --ignore for it unless their order matters", grave=True))
    low, high = np.nanquantile(numbers, [0.25, 0.75])
    far = (numbers < low - FAR * (high - low)) | (numbers > high + FAR * (high - low))
    if high > low and far.any():
        extreme = numbers[far][np.argmax(np.abs(numbers[far] - low))]
        found.append(
            Finding(name, f"{far.sum()} cells lie more than {FAR:.0f} interquartile ranges out, such as {extreme:.6g}")
        )
    return found


def _is_copy(numbers: np.ndarray, target: np.ndarray) -> bool:
    # Correlation 1 up to what a table's rounding does: cells of four digits err by 1e-4, so 1 - r² by 1e-8.
    return abs(np.corrcoef(numbers, target)[0, 1]) > 1 - 1e-8


def _names_classes(cells: pd.Series, target: np.ndarray) -> bool:
    """As many values as classes, and each value always with the same one."""
    if cells.nunique() != len(np.unique(target)):
        return False
    pairs = pd.DataFrame({"value": cells.to_numpy(), "class": target}).drop_duplicates()
    return len(pairs) == pairs["value"].nunique() == pairs["class"].nunique()


def _copies(table: Table, schema: Schema) -> list[Finding]:
    first: dict[bytes, str] = {}
    found = []
    for column in schema.used:
        cells = table.column(column.name)
        key = as_numbers(cells, table.name).tobytes() if column.use == "number" else "\0".join(map(str, cells)).encode()
        if key in first:
            found.append(Finding(column.name, f"it equals {first[key]!r} in every row"))
        first.setdefault(key, column.name)
    return found
