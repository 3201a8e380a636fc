"""Our own steps, through the public builders, with their default block size."""

from __future__ import annotations

import optax

from benchmarks.problem import LEARNING_RATE, NUM_DATA, Call, Problem, bind
from partbayes import baselines, smc, training

LANGEVIN, RANDOM_WALK, HMC = "GOHSMC-LD", "OHSMC-RW", "GOHSMC-HMC(5)"
SVGD, SGHMC, VI = "SVGD", "SGHMC", "VI"
LEAPFROG_STEPS = 5
STEP_SIZE = 1e-3


def rows(problem: Problem, **options) -> dict[str, Call]:
    """`options` go to the SMC builders (a block size, for experiments)."""
    shape, model, _ = problem
    common = {"num_particles": shape.particles, "optimiser": optax.adam(LEARNING_RATE)}
    guided = {**common, "step_size": STEP_SIZE, **options}
    algorithms = {
        LANGEVIN: training.gohsmc(model, NUM_DATA, **guided),
        RANDOM_WALK: training.ohsmc(model, NUM_DATA, **guided),
        HMC: training.gohsmc(model, NUM_DATA, proposal=smc.hmc(LEAPFROG_STEPS), **guided),
        SVGD: baselines.svgd(model, NUM_DATA, theta_optimiser=optax.adam(LEARNING_RATE), **common),
        # As many chains as there are particles elsewhere, so that the passes through the network are as many.
        SGHMC: baselines.sghmc(model, NUM_DATA, num_chains=shape.particles, step_size=STEP_SIZE, **common),
        VI: baselines.vi(model, NUM_DATA, num_samples=shape.particles, **common),
    }
    return {name: partial_bind(algorithm, problem) for name, algorithm in algorithms.items()}


def partial_bind(algorithm, problem: Problem) -> Call:
    """`bind` when the row is first run, so that rows that are not asked for compile nothing."""
    return lambda: bind(algorithm, problem.model, problem.batch)
