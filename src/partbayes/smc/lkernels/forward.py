"""The forward-proposal L-kernel."""

from __future__ import annotations

from partbayes.smc.lkernels.base import LKernel, Settled, log_numerator
from partbayes.smc.proposals.base import Move
from partbayes.types import Key


def forward_proposal() -> LKernel:
    r"""The proposal itself as backward kernel: numerator $\pi(\theta')\,q(\theta \mid \theta')/q(\theta' \mid \theta)$.

    For leapfrog moves this is eq. `langevin_pbnn_w_eq`; with the same target below the line it is $e^{-\Delta H}$.
    """
    return LKernel(_settle, keeps_end=True, needs_start=False)


def _settle(key: Key, move: Move) -> Settled:
    return Settled(move.end, move.log_target_end, log_numerator(move))
