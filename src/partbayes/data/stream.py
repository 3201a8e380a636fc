"""Tables larger than memory: rows read block by block, in an order that is a pure function of key and epoch.

    source = open_rows("x.npy", "y.npy")                       # memory-mapped
    source = open_parquet("table.parquet", target="y")         # a block is a row group
    for batch in batches(source, seed, epoch, batch_size): ...

A random row of a large file costs a whole page of it. So whole blocks are read, in an order drawn anew each epoch, and
rows are shuffled within a window of `WINDOW_BYTES`: memory is that of some windows, however long the table. A table
that fits into one window is shuffled in full. Nothing has the length of the table but the file.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from partbayes.errors import PartbayesError

BLOCK_BYTES = 2**20
"""Read at once: long enough for a disk to stream, short enough for a window to mix many places of the file."""
WINDOW_BYTES = 64 * 2**20
"""Shuffled together."""


class HostRows(NamedTuple):
    """Rows on the host, with `Batch`'s fields."""

    x: np.ndarray
    y: np.ndarray
    weight: np.ndarray


class RowSource(NamedTuple):
    """Where rows come from. Block i holds the rows from `offsets[i]` to below `offsets[i + 1]`."""

    offsets: np.ndarray
    read: Callable[[int], HostRows]
    row_bytes: int

    @property
    def num_data(self) -> int:
        return int(self.offsets[-1])


