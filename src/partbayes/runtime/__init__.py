"""Room 5: running an algorithm: the loop, islands, best-so-far, progress, checkpoints."""

from partbayes.runtime.checkpoint import has_checkpoint, restore_checkpoint, save_checkpoint
from partbayes.runtime.epochs import Fit, Run
from partbayes.runtime.loop import fit, prepare, start
from partbayes.runtime.sharding import device_mesh
from partbayes.runtime.streaming import fit_stream
from partbayes.runtime.validation import mixture_nll

__all__ = [
    "Fit",
    "Run",
    "device_mesh",
    "fit",
    "fit_stream",
    "has_checkpoint",
    "mixture_nll",
    "prepare",
    "restore_checkpoint",
    "save_checkpoint",
    "start",
]
