"""Room 8: runs become JSON lines, and lines become tables."""

from partbayes.benchmark.formats import format_table
from partbayes.benchmark.lines import read_lines, run_missing
from partbayes.benchmark.methods import METHODS
from partbayes.benchmark.paper import paper_units, run_paper_unit
from partbayes.benchmark.settings import PaperSettings, check_settings
from partbayes.benchmark.table import Cell, paired_difference, paper_figures, tabulate

__all__ = [
    "METHODS",
    "Cell",
    "PaperSettings",
    "check_settings",
    "format_table",
    "paired_difference",
    "paper_figures",
    "paper_units",
    "read_lines",
    "run_missing",
    "run_paper_unit",
    "tabulate",
]
