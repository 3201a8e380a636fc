"""One unit of the posterior's fidelity: a table, a sampler and a seed become one line of errors against the truth.

ψ is held at its trained value. The truth is long Hamiltonian Monte Carlo of θ | ψ on all rows (`truth`); each sampler
gets a tenth of its gradients, its own adaptation and burn-in included.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from partbayes.benchmark.lines import Line, grid
from partbayes.benchmark.paper import versions
from partbayes.benchmark.samplers import SAMPLERS, build
from partbayes.benchmark.sampling import Pool, run_sampler
from partbayes.benchmark.trained import HIDDEN, trained_network
from partbayes.benchmark.truth import Truth, TruthSettings, cached_truth
from partbayes.data import DATASETS


class FidelitySettings(NamedTuple):
    """The protocol's numbers; `share` is of the truth's gradients, `burn_in` and `warmup` are of that share."""

    epochs: int = 300
    hidden: tuple[int, ...] = HIDDEN
    particles: int = 10
    share: float = 0.1
    burn_in: float = 0.25
    warmup: float = 0.2
    least_warmup_steps: int = 25
    truth: dict[str, Any] = TruthSettings()._asdict()


def fidelity_units(
    datasets: list[str], methods: list[str], seeds: int, settings: FidelitySettings | None = None
) -> list[Line]:
    """Data sets × samplers × seeds."""
    config = (FidelitySettings() if settings is None else settings)._asdict()
    return grid("fidelity", (datasets, DATASETS), (methods, SAMPLERS), seeds, config)


def run_fidelity_unit(unit: Line, data_dir: str | Path | None = None, truths: str | Path | None = None) -> Line:
    """Sample, and compare with the truth; that is kept in the folder `truths`, to be found by the next sampler."""
    settings = FidelitySettings(**unit["config"])
    name, seed, sampler = unit["dataset"], unit["seed"], SAMPLERS[unit["method"]]
    network = trained_network(name, seed, settings.epochs, tuple(settings.hidden), data_dir)
    key_truth, key_sampler = jax.random.split(jax.random.key(seed))
    identity = {"dataset": name, "seed": seed, "epochs": settings.epochs, "hidden": list(settings.hidden)}
    folder = Path("results/truths") if truths is None else Path(truths)
    truth = cached_truth(
        folder / f"{name}-{seed}.npz", key_truth, network, TruthSettings(**settings.truth), identity=identity
    )
    budget = settings.share * float(truth.num_gradients)
    steps = round(settings.warmup * budget / (settings.particles * sampler.cost))
    warmup_steps = max(settings.least_warmup_steps, steps)
    started = time.perf_counter()
    pool = run_sampler(
        key_sampler,
        build(sampler, network, settings.particles, warmup_steps),
        network,
        settings.particles,
        budget,
        burn_in=settings.burn_in,
        warmup_steps=warmup_steps,
    )
    tuning = pool.state.tuning
    return {
        "errors": errors(pool, truth),
        "log_score": float(np.mean(pool.log_prob)),
        "gradients": pool.num_gradients,
        "iterations": pool.iterations,
        "pooled": pool.pooled,
        "acceptance": pool.acceptance,
        "ess": pool.ess,
        "step_size": float(tuning.step_size),
        "trajectory_length": None if tuning.trajectory_length is None else float(tuning.trajectory_length),
        "truth": describe(truth),
        "num_parameters": sum(leaf.size for leaf in jax.tree.leaves(network.theta)),
        "num_train": network.train.x.shape[0],
        "num_test": network.test.x.shape[0],
        "seconds": round(time.perf_counter() - started, 3),
        "versions": versions(),
    }


def errors(pool: Pool, truth: Truth) -> dict[str, float]:
    """Over the test rows. `mean` is the root mean square error of the predictive mean in units of the true standard
    deviation of f; `sd` is the mean of |sd / true sd - 1| and `sd_ratio` the ratio of the mean standard deviations,
    all of f; the same with `total_` for the whole predictive, noise included."""
    offset = pool.mean - truth.mean
    return {
        "mean": float(np.sqrt(np.mean((offset / truth.sd) ** 2))),
        "sd": float(np.mean(np.abs(pool.sd / truth.sd - 1))),
        "sd_ratio": float(pool.sd.mean() / truth.sd.mean()),
        "total_mean": float(np.sqrt(np.mean((offset / truth.total_sd) ** 2))),
        "total_sd": float(np.mean(np.abs(pool.total_sd / truth.total_sd - 1))),
        "total_sd_ratio": float(pool.total_sd.mean() / truth.total_sd.mean()),
    }


def describe(truth: Truth) -> dict[str, float]:
    """How long the truth is, and how well it is known: `halves` compares even and odd chains as `sd` does."""
    even, odd = truth.half_sds
    return {
        "gradients": float(truth.num_gradients),
        "rhat": float(truth.rhat.max()),
        "least_ess": float(truth.ess.min()),
        "median_ess": float(np.median(truth.ess)),
        "halves": float(np.mean(np.abs(even / odd - 1))),
        "step_size": float(truth.step_size),
        "mean_sd": float(truth.sd.mean()),
        "noise": float(truth.noise.mean()),
    }
