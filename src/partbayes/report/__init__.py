"""Room 8: pictures and tables for people. It reads predictions and results, never training code."""

from partbayes.report.console import datasets_table, metrics_table, predictions_table, summary_table
from partbayes.report.fitted import (
    describe_findings,
    describe_grave,
    describe_plan,
    describe_training,
    scores_table,
)
from partbayes.report.plots import plot_calibration, plot_predictions, save_overview

__all__ = [
    "datasets_table",
    "describe_findings",
    "describe_grave",
    "describe_plan",
    "describe_training",
    "metrics_table",
    "plot_calibration",
    "plot_predictions",
    "predictions_table",
    "save_overview",
    "scores_table",
    "summary_table",
]
