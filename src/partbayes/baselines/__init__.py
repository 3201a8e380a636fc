"""Room 4b: what every user compares with, as the same triple: MAP and deep ensembles, VI, SGHMC, SWAG, SVGD.

A deep ensemble needs no builder of its own: it is MAP with K islands, `fit(key, map_estimate(...), ..., islands=10)`.
Islands turn the others into ensembles in the same way (K parallel SGHMC chains, MultiSWAG).
"""

from partbayes.baselines.map import MAPState, map_estimate
from partbayes.baselines.sghmc import SGHMCState, sghmc
from partbayes.baselines.svgd import SVGDState, svgd
from partbayes.baselines.swag import SWAGState, swag
from partbayes.baselines.vi import VIState, vi

__all__ = [
    "MAPState",
    "SGHMCState",
    "SVGDState",
    "SWAGState",
    "VIState",
    "map_estimate",
    "sghmc",
    "svgd",
    "swag",
    "vi",
]
