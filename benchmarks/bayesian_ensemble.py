"""The Bayesian deep ensemble of sklearn-contrib-bde, as one more rival of the preset `practice`.

    python -m venv ENV && ENV/bin/pip install sklearn-contrib-bde
    python -m benchmarks.bayesian_ensemble --python ENV/bin/python [--datasets yacht,concrete] [--seeds 3]

It pins an older blackjax than ours, so it runs in an environment of its own: this module, as a program of that
environment, trains on arrays in a file and leaves its predictive components in another. Rows, scores and lines are
those of the preset. Settings are those of the library's own example, but for our network, ten members, and every
twentieth draw in place of every second; it sets aside its own validation rows from the training part.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

METHOD = "bayesian_deep_ensemble"
SETTINGS = {
    "n_members": 10,
    "hidden_layers": [50, 20],
    "epochs": 200,
    "patience": 10,
    "validation_split": 0.15,
    "lr": 1e-3,
    "weight_decay": 1e-4,
    "warmup_steps": 5000,
    "n_samples": 2000,
    "n_thinning": 20,
}


def main() -> None:
    """Every table and seed that the file does not have yet."""
    from partbayes.benchmark.lines import run_missing

    parser = argparse.ArgumentParser(prog="python -m benchmarks.bayesian_ensemble", description=__doc__)
    parser.add_argument("--python", required=True, help="of an environment with sklearn-contrib-bde")
    parser.add_argument("--datasets", default="yacht,concrete,wine_red")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--data-dir", default=None)
    parser.add_argument("-o", "--output", type=Path, default=Path("results/practice.jsonl"))
    options = parser.parse_args()
    units = [
        {"preset": "practice", "dataset": name, "method": METHOD, "seed": seed, "config": SETTINGS}
        for seed in range(options.seeds)
        for name in options.datasets.split(",")
    ]
    run_missing(units, options.output, lambda unit: _line(unit, options.python, options.data_dir))


def _line(unit, python, data_dir):
    import jax.numpy as jnp
    import numpy as np

    from partbayes.benchmark.practice import Outcome, scored
    from partbayes.benchmark.tables import practice_table
    from partbayes.data import split, standardise
    from partbayes.predict import GaussianMixture

    splits, _, _ = standardise(split(practice_table(unit["dataset"], data_dir), unit["seed"]))
    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder) / "given.npz", Path(folder) / "found.npz"
        np.savez(given, x=splits.train.x, y=splits.train.y[:, 0], test=splits.test.x, seed=unit["seed"])
        subprocess.run([python, __file__, given, found], check=True)
        with np.load(found) as arrays:
            told = {name: arrays[name] for name in arrays}
    components = told["raw"].reshape(-1, *told["raw"].shape[2:])[:, :, None, :]  # [members x draws, rows, 1, 2]
    even = jnp.full(len(components), -np.log(len(components)))
    mixture = GaussianMixture(even, jnp.asarray(components[..., 0]), jnp.asarray(components[..., 1]))
    line = scored(splits, Outcome(mixture, [], []), float(told["seconds"])) | {"versions": dict(told["versions"])}
    scores = line["metrics"]["mixture"]
    print(unit["dataset"], unit["seed"], {name: round(scores[name], 4) for name in ("rmse", "nll", "crps")}, flush=True)
    return line


def work(given: str, found: str) -> None:
    """In the other environment: train, and leave scales and locations of all members and draws."""
    from importlib.metadata import version

    import numpy as np
    from bde import BdeRegressor
    from bde.loss import GaussianNLL

    with np.load(given) as arrays:
        x, y, test, seed = (arrays[name] for name in ("x", "y", "test", "seed"))
    started = time.perf_counter()
    model = BdeRegressor(loss=GaussianNLL(), seed=int(seed), **SETTINGS)
    model.fit(np.asarray(x, np.float32), np.asarray(y, np.float32))
    raw = np.array(model.predict(np.asarray(test, np.float32), raw=True))
    seconds = time.perf_counter() - started
    raw[..., 1] = np.logaddexp(0, raw[..., 1]) + 1e-6  # softplus, as its own predictions have it
    versions = [(name, version(name)) for name in ("sklearn-contrib-bde", "blackjax", "jax", "numpy")]
    np.savez(found, raw=raw, seconds=seconds, versions=np.array(versions))


if __name__ == "__main__":
    work(*sys.argv[1:]) if len(sys.argv) == 3 and sys.argv[1].endswith(".npz") else main()
