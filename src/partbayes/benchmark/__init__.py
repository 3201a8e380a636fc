"""Room 8: runs become JSON lines, and lines become tables."""

from partbayes.benchmark.fidelity import FidelitySettings, fidelity_units, run_fidelity_unit
from partbayes.benchmark.fidelity_table import fidelity_table
from partbayes.benchmark.formats import format_table
from partbayes.benchmark.lines import read_lines, run_missing
from partbayes.benchmark.methods import METHODS
from partbayes.benchmark.paper import paper_units, run_paper_unit
from partbayes.benchmark.practice import OURS, practice_units, run_practice_unit
from partbayes.benchmark.presets import PRESETS, find_preset, runner
from partbayes.benchmark.readings import READING_SETS, reading_units
from partbayes.benchmark.rivals import RIVALS
from partbayes.benchmark.samplers import SAMPLERS
from partbayes.benchmark.settings import PaperSettings, check_settings
from partbayes.benchmark.table import PRACTICE_METRICS, Cell, paired_difference, paper_figures, tabulate

__all__ = [
    "METHODS",
    "OURS",
    "PRACTICE_METRICS",
    "PRESETS",
    "READING_SETS",
    "RIVALS",
    "SAMPLERS",
    "Cell",
    "FidelitySettings",
    "PaperSettings",
    "check_settings",
    "fidelity_table",
    "fidelity_units",
    "find_preset",
    "format_table",
    "paired_difference",
    "paper_figures",
    "paper_units",
    "practice_units",
    "read_lines",
    "reading_units",
    "run_fidelity_unit",
    "run_missing",
    "run_paper_unit",
    "run_practice_unit",
    "runner",
    "tabulate",
]
