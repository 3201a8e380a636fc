"""Room 5: running an algorithm: the loop, islands, best-so-far, progress, checkpoints."""

from partbayes.runtime.loop import Fit, Run, fit, start
from partbayes.runtime.validation import mixture_nll

__all__ = ["Fit", "Run", "fit", "mixture_nll", "start"]
