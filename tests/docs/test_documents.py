"""What the documents say is true: the README's code runs, and docs/equations.md names functions that exist."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EQUATIONS = (ROOT / "docs" / "equations.md").read_text()


def test_the_readme_example_runs(capsys):
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    exec(compile(code, "README.md", "exec"), {})
    assert "'rmse'" in capsys.readouterr().out


def named_objects() -> list[str]:
    quoted = re.findall(r"`([a-z_]+(?:\.[A-Za-z_]+)+)`", EQUATIONS)
    return sorted(set(quoted))


def test_the_page_names_enough():
    assert len(named_objects()) > 15


@pytest.mark.parametrize("name", named_objects())
def test_every_name_on_the_equations_page_exists(name):
    """`smc.step.resample` is an attribute of a module, or the module itself."""
    parts = ["partbayes", *name.split(".")]
    for cut in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for attribute in parts[cut:]:
            found = getattr(found, attribute)
        return
    raise AssertionError(name)


def test_every_equation_of_the_paper_is_mapped():
    labels = ["init_sample", "normalise", "jeff", "fwd-bwd-kern", "approx-grad", "mom_update", "pos_step", "full_step"]
    labels += ["lv_after_change", "l=q", "langevin_w_eq", "langevin_pbnn_w_eq", "pbnn_init"]
    for label in labels:
        assert f"`{label}`" in EQUATIONS


def test_the_results_page_says_what_the_result_lines_say():
    from partbayes.benchmark.page import write_page

    page = write_page(ROOT / "docs" / "results.template.md", ROOT / "results")
    assert page == (ROOT / "docs" / "results.md").read_text(), "run `make results`"
