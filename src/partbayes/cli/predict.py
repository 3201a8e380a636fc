"""`partbayes predict`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from partbayes.cli.options import AsJson, Data, Model, Silent
from partbayes.cli.saved import load_fitted
from partbayes.cli.saying import note, say, say_json
from partbayes.errors import PartbayesError

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from partbayes.data.table import Target

QUANTILES = {"q05": 0.05, "q50": 0.5, "q95": 0.95}


def predict(
    model: Model,
    data: Data,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="OUT", help="CSV to write; - is standard output.")
    ] = Path("-"),
    quiet: Silent = False,
    as_json: AsJson = False,
) -> None:
    """Predict every row of a table, with uncertainty.

    For a quantity the columns are mean, std (standard deviation), q05, q50 and q95 (quantiles: q05 to q95 is the 90 %
    interval). For classes they are the predicted class and one probability per class, p_<class>. Rows keep their order.

    Columns of the table are matched by name. What training did not see is said in a note on standard error.

    \b
    Examples:
      partbayes predict houses.model new.csv -o predictions.csv
      cat new.csv | partbayes predict houses.model - | head
    """
    from partbayes.data.table import encode, read_table, require_writable, write_csv

    if str(output) == "-":
        if as_json:
            raise PartbayesError("--json and the predictions cannot both go to standard output: use -o OUT.csv.")
    else:
        require_writable(output, regular=False)
    saved = load_fitted(model)
    table = read_table(data, text=saved.schema.text)
    encoded = encode(saved.schema, table)
    frame = _predictions(saved.estimator, saved.schema.target, encoded.x)
    notes = [*table.notes, *encoded.notes]
    if not (quiet or as_json):
        note(notes)
    write_csv(frame, output)
    if as_json:
        say_json({"output": str(output), "rows": len(frame), "columns": list(frame.columns), "notes": notes})
    elif not quiet and str(output) != "-":
        say([f"{len(frame)} predictions written to {output} ({', '.join(map(str, frame.columns))})"])


def _predictions(estimator: Any, target: Target, x: pd.DataFrame) -> pd.DataFrame:
    import numpy as np
    import pandas as pd

    if target.task == "regression":
        mean, std = estimator.predict(x, return_std=True)
        _require_finite(mean + std)
        quantiles = estimator.predict_quantiles(x, list(QUANTILES.values()))
        frame = pd.DataFrame({"mean": mean, "std": std, **dict(zip(QUANTILES, quantiles.T, strict=True))})
        # Five digits of the smallest standard deviation: more would only look exact.
        return frame.round(4 - math.floor(math.log10(std.min())))
    probs = estimator.predict_proba(x)
    _require_finite(probs.sum(axis=1))
    classes = [str(label) for label in estimator.classes_]
    predicted = np.asarray(classes, object)[probs.argmax(axis=1)]
    # Digits that count, not places: one in a million is not zero.
    columns = {f"p_{label}": [float(f"{p:.6g}") for p in probs[:, classes.index(label)]] for label in target.labels}
    return pd.DataFrame({"class": predicted, **columns})


def _require_finite(prediction: np.ndarray) -> None:
    bad = sum(not math.isfinite(value) for value in prediction)
    if bad:
        raise PartbayesError(
            f"The prediction is not finite in {bad} of {len(prediction)} rows: look for cells far outside of what "
            "the model was trained on, or fit again."
        )
