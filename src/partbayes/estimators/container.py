"""The file itself: written whole or not at all, and recognised before it is believed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as from_safetensors

from partbayes.atomic import replace_file
from partbayes.errors import PartbayesError

METADATA_KEY = "partbayes"


class Damaged(ValueError):
    """Inside a model file something does not fit; the text says what."""


def write_atomically(path: str | os.PathLike[str], content: bytes) -> None:
    """The file whole or not at all, and a sentence where it cannot be."""
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise PartbayesError(f"{os.fspath(path)!r} is a folder, but a file name is expected.")
    if not target.parent.is_dir():
        raise PartbayesError(f"The folder {str(target.parent)!r} does not exist: make it first, or save elsewhere.")
    try:
        replace_file(target, content)
    except OSError as error:
        raise PartbayesError(
            f"{os.fspath(path)!r} could not be written ({error.strerror}): nothing was changed; save elsewhere."
        ) from error


def read_container(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Metadata and arrays of a model file."""
    name = os.fspath(path)
    try:
        content = Path(path).read_bytes()
    except FileNotFoundError as error:
        raise PartbayesError(f"There is no model file {name!r}: check the name.") from error
    except OSError as error:
        raise PartbayesError(f"{name!r} could not be read ({error.strerror}): check the file.") from error
    try:
        metadata = _metadata(content)
        return metadata, from_safetensors(content)
    except Damaged as error:
        raise PartbayesError(f"{name!r} is not a partbayes model ({error}): pass a file that `save` wrote.") from error
    except (SafetensorError, KeyError, ValueError, RecursionError) as error:
        raise PartbayesError(
            f"{name!r} is a partbayes model that is cut short or damaged: copy it again, or fit the model again."
        ) from error


def _metadata(content: bytes) -> dict[str, Any]:
    """The JSON in the header. A header that is cut short still begins as one."""
    length = int.from_bytes(content[:8], "little")
    header = content[8 : 8 + length]
    if len(content) <= 8 or not header.startswith(b"{") or METADATA_KEY.encode() not in header:
        raise Damaged("it does not begin like one" if content else "it is empty")
    if len(header) < length:
        raise ValueError("the header is cut short")
    try:
        metadata = json.loads(json.loads(header)["__metadata__"][METADATA_KEY])
    except (KeyError, TypeError) as error:
        raise Damaged("it is a safetensors file of another kind") from error
    if not isinstance(metadata, dict):
        raise Damaged("its description is not a JSON object")
    return metadata
