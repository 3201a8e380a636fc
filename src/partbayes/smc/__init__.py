"""Room 3: weighted particles. It knows only a log-density callable."""

from partbayes.smc.lkernels import LKernel, asymptotic, forward_proposal
from partbayes.smc.proposals import Proposal, Tuning, hmc, langevin, random_walk
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
    "ess",
    "forward_proposal",
    "hmc",
    "langevin",
    "move",
    "move_with_gradient",
    "multinomial",
    "normalise",
    "random_walk",
    "resample",
    "residual",
    "stratified",
    "systematic",
    "weighted_gradient",
]
