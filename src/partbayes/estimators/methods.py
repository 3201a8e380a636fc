"""Every method to train an estimator with besides the default: its builder, and settings that need no tuning.

The amount of training is counted in steps, not epochs, so that a table of a hundred rows and one of a million both get
enough and neither too much.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import optax

from partbayes import smc
from partbayes.algorithm import Algorithm
from partbayes.baselines import map_estimate, sghmc, svgd, swag, vi
from partbayes.data.batching import steps_per_epoch
from partbayes.errors import PartbayesError
from partbayes.model import Model
from partbayes.smc import Proposal
from partbayes.training import gohsmc, ohsmc, sgsmc, smc_pbnn

STEPS = {"quick": 600, "standard": 3_000, "thorough": 12_000}
"""Training steps by effort."""

SMALLEST_BATCH, LARGEST_BATCH = 32, 512
"""A batch is a twentieth of the rows within these bounds: about twenty steps an epoch while the table is small."""

MOST_ROWS_OF_SMC_PBNN = 2_000
"""One iteration of SMC-pBNN costs the square of the number of rows."""

PROPOSALS: dict[str, Callable[[], Proposal]] = {
    "langevin": smc.langevin,
    "hmc": lambda: smc.hmc(5),
    "random_walk": smc.random_walk,
    "nuts": smc.nuts,
    "nuts_adjusted": smc.nuts_adjusted,
    "chees": smc.chees,
    # The exact curvature of a whole layer is out of reach; eight probes see its diagonal well enough to scale by.
    "second_order": lambda: smc.second_order(num_probes=8),
}


class Plan(NamedTuple):
    """A training run, fully decided; hashable."""

    method: str
    proposal: str | Proposal | None
    num_data: int
    islands: int
    particles: int
    epochs: int
    batch_size: int
    learning_rate: float

    @property
    def num_steps(self) -> int:
        return self.epochs * steps_per_epoch(self.num_data, self.batch_size)


class Method(NamedTuple):
    """A builder, islands and particles by default, and whether a proposal may be chosen.

    `keep_last` is for methods whose last state is the answer; the others keep the best one by validation.
    """

    build: Callable[[Model, Plan], Algorithm]
    islands: int
    particles: int
    takes_proposal: bool = False
    keep_last: bool = False
    share: float = 1.0
    """Of the steps: fewer for a method whose step is a whole run over the batch, row by row."""


def make_plan(
    method: str,
    effort: str,
    num_data: int,
    *,
    proposal: Any = None,
    islands: int | None = None,
    particles: int | None = None,
    epochs: int | None = None,
    batch_size: int | None = None,
    learning_rate: float | None = None,
) -> Plan:
    """Fill in what was left open, and complain about what cannot be."""
    chosen = METHODS[method]
    if proposal is not None and not chosen.takes_proposal:
        able = ", ".join(name for name, one in METHODS.items() if one.takes_proposal)
        raise PartbayesError(f"A proposal was given, but method {method!r} takes none: leave it out, or use {able}.")
    if method == "map" and particles not in (None, 1):
        raise PartbayesError(f"{particles} particles were asked for, but 'map' has one: ask for islands instead.")
    if method == "smc_pbnn" and num_data > MOST_ROWS_OF_SMC_PBNN:
        raise PartbayesError(
            f"'smc_pbnn' passes {num_data} rows through the sampler one by one, but more than {MOST_ROWS_OF_SMC_PBNN} "
            "are not feasible: use 'sgsmc' or 'gohsmc'."
        )
    if method == "smc_pbnn":
        batch_size = num_data
    if batch_size is None:
        batch_size = min(max(num_data // 20, SMALLEST_BATCH), LARGEST_BATCH)
    batch_size = min(batch_size, num_data)
    if epochs is None:
        epochs = max(2, math.ceil(chosen.share * STEPS[effort] / steps_per_epoch(num_data, batch_size)))
    return Plan(
        method,
        proposal,
        num_data,
        chosen.islands if islands is None else islands,
        chosen.particles if particles is None else particles,
        epochs,
        batch_size,
        0.01 if learning_rate is None else learning_rate,
    )


@lru_cache(maxsize=64)
def build_algorithm(model: Model, plan: Plan) -> Algorithm:
    """The same object for the same plan, so that compiled code is found again."""
    return METHODS[plan.method].build(model, plan)


def as_proposal(proposal: str | Proposal) -> Proposal:
    """A proposal by name, or as it is."""
    if isinstance(proposal, Proposal):
        return proposal
    if proposal not in PROPOSALS:
        raise PartbayesError(
            f"The proposal is {proposal!r}, but one of {', '.join(PROPOSALS)} or a partbayes.smc Proposal is expected."
        )
    return PROPOSALS[proposal]()


def _optimiser(plan: Plan) -> optax.GradientTransformation:
    """Adam, its rate let down to zero by the end."""
    return optax.adam(optax.cosine_decay_schedule(plan.learning_rate, plan.num_steps))


def _gohsmc(model: Model, plan: Plan) -> Algorithm:
    proposal = as_proposal(plan.proposal or "langevin")
    return gohsmc(
        model,
        plan.num_data,
        num_particles=plan.particles,
        proposal=proposal,
        trajectory_length="auto" if proposal.needs_length else None,
        # Under today's batch on both sides, a move is weighed by its own error alone and not by the batch's luck.
        denominator="same_batch",
        resampler=smc.adaptive(smc.systematic()),
        optimiser=_optimiser(plan),
    )


def _ohsmc(model: Model, plan: Plan) -> Algorithm:
    return ohsmc(model, plan.num_data, num_particles=plan.particles, optimiser=_optimiser(plan))


def _from_the_prior(builder: Callable[..., Algorithm]) -> Callable[[Model, Plan], Algorithm]:
    def build(model: Model, plan: Plan) -> Algorithm:
        proposal = None if plan.proposal is None else as_proposal(plan.proposal)
        optimiser = _optimiser(plan)
        return builder(model, plan.num_data, num_particles=plan.particles, proposal=proposal, optimiser=optimiser)

    return build


def _baseline(builder: Callable[..., Algorithm]) -> Callable[[Model, Plan], Algorithm]:
    def build(model: Model, plan: Plan) -> Algorithm:
        return builder(model, plan.num_data, num_particles=plan.particles, optimiser=_optimiser(plan))

    return build


def _swag(model: Model, plan: Plan) -> Algorithm:
    """The first half settles, the second is collected from, forty times; the rate stays up on purpose."""
    half = plan.epochs / 2
    optimiser = optax.adam(plan.learning_rate)
    return swag(
        model,
        plan.num_data,
        num_particles=plan.particles,
        burn_in_epochs=half,
        interval_epochs=half / 40,
        optimiser=optimiser,
    )


def _map(model: Model, plan: Plan) -> Algorithm:
    return map_estimate(model, plan.num_data, optimiser=_optimiser(plan))


METHODS: dict[str, Method] = {
    "gohsmc": Method(_gohsmc, islands=8, particles=16, takes_proposal=True),
    "ohsmc": Method(_ohsmc, islands=4, particles=100),
    "sgsmc": Method(_from_the_prior(sgsmc), islands=2, particles=50, takes_proposal=True, share=0.02),
    "smc_pbnn": Method(_from_the_prior(smc_pbnn), islands=2, particles=50, takes_proposal=True, share=0.02),
    "vi": Method(_baseline(vi), islands=4, particles=32),
    "sghmc": Method(_baseline(sghmc), islands=4, particles=20, keep_last=True),
    "swag": Method(_swag, islands=4, particles=32, keep_last=True),
    "svgd": Method(_baseline(svgd), islands=4, particles=16),
    "map": Method(_map, islands=10, particles=1),
}
"""By the name that `method=` takes."""
