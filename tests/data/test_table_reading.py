"""Reading a table: every format and spelling that people have, and one sentence for what cannot be read."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from partbayes.data.table import read_table
from partbayes.errors import PartbayesError


def write(folder: Path, content: str | bytes, name: str = "t.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.csv", "a,b\n1.5,x\n2,y\n"),
        ("t.csv", "\ufeffa,b\n1.5,x\n2,y\n"),
        ("t.csv", "a;b\n1.5;x\n2;y\n"),
        ("t.csv", '"a";"b"\n1.5;"x"\n2;"y"\n'),
        ("t.csv", "a;b\n1,5;x\n2;y\n"),
        ("t.csv", "a|b\r\n1.5|x\r\n2|y\r\n"),
        ("t.csv", "a, b\n1.5, x\n2, y\n"),
        ("t.csv", "\n\na,b\n1.5,x\n\n2,y\n\n"),
        ("t.tsv", "a\tb\n1.5\tx\n2\ty\n"),
        ("T.CSV", "a,b\n1.5,x\n2,y\n"),
        ("no_ending", "a,b\n1.5,x\n2,y\n"),
    ],
)
def test_the_same_table_in_every_spelling(tmp_path, name, content):
    frame = read_table(write(tmp_path, content, name)).frame
    assert list(frame.columns) == ["a", "b"]
    assert frame["a"].tolist() == [1.5, 2.0]
    assert frame["b"].tolist() == ["x", "y"]


def test_quoted_fields_keep_separators_quotes_and_line_breaks(tmp_path):
    frame = read_table(write(tmp_path, 'name,"b, c"\n"x, ""y""\nz",1\n')).frame
    assert list(frame.columns) == ["name", "b, c"]
    assert frame["name"].tolist() == ['x, "y"\nz']


def test_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a,b\n1,2\n")))
    table = read_table("-")
    assert table.name == "standard input" and table.frame["b"].tolist() == [2]


def test_parquet(tmp_path):
    frame = pd.DataFrame(
        {"a": [1.5, None], "b": ["x", "y"], "c": pd.Categorical([3, 4]), "d": [True, False]}, index=[7, 9]
    )
    frame.to_parquet(tmp_path / "t.parquet")
    found = read_table(tmp_path / "t.parquet").frame
    assert list(found.columns) == ["a", "b", "c", "d", "unnamed column 5"]
    assert found["c"].tolist() == [3, 4] and found["d"].tolist() == [True, False]


def test_what_was_found_is_noted(tmp_path):
    assert read_table(write(tmp_path, "a,b\n1,2\n")).notes == ()
    assert read_table(write(tmp_path, "a;b\n1,5;2\n")).notes == (
        "columns are separated by ';'",
        "read commas as decimal points",
    )


def test_missing_markers_and_columns_kept_as_text(tmp_path):
    path = write(tmp_path, "a,b,c\n01,NA,null\n2,,None\n,NaN,x\n")
    assert read_table(path).frame["a"].tolist()[:2] == [1.0, 2.0]
    frame = read_table(path, text=["a"]).frame
    assert frame["a"].tolist()[:2] == ["01", "2"]
    np.testing.assert_array_equal(frame.isna(), [[False, True, True], [False, True, True], [True, True, False]])


def test_spaces_around_text_do_not_count(tmp_path):
    frame = read_table(write(tmp_path, 'a,b\nred ,1\n" ",2\nred,3\n')).frame
    assert frame["a"].dropna().tolist() == ["red", "red"]
    assert frame["a"].isna().tolist() == [False, True, False]


def test_a_column_without_a_name_gets_one(tmp_path):
    assert list(read_table(write(tmp_path, ",a\n0,1\n")).frame.columns) == ["unnamed column 1", "a"]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", "t.csv is empty: a header line"),
        (" \n\n", "t.csv is empty: a header line"),
        ("\ufeff", "t.csv is empty: a header line"),
        ("a,b\n", "t.csv has column names but no rows"),
        ("a,b,a\n1,2,3\n", "t.csv has more than one column named 'a'"),
        ("a, a\n1,2\n", "t.csv has more than one column named 'a'"),
        ("a,b\n1,2,3\n", "t.csv has rows with more cells than the header's 2 names"),
        ("a,b\n1,2\n1,2,3\n", "t.csv has 3 cells in line 3, but 2 columns"),
        ('a,b\n1,"2\n3,4\n', "t.csv cannot be read as a table (EOF inside string"),
        (b"a,b\nx,1\ncaf\xe9,2\n", "t.csv is not UTF-8 text (byte 0xe9 in line 3): save it as CSV in UTF-8"),
        ("a,b\n1,2\n".encode("utf-16"), "t.csv is not UTF-8 text (UTF-16, or not text at all)"),
        (b"PAR1\0\0\0", "t.csv is not UTF-8 text"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(tmp_path, content, sentence):
    with pytest.raises(PartbayesError) as error:
        read_table(write(tmp_path, content))
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


def test_missing_file_folder_and_unknown_ending(tmp_path):
    with pytest.raises(PartbayesError, match=r"There is no file .*nothing\.csv: check the path"):
        read_table(tmp_path / "nothing.csv")
    with pytest.raises(PartbayesError, match=r"cannot be read \(Is a directory\)"):
        read_table(tmp_path)
    with pytest.raises(PartbayesError, match=r"ends in '\.xlsx', but \.csv"):
        read_table(write(tmp_path, "", "t.xlsx"))


def test_damaged_parquet_and_duplicate_names_in_one(tmp_path):
    path = write(tmp_path, b"PAR1 and then nothing", "t.parquet")
    with pytest.raises(PartbayesError, match="cannot be read as Parquet"):
        read_table(path)
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table([pa.array([1]), pa.array([2])], names=["a", "a"]), path)
    with pytest.raises(PartbayesError, match="more than one column named 'a'"):
        read_table(path)
