"""Automatic tuning against grid search: the two presets' pieces by hand, and a tiny unit of each from end to end."""

from __future__ import annotations

import json

import numpy as np
import pytest
from command_line import run

from partbayes.benchmark import (
    chees_table,
    chees_units,
    run_chees_unit,
    run_step_size_unit,
    step_size_table,
    step_size_units,
)
from partbayes.benchmark.step_size import StepSizeSettings, summarise
from partbayes.benchmark.trajectory import CheesSettings, peak

TINY = {"epochs": 3, "hidden": (4, 3), "particles": 4}


def test_the_summary_takes_the_worse_run():
    automatic = [{"step_size": 0.01, "score": -1.2}, {"step_size": 0.015, "score": -1.1}]
    found = summarise(automatic, {"score": -1.0})
    assert found == pytest.approx({"ratio": 1.5, "shortfall": 0.2, "density": np.exp(-0.2), "relative": 0.2})
    lost = summarise([automatic[0], {"step_size": 0.001, "score": None}], {"score": -1.0})
    assert lost["shortfall"] is None and lost["ratio"] == pytest.approx(10)


@pytest.mark.parametrize(("method", "moves"), [("langevin", False), ("langevin_moving", True)])
def test_a_step_size_unit(method, moves):
    settings = StepSizeSettings(**TINY, gradients=160, starts=(1e-5, 1.0), fixed=(0.002, 1e4))
    (unit,) = step_size_units(["yacht"], [method], 1, settings)
    line = json.loads(json.dumps(unit | run_step_size_unit(unit)))
    assert [found["first"] for found in line["auto"]] == [1e-5, 1.0]
    assert line["steps"] == 80
    # Eighty steps are enough to leave both starts far behind.
    assert all(found["step_size"] > 1e-3 for found in line["auto"]) and line["summary"]["ratio"] < 2
    short, absurd = line["fixed"]
    assert short["step_size"] == pytest.approx(0.002) and short["score"] is not None
    assert absurd["score"] is None or absurd["score"] < short["score"] - 1
    assert line["best"] == short
    assert f"| yacht | {method} | 0 |" in step_size_table([line])


def test_the_peak_of_a_parabola_in_log_length():
    lengths = np.array([0.5, 1.0, 2.0, 4.0])
    assert peak(lengths, 3.0 - (np.log(lengths) - np.log(1.7)) ** 2) == pytest.approx(1.7)
    assert peak(lengths, lengths) == 4.0


def test_a_chees_unit():
    settings = CheesSettings(**TINY, warmup=20, moves=4, lengths=(1.0, 2.0, 4.0, 8.0))
    (unit,) = chees_units(["yacht"], ["chees"], 1, settings)
    line = json.loads(json.dumps(unit | run_chees_unit(unit)))
    assert line["ratio"] == pytest.approx(line["length"] / line["best_length"])
    assert len(line["criterion"]) == 4 and min(line["criterion"]) > 0
    assert 1.0 <= line["best_length"] <= 8.0
    assert "| yacht | chees | 0 |" in chees_table([line])


@pytest.mark.parametrize("preset", ["step_size", "chees"])
def test_unknown_methods_are_refused(preset, tmp_path):
    found = run("benchmark", "--preset", preset, "--methods", "magic", "-o", tmp_path / "x.jsonl")
    assert found.code == 1 and "magic" in found.err


@pytest.mark.slow
def test_chees_finds_the_best_length_on_the_concrete_network():
    """Within 30 % of the grid search (the committed line is in results/chees.jsonl)."""
    settings = CheesSettings(particles=16, warmup=60, moves=8, lengths=(1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0))
    (unit,) = chees_units(["concrete"], ["chees_adjusted"], 1, settings)
    assert run_chees_unit(unit)["ratio"] == pytest.approx(1.0, abs=0.3)
