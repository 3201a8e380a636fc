"""Where a table's CSV file is kept, and whether it is the right one. Local files only.

A file is looked for in `data_dir`, the folder named by the environment variable PARTBAYES_DATA, the package itself
(yacht, concrete and the two wines) and the user's cache folder. Wherever it is found, its checksum must be right.
"""

from __future__ import annotations

import hashlib
import os
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from partbayes.atomic import replace_file
from partbayes.data.sources import Source
from partbayes.errors import PartbayesError

DATA_VARIABLE = "PARTBAYES_DATA"


def read(source: Source, data_dir: str | os.PathLike[str] | None = None) -> bytes:
    """The bytes of the table's CSV file, verified."""
    folders = _folders(source, data_dir)
    for folder in folders:
        file = folder / source.file_name
        if file.is_file():
            return _read_verified(source, file)
    searched = ", ".join(str(folder) for folder in folders)
    raise PartbayesError(
        f"{source.file_name} is not in {searched}; run `partbayes data get {source.name}`, or set {DATA_VARIABLE} to a "
        "folder that holds it."
    )


def write(path: Path, content: bytes) -> None:
    """All or nothing: a reader never sees half a file, and an interrupted writer leaves the old one."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, content)
    except OSError as error:
        raise PartbayesError(f"{path} cannot be written ({error.strerror}); choose another folder.") from error


def is_right(source: Source, content: bytes) -> bool:
    """Whether `content` is byte for byte the published table."""
    return hashlib.sha256(content).hexdigest() == source.sha256


def packaged_files() -> Traversable:
    """The folder of tables that come with the package, with their attribution."""
    return resources.files("partbayes.data") / "files"


def cache_folder() -> Path:
    """`$XDG_CACHE_HOME/partbayes`, or `~/.cache/partbayes`. It need not exist."""
    # The XDG rule: an empty or relative value counts as unset.
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "partbayes"


def _folders(source: Source, data_dir: str | os.PathLike[str] | None) -> list[Traversable]:
    folders: list[Traversable] = []
    if data_dir is not None:
        folders.append(Path(data_dir).expanduser())
    if os.environ.get(DATA_VARIABLE):
        folders.append(Path(os.environ[DATA_VARIABLE]).expanduser())
    if source.bundled:
        folders.append(packaged_files())
    folders.append(cache_folder())
    return folders


def _read_verified(source: Source, file: Traversable) -> bytes:
    try:
        content = file.read_bytes()
    except OSError as error:
        raise PartbayesError(f"{file} cannot be read ({error.strerror}); check its permissions.") from error
    if not is_right(source, content):
        raise PartbayesError(
            f"{file} is damaged or another version (its sha256 is not the published {source.sha256[:12]}…); delete it "
            f"and run `partbayes data get {source.name}`."
        )
    return content
