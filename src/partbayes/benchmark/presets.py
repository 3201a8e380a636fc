"""The benchmark's presets: which units each consists of, and what it runs unless told otherwise."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from partbayes.benchmark.fidelity import fidelity_units, run_fidelity_unit
from partbayes.benchmark.fidelity_table import fidelity_table
from partbayes.benchmark.lines import Line
from partbayes.benchmark.methods import METHODS
from partbayes.benchmark.paper import paper_units, run_paper_unit
from partbayes.benchmark.practice import OURS, practice_units, run_practice_unit
from partbayes.benchmark.readings import READING_SETS, reading_units, readings_table
from partbayes.benchmark.rivals import RIVALS
from partbayes.benchmark.samplers import SAMPLERS
from partbayes.benchmark.settings import PaperSettings
from partbayes.benchmark.step_size import STEP_SIZE_METHODS, run_step_size_unit, step_size_units
from partbayes.benchmark.trajectory import CHEES_METHODS, chees_units, run_chees_unit
from partbayes.benchmark.tuning_table import chees_table, step_size_table
from partbayes.data import DATASETS
from partbayes.errors import PartbayesError


class Folders(NamedTuple):
    """Where data are, and where a unit may leave predictions or find long runs."""

    data: Path | None = None
    predictions: Path | None = None
    truths: Path | None = None


class Preset(NamedTuple):
    """What there is to run, `units(datasets, methods, seeds, settings)`, and what makes a result of one of them."""

    units: Callable[[list[str], list[str], int, PaperSettings], list[Line]]
    run: Callable[[Line, Folders], Line]
    methods: tuple[str, ...]
    datasets: tuple[str, ...] = tuple(DATASETS)
    seeds: int = 5
    show: Callable[[list[Line]], str] | None = None
    """Its lines as text, where a table of methods by metrics does not fit."""


def _without_settings(units: Callable[[list[str], list[str], int], list[Line]]) -> Callable[..., list[Line]]:
    return lambda datasets, methods, seeds, settings: units(datasets, methods, seeds)


def _run_paper(unit: Line, folders: Folders) -> Line:
    return run_paper_unit(unit, folders.data, folders.predictions)


def _run_fidelity(unit: Line, folders: Folders) -> Line:
    return run_fidelity_unit(unit, folders.data, folders.truths)


def _on_data(run: Callable[[Line, Path | None], Line]) -> Callable[[Line, Folders], Line]:
    return lambda unit, folders: run(unit, folders.data)


PRESETS = {
    "paper": Preset(paper_units, _run_paper, tuple(METHODS)),
    "readings": Preset(reading_units, _run_paper, ("gohsmc", "ohsmc"), READING_SETS, show=readings_table),
    "practice": Preset(_without_settings(practice_units), _on_data(run_practice_unit), (*OURS, *RIVALS)),
    "fidelity": Preset(
        _without_settings(fidelity_units), _run_fidelity, tuple(SAMPLERS), READING_SETS, 1, fidelity_table
    ),
    "step_size": Preset(
        _without_settings(step_size_units),
        _on_data(run_step_size_unit),
        tuple(STEP_SIZE_METHODS),
        READING_SETS,
        1,
        step_size_table,
    ),
    "chees": Preset(
        _without_settings(chees_units), _on_data(run_chees_unit), CHEES_METHODS, READING_SETS, 1, chees_table
    ),
}


def find_preset(name: str) -> Preset:
    """The entry of `PRESETS`, or the list of names."""
    if name not in PRESETS:
        raise PartbayesError(f"There is no preset {name!r}: use one of {', '.join(PRESETS)}.")
    return PRESETS[name]
