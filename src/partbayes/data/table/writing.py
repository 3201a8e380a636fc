"""Output files: whether one can be written is known before hours of training, and what is there is replaced whole."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pandas as pd

from partbayes.atomic import replace_file, temporary_name
from partbayes.errors import PartbayesError


def require_writable(path: str | os.PathLike[str], *, regular: bool = True) -> None:
    """An error unless a file can be made at `path`. Tried out in its folder, since permissions do not tell all.

    With `regular=False` devices and pipes pass as well, which can be written to but not replaced.
    """
    file = Path(path)
    try:
        if file.is_dir():
            raise PartbayesError(f"{file} is a folder: name a file in it.")
        if file.exists() and not stat.S_ISREG(file.stat().st_mode):
            if regular:
                raise PartbayesError(f"{file} is a device, not a file: name a file.")
            return
        if not file.parent.is_dir():
            raise PartbayesError(f"There is no folder {file.parent} to write {file.name} to: make it first.")
        if file.exists() and not os.access(file, os.W_OK):
            raise PartbayesError(f"{file} is write-protected: choose another name.")
        attempt = temporary_name(file)
        try:
            attempt.touch(exist_ok=False)
        finally:
            attempt.unlink(missing_ok=True)
    except OSError as error:
        raise _cannot_write(file, error) from error


def write_csv(frame: pd.DataFrame, path: str | os.PathLike[str]) -> None:
    """Write the table, whole or not at all; `-` is standard output."""
    text = frame.to_csv(index=False, lineterminator="\n")
    file = Path(path)
    try:
        if str(path) == "-":
            sys.stdout.write(text)
            sys.stdout.flush()
        elif file.exists() and not stat.S_ISREG(file.stat().st_mode):
            # A device or pipe: nothing to keep whole, and it must not be replaced by a file.
            with file.open("w", encoding="utf-8", newline="") as stream:
                stream.write(text)
        else:
            replace_file(file, text.encode("utf-8"))
    except BrokenPipeError:
        raise
    except OSError as error:
        raise _cannot_write(file, error) from error


def _cannot_write(file: Path, error: OSError) -> PartbayesError:
    return PartbayesError(f"{file} cannot be written ({error.strerror}): choose another place.")
