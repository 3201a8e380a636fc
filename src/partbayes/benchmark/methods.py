"""The methods of the paper's table, each built with the paper's settings; two more that every user compares with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import optax

from partbayes.algorithm import Algorithm
from partbayes.baselines import map_estimate, sghmc, svgd, swag, vi
from partbayes.benchmark.settings import PaperSettings
from partbayes.model import Model
from partbayes.training import gohsmc, ohsmc

COMMON = ("epochs", "learning_rate", "width", "second_layer")


class Method(NamedTuple):
    """A builder, the settings that it reads, and on how many islands it runs."""

    build: Callable[[Model, int, PaperSettings], Algorithm]
    reads: tuple[str, ...] = (*COMMON, "particles")
    islands: int = 1

    def config(self, settings: PaperSettings) -> dict[str, Any]:
        """What identifies a run: a setting that the method never looks at is not part of it."""
        return {name: getattr(settings, name) for name in self.reads}


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


def _baseline(builder: Callable[..., Algorithm]) -> Callable[[Model, int, PaperSettings], Algorithm]:
    """A baseline with its own defaults, the preset's number of particles and its Adam for ψ."""

    def build(model: Model, num_data: int, settings: PaperSettings) -> Algorithm:
        optimiser = optax.adam(settings.learning_rate)
        return builder(model, num_data, num_particles=settings.particles, optimiser=optimiser)

    return build


def _map(model: Model, num_data: int, settings: PaperSettings) -> Algorithm:
    return map_estimate(model, num_data, optimiser=optax.adam(settings.learning_rate))


METHODS: dict[str, Method] = {
    "gohsmc": Method(_gohsmc, PaperSettings._fields),
    "ohsmc": Method(_ohsmc, (*COMMON, "particles", "kernel_scale")),
    "sghmc": Method(_baseline(sghmc)),
    "swag": Method(_baseline(swag)),
    "vi": Method(_baseline(vi)),
    "svgd": Method(_baseline(svgd)),
    "map": Method(_map, COMMON),
    "deep_ensemble": Method(_map, COMMON, islands=10),
}
"""In the table's order."""

PAPER_METHODS = ("gohsmc", "ohsmc", "sghmc", "swag", "vi", "svgd")
"""The rows of the paper's table."""
