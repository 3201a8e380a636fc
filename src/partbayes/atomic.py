"""Files that are written whole or not at all: what stood there before stays until the new one is on the disk."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path


def replace_file(path: str | os.PathLike[str], content: bytes) -> None:
    """Write beside the file, flush to the disk, rename. A link's target is replaced, not the link.

    Raises `OSError`; each caller knows best what to tell people. The temporary name cannot be guessed, and must be new.
    """
    target = Path(os.path.realpath(path))
    temporary = temporary_name(target)
    try:
        with open(temporary, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def temporary_name(file: Path) -> Path:
    """A name in the same folder that nobody else uses."""
    return file.with_name(f".{file.name}.{secrets.token_hex(8)}.tmp")
