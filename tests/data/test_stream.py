"""Rows from files, block by block: every row once an epoch, in an order that key and epoch alone decide."""

from __future__ import annotations

import numpy as np
import pytest

from partbayes.data import stream
from partbayes.data.stream import batches, open_parquet, open_rows, row_order
from partbayes.errors import PartbayesError

N = 23


@pytest.fixture
def small_blocks(monkeypatch):
    """Four rows of 3 + 1 float64 numbers to a block, two and a half blocks to a window: some ten rows."""
    monkeypatch.setattr(stream, "BLOCK_BYTES", 4 * 32)
    monkeypatch.setattr(stream, "WINDOW_BYTES", 10 * 32)


@pytest.fixture
def files(tmp_path):
    x = np.arange(3.0 * N).reshape(N, 3)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", x[:, 0] / 3)  # the row's number
    return tmp_path / "x.npy", tmp_path / "y.npy"


def test_an_epoch_is_every_row_once_and_the_last_batch_is_topped_up_with_the_first_rows(files, small_blocks):
    source = open_rows(*files)
    assert source.num_data == N and len(source.offsets) == 7
    found = list(batches(source, [1, 2], epoch=3, batch_size=5))
    order = row_order(source, [1, 2], 3)
    assert sorted(order) == list(range(N))
    rows = np.concatenate([batch.y[:, 0] for batch in found])
    np.testing.assert_array_equal(rows, np.concatenate([order, order[:2]]))
    for batch in found:
        np.testing.assert_array_equal(batch.x[:, 0], 3 * batch.y[:, 0])
        np.testing.assert_array_equal(batch.weight, 1.0)


def test_the_order_is_a_pure_function_of_seed_and_epoch(files, small_blocks):
    source = open_rows(*files)
    again = row_order(open_rows(*files), [1, 2], 3)
    np.testing.assert_array_equal(row_order(source, [1, 2], 3), again)
    assert not np.array_equal(again, row_order(source, [1, 2], 4))
    assert not np.array_equal(again, row_order(source, [1, 3], 3))


def test_rows_mix_over_the_window_and_windows_over_the_file(files, small_blocks):
    """Over many epochs every row comes first about equally often: 2,000 / 23 = 87 ± 9.1, within five deviations."""
    source = open_rows(*files)
    first = [row_order(source, [0], epoch)[0] for epoch in range(2000)]
    # The last block has three rows, not four: a block comes first with 1/6, then a row of its window of 3 blocks.
    counts = np.bincount(first, minlength=N)
    assert counts.min() > 87 - 5 * 9.1 and counts.max() < 87 + 5 * 9.1


def test_a_table_of_one_window_is_one_shuffle(files):
    source = open_rows(*files)
    assert sorted(row_order(source, [0], 0)) == list(range(N))
    assert len(source.offsets) == 2


def test_a_batch_longer_than_the_first_window_is_topped_up_from_the_next(files, small_blocks):
    source = open_rows(*files)
    (only, last) = batches(source, [5], 0, batch_size=20)
    order = row_order(source, [5], 0)
    np.testing.assert_array_equal(only.y[:, 0], order[:20])
    np.testing.assert_array_equal(last.y[:, 0], np.concatenate([order[20:], order[:17]]))


def test_parquet_row_groups_are_blocks(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns = {"a": np.arange(10.0), "b": np.arange(10) * 2, "kind": np.arange(10) % 3, "w": np.full(10, 2.0)}
    parquet.write_table(pyarrow.table(columns), tmp_path / "t.parquet", row_group_size=4)
    source = open_parquet(tmp_path / "t.parquet", target="kind", weight="w")
    assert list(source.offsets) == [0, 4, 8, 10]
    (batch,) = batches(source, [0], 0, batch_size=10)
    order = row_order(source, [0], 0)
    np.testing.assert_array_equal(batch.x, np.stack([order, 2 * order], axis=1))
    np.testing.assert_array_equal(batch.y, order % 3)
    assert batch.y.dtype == np.int32 and set(batch.weight) == {2.0}
    with pytest.raises(PartbayesError, match="no column nothing"):
        open_parquet(tmp_path / "t.parquet", target="nothing")


def test_bad_files_are_refused_in_one_sentence(tmp_path, files):
    with pytest.raises(PartbayesError, match="There is no file"):
        open_rows(tmp_path / "none.npy", files[1])
    (tmp_path / "text.npy").write_text("1,2")
    with pytest.raises(PartbayesError, match="npy"):
        open_rows(tmp_path / "text.npy", files[1])
    np.save(tmp_path / "short.npy", np.zeros(3))
    with pytest.raises(PartbayesError, match=r"\[3, 23\] rows"):
        open_rows(files[0], tmp_path / "short.npy")
    with pytest.raises(PartbayesError, match="shape"):
        open_rows(files[1], files[1])
    y = np.zeros(N)
    y[7] = np.nan
    np.save(tmp_path / "hole.npy", y)
    with pytest.raises(PartbayesError, match="rows 0 to 22"):
        list(batches(open_rows(files[0], tmp_path / "hole.npy"), [0], 0, 5))
