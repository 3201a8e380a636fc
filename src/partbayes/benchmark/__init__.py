"""Room 8: runs become JSON lines, and lines become tables."""

from partbayes.benchmark.fidelity import FidelitySettings, fidelity_units, run_fidelity_unit
from partbayes.benchmark.fidelity_table import fidelity_table
from partbayes.benchmark.formats import format_table
from partbayes.benchmark.lines import read_lines, run_missing
from partbayes.benchmark.methods import METHODS
from partbayes.benchmark.paper import paper_units, run_paper_unit
from partbayes.benchmark.practice import OURS, practice_units, run_practice_unit
from partbayes.benchmark.presets import PRESETS, Folders, find_preset
from partbayes.benchmark.readings import READING_SETS, reading_units
from partbayes.benchmark.rivals import RIVALS
from partbayes.benchmark.samplers import SAMPLERS
from partbayes.benchmark.settings import PaperSettings, check_settings
from partbayes.benchmark.step_size import STEP_SIZE_METHODS, run_step_size_unit, step_size_units
from partbayes.benchmark.table import PRACTICE_METRICS, Cell, paired_difference, paper_figures, tabulate
from partbayes.benchmark.trajectory import CHEES_METHODS, chees_units, run_chees_unit
from partbayes.benchmark.tuning_table import chees_table, step_size_table

__all__ = [
    "CHEES_METHODS",
    "METHODS",
    "OURS",
    "PRACTICE_METRICS",
    "PRESETS",
    "READING_SETS",
    "RIVALS",
    "SAMPLERS",
    "STEP_SIZE_METHODS",
    "Cell",
    "FidelitySettings",
    "Folders",
    "PaperSettings",
    "check_settings",
    "chees_table",
    "chees_units",
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
    "run_chees_unit",
    "run_fidelity_unit",
    "run_missing",
    "run_paper_unit",
    "run_practice_unit",
    "run_step_size_unit",
    "step_size_table",
    "step_size_units",
    "tabulate",
]
