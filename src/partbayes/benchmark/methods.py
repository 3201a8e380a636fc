"""The methods of the paper's table, each built with the paper's settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import optax

from partbayes.algorithm import Algorithm
from partbayes.benchmark.settings import PaperSettings
from partbayes.model import Model
from partbayes.training import gohsmc, ohsmc

Build: TypeAlias = Callable[[Model, int, PaperSettings], Algorithm]


def _gohsmc(model: Model, num_data: int, settings: PaperSettings) -> Algorithm:
    return gohsmc(
        model,
        num_data,
        num_particles=settings.particles,
        step_size=settings.langevin_step(num_data),
        denominator=settings.denominator,
        scale=settings.target_scale,
        optimiser=optax.adam(settings.learning_rate),
    )


def _ohsmc(model: Model, num_data: int, settings: PaperSettings) -> Algorithm:
    return ohsmc(
        model,
        num_data,
        num_particles=settings.particles,
        step_size=settings.random_walk_step(),
        optimiser=optax.adam(settings.learning_rate),
    )


METHODS: dict[str, Build] = {"gohsmc": _gohsmc, "ohsmc": _ohsmc}
"""Name -> builder, in the table's order."""
