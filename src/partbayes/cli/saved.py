"""Models that `partbayes fit` wrote: the estimator together with the schema of its table."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from partbayes.data.table import Schema


class Saved(NamedTuple):
    """`fingerprint` is that of the rows it was trained on."""

    estimator: Any
    schema: Schema
    fingerprint: str


def save_fitted(path: Path, saved: Saved) -> None:
    """One file, written whole or not at all."""
    from partbayes.estimators import save_model

    target = saved.schema.target
    extra = {"table": saved.schema.to_json(), "target": target.name, "task": target.task, "rows": saved.fingerprint}
    save_model(path, saved.estimator, extra)


def load_fitted(path: Path) -> Saved:
    """The model of a file, or an error if `partbayes fit` did not write it."""
    from partbayes.data.table import Schema
    from partbayes.estimators import load_model

    estimator, extra = load_model(path)
    return Saved(estimator, Schema.from_json(extra.get("table")), str(extra.get("rows", "")))


def fingerprint(x: pd.DataFrame, y: np.ndarray) -> str:
    """The same for the same rows in the same order: tells a model's own training table from others."""
    digest = hashlib.sha256(x.to_numpy().tobytes())
    digest.update(y.tobytes())
    return digest.hexdigest()
