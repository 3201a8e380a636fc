"""The only place that reaches the network: fetches a table, converts it to its CSV file, verifies and stores it."""

from __future__ import annotations

import http.client
import io
import os
import tempfile
import urllib.request
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path, PurePosixPath

from partbayes.data.sources import Source, find_source
from partbayes.data.store import DATA_VARIABLE, cache_folder, is_right, packaged_files, write
from partbayes.errors import PartbayesError

TIMEOUT_SECONDS = 60.0
MAX_BYTES = 50_000_000
"""An upper bound on an archive and on its unpacked table; the largest real ones are 0.6 and 3.4 MB."""


def download(name: str, data_dir: str | os.PathLike[str] | None = None) -> Path:
    """Put the table's CSV file into `data_dir` (default: the user's cache folder) and return its path.

    A right file that is already there is left alone, a wrong one replaced. Tables that come with the package are
    copied from it, without network.
    """
    source = find_source(name)
    folder = cache_folder() if data_dir is None else Path(data_dir).expanduser()
    path = folder / source.file_name
    try:
        if is_right(source, path.read_bytes()):
            return path
    except OSError:
        pass  # Nothing there yet, or nothing readable: `write` says so if it cannot be mended.
    if source.bundled:
        content = (packaged_files() / source.file_name).read_bytes()
    else:
        content = _FETCHERS[name](source)
    if not is_right(source, content):
        raise PartbayesError(
            f"The table behind {source.home} is no longer the published one (its sha256 differs from "
            f"{source.sha256[:12]}…); put an older copy into a folder and set {DATA_VARIABLE} to it."
        )
    write(path, content)
    return path


def fetch_naval(source: Source) -> bytes:
    """UCI's archive holds `data.txt`, columns separated by spaces; the CSV keeps the text of its numbers."""
    archive = _get(source)
    try:
        text = _find_member(archive, "data.txt").decode("ascii")
    except (zipfile.BadZipFile, zlib.error, KeyError, UnicodeDecodeError) as error:
        raise PartbayesError(
            f"{source.address} did not return a zip archive with data.txt in it; fetch {source.name} by hand from "
            f"{source.home}."
        ) from error
    rows = (",".join(line.split()) for line in text.splitlines() if line.strip())
    return _csv(source, rows)


def fetch_california(source: Source) -> bytes:
    """scikit-learn fetches the archive, checks it and forms the ratios; the CSV has the shortest exact decimals."""
    try:
        from sklearn.datasets import fetch_california_housing
    except ImportError as error:
        raise PartbayesError("Fetching california needs scikit-learn; run `pip install scikit-learn`.") from error
    try:
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Retry downloading")  # The outcome is reported, not each try.
            x, y = fetch_california_housing(data_home=folder, return_X_y=True)
    except (OSError, http.client.HTTPException) as error:
        raise _unreachable(source, error) from error
    rows = (",".join(repr(float(value)) for value in (*inputs, target)) for inputs, target in zip(x, y, strict=True))
    return _csv(source, rows)


_FETCHERS: dict[str, Callable[[Source], bytes]] = {"naval": fetch_naval, "california": fetch_california}


def _csv(source: Source, rows: Iterable[str]) -> bytes:
    return "".join(f"{row}\n" for row in (source.header, *rows)).encode("ascii")


def _get(source: Source) -> bytes:
    request = urllib.request.Request(source.address, headers={"User-Agent": "partbayes"})
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as response:
            content = response.read(MAX_BYTES + 1)
    except (OSError, http.client.HTTPException) as error:  # URLError and timeouts are OSErrors.
        raise _unreachable(source, error) from error
    if len(content) > MAX_BYTES:
        raise PartbayesError(f"{source.address} sent more than {MAX_BYTES} bytes, far more than {source.name} has.")
    return content


def _unreachable(source: Source, error: Exception) -> PartbayesError:
    reason = str(getattr(error, "reason", error)).splitlines() or [type(error).__name__]
    return PartbayesError(
        f"{source.name} could not be fetched from {source.address} ({reason[0]}); check the network, or put "
        f"{source.file_name} into a folder and set {DATA_VARIABLE} to it."
    )


def _find_member(archive: bytes, file_name: str) -> bytes:
    """The file of exactly this name in any folder of the archive, or of an archive inside it.

    Exactly: archives packed on a Mac also hold `__MACOSX/…/._data.txt`.
    """
    with zipfile.ZipFile(io.BytesIO(archive)) as files:
        for member in files.infolist():
            if PurePosixPath(member.filename).name == file_name and member.file_size <= MAX_BYTES:
                return files.read(member)
        for member in files.infolist():
            if member.filename.endswith(".zip") and member.file_size <= MAX_BYTES:
                return _find_member(files.read(member), file_name)
    raise KeyError(file_name)
