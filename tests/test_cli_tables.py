"""Bad input through the command line: one sentence on standard error, exit code 1, nothing written or overwritten."""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import refused, run

ROWS = 40


def good() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"size": rng.normal(size=ROWS), "colour": rng.choice(["red", "blue"], ROWS)})
    return frame.assign(price=frame["size"] + 0.1 * rng.normal(size=ROWS))


@pytest.fixture
def folder(tmp_path) -> Path:
    """A folder with a good table and a model file that must survive."""
    good().to_csv(tmp_path / "good.csv", index=False)
    (tmp_path / "model").write_text("precious")
    return tmp_path


BAD_TABLES = {
    "empty file": ("", "is empty"),
    "header only": ("size,price\n", "has column names but no rows"),
    "constant target": ("size,price\n" + "".join(f"{i},1\n" for i in range(12)), "'price'", "1 in every row"),
    "one class only": ("size,price\n" + "".join(f"{i},yes\n" for i in range(12)), "has only one class, 'yes'"),
    "text in a numeric column": (
        "size,price\n" + "".join(f"{i},{i}.5\n" for i in range(12)) + "big,3\n",
        "Column 'size'",
        "'big' in row 13",
    ),
    "inf": (
        "size,price\n" + "".join(f"{i},{i}.5\n" for i in range(12)) + "inf,3\n",
        "Column 'size'",
        "'inf' in row 13",
    ),
    "inf in the target": ("size,price\n" + "".join(f"{i},{i}.5\n" for i in range(12)) + "1,-inf\n", "'-inf' in row 13"),
    "target all missing": (
        "size,price\n" + "".join(f"{i},\n" for i in range(12)),
        "Every cell of the target",
        "'price'",
    ),
    "all columns missing": ("size,price\n" + "".join(f",{i}\n" for i in range(12)), "no input column that can be used"),
    "duplicate column names": ("size,size,price\n1,2,3\n", "more than one column named 'size'"),
    "fewer than 10 rows": ("size,price\n" + "".join(f"{i},{i}.5\n" for i in range(9)), "9 rows", "at least 10"),
    "not UTF-8": (b"size,price\n\xff1,2\n", "is not UTF-8 text", "line 2"),
}


@pytest.mark.parametrize("name", BAD_TABLES)
@pytest.mark.parametrize("command", ["fit", "check"])
def test_bad_tables(folder, name, command):
    content, *words = BAD_TABLES[name]
    (folder / "bad.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    before = sorted(os.listdir(folder))
    output = ["-o", folder / "model", "--quiet"] if command == "fit" else ["--json"]
    result = run(command, folder / "bad.csv", "--target", "price", *output)
    # `check --json` prints what it found even where it finds that `fit` would refuse.
    refused(result._replace(out=""), "bad.csv", *words)
    assert (folder / "model").read_text() == "precious" and sorted(os.listdir(folder)) == before


def test_missing_file_and_wrong_target(folder):
    refused(run("fit", folder / "none.csv", "-t", "price", "-o", folder / "model"), "There is no file", "none.csv")
    refused(run("fit", folder / "good.csv", "-t", "prize", "-o", folder / "model"), "did you mean 'price'?")
    refused(run("fit", folder / "good.csv", "-t", "zzz", "-o", folder / "model"), "'size', 'colour', 'price'")
    assert (folder / "model").read_text() == "precious"


def test_output_is_refused_before_anything_is_read(folder):
    """Neither a folder that is missing, nor a file in its place, nor a folder or device as output."""
    for output, words in [
        (folder / "none" / "m", f"There is no folder {folder / 'none'}"),
        (folder / "good.csv" / "m", "good.csv"),
        (folder, f"{folder} is a folder"),
        ("/dev/null", "/dev/null is a device"),
    ]:
        refused(run("fit", folder / "no-such-table.csv", "-t", "price", "-o", output), words)


def test_options_that_do_not_go_together(folder):
    fit = ["fit", folder / "good.csv", "-t", "price", "-o", folder / "model", "--quiet"]
    refused(run(*fit, "--resume"), "--resume was given without --checkpoint-dir")
    refused(run(*fit, "--checkpoint-dir", folder / "good.csv" / "ck"), "checkpoint folder", "cannot be made")
    refused(run(*fit, "--seed", -1), "--seed is -1")
    refused(run(*fit, "--ignore", "colours"), "did you mean 'colour'?")
    colour = ["fit", folder / "good.csv", "-t", "colour", "-o", folder / "model", "--quiet"]
    refused(run(*colour, "--noise", "learned"), "--noise was given, but the target has classes")
    refused(run(*colour, "--task", "regression"), "is text")
    assert (folder / "model").read_text() == "precious"


def test_check_says_what_would_be_done(folder):
    frame = good().assign(id=range(ROWS), who=[f"p{i}" for i in range(ROWS)], nothing=None, copy=good()["price"])
    frame.loc[2, "size"] = None
    frame.to_csv(folder / "odd.csv", index=False)
    result = run("check", folder / "odd.csv", "-t", "price")
    assert result.code == 0 and result.err == ""
    for words in (
        "40 rows",
        "target 'price': a quantity (regression)",
        "1 missing filled with the median",
        "one-hot of 2 categories",
        "ignored: every cell is missing",
        "ignored: text with 40 different values in 40 rows",
        "there are only 40 rows",
        "id: it counts the rows",
        "copy: it is the target",
    ):
        assert words in result.out, result.out
    content = json.loads(run("check", folder / "odd.csv", "-t", "price", "--json").out)
    assert content["task"] == "regression" and content["errors"] == []
    assert {"name": "nothing", "treatment": "ignored: every cell is missing"} in content["columns"]
    assert "copy" in [finding["column"] for finding in content["findings"]]


def test_check_lists_everything_that_stops_training(folder):
    frame = good().assign(more=np.inf, size=["x", *good()["size"].astype(str)[1:]])
    frame.to_csv(folder / "bad.csv", index=False)
    result = run("check", folder / "bad.csv", "-t", "price")
    assert result.code == 1
    assert "Column 'size'" in result.out and "Column 'more'" in result.out
    assert (
        result.err.startswith("partbayes: 2 columns stop `fit`; first: Column 'size'") and result.err.count("\n") == 1
    )


def test_check_reads_standard_input(folder, monkeypatch):
    content = (folder / "good.csv").read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    assert "standard input: 40 rows" in run("check", "-", "-t", "price").out


@pytest.mark.parametrize("command", ["fit", "predict", "evaluate", "check"])
def test_help_has_examples(command):
    result = run(command, "--help")
    assert result.code == 0 and f"  partbayes {command} " in result.out


def test_help_does_not_wait_for_jax():
    import subprocess

    code = "import sys; from partbayes.cli import main\ntry: main(['fit', '--help'])\nexcept SystemExit: pass\n"
    code += "sys.exit('jax' in sys.modules or 'pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0
