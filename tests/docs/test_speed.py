"""docs/speed.md shows the tables of the lines under results/bench, as `make bench` prints them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINES = [json.loads(text) for text in (ROOT / "results" / "bench" / "steps.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("line", LINES, ids=lambda line: str(line["shape"]["width"]))
def test_the_page_shows_what_was_measured(line, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])
    from benchmarks.lines import table

    assert table(line).strip() in (ROOT / "docs" / "speed.md").read_text()


def test_so_do_its_comparisons(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])
    from benchmarks.lines import ratios

    assert ratios(LINES) in (ROOT / "docs" / "speed.md").read_text()


def test_so_do_its_first_fits(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])
    from benchmarks.first_fit import table

    lines = (ROOT / "results" / "bench" / "first_fit.jsonl").read_text().splitlines()
    assert table([json.loads(line) for line in lines]) in (ROOT / "docs" / "speed.md").read_text()
