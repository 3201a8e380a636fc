"""Proposals: how one particle moves. One file each, all with the same two halves (`base`)."""

from partbayes.smc.proposals.base import Density, Flight, Move, Proposal, Tuning, propose
from partbayes.smc.proposals.hmc import hmc, langevin
from partbayes.smc.proposals.random_walk import random_walk

__all__ = ["Density", "Flight", "Move", "Proposal", "Tuning", "hmc", "langevin", "propose", "random_walk"]
