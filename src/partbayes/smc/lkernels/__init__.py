"""L-kernels: what a finished move is worth. One file each, all with the same protocol (`base`)."""

from partbayes.smc.lkernels.asymptotic import asymptotic
from partbayes.smc.lkernels.base import LKernel, Settle, Settled, log_acceptance_ratio
from partbayes.smc.lkernels.forward import forward_proposal
from partbayes.smc.lkernels.near_optimal import near_optimal

__all__ = [
    "LKernel",
    "Settle",
    "Settled",
    "asymptotic",
    "forward_proposal",
    "log_acceptance_ratio",
    "near_optimal",
]
