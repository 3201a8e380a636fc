"""The methods of the paper's table, each built with the paper's settings; GOHSMC as we would run it on the same budget;
two more that every user compares with."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import optax

from partbayes.algorithm import Algorithm
from partbayes.baselines import map_estimate, sghmc, svgd, swag, vi
from partbayes.benchmark.settings import PaperSettings
from partbayes.model import Model
from partbayes.training import gohsmc, ohsmc
from partbayes.training.gohsmc import Start

ISLANDS = 10
COMMON = ("epochs", "learning_rate", "width", "second_layer")


class Method(NamedTuple):
    """A builder, the settings that it reads, on how many islands it runs, and whether from a warm start: half of the
    epochs by Adam on (θ, ψ), the method for the rest."""

    build: Callable[[Model, int, PaperSettings], Algorithm]
    reads: tuple[str, ...] = (*COMMON, "particles")
    islands: int = 1
    warm_start: bool = False

    def config(self, settings: PaperSettings) -> dict[str, Any]:
        """What identifies a run: a setting that the method never looks at is not part of it."""
        return {name: getattr(settings, name) for name in self.reads}


def _gohsmc(
    model: Model, num_data: int, settings: PaperSettings, islands: int = 1, start: Start = "prior"
) -> Algorithm:
    """`settings.particles` are those of all islands together."""
    return gohsmc(
        model,
        num_data,
        num_particles=settings.particles // islands,
        start=start,
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


def climber(model: Model, num_data: int, settings: PaperSettings) -> Algorithm:
    """Adam on (θ, ψ)."""
    return map_estimate(model, num_data, optimiser=optax.adam(settings.learning_rate))


METHODS: dict[str, Method] = {
    "gohsmc": Method(_gohsmc, PaperSettings._fields),
    "gohsmc_islands": Method(
        partial(_gohsmc, islands=ISLANDS, start="given"), PaperSettings._fields, ISLANDS, warm_start=True
    ),
    "ohsmc": Method(_ohsmc, (*COMMON, "particles", "kernel_scale")),
    "sghmc": Method(_baseline(sghmc)),
    "swag": Method(_baseline(swag)),
    "vi": Method(_baseline(vi)),
    "svgd": Method(_baseline(svgd)),
    "map": Method(climber, COMMON),
    "deep_ensemble": Method(climber, COMMON, islands=ISLANDS),
}
"""In the table's order."""

PAPER_METHODS = ("gohsmc", "ohsmc", "sghmc", "swag", "vi", "svgd")
"""The rows of the paper's table."""
