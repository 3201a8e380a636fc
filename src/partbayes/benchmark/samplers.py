"""The samplers that are compared: every proposal, weighed (forward-proposal L-kernel) or adjusted (asymptotic)."""

from __future__ import annotations

from typing import Any, NamedTuple

from partbayes import smc
from partbayes.algorithm import Algorithm
from partbayes.benchmark.trained import TrainedNetwork
from partbayes.training import gohsmc


class Sampler(NamedTuple):
    """A proposal with its L-kernel, and about how many gradients a move takes: the warm-up's length rests on it."""

    proposal: smc.Proposal
    lkernel: smc.LKernel
    cost: float
    trajectory_length: Any = None


FORWARD, ADJUSTED = smc.forward_proposal(), smc.asymptotic()

SAMPLERS: dict[str, Sampler] = {
    "random_walk": Sampler(smc.random_walk(), FORWARD, 1),
    "random_walk_adjusted": Sampler(smc.random_walk(), ADJUSTED, 1),
    "langevin": Sampler(smc.langevin(), FORWARD, 2),
    "langevin_adjusted": Sampler(smc.langevin(), ADJUSTED, 2),
    "hmc_5": Sampler(smc.hmc(5), FORWARD, 6),
    "hmc_10": Sampler(smc.hmc(10), FORWARD, 11),
    "hmc_20": Sampler(smc.hmc(20), FORWARD, 21),
    "hmc_20_adjusted": Sampler(smc.hmc(20), ADJUSTED, 21),
    "hmc_50": Sampler(smc.hmc(50), FORWARD, 51),
    "hmc_50_adjusted": Sampler(smc.hmc(50), ADJUSTED, 51),
    "hmc_jitter_40": Sampler(smc.hmc(40, jitter=True), FORWARD, 21.5),
    "chees": Sampler(smc.chees(200), FORWARD, 30, "auto"),
    "chees_adjusted": Sampler(smc.chees(200), ADJUSTED, 30, "auto"),
    "nuts": Sampler(smc.nuts(6), FORWARD, 50),
    "nuts_adjusted": Sampler(smc.nuts_adjusted(6), FORWARD, 50),
    "second_order": Sampler(smc.second_order("diagonal", num_probes=4), FORWARD, 18),
}
"""`adjusted` moves are accepted or rejected, and all weights stay equal; the others are always made, and weighed.
Adjusted NUTS leaves π invariant by itself."""


def build(
    sampler: Sampler,
    network: TrainedNetwork,
    num_particles: int,
    warmup_steps: int | None,
    hold_psi: bool = True,
    **options: Any,
) -> Algorithm:
    """GOHSMC for θ | ψ around the trained network; the step size is automatic, unless `options` give one."""
    return gohsmc(
        network.model,
        network.train.x.shape[0],
        num_particles=num_particles,
        proposal=sampler.proposal,
        lkernel=sampler.lkernel,
        denominator="same_batch",
        resampler=smc.adaptive(smc.systematic()),
        start="given",
        trajectory_length=sampler.trajectory_length,
        warmup_steps=warmup_steps,
        hold_psi=hold_psi,
        **options,
    )
