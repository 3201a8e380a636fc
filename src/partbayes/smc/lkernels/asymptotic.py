"""The asymptotic L-kernel."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from partbayes import tree as tm
from partbayes.smc.lkernels.base import LKernel, Settled, log_acceptance_ratio
from partbayes.smc.proposals.base import Move
from partbayes.types import Key


def asymptotic() -> LKernel:
    r"""The time reversal of a π-invariant kernel: the move is Metropolis-adjusted, and the weight is taken at the old
    point, numerator $\pi_t(\theta_{t-1})$. A proposal that is π-reversible itself (`nuts_adjusted`) is always accepted.
    """
    return LKernel(_settle, keeps_end=False, needs_start=True)


def _settle(key: Key, move: Move) -> Settled:
    log_uniform = -jax.random.exponential(key, dtype=move.log_target_end.dtype)
    accept = log_uniform <= log_acceptance_ratio(move)  # nan compares false: a broken move is rejected
    return Settled(
        tm.where(accept, move.end, move.start),
        jnp.where(accept, move.log_target_end, move.log_target_start),
        move.log_target_start,
    )
