"""Islands that are trained to the end, beside those that keep the epoch which the validation rows choose.

A network that is trained on and on comes to remember its training rows. Alone it predicts badly, too sure of itself
where it is wrong; but a part of such networks beside smooth ones is right, and sharp, wherever a row repeats one that
was trained on or is very like it. How large a part they get, if any, is for the validation rows to say
(`runtime.refinement`).

Both are trained side by side (`fit(select=)` with a number); here they are told apart.
"""

from __future__ import annotations

import jax
import numpy as np

from partbayes.algorithm import Posterior
from partbayes.runtime.epochs import Fit, Select


def select_by(islands: int, beside: int) -> Select:
    """`fit`'s option for `islands` that are judged together, and others `beside` them, if any, that are not."""
    return islands if beside else "joint"


def judged(fit: Fit, select: Select) -> Posterior:
    """The islands by which epochs were chosen, without those that were lost."""
    return fit.posterior if isinstance(select, str) else parted(fit, select)[0]


def parted(fit: Fit, chosen: int) -> tuple[Posterior, Posterior | None]:
    """The first `chosen` islands, which kept the epoch that the validation rows chose, and the others (if there are
    any), which kept the last one; without those that were lost."""
    alive = np.flatnonzero(np.asarray(fit.run.alive))
    first = int(np.sum(alive < chosen))
    if first == len(alive):
        return fit.posterior, None
    return _islands(fit.posterior, slice(first)), _islands(fit.posterior, slice(first, None))


def _islands(posterior: Posterior, which: slice) -> Posterior:
    """By numpy: a program, however small, waits for those that are compiled meanwhile."""
    return jax.device_put(jax.tree.map(lambda leaf: np.asarray(leaf)[which], posterior))
