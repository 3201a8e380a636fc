r"""L-kernels: what a finished move is worth.

The weight is multiplied by $\pi_t(\theta_t)\,L(\theta_{t-1} \mid \theta_t) / (\mathrm{denominator}\cdot
q(\theta_t \mid \theta_{t-1}))$ (the paper's eq. `fwd-bwd-kern`). An L-kernel settles where the particle ends and
gives the log of everything but the denominator.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp

from partbayes import tree as tm
from partbayes.smc.proposals.base import Move
from partbayes.types import Array, Key, Tree


class Settled(NamedTuple):
    """Where the particle stays, the log target there, and log of (target × L / q)."""

    theta: Tree
    log_target: Array
    log_numerator: Array


class Settle(Protocol):
    def __call__(self, key: Key, move: Move, /) -> Settled: ...


class LKernel(NamedTuple):
    """`keeps_end` is True when every particle stays at its move's end (no rejection): then one forward pass at the
    end serves the ψ-gradient as well. `needs_start` says that the target at the start is read."""

    settle: Settle
    keeps_end: bool
    needs_start: bool


def forward_proposal() -> LKernel:
    r"""The proposal itself as backward kernel: numerator $\pi(\theta')\,q(\theta \mid \theta') / q(\theta' \mid \theta)$.

    For leapfrog moves this is eq. `langevin_pbnn_w_eq`; with the same target below the line it is exactly $e^{-\Delta H}$.
    """
    return LKernel(_settle_forward, keeps_end=True, needs_start=False)


def asymptotic() -> LKernel:
    r"""The time reversal of a π-invariant kernel: the move is Metropolis-adjusted, and the weight is taken at the old
    point, numerator $\pi_t(\theta_{t-1})$."""
    return LKernel(_settle_asymptotic, keeps_end=False, needs_start=True)


def log_acceptance_ratio(move: Move) -> Array:
    r"""$-\Delta H$: log of the Metropolis–Hastings ratio of the move."""
    return move.log_target_end - move.log_target_start + move.log_reverse - move.log_forward


def _settle_forward(key: Key, move: Move) -> Settled:
    numerator = move.log_target_end + move.log_reverse - move.log_forward
    return Settled(move.end, move.log_target_end, numerator)


def _settle_asymptotic(key: Key, move: Move) -> Settled:
    log_uniform = -jax.random.exponential(key, dtype=move.log_target_end.dtype)
    accept = log_uniform < log_acceptance_ratio(move)  # nan compares false: a broken move is rejected
    return Settled(
        tm.where(accept, move.end, move.start),
        jnp.where(accept, move.log_target_end, move.log_target_start),
        move.log_target_start,
    )
