"""The README's table: which lines a cell is made of, and what it says where some are missing."""

from __future__ import annotations

from partbayes.benchmark.headline import BEGIN, END, headline_table, with_headline


def line(method, seed, nll, dataset="yacht"):
    return {
        "dataset": dataset,
        "method": method,
        "seed": seed,
        "metrics": {"mixture": {"nll": nll, "crps": nll / 10}},
    }


def row(lines, dataset="yacht"):
    (found,) = [text for text in headline_table(lines).splitlines() if text.startswith(f"| {dataset} |")]
    return [cell.strip() for cell in found.strip("|").split("|")][1:]


def test_means_are_over_the_first_five_seeds():
    default, *others = row([line("default", seed, float(seed)) for seed in range(7)])
    assert default == "2.000 / 0.2000"
    assert others == ["–"] * 5


def test_fewer_seeds_are_said():
    cells = row([line("default", 0, -1.0), line("catboost", 0, 1.0), line("catboost", 1, 3.0)])
    assert cells[0] == "−1.000 / −0.1000 (1 seed)" and cells[2] == "2.000 / 0.2000 (2 seeds)"


def test_the_ensemble_is_the_largest_with_the_defaults_noise():
    lines = [line("ensemble_80", 0, 1.0), line("ensemble_600", 0, 2.0), line("ensemble_learned_700", 0, 3.0)]
    assert row(lines)[1].startswith("2.000")


def test_only_what_is_between_the_marks_is_replaced():
    page = with_headline(f"before\n{BEGIN}\nold\n{END}\nafter\n", [line("default", 0, 1.0)])
    assert page.startswith(f"before\n{BEGIN}\n| data set |") and page.endswith(f"|\n{END}\nafter\n")
    assert "old" not in page and with_headline(page, [line("default", 0, 1.0)]) == page
