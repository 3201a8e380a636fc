"""A unit of the paper's table, end to end, and its metrics computed again from the saved predictions."""

from __future__ import annotations

import json
import subprocess
import sys

import jax
import numpy as np
import pytest
from scipy import integrate, stats

from partbayes.benchmark import PaperSettings, paper, paper_units, read_lines, run_paper_unit
from partbayes.cli import main
from partbayes.errors import PartbayesError

QUICK = PaperSettings(epochs=2, particles=6, width=8, second_layer=4)


@pytest.fixture(scope="module")
def unit_and_predictions(tmp_path_factory):
    folder = tmp_path_factory.mktemp("predictions")
    (unit,) = paper_units(["yacht"], ["gohsmc"], 1, QUICK)
    line = unit | run_paper_unit(unit, predictions=folder)
    return json.loads(json.dumps(line)), np.load(folder / "yacht-gohsmc-0.npz", allow_pickle=False)


def test_the_line_has_what_a_reader_needs(unit_and_predictions):
    line, _ = unit_and_predictions
    assert (line["dataset"], line["method"], line["seed"], line["preset"]) == ("yacht", "gohsmc", 0, "paper")
    assert PaperSettings(**line["config"]) == QUICK
    assert line["num_train"] == 184 and line["num_test"] == 32
    assert {"jax", "partbayes", "python"} <= set(line["versions"])
    assert line["seconds"] > 0 and line["compile_seconds"] > 0


def test_islands_share_the_particles_and_start_where_adam_ended(tmp_path, monkeypatch):
    """All particles of an island set out from the one point that its warm start led to."""
    calls = []
    fit = paper.fit

    def watched(*args, **options):
        calls.append((options, fit(*args, **options)))
        return calls[-1][1]

    monkeypatch.setattr(paper, "fit", watched)
    (unit,) = paper_units(["yacht"], ["gohsmc_islands"], 1, QUICK._replace(epochs=3, particles=20))
    run_paper_unit(unit, predictions=tmp_path)
    arrays = np.load(tmp_path / "yacht-gohsmc_islands-0.npz", allow_pickle=False)
    assert len(arrays["log_weights"]) == 20  # ten islands of two
    (warm, found), (moves, _) = calls
    assert (warm["num_epochs"], moves["num_epochs"]) == (2, 1) and "params" not in warm
    ends = jax.tree.map(lambda leaf: leaf[:, 0], found.posterior.theta), found.posterior.psi
    assert all(jax.tree.leaves(jax.tree.map(np.array_equal, moves["params"], ends)))


def test_islands_that_cannot_share_the_particles_are_refused():
    with pytest.raises(PartbayesError, match="25 particles"):
        paper_units(["yacht"], ["gohsmc_islands"], 1, QUICK._replace(particles=25))


def test_metrics_computed_again_from_predictions(unit_and_predictions):
    """numpy and scipy only: nothing of the package's own metrics is used."""
    line, arrays = unit_and_predictions
    weights = np.exp(arrays["log_weights"].astype(np.float64))
    loc, scale = (arrays[name].astype(np.float64)[:, :, 0] for name in ("loc", "scale"))
    y = arrays["y"][:, 0]
    weights = weights / weights.sum()
    mean = weights @ loc
    error = mean - y
    density = weights @ stats.norm.pdf(y, loc, scale)
    spread = np.sqrt(np.mean((y - y.mean()) ** 2))

    def mixture_cdf(value, row):
        return float(weights @ stats.norm.cdf(value, loc[:, row], scale[:, row]))

    def crps(row):
        low, high = (f(np.append(loc[:, row], y[row])) for f in (np.min, np.max))
        low, high = low - 12 * scale.max(), high + 12 * scale.max()
        below = integrate.quad(lambda v: mixture_cdf(v, row) ** 2, low, y[row], epsabs=1e-10, limit=200)[0]
        above = integrate.quad(lambda v: (1 - mixture_cdf(v, row)) ** 2, y[row], high, epsabs=1e-10, limit=200)[0]
        return below + above

    cdf = np.array([mixture_cdf(y[row], row) for row in range(len(y))])
    mixture = {
        "rmse": np.sqrt(np.mean(error**2)),
        "mae": np.mean(np.abs(error)),
        "r2": 1 - np.mean(error**2) / spread**2,
        "bias": abs(np.mean(error)),
        "nll": -np.mean(np.log(density)),
        "crps": np.mean([crps(row) for row in range(len(y))]),
        "coverage_90": np.mean((cdf >= 0.05) & (cdf <= 0.95)),
    }
    z = y - mean
    normal_crps = z * (2 * stats.norm.cdf(z) - 1) + 2 * stats.norm.pdf(z) - 1 / np.sqrt(np.pi)
    paper = {
        "rmse": mixture["rmse"],
        "r2": mixture["r2"],
        "bias": mixture["bias"],
        "nll": -np.mean(stats.norm.logpdf(y, mean, 1.0)),
        "crps": np.mean(normal_crps),
    }
    for form, again in (("mixture", mixture), ("paper", paper)):
        for name, value in again.items():
            assert line["metrics"][form][name] == pytest.approx(value, abs=1e-6, rel=1e-6), (form, name)


def test_same_seed_same_line():
    (unit,) = paper_units(["yacht"], ["ohsmc"], 1, QUICK)
    assert run_paper_unit(unit)["metrics"] == run_paper_unit(unit)["metrics"]


def test_command_line_runs_resumes_and_prints(tmp_path, capsys):
    file = tmp_path / "r.jsonl"
    args = ["benchmark", "--datasets", "yacht", "--methods", "gohsmc", "--epochs", "1", "--particles", "4"]
    args += ["--width", "4", "-q", "-o", str(file)]
    for seeds in ("1", "2"):
        with pytest.raises(SystemExit) as stop:
            main([*args, "--seeds", seeds])
        assert stop.value.code == 0
    assert [line["seed"] for line in read_lines(file)] == [0, 1]
    shown = capsys.readouterr().out
    assert "gohsmc" in shown and "0.0766" in shown


def test_a_killed_grid_loses_the_unit_in_progress_only(tmp_path):
    """SIGKILL after the first line: the restarted grid keeps it and finishes the rest."""
    file = tmp_path / "r.jsonl"
    code = (
        "import sys, os, signal\n"
        "from partbayes import benchmark as b\n"
        "from partbayes.benchmark import lines\n"
        "units = b.paper_units(['yacht'], ['ohsmc'], 3, b.PaperSettings(epochs=1, particles=4, width=4))\n"
        "def run(unit):\n"
        "    if unit['seed'] == 1 and sys.argv[1] == 'die': os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return {'pid': os.getpid()}\n"
        f"b.run_missing(units, {str(file)!r}, run)\n"
    )
    died = subprocess.run([sys.executable, "-c", code, "die"], check=False)
    assert died.returncode == -9
    first = read_lines(file)
    assert [line["seed"] for line in first] == [0]
    subprocess.run([sys.executable, "-c", code, "live"], check=True)
    after = read_lines(file)
    assert [line["seed"] for line in after] == [0, 1, 2]
    assert after[0] == first[0]
