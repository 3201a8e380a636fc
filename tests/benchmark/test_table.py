"""Tables: means, the paper's figures, bold only where paired tests support it, three formats."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest
from scipy import stats

from partbayes.benchmark import PaperSettings, format_table, paired_difference, paper_figures, reading_units, tabulate
from partbayes.benchmark.readings import distance_to_paper, group_readings
from partbayes.errors import PartbayesError


def lines(values_by_method, dataset="yacht", metric="rmse"):
    return [
        {"dataset": dataset, "method": method, "seed": seed, "metrics": {"paper": {metric: value}}}
        for method, values in values_by_method.items()
        for seed, value in enumerate(values)
    ]


def test_means_beside_the_papers():
    (cell,) = tabulate(lines({"gohsmc": [0.1, 0.2]}), ["rmse"])
    assert cell.mean == pytest.approx(0.15) and cell.sd == pytest.approx(0.1 / 2**0.5)
    assert cell.paper == 0.0766
    assert len(paper_figures()) == 180
    (islands,) = tabulate(lines({"gohsmc_islands": [0.1, 0.2]}), ["rmse"])
    assert islands.paper == cell.paper
    (alone,) = tabulate(lines({"gohsmc": [0.1, 0.2]}), ["rmse"], against="nothing")
    assert "(" not in format_table([alone])
    with pytest.raises(PartbayesError, match="'rivals'"):
        tabulate([], against="rivals")


def test_bold_needs_a_paired_test_against_every_rival():
    clear = {"a": [0.10, 0.20, 0.30], "b": [0.15, 0.24, 0.36]}  # large spread over seeds, but always better
    assert [cell.best for cell in tabulate(lines(clear), ["rmse"])] == [True, False]
    unclear = {"a": [0.10, 0.20, 0.30], "b": [0.15, 0.19, 0.31]}
    assert not any(cell.best for cell in tabulate(lines(unclear), ["rmse"]))
    third = clear | {"c": [0.09, 0.22, 0.32]}
    assert not any(cell.best for cell in tabulate(lines(third), ["rmse"]))
    higher = tabulate(lines({"a": [0.9, 0.8, 0.7], "b": [0.5, 0.41, 0.3]}, metric="r2"), ["r2"])
    assert [cell.best for cell in higher] == [True, False]


def test_formats():
    cells = tabulate(lines({"gohsmc": [0.10, 0.20, 0.30], "ohsmc": [0.15, 0.24, 0.36]}), ["rmse"])
    markdown = format_table(cells)
    assert "| gohsmc | **0.2000** ± 0.1000 (0.0766, +0.1234) |" in markdown
    assert r"\textbf{0.2000} $\pm$ 0.1000 (0.0766, $+0.1234$) \\" in format_table(cells, "latex")
    rows = list(csv.DictReader(io.StringIO(format_table(cells, "csv"))))
    assert rows[0]["method"] == "gohsmc" and float(rows[0]["difference"]) == pytest.approx(0.1234)
    with pytest.raises(PartbayesError, match="no table style 'html'"):
        format_table(cells, "html")


def test_lines_of_different_settings_are_not_mixed():
    mixed = lines({"gohsmc": [0.1, 0.2]})
    mixed[0]["config"], mixed[1]["config"] = {"epochs": 1}, {"epochs": 2}
    with pytest.raises(PartbayesError, match="different settings"):
        tabulate(mixed, ["rmse"])


def test_paired_difference_is_the_t_interval():
    found = paired_difference(lines({"a": [1.0, 2.0, 4.0], "b": [0.5, 1.0, 2.0]}), "a", "b", "yacht", "rmse")
    differences = np.array([0.5, 1.0, 2.0])
    half = stats.t.ppf(0.975, 2) * differences.std(ddof=1) / np.sqrt(3)
    assert found["mean"] == pytest.approx(differences.mean())
    assert (found["low"], found["high"]) == pytest.approx((differences.mean() - half, differences.mean() + half))
    with pytest.raises(PartbayesError, match="share 0 seeds"):
        paired_difference([], "a", "b", "yacht", "rmse")


def test_readings_are_tried_once_each_and_the_closest_comes_first():
    units = reading_units(["yacht"], ["gohsmc", "ohsmc"], 2, PaperSettings())
    tried = [(unit["method"], *unit["config"].values(), unit["seed"]) for unit in units]
    assert len(set(tried)) == len(tried) == 2 * (8 + 1 + 2 + 1)  # GOHSMC's eight and literal, OHSMC's two and literal
    far, near = lines({"gohsmc": [0.3, 0.3]}), lines({"gohsmc": [0.0766, 0.0766]})
    far[0]["config"] = far[1]["config"] = {"width": 50}
    near[0]["config"] = near[1]["config"] = {"width": "literal"}
    assert [reading[1] for reading in group_readings([*far, *near])] == ["literal", 50]
    assert distance_to_paper(near) == 0
    # twice too high is as far as half
    assert distance_to_paper(lines({"gohsmc": [0.1532]})) == pytest.approx(
        distance_to_paper(lines({"gohsmc": [0.0383]}))
    )