def open_rows(
    x: str | os.PathLike[str], y: str | os.PathLike[str], weight: str | os.PathLike[str] | None = None
) -> RowSource:
    """Rows of .npy files, memory-mapped: `x [N, features]`, `y [N]` or `[N, outputs]` (integers are class labels)."""
    arrays = [_map_file(path) for path in (x, y, *([] if weight is None else [weight]))]
    if arrays[0].ndim != 2 or 0 in arrays[0].shape:
        raise PartbayesError(f"{x} has shape {arrays[0].shape}, but rows and columns, [N, features], are needed.")
    lengths = {len(array) for array in arrays}
    if len(lengths) > 1:
        raise PartbayesError(f"The files have {sorted(lengths)} rows, but every row needs inputs, target and weight.")
    row_bytes = sum(array.nbytes // len(array) for array in arrays)
    rows = max(1, BLOCK_BYTES // row_bytes)
    offsets = np.append(np.arange(0, len(arrays[0]), rows), len(arrays[0]))

    def read(block: int) -> HostRows:
        part = slice(int(offsets[block]), int(offsets[block + 1]))
        copies = [np.array(array[part]) for array in arrays]
        for array in arrays:
            _let_go(array)
        return _host_rows(copies[0], copies[1], copies[2] if weight is not None else None, f"{x}, {y}", part)

    return RowSource(offsets, read, row_bytes)


def open_parquet(
    path: str | os.PathLike[str],
    target: str | Sequence[str],
    features: Sequence[str] | None = None,
    weight: str | None = None,
) -> RowSource:
    """Rows of a Parquet file with columns of numbers; `features` are by default all that are not named otherwise."""
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise PartbayesError(
            f"Reading {path} needs pyarrow: install it with pip install 'partbayes[parquet]', or convert it to .npy."
        ) from error
    if not Path(path).is_file():
        raise PartbayesError(f"There is no file {path}: check the path.")
    file = parquet.ParquetFile(path)
    targets = [target] if isinstance(target, str) else list(target)
    others = {*targets, weight}
    inputs = [name for name in file.schema_arrow.names if name not in others] if features is None else list(features)
    wanted = [*inputs, *targets, *([] if weight is None else [weight])]
    missing = [name for name in wanted if name not in file.schema_arrow.names]
    if missing or not inputs:
        raise PartbayesError(f"{path} has no column {', '.join(missing) or 'of inputs'}: check the names.")
    sizes = [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    if offsets[-1] == 0:
        raise PartbayesError(f"{path} has no rows.")

    def read(block: int) -> HostRows:
        table = file.read_row_group(block, columns=wanted)

        def column(name: str) -> np.ndarray:
            return table.column(name).to_numpy()

        try:
            x = np.stack([column(name).astype(np.float64) for name in inputs], axis=1)
            y = column(targets[0]) if len(targets) == 1 else np.stack([column(name) for name in targets], axis=1)
            weights = None if weight is None else column(weight).astype(np.float64)
            return _host_rows(x, y, weights, str(path), slice(int(offsets[block]), int(offsets[block + 1])))
        except (TypeError, ValueError) as error:
            raise PartbayesError(
                f"{path} has columns that are not numbers: encode them, or leave them out of `features`."
            ) from error

    return RowSource(offsets, read, 4 * (len(wanted) + 1))


def row_order(source: RowSource, seed: Sequence[int], epoch: int) -> np.ndarray:
    """All rows in the epoch's order, `[num_data]`: for tests and small tables, training never makes it."""
    return np.concatenate([_rows_of(source, blocks)[mixed] for blocks, mixed in _windows(source, seed, epoch)])


def batches(source: RowSource, seed: Sequence[int], epoch: int, batch_size: int) -> Iterator[HostRows]:
    """The epoch's batches. Where rows do not fill the last one, it is topped up with the epoch's first rows."""
    batch_size = min(batch_size, source.num_data)
    first: list[HostRows] = []
    held: list[HostRows] = []  # rows that wait for their batch
    for blocks, mixed in _windows(source, seed, epoch):
        whole = _join([source.read(int(block)) for block in blocks])
        rows = HostRows(*(part[mixed] for part in whole))
        if sum(len(part.weight) for part in first) < batch_size:
            first.append(_rows(rows, 0, batch_size))
        waiting = _join([*held, rows])
        full = len(waiting.weight) // batch_size * batch_size
        for begin in range(0, full, batch_size):
            yield _rows(waiting, begin, begin + batch_size)
        held = [HostRows(*(part[full:].copy() for part in waiting))]  # a copy: a view would hold the window
    if len(held[0].weight):
        yield _rows(_join([*held, *first]), 0, batch_size)


def _rows(rows: HostRows, begin: int, end: int) -> HostRows:
    return HostRows(*(part[begin:end].copy() for part in rows))


def _windows(source: RowSource, seed: Sequence[int], epoch: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The blocks of each window, and the order of their rows."""
    sizes = np.diff(source.offsets)
    order = np.random.default_rng([*seed, epoch, 0]).permutation(len(sizes))
    rows = max(1, WINDOW_BYTES // source.row_bytes)
    # A window ends with the block that fills it.
    window = (np.cumsum(sizes[order]) - sizes[order]) // rows
    for number, blocks in enumerate(np.split(order, np.flatnonzero(np.diff(window)) + 1)):
        yield blocks, np.random.default_rng([*seed, epoch, 1 + number]).permutation(int(sizes[blocks].sum()))


def _rows_of(source: RowSource, blocks: np.ndarray) -> np.ndarray:
    return np.concatenate([np.arange(int(source.offsets[block]), int(source.offsets[block + 1])) for block in blocks])


def _join(parts: list[HostRows]) -> HostRows:
    return parts[0] if len(parts) == 1 else HostRows(*(np.concatenate(fields) for fields in zip(*parts, strict=True)))


def _map_file(path: str | os.PathLike[str]) -> np.ndarray:
    try:
        return np.lib.format.open_memmap(Path(path), mode="r")
    except FileNotFoundError:
        raise PartbayesError(f"There is no file {path}: check the path.") from None
    except (OSError, ValueError) as error:
        raise PartbayesError(f"{path} cannot be mapped ({error}): a .npy file of numbers is needed.") from error


def _let_go(array: np.ndarray) -> None:
    """Pages that were read count as this process's memory until it says otherwise; the system may still keep them."""
    base: Any = array.base
    if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        base.madvise(mmap.MADV_DONTNEED)


def _host_rows(x: np.ndarray, y: np.ndarray, weight: np.ndarray | None, name: str, part: slice) -> HostRows:
    """As `data.as_batch` would have them; JAX's own default precision is applied when they are put on a device."""
    labels = np.issubdtype(y.dtype, np.integer)
    y = y.astype(np.int32) if labels else (y[:, None] if y.ndim == 1 else y)
    weight = np.ones(len(x), np.float32) if weight is None else weight
    for values in (x, y, weight):
        if not np.isfinite(values).all():
            raise PartbayesError(
                f"{name} holds missing or infinite values in the rows {part.start} to {part.stop - 1}: fill or remove "
                "them."
            )
    return HostRows(x, y, weight)
