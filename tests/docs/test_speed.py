"""docs/speed.md shows the tables of the lines under results/bench, as `make bench` prints them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from partbayes.benchmark import read_lines

ROOT = Path(__file__).parents[2]
SPEED = (ROOT / "docs" / "speed.md").read_text()
LINES = read_lines(ROOT / "results" / "bench" / "steps.jsonl")


@pytest.fixture(autouse=True)
def _benchmarks_can_be_imported(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])


@pytest.mark.parametrize("line", LINES, ids=lambda line: str(line["shape"]["width"]))
def test_the_page_shows_what_was_measured(line):
    from benchmarks.lines import table

    assert table(line).strip() in SPEED


def test_so_do_its_comparisons():
    from benchmarks.lines import ratios

    assert ratios(LINES) in SPEED


def test_so_do_its_first_fits():
    from benchmarks.first_fit import table

    assert table(read_lines(ROOT / "results" / "bench" / "first_fit.jsonl")) in SPEED
