"""Room 8: runs become JSON lines, and lines become tables."""

from partbayes.benchmark.lines import read_lines, run_missing
from partbayes.benchmark.methods import METHODS
from partbayes.benchmark.paper import paper_units, run_paper_unit
from partbayes.benchmark.settings import PaperSettings, check_settings
from partbayes.benchmark.table import paper_figures, summarise

__all__ = [
    "METHODS",
    "PaperSettings",
    "check_settings",
    "paper_figures",
    "paper_units",
    "read_lines",
    "run_missing",
    "run_paper_unit",
    "summarise",
]
