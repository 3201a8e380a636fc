"""`partbayes evaluate`."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Annotated, Any

import typer

from partbayes.cli.options import AsJson, Data, Model
from partbayes.cli.saved import fingerprint, load_fitted
from partbayes.cli.saying import note, say_json

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from partbayes.data.table import Target

TARGET = typer.Option("--target", "-t", metavar="COL", help="Column with the truth; by default the one trained on.")


def evaluate(
    model: Model,
    data: Data,
    target: Annotated[str | None, TARGET] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No notes, only the scores.")] = False,
    as_json: AsJson = False,
) -> None:
    """Score a model on rows whose target is known.

    Best on rows it was not trained on. The scores are those of the whole predictive distribution, in the target's own
    units.

    \b
    Examples:
      partbayes evaluate houses.model test.csv --target price
      partbayes evaluate houses.model test.csv --target price --json | jq .metrics.crps
    """
    from rich.console import Console

    from partbayes.data.table import encode, encode_target, read_table, with_target
    from partbayes.report import scores_table

    saved = load_fitted(model)
    truth = saved.schema.target._replace(name=target or saved.schema.target.name)
    text = (*saved.schema.text, truth.name) if truth.text else saved.schema.text
    table = with_target(read_table(data, text=text), truth.name)
    y = encode_target(truth, table)
    encoded = encode(saved.schema, table)
    score = _regression if truth.task == "regression" else _classification
    metrics = score(saved.estimator, truth, encoded.x, y)
    notes = [*table.notes, *encoded.notes]
    if fingerprint(encoded.x, y) == saved.fingerprint:
        notes.append("these are the rows that the model was trained on, so the scores flatter it")
    if as_json:
        content = {"model": str(model), "data": table.name, "rows": len(y), "target": truth.name, "task": truth.task}
        say_json({**content, "metrics": metrics, "notes": notes})
    else:
        note([] if quiet else notes)
        Console().print(scores_table(metrics, f"{truth.name}: {len(y)} rows of {table.name}"))


def _regression(estimator: Any, target: Target, x: pd.DataFrame, y: np.ndarray) -> dict[str, float]:
    """Scores around the training mean: none of them changes when truth and prediction shift together.

    The mixture is float32, in which a target such as 1,700,000,005 would lose its last three digits.
    """
    from partbayes.predict import regression_metrics

    centred = copy.copy(estimator)
    centred.y_scaler_ = estimator.y_scaler_._replace(mean=0 * estimator.y_scaler_.mean)
    return regression_metrics(centred.predict_dist(x), y[:, None] - estimator.y_scaler_.mean)


def _classification(estimator: Any, target: Target, x: pd.DataFrame, y: np.ndarray) -> dict[str, float]:
    """Scores with the classes in the estimator's order, which is that of text."""
    import numpy as np

    from partbayes.predict import classification_metrics

    place = {str(label): i for i, label in enumerate(estimator.classes_)}
    return classification_metrics(estimator.predict_dist(x), np.asarray([place[target.labels[code]] for code in y]))
