"""Room 4: the four SMC training algorithms, joining model and sampler."""

from partbayes.training.gohsmc import gohsmc
from partbayes.training.ohsmc import ohsmc
from partbayes.training.pooling import pooled
from partbayes.training.sgsmc import sgsmc, smc_pbnn
from partbayes.training.state import SMCState

__all__ = ["SMCState", "gohsmc", "ohsmc", "pooled", "sgsmc", "smc_pbnn"]
