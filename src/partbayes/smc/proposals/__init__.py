"""Proposals: how one particle moves. One file each, all with the same two halves (`base`)."""

from partbayes.smc.proposals.base import Density, Flight, Move, Proposal, Tuning, propose
from partbayes.smc.proposals.chees import advance, chees
from partbayes.smc.proposals.hmc import hmc, langevin
from partbayes.smc.proposals.nuts import nuts, nuts_adjusted
from partbayes.smc.proposals.random_walk import random_walk
from partbayes.smc.proposals.second_order import second_order

__all__ = [
    "Density",
    "Flight",
    "Move",
    "Proposal",
    "Tuning",
    "advance",
    "chees",
    "hmc",
    "langevin",
    "nuts",
    "nuts_adjusted",
    "propose",
    "random_walk",
    "second_order",
]
