"""Whether ChEES finds the trajectory length T that a grid search finds, on a trained network.

T adapts from one leapfrog step while the particles set out from the trained θ. The criterion is then computed for all
lengths of a grid, over the same later populations, momenta and points of the sequence: they differ in T alone.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from partbayes.benchmark.lines import Line, grid
from partbayes.benchmark.paper import versions
from partbayes.benchmark.samplers import SAMPLERS, build
from partbayes.benchmark.trained import HIDDEN, TrainedNetwork, trained_network
from partbayes.data import DATASETS
from partbayes.model import log_target
from partbayes.smc.adaptation.chees import chees_criterion
from partbayes.smc.proposals import Tuning, propose
from partbayes.smc.step import ParticleState
from partbayes.types import Array, Key

CHEES_METHODS = ("chees", "chees_adjusted")


class CheesSettings(NamedTuple):
    """`moves` populations of `particles`, one after each iteration behind the warm-up; lengths of the grid search."""

    epochs: int = 300
    hidden: tuple[int, ...] = HIDDEN
    particles: int = 24
    warmup: int = 80
    moves: int = 16
    lengths: tuple[float, ...] = (0.25, 0.5, 0.75, 1.0, 1.4, 1.8, 2.2, 2.6, 3.0, 3.5, 4.0, 5.0)


def chees_units(
    datasets: list[str], methods: list[str], seeds: int, settings: CheesSettings | None = None
) -> list[Line]:
    """Data sets × samplers × seeds."""
    config = (CheesSettings() if settings is None else settings)._asdict()
    return grid("chees", (datasets, DATASETS), (methods, CHEES_METHODS), seeds, config)


def run_chees_unit(unit: Line, data_dir: str | Path | None = None) -> Line:
    """The adapted length, the criterion at every length of the grid, and the grid's best."""
    settings = CheesSettings(**unit["config"])
    network = trained_network(unit["dataset"], unit["seed"], settings.epochs, tuple(settings.hidden), data_dir)
    started = time.perf_counter()
    key_run, key_search = jax.random.split(jax.random.key(unit["seed"]))
    populations, tuning = _adapt(key_run, network, unit["method"], settings)
    criterion = jax.jit(lambda length: _criterion(key_search, network, populations, tuning, length))
    values = [float(criterion(jnp.asarray(length))) for length in settings.lengths]
    best = peak(np.asarray(settings.lengths), np.asarray(values))
    length = float(jnp.asarray(tuning.trajectory_length))
    return {
        "length": length,
        "best_length": best,
        "ratio": length / best,
        "criterion": values,
        "step_size": float(tuning.step_size),
        "num_parameters": sum(leaf.size for leaf in jax.tree.leaves(network.theta)),
        "num_train": network.train.x.shape[0],
        "seconds": round(time.perf_counter() - started, 3),
        "versions": versions(),
    }


def peak(lengths: np.ndarray, values: np.ndarray) -> float:
    """The length with the largest value: top of the parabola in log T through the largest and its two neighbours."""
    top = int(np.argmax(values))
    if top in (0, len(lengths) - 1):
        return float(lengths[top])
    near = slice(top - 1, top + 2)
    second, first, _ = np.polyfit(np.log(lengths[near]), values[near], 2)
    return float(np.exp(-first / (2 * second)))


def _adapt(key: Key, network: TrainedNetwork, method: str, settings: CheesSettings) -> tuple[ParticleState, Tuning]:
    """Populations `[moves, J, ...]` after the warm-up, and the frozen tuning."""
    key_init, key_steps = jax.random.split(key)
    algorithm = build(SAMPLERS[method], network, settings.particles, settings.warmup)
    state = algorithm.init(key_init, (network.theta, network.psi), network.train)

    def step(state, index):
        state, _ = algorithm.step(jax.random.fold_in(key_steps, index), state, network.train)
        return state, state.particles

    warm, _ = jax.jit(
        lambda state: jax.lax.scan(lambda s, i: (step(s, i)[0], None), state, jnp.arange(settings.warmup))
    )(state)
    behind = settings.warmup + jnp.arange(settings.moves)
    last, populations = jax.jit(lambda state: jax.lax.scan(step, state, behind))(warm)
    return populations, last.tuning


def _criterion(key: Key, network: TrainedNetwork, populations: ParticleState, tuning: Tuning, length: Array) -> Array:
    """Mean of ChEES over the populations, each with its own momenta and its own point of the sequence."""
    target = log_target(network.model, network.train.x.shape[0])

    def one(index: Array) -> Array:
        particles = jax.tree.map(lambda leaf: leaf[index], populations)
        move = tuning._replace(trajectory_length=length, counter=index)
        keys = jax.random.split(jax.random.fold_in(key, index), particles.log_weights.shape[0])
        moves = jax.vmap(
            lambda k, theta: propose(
                SAMPLERS["chees"].proposal, k, theta, lambda t: target(t, network.psi, network.train), move
            )
        )(keys, particles.theta)
        return chees_criterion(particles.theta, moves.end, particles.log_weights, tuning.inverse_mass)

    return jnp.mean(jax.lax.map(one, jnp.arange(populations.log_weights.shape[0])))
