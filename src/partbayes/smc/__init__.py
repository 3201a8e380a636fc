"""Room 3: weighted particles. It knows only a log-density callable."""

from partbayes.smc.lkernels import LKernel, asymptotic, forward_proposal, near_optimal
from partbayes.smc.proposals import (
    Proposal,
    Tuning,
    chees,
    hmc,
    langevin,
    nuts,
    nuts_adjusted,
    random_walk,
    second_order,
)
from partbayes.smc.resampling import Resampler, adaptive, multinomial, residual, stratified, systematic
from partbayes.smc.step import Kernel, ParticleState, move, move_with_gradient, resample
from partbayes.smc.weighted_gradient import weighted_gradient
from partbayes.smc.weights import ess, normalise

__all__ = [
    "Kernel",
    "LKernel",
    "ParticleState",
    "Proposal",
    "Resampler",
    "Tuning",
    "adaptive",
    "asymptotic",
    "chees",
    "ess",
    "forward_proposal",
    "hmc",
    "langevin",
    "move",
    "move_with_gradient",
    "multinomial",
    "near_optimal",
    "normalise",
    "nuts",
    "nuts_adjusted",
    "random_walk",
    "resample",
    "residual",
    "second_order",
    "stratified",
    "systematic",
    "weighted_gradient",
]
