"""A table as arrays: rows with inputs, targets and weights, and its split into train, validation and test."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from partbayes.errors import PartbayesError


class Dataset(NamedTuple):
    """Rows of a table. Build it with `make_dataset`, which checks what goes in.

    `x` is `[N, features]`; `y` is `[N, outputs]` floats for regression, `[N]` integer class labels for
    classification; `weight` is `[N]`.
    """

    x: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    feature_names: tuple[str, ...]
    target_names: tuple[str, ...]

    @property
    def num_data(self) -> int:
        """Number of rows (`len` of a NamedTuple is its number of fields)."""
        return self.x.shape[0]

    @property
    def is_classification(self) -> bool:
        return np.issubdtype(self.y.dtype, np.integer)


class Splits(NamedTuple):
    """Three disjoint parts of one data set."""

    train: Dataset
    validation: Dataset
    test: Dataset


def make_dataset(
    x: ArrayLike,
    y: ArrayLike,
    weight: ArrayLike | None = None,
    feature_names: Sequence[str] | None = None,
    target_names: Sequence[str] | None = None,
) -> Dataset:
    """Check the arrays and put them into shape.

    Float `y` is a regression target and becomes `[N, outputs]`; integer (or boolean) `y` holds class labels and
    stays `[N]`. Whole numbers that are quantities, not classes, must therefore come as floats.
    """
    x = _as_float(x, "x")
    if x.ndim != 2 or 0 in x.shape:
        raise PartbayesError(f"x has shape {x.shape}, but at least one row and one column, [N, features], are needed.")
    y = _as_target(y)
    if len(y) != len(x):
        raise PartbayesError(f"x has {len(x)} rows and y has {len(y)}; pass one target row per input row.")
    weight = np.ones(len(x)) if weight is None else _as_float(weight, "weight")
    if weight.shape != (len(x),):
        raise PartbayesError(f"weight has shape {weight.shape}, but one number per row, ({len(x)},), is needed.")
    if (weight < 0).any() or not weight.any():
        raise PartbayesError("weight holds a negative number or only zeros; pass weights >= 0 with at least one > 0.")
    outputs = y.shape[1] if y.ndim == 2 else 1
    return Dataset(
        x, y, weight, _names(feature_names, "x", x.shape[1], "feature"), _names(target_names, "y", outputs, "target")
    )


def select(dataset: Dataset, indices: ArrayLike) -> Dataset:
    """The rows at `indices`, in that order."""
    indices = np.asarray(indices)
    return dataset._replace(x=dataset.x[indices], y=dataset.y[indices], weight=dataset.weight[indices])


def split(dataset: Dataset, seed: int, fractions: tuple[float, float, float] = (0.6, 0.3, 0.1)) -> Splits:
    """Train, validation and test by a seeded permutation; the last part takes what rounding down leaves.

    This is the protocol of the published comparison: the same seed and file order give the same rows.
    """
    if len(fractions) != 3 or min(fractions) < 0 or abs(sum(fractions) - 1.0) > 1e-9:
        raise PartbayesError(f"The split fractions are {fractions}, but three numbers >= 0 that sum to 1 are needed.")
    total = dataset.num_data
    # The tiny summand of a "safer" rounding would change the published splits: int() of the plain product it is.
    num_train, num_validation = int(fractions[0] * total), int(fractions[1] * total)
    sizes = (num_train, num_validation, total - num_train - num_validation)
    for name, size, fraction in zip(Splits._fields, sizes, fractions, strict=True):
        if size == 0 and (fraction > 0 or name == "train"):
            raise PartbayesError(f"{total} rows split by {fractions} leave none for {name}; use more rows there.")
    shuffled = select(dataset, np.random.default_rng(seed).permutation(total))
    stops = np.cumsum(sizes)
    return Splits(*(select(shuffled, np.arange(stop - size, stop)) for stop, size in zip(stops, sizes, strict=True)))


def deduplicate(dataset: Dataset) -> Dataset:
    """Drop every row whose inputs and targets both repeat an earlier row; order and weights of the rest stay."""
    rows = np.column_stack([dataset.x, dataset.y]).astype(np.float64)
    _, first = np.unique(rows, axis=0, return_index=True)
    return select(dataset, np.sort(first))


def _as_float(values: ArrayLike, name: str) -> np.ndarray:
    """Finite floats; float32 is kept (half the memory), everything else becomes float64."""
    values = np.asarray(values)
    if values.dtype != np.float32:
        try:
            # Complex numbers would only warn as they lose their imaginary part.
            values = values.astype(np.float64, casting="unsafe" if values.dtype.kind in "OUS" else "same_kind")
        except (TypeError, ValueError) as error:
            raise PartbayesError(
                f"{name} holds values of type {values.dtype} that are not real numbers; encode it as numbers first."
            ) from error
    if not np.isfinite(values).all():
        raise PartbayesError(f"{name} holds nan or infinite values; drop or fill those rows first.")
    return values


def _as_target(y: Any) -> np.ndarray:
    y = np.asarray(y)
    if y.dtype.kind not in "biu":
        y = _as_float(y, "y")
        if y.ndim == 1:
            y = y[:, None]
        if y.ndim != 2 or y.shape[1] == 0:
            raise PartbayesError(f"y has shape {y.shape}, but [N] or [N, outputs] is needed.")
        return y
    if y.ndim != 1:
        raise PartbayesError(
            f"y holds integers of shape {y.shape}, but class labels are [N]; convert y to float for regression."
        )
    if y.size and y.min() < 0:
        raise PartbayesError(f"y holds the class label {y.min()}, but labels count from 0; convert y to float if not.")
    return y.astype(np.int64)


def _names(names: Sequence[str] | None, prefix: str, count: int, kind: str) -> tuple[str, ...]:
    if names is None:
        return (prefix,) if count == 1 else tuple(f"{prefix}{i}" for i in range(count))
    if isinstance(names, str) or len(names) != count:
        raise PartbayesError(f"{kind}_names is {names!r}, but one name for each of {count} columns is needed.")
    return tuple(str(name) for name in names)
