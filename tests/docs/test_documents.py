"""What the documents say is true: the README's code runs, and docs/equations.md names functions that exist."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EQUATIONS = (ROOT / "docs" / "equations.md").read_text()


README = (ROOT / "README.md").read_text()


@pytest.mark.parametrize("code", re.findall(r"```python\n(.*?)```", README, re.DOTALL), ids=["table", "network"])
def test_the_readme_examples_run(code, capsys):
    exec(compile(code, "README.md", "exec"), {})
    assert "'rmse'" in capsys.readouterr().out


def test_the_readme_transcript_runs_as_written(tmp_path):
    """Every line after `$`, in one shell, from a folder where the repository's files are at their places."""
    (block,) = re.findall(r"```console\n(.*?)```", README, re.DOTALL)
    commands = [line.removeprefix("$ ") for line in block.splitlines()]
    (tmp_path / "src").symlink_to(ROOT / "src")
    bin_folder = str(Path(sys.executable).parent)
    environment = {**os.environ, "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}"}
    script = "set -e\n" + "\n".join(commands)
    done = subprocess.run(["sh", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "crps" in done.stdout
    header, *rows = (tmp_path / "predictions.csv").read_text().splitlines()
    assert header == "mean,std,q05,q50,q95"
    assert len(rows) == len((tmp_path / "test.csv").read_text().splitlines()) - 1


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


def test_the_readme_quotes_the_result_lines():
    from partbayes.benchmark import read_lines
    from partbayes.benchmark.headline import with_headline

    assert with_headline(README, read_lines(ROOT / "results" / "practice.jsonl")) == README, "run `make results`"


def test_the_pictures_of_the_documents_are_there():
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        for picture in re.findall(r"!\[.*?\]\((.*?)\)", page.read_text()):
            assert (page.parent / picture).is_file(), f"{page.name} shows {picture}"


def test_the_proposals_page_quotes_the_result_lines():
    from partbayes.benchmark import read_lines
    from partbayes.benchmark.fidelity_table import by_sampler

    page = (ROOT / "docs" / "proposals.md").read_text()
    assert by_sampler(read_lines(ROOT / "results" / "fidelity.jsonl")) in page
    (chees,) = read_lines(ROOT / "results" / "chees.jsonl")
    assert (
        f"{chees['length']:.2f} on the concrete network, where a grid search finds {chees['best_length']:.2f}" in page
    )
