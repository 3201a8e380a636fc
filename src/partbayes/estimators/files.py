"""A fitted estimator as one file: safetensors, with the numbers as arrays and everything else as JSON in its header.

Opening a file executes nothing that is in it: arrays are numbers, JSON is text, and both are checked against each other
before they are used. The layout is that of `FORMAT_VERSION`; a file with a higher one is refused.
"""

from __future__ import annotations

import json
import os
import warnings
from typing import Any

from safetensors.numpy import save as to_safetensors
from sklearn.utils.validation import check_is_fitted

from partbayes._version import __version__
from partbayes.errors import PartbayesError
from partbayes.estimators.base import PartialBNN
from partbayes.estimators.container import METADATA_KEY, Damaged, read_container, write_atomically
from partbayes.estimators.encoding import CODE, FORMAT_VERSION, arrays_of, describe, restore


def save_model(path: str | os.PathLike[str], estimator: PartialBNN, extra: dict[str, Any] | None = None) -> None:
    """Write a fitted estimator to `path`, with `extra` (JSON) beside it. Either the whole file is written, or nothing.

    Parameters that are code (a network, predicate or proposal of your own, a random generator) are not in the file;
    a warning says which ones `load_model` must be given again.
    """
    check_is_fitted(estimator)
    arrays = arrays_of(estimator)
    metadata = describe(estimator, arrays, extra)
    try:
        text = json.dumps(metadata, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise PartbayesError(f"The model cannot be described in JSON, so it was not saved: {error}.") from error
    write_atomically(path, to_safetensors(arrays, {METADATA_KEY: text}))
    needed = [name for name in metadata["not_saved"] if name in CODE]
    if needed:
        again = ", ".join(f"{name}=..." for name in needed)
        warnings.warn(
            f"{' and '.join(needed)} of {os.fspath(path)!r} is code and not in the file: load it with load(path, "
            f"{again}).",
            UserWarning,
            stacklevel=3,
        )


def load_model(
    path: str | os.PathLike[str], *, network: Any = None, stochastic: Any = None
) -> tuple[PartialBNN, dict[str, Any]]:
    """The estimator that `save_model` wrote, and its `extra`; `network` and `stochastic` only if they are code."""
    metadata, arrays = read_container(path)
    name = os.fspath(path)
    version = metadata.get("format_version")
    if isinstance(version, int) and version > FORMAT_VERSION:
        raise PartbayesError(
            f"{name!r} has format version {version}, written by partbayes {metadata.get('package_version')}, but this "
            f"is partbayes {__version__}, which reads versions up to {FORMAT_VERSION}: update partbayes."
        )
    if not isinstance(version, int) or version < 1:
        raise PartbayesError(f"{name!r} is damaged or was changed (it has no format version): use another copy.")
    not_saved = metadata.get("not_saved", [])
    given = {"network": network, "stochastic": stochastic}
    for parameter, value in given.items():
        if value is None and parameter in not_saved:
            raise PartbayesError(
                f"The model in {name!r} has a {parameter} of its own, which is code and not in the file: pass it "
                f"again, load(path, {parameter}=...)."
            )
        if value is not None and parameter not in not_saved:
            raise PartbayesError(f"{parameter} was passed, but {name!r} already has it: leave it out.")
    try:
        extra = metadata["extra"]
        if not isinstance(extra, dict):
            raise Damaged("its extra part is no table of names")
        return restore(metadata, arrays, given), extra
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError) as error:
        reason = f"{error}".rstrip(".").splitlines()[0] if f"{error}" else type(error).__name__
        passed = " and ".join(parameter for parameter, value in given.items() if value is not None)
        if passed:
            raise PartbayesError(f"The {passed} passed does not fit the model in {name!r} ({reason}).") from error
        raise PartbayesError(
            f"{name!r} is damaged or was changed ({reason}): use another copy, or fit the model again."
        ) from error
