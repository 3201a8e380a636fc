"""Islands that are trained to the end, beside those that keep the epoch which the validation rows choose.

A network that is trained on and on comes to remember its training rows. Alone it predicts badly, too sure of itself
where it is wrong; but a part of such networks beside smooth ones is right, and sharp, wherever a row repeats one that
was trained on or is very like it. How large a part they get, if any, is for the validation rows to say
(`runtime.refinement`).
"""

from __future__ import annotations

import jax
import numpy as np

from partbayes.algorithm import Algorithm, Posterior
from partbayes.runtime.epochs import Fit


def parted(fit: Fit, algorithm: Algorithm, chosen: int) -> tuple[Posterior, Posterior | None]:
    """The first `chosen` islands as the validation rows chose them, the others (if there are any) as they were at the
    end; without those that were lost."""
    alive = np.flatnonzero(np.asarray(fit.run.alive))
    if np.all(alive < chosen):
        return fit.posterior, None
    last = jax.vmap(algorithm.posterior)(fit.run.state)
    return _islands(fit.run.best, alive[alive < chosen]), _islands(last, alive[alive >= chosen])


def joined(first: Posterior, second: Posterior | None) -> Posterior:
    """The islands of both."""
    if second is None:
        return first
    return jax.tree.map(lambda *leaves: np.concatenate([np.asarray(leaf) for leaf in leaves]), first, second)


def _islands(posterior: Posterior, index: np.ndarray) -> Posterior:
    """By numpy: a program, however small, waits for those that are compiled meanwhile."""
    return jax.device_put(jax.tree.map(lambda leaf: np.asarray(leaf)[index], posterior))
