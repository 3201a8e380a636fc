"""What is done to each column of a table: decided once, from the training table, and kept with the model as JSON."""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple, get_args

from partbayes.errors import PartbayesError

Task = Literal["regression", "classification"]
Use = Literal["number", "category", "ignored"]
VERSION = 1


class Column(NamedTuple):
    """One input column. A number becomes one feature, a category one per value; missing cells may add one more."""

    name: str
    use: Use
    reason: str = ""
    """Why it is ignored, in words that follow the column's name."""
    fill: float = 0.0
    """What a missing number becomes: the training median."""
    categories: tuple[str, ...] = ()
    others: int = 0
    """Rarer values in the training table that have no feature of their own."""
    missing: int = 0
    """Missing cells in the training table; if any, a feature says where they are."""

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features that it becomes."""
        if self.use == "ignored":
            return ()
        named = (self.name,) if self.use == "number" else tuple(f"{self.name}={value}" for value in self.categories)
        return (*named, f"{self.name} is missing") if self.missing else named

    @property
    def treatment(self) -> str:
        """What is done, for people."""
        if self.use == "ignored":
            return f"ignored: {self.reason}"
        if self.use == "number":
            if not self.missing:
                return "number"
            return f"number; {self.missing} missing filled with the median {self.fill:.6g}, plus an indicator"
        text = f"one-hot of {len(self.categories)} categories"
        if self.others:
            text += f", the commonest; {self.others} rarer values are coded as none of them"
        return text + (f"; {self.missing} missing, plus an indicator" if self.missing else "")


class Target(NamedTuple):
    """The column to predict. `labels` are the classes, sorted; `text` says that they were written as text."""

    name: str
    task: Task
    labels: tuple[str, ...] = ()
    text: bool = False


class Schema(NamedTuple):
    """Columns in the order of the training table, and the target."""

    columns: tuple[Column, ...]
    target: Target

    @property
    def used(self) -> tuple[Column, ...]:
        """The columns that become features."""
        return tuple(column for column in self.columns if column.use != "ignored")

    @property
    def features(self) -> tuple[str, ...]:
        """Names of all features, in order, each once."""
        names: dict[str, None] = {}
        for name in (name for column in self.columns for name in column.features):
            while name in names:
                name += "'"
            names[name] = None
        return tuple(names)

    @property
    def text(self) -> tuple[str, ...]:
        """Columns to be read as they are written, with the target if its classes were text."""
        inputs = tuple(column.name for column in self.columns if column.use == "category")
        return (*inputs, self.target.name) if self.target.text else inputs

    def to_json(self) -> dict[str, Any]:
        """Plain dicts, lists, numbers and strings."""
        return {
            "version": VERSION,
            "target": {**self.target._asdict(), "labels": list(self.target.labels)},
            "columns": [{**column._asdict(), "categories": list(column.categories)} for column in self.columns],
        }

    @classmethod
    def from_json(cls, content: Any) -> Schema:
        """The schema that `to_json` wrote; anything else is an error."""
        if isinstance(content, dict) and isinstance(content.get("version"), int) and content["version"] > VERSION:
            raise PartbayesError(
                f"The model's table description has version {content['version']}, but this partbayes reads up to "
                f"{VERSION}: update partbayes."
            )
        try:
            if set(content) != {"version", "target", "columns"} or content["version"] != VERSION:
                raise TypeError
            schema = cls(tuple(_column(column) for column in content["columns"]), _target(content["target"]))
            names = [column.name for column in schema.columns]
            if not schema.used or len({*names, schema.target.name}) <= len(names):
                raise TypeError
        except (TypeError, KeyError) as error:
            raise PartbayesError(
                "The model file holds no valid description of a table: it was not written by `partbayes fit`, or is "
                "damaged; fit the model again."
            ) from error
        return schema


def _column(content: dict[str, Any]) -> Column:
    column = Column(**{**content, "categories": _strings(content["categories"])})
    right = (
        isinstance(column.name, str)
        and column.use in get_args(Use)
        and isinstance(column.reason, str)
        and type(column.fill) in (int, float)
        and math.isfinite(column.fill)
        and all(type(count) is int and count >= 0 for count in (column.others, column.missing))
        and bool(column.categories) == (column.use == "category")
    )
    return column if right else _refuse()


def _target(content: dict[str, Any]) -> Target:
    target = Target(**{**content, "labels": _strings(content["labels"])})
    right = (
        isinstance(target.name, str)
        and target.task in get_args(Task)
        and isinstance(target.text, bool)
        and (len(target.labels) >= 2) == (target.task == "classification")
    )
    return target if right else _refuse()


def _strings(values: Any) -> tuple[str, ...]:
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        _refuse()
    return tuple(values) if len(set(values)) == len(values) else _refuse()


def _refuse() -> Any:
    raise TypeError
