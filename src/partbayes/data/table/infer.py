"""From a training table to its schema: which column is a number, a category or of no use, and what the target is.

- A column is a number if its cells are (true and false are 1 and 0), and a category if they are text.
- Mostly numbers with some text among them is an error: a typing mistake must not turn a number into categories.
- Ignored are columns that are constant, empty, without a name, dates or lists, or text with a value of its own in more
  than half of the rows. Of categories the commonest `MAX_CATEGORIES` get a feature.
- A target of text, of true and false or of two whole numbers has classes; any other target of numbers is a quantity.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

from partbayes.data.table.reading import NAMELESS, Table
from partbayes.data.table.schema import Column, Schema, Target, Task
from partbayes.data.table.values import as_numbers, as_text, kind_of, listed, nearest, numeric_share
from partbayes.errors import PartbayesError

MIN_ROWS = 10
MAX_CATEGORIES = 50
DATE = r"\s*(?:\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{4})(?:\D.*)?"


class Plan(NamedTuple):
    """What would be done, and one sentence for each column that stands in the way."""

    columns: tuple[Column, ...]
    target: Target | None
    errors: tuple[str, ...]


def infer_schema(
    table: Table,
    target: str,
    *,
    task: Task | Literal["auto"] = "auto",
    ignore: Sequence[str] = (),
    categorical: Sequence[str] = (),
) -> Schema:
    """The schema, or an error for the first thing that stands in the way. `table` comes from `with_target`."""
    plan = plan_columns(table, target, task=task, ignore=ignore, categorical=categorical)
    if plan.errors or plan.target is None:
        raise PartbayesError(plan.errors[0])
    return Schema(plan.columns, plan.target)


def plan_columns(
    table: Table,
    target: str,
    *,
    task: Task | Literal["auto"] = "auto",
    ignore: Sequence[str] = (),
    categorical: Sequence[str] = (),
) -> Plan:
    """Look at every column, whatever is wrong with the others."""
    names = [str(name) for name in table.frame.columns]
    for name in (*ignore, *categorical):
        require_column(table, name)
    if target in ignore:
        raise PartbayesError(f"{target!r} is both the target and to be ignored: choose another target.")
    if target in categorical:
        raise PartbayesError(f"{target!r} is the target: use --task classification in place of --categorical for it.")
    errors: list[str] = []
    found_target: Target | None = None
    columns: list[Column] = []
    if len(table.frame) < MIN_ROWS:
        errors.append(f"{table.name} has {len(table.frame)} rows with a target, but at least {MIN_ROWS} are needed.")
    for name in names:
        try:
            if name == target:
                found_target = _infer_target(table.column(name), table.name, task)
            elif name in ignore:
                columns.append(Column(name, "ignored", "as asked"))
            else:
                columns.append(_infer_column(table.column(name), table.name, name in categorical))
        except PartbayesError as error:
            errors.append(str(error))
    if not errors and all(column.use == "ignored" for column in columns):
        errors.append(f"{table.name} has no input column that can be used beside the target {target!r}: add one.")
    return Plan(tuple(columns), found_target, tuple(errors))


def with_target(table: Table, target: str) -> Table:
    """The rows that have a target; the rest is left out with a note. Rows keep their numbers."""
    column = require_column(table, target, "target")
    missing = column.isna()
    if missing.all():
        raise PartbayesError(f"Every cell of the target column {target!r} of {table.name} is missing: fill it.")
    if not missing.any():
        return table
    note = f"left out {missing.sum()} of {len(column)} rows, whose target is missing"
    return Table(table.frame.loc[~missing], table.name, (*table.notes, note))


def require_column(table: Table, name: str, role: str = "") -> pd.Series:
    """The column, or an error that suggests the nearest name."""
    if name in table.frame.columns:
        return table.column(name)
    names = [str(other) for other in table.frame.columns]
    close = nearest(name, names)
    hint = f"did you mean {close!r}?" if close else f"its columns are {listed(names)}."
    raise PartbayesError(f"{table.name} has no {role and role + ' '}column {name!r}: {hint}")


def _infer_column(column: pd.Series, table: str, as_category: bool) -> Column:
    name = str(column.name)
    missing = int(column.isna().sum())
    present = len(column) - missing
    kind = kind_of(column)
    if name.startswith(NAMELESS):
        return Column(name, "ignored", "it has no name, as row numbers often have none")
    if not present:
        return Column(name, "ignored", "every cell is missing")
    if kind == "other":
        return Column(name, "ignored", "dates or lists; turn them into numbers to use them")
    if as_category or (kind == "text" and numeric_share(column) <= 0.5):
        return _infer_category(column, as_category)
    numbers = as_numbers(column, table)
    if not missing and np.ptp(numbers) == 0:
        return Column(name, "ignored", f"constant, {column.iloc[0]} in every row")
    return Column(name, "number", fill=float(np.nanmedian(numbers)), missing=missing)


def _infer_category(column: pd.Series, forced: bool) -> Column:
    name = str(column.name)
    counts = as_text(column).value_counts()
    present, missing = int(counts.sum()), int(column.isna().sum())
    if len(counts) == 1 and not missing:
        return Column(name, "ignored", f"constant, {counts.index[0]!r} in every row")
    if len(counts) > present / 2 and not forced:
        if column.dropna().str.fullmatch(DATE).all():
            return Column(name, "ignored", "dates; turn them into numbers to use them")
        return Column(
            name, "ignored", f"text with {len(counts)} different values in {present} rows, like an identifier"
        )
    # Ties are broken by name: the schema depends on the rows, not on their order.
    commonest = sorted(counts.index, key=lambda value: (-counts[value], value))[:MAX_CATEGORIES]
    categories = tuple(_in_order(commonest))
    return Column(name, "category", categories=categories, others=len(counts) - len(categories), missing=missing)


def _infer_target(column: pd.Series, table: str, task: Task | Literal["auto"]) -> Target:
    name, kind = str(column.name), kind_of(column)
    if kind == "other":
        raise PartbayesError(f"The target {name!r} of {table} holds dates or lists: give numbers or classes.")
    numeric = kind != "text" or numeric_share(column) > 0.5
    if task == "auto":
        classes = not numeric or kind == "boolean" or _two_classes(as_numbers(column, table))
        task = "classification" if classes else "regression"
    if task == "regression":
        return _infer_quantity(column, table, numeric)
    if kind == "number":
        as_numbers(column, table)  # For its complaint about infinite ones.
    labels = _in_order(as_text(column).unique())
    if len(labels) == 1:
        raise PartbayesError(
            f"The target {name!r} of {table} has only one class, {labels[0]!r}: at least two are needed."
        )
    if len(labels) > len(column) / 2:
        raise PartbayesError(
            f"The target {name!r} of {table} has {len(labels)} classes in {len(column)} rows: use --task regression if "
            "they are quantities, or choose another target."
        )
    return Target(name, "classification", tuple(labels), text=kind == "text")


def _infer_quantity(column: pd.Series, table: str, numeric: bool) -> Target:
    name, first = str(column.name), column.iloc[0]
    if not numeric:
        raise PartbayesError(
            f"The target {name!r} of {table} is text (such as {str(first)!r}), but regression needs numbers: use "
            "--task classification."
        )
    if np.ptp(as_numbers(column, table)) == 0:
        raise PartbayesError(
            f"The target {name!r} of {table} is {first} in every row: there is nothing to learn, choose another target."
        )
    return Target(name, "regression")


def _two_classes(numbers: np.ndarray) -> bool:
    values = np.unique(numbers)
    return len(values) == 2 and bool(np.all(values == np.round(values)))


def _in_order(values: Iterable[str]) -> list[str]:
    """By size if all are numbers, else by alphabet."""
    words = [str(value) for value in values]
    try:
        return sorted(words, key=lambda word: (float(word), word))
    except ValueError:
        return sorted(words)
