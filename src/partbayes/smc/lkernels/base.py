r"""What an L-kernel is: it settles where the particle ends, and what the move is worth.

The weight is multiplied by $\pi_t(\theta_t)\,L(\theta_{t-1} \mid \theta_t) / (\mathrm{denominator}\cdot
q(\theta_t \mid \theta_{t-1}))$ (the paper's eq. `fwd-bwd-kern`). An L-kernel gives the log of everything but the
denominator.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from partbayes.smc.proposals.base import Move
from partbayes.types import Array, Key, Tree


class Settled(NamedTuple):
    """Where the particle stays, the log target there, and log of (target × L / q)."""

    theta: Tree
    log_target: Array
    log_numerator: Array


class Settle(Protocol):
    """For one particle; for all of them, stacked, when the L-kernel says `population`."""

    def __call__(self, key: Key, move: Move, /) -> Settled: ...


class LKernel(NamedTuple):
    """`keeps_end` is True when every particle stays at its move's end (no rejection): then one forward pass at the
    end serves the ψ-gradient as well. `needs_start` says that the target at the start is read. `population` says that
    all moves are needed at once: `settle` then comes after the last block, and the ψ-gradient takes a pass of its own.
    A move that ran off to infinity shows by its log target, which is not finite.
    """

    settle: Settle
    keeps_end: bool
    needs_start: bool
    population: bool = False


# Both differences below are taken in pairs that nearly or exactly cancel, before anything large is added: a log target
# of 1e5 has only two decimals in float32.


def log_numerator(move: Move) -> Array:
    r"""Log of $\pi(\theta')\,L/q$ with the move's own reverse density as L."""
    return move.log_target_end + (move.log_reverse - move.log_forward)


def log_acceptance_ratio(move: Move) -> Array:
    r"""$-\Delta H$: log of the Metropolis–Hastings ratio of the move."""
    return (move.log_target_end - move.log_target_start) + (move.log_reverse - move.log_forward)
