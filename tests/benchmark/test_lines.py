"""Result files survive being killed, and finished units are not run twice."""

from __future__ import annotations

import json

import pytest

from partbayes.benchmark import (
    PaperSettings,
    check_settings,
    paper_units,
    read_lines,
    run_missing,
)
from partbayes.errors import PartbayesError

UNITS = [{"dataset": "yacht", "seed": seed} for seed in range(4)]


def test_finished_units_are_skipped(tmp_path):
    file, calls = tmp_path / "sub" / "r.jsonl", []

    def run(unit):
        calls.append(unit["seed"])
        return {"value": unit["seed"] ** 2}

    run_missing(UNITS[:2], file, run)
    lines = run_missing(UNITS, file, run)
    assert calls == [0, 1, 2, 3]
    assert [line["value"] for line in lines] == [0, 1, 4, 9]


def test_a_unit_that_dies_loses_itself_only(tmp_path):
    file = tmp_path / "r.jsonl"

    def run(unit):
        if unit["seed"] == 2:
            raise KeyboardInterrupt
        return {"value": 1}

    with pytest.raises(KeyboardInterrupt):
        run_missing(UNITS, file, run)
    assert [line["seed"] for line in read_lines(file)] == [0, 1]


def test_a_torn_last_line_is_dropped_and_done_again(tmp_path):
    file = tmp_path / "r.jsonl"
    run_missing(UNITS[:2], file, lambda unit: {"value": 1})
    whole = file.read_bytes()
    file.write_bytes(whole[:-9])  # killed while writing the second line
    assert [line["seed"] for line in read_lines(file)] == [0]
    lines = run_missing(UNITS[:3], file, lambda unit: {"value": 2})
    assert [(line["seed"], line["value"]) for line in lines] == [(0, 1), (1, 2), (2, 2)]
    assert all(json.loads(text) for text in file.read_text().splitlines())


def test_files_that_are_not_results_are_refused(tmp_path):
    with pytest.raises(PartbayesError, match="no results file"):
        read_lines(tmp_path / "none.jsonl")
    (tmp_path / "x.jsonl").write_text("hello\n")
    with pytest.raises(PartbayesError, match=r"Line 1 .* is not JSON"):
        read_lines(tmp_path / "x.jsonl")


def test_unknown_names_and_settings_are_refused():
    with pytest.raises(PartbayesError, match="no data set 'boat': choose among yacht"):
        paper_units(["boat"], ["gohsmc"], 1, PaperSettings())
    with pytest.raises(PartbayesError, match="no method 'magic'"):
        paper_units(["yacht"], ["magic"], 1, PaperSettings())
    with pytest.raises(PartbayesError, match="kernel_scale is 'x'"):
        check_settings(PaperSettings(kernel_scale="x"))
    with pytest.raises(PartbayesError, match="width is 'wide'"):
        check_settings(PaperSettings(width="wide"))
