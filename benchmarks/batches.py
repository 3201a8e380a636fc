"""Moves that see a batch: how far their samples are from those of moves that see all rows, at the same ψ.

    python -m benchmarks.batches [--dataset wine_white] [-o results/bench/batches.jsonl]

Islands are warm-started once. Each then samples its first layer by HMC with ψ held: on all rows (twice: the first run
is the truth and the second shows the error of runs of this length), and on batches, with the plain and the anchored
likelihood. One line per run: the root mean square difference of the means of all sampled numbers, in standard
deviations of the truth; the median ratio of the standard deviations; the same for predicted means of validation rows.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from partbayes.algorithm import Posterior
from partbayes.benchmark.paper import versions
from partbayes.benchmark.tables import practice_table
from partbayes.data import split, standardise
from partbayes.data.batching import steps_per_epoch
from partbayes.model import Anchored, Model, anchored, gaussian, mlp, partial_bnn, slope_of_all
from partbayes.runtime import fit
from partbayes.runtime.recipe import recipe_for, sampler_for, train
from partbayes.runtime.stages import from_point
from partbayes.types import Batch

ISLANDS, ADAPTATION, SAMPLING, SHARES = 4, 200, 1000, (2, 4, 8, 16)


def main() -> None:
    """Measure, print and append."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.batches", description=__doc__)
    parser.add_argument("--dataset", default="wine_white")
    parser.add_argument("--data-dir", default=None)
    parser.add_argument("-o", "--output", type=Path, default=Path("results/bench/batches.jsonl"))
    options = parser.parse_args()
    for line in lines(options.dataset, options.data_dir):
        print(line, flush=True)
        with open(options.output, "a", encoding="utf-8") as file:
            file.write(json.dumps(line, sort_keys=True) + "\n")


def lines(dataset: str, data_dir: str | None):
    """One after another."""
    splits, _, _ = standardise(split(practice_table(dataset, data_dir), 0))
    data, validation = (
        Batch(jnp.asarray(part.x), jnp.asarray(part.y), jnp.ones(part.num_data))
        for part in (splits.train, splits.validation)
    )
    likelihood = gaussian("heteroscedastic")
    model = partial_bnn(mlp(data.x.shape[1], (50, 20), likelihood.num_outputs), likelihood, sample_noise=True)
    num_data = data.x.shape[0]
    alone = recipe_for("standard", num_data, islands=ISLANDS, sampling_steps=0, refine=False)
    warm = train(jax.random.key(0), model, data, validation, alone).posterior
    truth, _ = _run(model, warm, data, num_data, seed=1, low=False)
    common = {"preset": "batches", "dataset": dataset, "seed": 0, "num_data": num_data, "islands": ISLANDS}
    common |= {"adaptation": ADAPTATION, "sampling": SAMPLING, "leapfrog_steps": 20, "versions": versions()}
    for share in (1, *SHARES):
        for low in (False,) if share == 1 else (False, True):
            samples, info = _run(model, warm, data, num_data // share, seed=2, low=low)
            line = common | {"rows": num_data // share, "likelihood": "anchored" if low else "plain"} | info
            yield line | _compare(model, truth, samples, validation)


def _run(model: Model, warm: Posterior, data: Batch, rows: int, seed: int, low: bool) -> tuple[Posterior, dict]:
    """All samples of all islands, and what they took."""
    num_data = data.x.shape[0]
    options = from_point(warm)
    used = model
    if low:
        used = anchored(model, num_data)
        theta, psi = options["params"]
        slope = jax.lax.map(lambda point: slope_of_all(model, point[0], point[1], data, num_data), (theta, psi))
        options["params"] = theta, Anchored(psi, theta, slope)
    recipe = recipe_for("standard", num_data, islands=ISLANDS)._replace(
        leapfrog_steps=20, adaptation_steps=ADAPTATION, sampling_steps=SAMPLING, keep=SAMPLING // 5
    )
    epochs = -(-(ADAPTATION + SAMPLING) // steps_per_epoch(num_data, rows))
    started = time.perf_counter()
    result = fit(
        jax.random.key(seed),
        sampler_for(used, num_data, recipe),
        used,
        data,
        num_epochs=epochs,
        batch_size=rows,
        progress=False,
        **options,
    )
    seconds = time.perf_counter() - started
    posterior = result.posterior
    if low:
        posterior = posterior._replace(psi=posterior.psi.psi)
    acceptance = float(np.mean([record["acceptance"] for record in result.history[len(result.history) // 2 :]]))
    return posterior, {"acceptance": round(acceptance, 3), "seconds": round(seconds, 1)}


def _compare(model: Model, truth: Posterior, samples: Posterior, validation: Batch) -> dict[str, Any]:
    def moments(posterior: Posterior) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        numbers = np.concatenate(
            [np.asarray(leaf).reshape(*leaf.shape[:2], -1) for leaf in jax.tree.leaves(posterior.theta)], axis=-1
        )

        def predict(island: Posterior):
            return jax.lax.map(lambda theta: model.components(theta, island.psi, validation.x).loc[:, 0], island.theta)

        predicted = np.asarray(jax.lax.map(predict, posterior))
        return {name: (v.mean(1), v.std(1)) for name, v in (("theta", numbers), ("predictions", predicted))}

    found, true = moments(samples), moments(truth)
    scores = {}
    for name, (mean, sd) in true.items():
        error = (found[name][0] - mean) / sd
        scores[f"{name}_mean_error"] = round(float(np.sqrt(np.mean(error**2))), 3)
        scores[f"{name}_sd_ratio"] = round(float(np.median(found[name][1] / sd)), 3)
    return scores


if __name__ == "__main__":
    main()
