"""A table to features and targets as its schema says, with a note for everything that training did not see."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from partbayes.data.table.infer import require_column
from partbayes.data.table.reading import Table
from partbayes.data.table.schema import Column, Schema, Target
from partbayes.data.table.values import as_numbers, as_text, listed, nearest
from partbayes.errors import PartbayesError


class Encoded(NamedTuple):
    """Features as float64 columns, a row for each row of the table, and what people should know."""

    x: pd.DataFrame
    notes: tuple[str, ...]


def encode(schema: Schema, table: Table) -> Encoded:
    """Match the columns by name, in any order. Missing columns are an error, others are ignored with a note."""
    given = [str(name) for name in table.frame.columns]
    known = {schema.target.name, *(column.name for column in schema.columns)}
    extra = [name for name in given if name not in known]
    _require_columns(schema, table, extra)
    notes = [f"ignored columns that the model does not know: {listed(extra)}"] if extra else []
    blocks = []
    for column in schema.used:
        encode_column = _encode_number if column.use == "number" else _encode_category
        blocks.append(encode_column(column, table, notes))
    # One array for all: a frame of separate columns would be slow to use.
    features = np.concatenate(blocks, axis=1)
    return Encoded(pd.DataFrame(features, columns=list(schema.features)), tuple(notes))


def encode_target(target: Target, table: Table) -> np.ndarray:
    """The target of a table from `with_target`: float64 `[N]`, or positions in `target.labels` `[N]`."""
    column = require_column(table, target.name, "target")
    if target.task == "regression":
        return as_numbers(column, table.name)
    place = {label: i for i, label in enumerate(target.labels)}
    codes = as_text(column).map(place)
    if codes.isna().any():
        strange = dict.fromkeys(as_text(column).loc[codes.isna()])
        raise PartbayesError(
            f"The target {target.name!r} of {table.name} holds {listed(strange)}, but the model's classes are "
            f"{listed(target.labels)}: take out those rows."
        )
    return codes.to_numpy(np.int64)


def _require_columns(schema: Schema, table: Table, extra: list[str]) -> None:
    absent = [column.name for column in schema.used if column.name not in table.frame.columns]
    if not absent:
        return
    guesses = [(name, nearest(name, extra)) for name in absent]
    renamed = [f"{guess!r} to {name!r}" for name, guess in guesses if guess]
    hint = f"rename {' and '.join(renamed)}?" if renamed else "columns are matched by name, add them."
    plural = "columns" if len(absent) > 1 else "a column"
    raise PartbayesError(f"{table.name} lacks {plural} that the model needs, {listed(absent)}: {hint}")


def _encode_number(column: Column, table: Table, notes: list[str]) -> np.ndarray:
    numbers = as_numbers(table.column(column.name), table.name)
    missing = np.isnan(numbers)
    if missing.any() and not column.missing:
        notes.append(
            f"{column.name!r} has {missing.sum()} missing cells, training had none: filled with its median "
            f"{column.fill:.6g}"
        )
    filled = np.where(missing, column.fill, numbers)
    return np.stack([filled, missing], axis=1) if column.missing else filled[:, None]


def _encode_category(column: Column, table: Table, notes: list[str]) -> np.ndarray:
    texts = as_text(table.column(column.name))
    place = {value: i for i, value in enumerate(column.categories)}
    codes = texts.map(place).to_numpy(np.float64, na_value=np.nan)
    missing = texts.isna().to_numpy(bool)
    onehot = (codes[:, None] == np.arange(len(place))).astype(np.float64)
    unknown = np.isnan(codes) & ~missing
    if unknown.any():
        values = listed(dict.fromkeys(texts.loc[unknown]), 3)
        what = "not seen in training, or rare there" if column.others else "not seen in training"
        notes.append(f"{column.name!r} holds {values}, {what} ({unknown.sum()} rows): coded as none of its categories")
    if missing.any() and not column.missing:
        notes.append(
            f"{column.name!r} has {missing.sum()} missing cells, training had none: coded as none of its categories"
        )
    return np.column_stack([onehot, missing]) if column.missing else onehot
