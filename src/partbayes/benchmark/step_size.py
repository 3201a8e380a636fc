"""Whether the automatic step size forgets where it started, and predicts as well as the best fixed step.

One unit is a table, a sampler and a seed: two automatic runs, from step sizes of 1e-5 and 1, and a run at each of a
grid of fixed ones, all of the same length from the same trained network. With ψ held, the late iterations' predictive
is pooled; where ψ moves, each iteration's own predictive is scored, and the scores are averaged.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from partbayes.algorithm import Algorithm
from partbayes.benchmark.lines import Line, grid
from partbayes.benchmark.paper import versions
from partbayes.benchmark.samplers import SAMPLERS, build
from partbayes.benchmark.trained import HIDDEN, TrainedNetwork, trained_network
from partbayes.data import DATASETS
from partbayes.smc.adaptation import step_size as steering
from partbayes.types import Array, Key

TUNED = ("langevin", "hmc_10")
MOVING = "_moving"
"""What a method's name ends in where ψ moves, and the step size is steered all along."""
PSI_LEARNING_RATE = 1e-3
"""A tenth of the training's: ψ is trained already, and longer steps would make the scores those of Adam's noise."""
STEP_SIZE_METHODS = (*TUNED, *(name + MOVING for name in TUNED))


class StepSizeSettings(NamedTuple):
    """Gradients per particle decide the number of steps; half of them are warm-up, the other half is scored."""

    epochs: int = 300
    hidden: tuple[int, ...] = HIDDEN
    particles: int = 10
    gradients: int = 800
    starts: tuple[float, ...] = (1e-5, 1.0)
    fixed: tuple[float, ...] = (0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064)


def step_size_units(
    datasets: list[str], methods: list[str], seeds: int, settings: StepSizeSettings | None = None
) -> list[Line]:
    """Data sets × samplers × seeds."""
    config = (StepSizeSettings() if settings is None else settings)._asdict()
    return grid("step_size", (datasets, DATASETS), (methods, STEP_SIZE_METHODS), seeds, config)


def run_step_size_unit(unit: Line, data_dir: str | Path | None = None) -> Line:
    """Both automatic runs and all fixed ones. A run that lost every particle has no score (None)."""
    settings = StepSizeSettings(**unit["config"])
    network = trained_network(unit["dataset"], unit["seed"], settings.epochs, tuple(settings.hidden), data_dir)
    sampler = SAMPLERS[unit["method"].removesuffix(MOVING)]
    held = not unit["method"].endswith(MOVING)
    num_steps = round(settings.gradients / sampler.cost)
    warmup = num_steps // 2
    optimiser = None if held else optax.adam(PSI_LEARNING_RATE)
    common = {"num_particles": settings.particles, "hold_psi": held, "optimiser": optimiser}
    automatic = build(sampler, network, warmup_steps=warmup if held else None, **common)
    fixed = build(sampler, network, warmup_steps=None, step_size=settings.fixed[0], **common)
    key = jax.random.key(unit["seed"])
    started = time.perf_counter()
    found = {}
    for name, algorithm, sizes in (("auto", automatic, settings.starts), ("fixed", fixed, settings.fixed)):
        runner = _runner(algorithm, network, num_steps, warmup)
        # The same random numbers for all: what differs is due to the step.
        found[name] = [_outcome(runner(jax.random.clone(key), jnp.asarray(size)), size, held) for size in sizes]
    best = max((run for run in found["fixed"] if run["score"] is not None), key=lambda run: run["score"])
    return found | {
        "best": best,
        "summary": summarise(found["auto"], best),
        "steps": num_steps,
        "num_train": network.train.x.shape[0],
        "num_test": network.test.x.shape[0],
        "seconds": round(time.perf_counter() - started, 3),
        "versions": versions(),
    }


def summarise(automatic: list[dict[str, Any]], best: dict[str, Any]) -> dict[str, float | None]:
    """Ratio of the two final step sizes (at least one), and the worse automatic run's distance from the best fixed
    one: `shortfall` in nats per row, `density` as the factor e^-shortfall, `relative` to the best score's size."""
    sizes = [run["step_size"] for run in automatic]
    scores = [run["score"] for run in automatic]
    if None in scores:
        return {"ratio": max(sizes) / min(sizes), "shortfall": None, "density": None, "relative": None}
    shortfall = best["score"] - min(scores)
    return {
        "ratio": max(sizes) / min(sizes),
        "shortfall": shortfall,
        "density": float(np.exp(-shortfall)),
        "relative": shortfall / abs(best["score"]),
    }


def _runner(algorithm: Algorithm, network: TrainedNetwork, num_steps: int, warmup: int):
    """All steps as one compiled function of key and first step size."""

    @jax.jit
    def run(key: Key, first: Array):
        key_init, key_steps = jax.random.split(key)
        state = algorithm.init(key_init, (network.theta, network.psi), network.train)
        state = state._replace(tuning=state.tuning._replace(step_size=first))
        if state.adaptation is not None:
            state = state._replace(adaptation=state.adaptation._replace(step_size=steering.init(first)))

        def step(state, index):
            state, info = algorithm.step(jax.random.fold_in(key_steps, index), state, network.train)
            theta, log_weights, psi = algorithm.posterior(state)
            rows = jax.vmap(lambda t: network.model.log_likelihood(t, psi, network.test))(theta)
            rows = jnp.where(jnp.isfinite(rows), rows, -jnp.inf) + log_weights[:, None]
            return state, (jax.nn.logsumexp(rows, axis=0), info.acceptance, info.finite)

        state, (rows, acceptance, finite) = jax.lax.scan(step, state, jnp.arange(num_steps))
        late = rows[warmup:]
        pooled = jnp.mean(jax.nn.logsumexp(late, axis=0) - jnp.log(late.shape[0]))
        return state.tuning.step_size, pooled, jnp.mean(late), jnp.mean(acceptance[warmup:]), jnp.all(finite)

    return run


def _outcome(result: tuple[Array, ...], first: float, held: bool) -> dict[str, Any]:
    size, pooled, average, acceptance, finite = (float(value) for value in result)
    score = pooled if held else average
    score = score if finite and np.isfinite(score) else None
    return {
        "first": first,
        "step_size": size,
        "score": score,
        "acceptance": acceptance if np.isfinite(acceptance) else 0.0,
    }
