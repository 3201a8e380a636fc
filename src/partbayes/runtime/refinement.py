r"""Refinement: what suits the mixture of all islands, rather than each island alone, given the particles.

Islands are trained one by one, but predict together. Some things can only be told of them together, and the validation
rows tell:

- **Start.** The point that an island's sampling set out from may stay in it as one more particle, with a share a of the
  island's weight that is the same for all. Where the samples are the worse, a tends to one. It maximises the log score
  together with the shares that follow, under a prior worth one row to either side.
- **Shares.** Island k gets the share $p_k$ that maximises $\sum_n w_n \log \sum_k p_k\, p_k(y_n \mid x_n)$ (stacking of
  predictive distributions, Yao et al. 2018) under a Dirichlet prior worth a few rows for each island: with few
  validation rows the islands stay equal. The maximum is found by expectation and maximisation.
- **Shape of the noise.** Errors of real tables are seldom normal: most are smaller than the noise says, a few much
  larger. Copies of some particles with a third and with three times their noise get a share each, found together with
  the others; where errors are normal they get none. A scale mixture of normals has a sharper peak and heavier tails.
- **Level of the noise.** The errors of islands average out, so a mixture of well calibrated islands predicts too
  widely (Rahaman & Thiery 2021). All noise is scaled by one factor e^s: of the factors whose mean log score is within
  two standard errors of the best, the one nearest to one. It changes nothing unless the validation rows speak clearly.
"""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from partbayes.algorithm import Posterior
from partbayes.model import Model
from partbayes.runtime.stacking import mixed, stacked
from partbayes.runtime.validation import island_log_prob, mean_nll
from partbayes.types import Array, Batch

PRIOR_ROWS_OF_PARTS = 1.0
"""What the Dirichlet prior counts for, each, of an island's warm start and its samples: there are two for all rows to
tell apart, so few rows are clear. Copies have no prior, so that they may vanish."""

SCALES = (1 / 3, 3.0)
"""Of the copies' noise. Quarters and fourfolds scored the same in trial runs, halves and doubles a little less."""

EVERY = 3
"""Of an island's particles, how many there are for each that is copied: their places differ less than their noise."""

LEAST_SHARE = 0.01
"""Copies with less are left out: predictions would take longer for nothing."""

SHIFTS = np.round(np.arange(-1.5, 1.01, 0.1), 2)
"""Logarithms of the noise's factor that are tried: a fifth to three times."""

STANDARD_ERRORS = 2.0

FEWEST_ROWS = 30
"""Below so many rows their standard error is a guess itself, and the noise stays."""

MOST_ROWS = 1_000
"""Rows that the noise is judged by: their standard error is small enough."""


class Refined(NamedTuple):
    """The posterior, and what was done to it."""

    posterior: Posterior
    shares: np.ndarray
    noise_factor: float
    start_share: float | None
    copies: dict[float, float]
    """Their scale, and the part of all islands that they have."""
    score: float
    """Mean NLL of the validation rows."""

    def note(self) -> str:
        """One sentence for people."""
        parts = [f"the {len(self.shares)} islands have shares from {self.shares.min():.3f} to {self.shares.max():.3f}"]
        if self.start_share is not None:
            parts.append(f"the warm start has {self.start_share:.2f} of each, the samples the rest")
        parts += [f"{share:.2f} has {scale:.2g} times its noise" for scale, share in self.copies.items()]
        if self.noise_factor != 1:
            parts.append(f"the noise is {self.noise_factor:.2f} times as large")
        return f"By the validation rows, {', and '.join(parts)}."


def refine(
    model: Model, posterior: Posterior, validation: Batch, start: Posterior | None = None, *, noise_shape: bool = True
) -> Refined:
    """Give the islands shares, `start` (the same islands before sampling) its part, and the noise its shape and level.

    Without `noise_shape` the noise stays normal.
    """
    own = [posterior] if start is None else [start, posterior]
    enough = np.sum(np.asarray(validation.weight)) >= FEWEST_ROWS
    pieces = own + (_copies(model, posterior) if noise_shape and enough else [])
    prior_rows = tuple(PRIOR_ROWS_OF_PARTS if i < len(own) else 0.0 for i in range(len(pieces)))
    log_probs = [island_log_prob(model, piece, validation) for piece in pieces]
    shares, parts = stacked(log_probs, validation.weight, prior_rows)
    parts = np.asarray(parts)
    kept = [i for i in range(len(pieces)) if i < len(own) or parts[i] >= LEAST_SHARE]
    pieces, parts = [pieces[i] for i in kept], parts[kept] / np.sum(parts[kept])
    shift = 0.0
    if model.shift_noise is not None:
        every = -(-validation.x.shape[0] // MOST_ROWS)
        some = jax.tree.map(lambda rows: rows[::every], validation) if every > 1 else validation
        tried = [_rows_log_prob(model, _shifted(model, pieces, shift), shares, parts, some) for shift in SHIFTS]
        shift = _clear_shift(np.asarray(tried, np.float64), np.asarray(some.weight))
    if shift != 0:
        pieces = _shifted(model, pieces, np.float64(shift))  # the type of those tried: another is traced anew
    score = float(mean_nll(_rows_log_prob(model, pieces, shares, parts, validation), validation))
    return Refined(
        _joined(pieces, shares, parts),
        np.asarray(shares),
        float(np.exp(shift)),
        None if start is None else float(parts[0]),
        {SCALES[i - len(own)]: float(part) for i, part in zip(kept, parts, strict=True) if i >= len(own)},
        score,
    )


def _copies(model: Model, posterior: Posterior) -> list[Posterior]:
    """Some of the particles at each of `SCALES`; none where the noise is no parameter, or one of ψ, which all particles
    of an island share."""
    if model.shift_noise is None or not _noise_is_stochastic(model, posterior):
        return []
    return _copied(model, posterior)


@partial(jax.jit, static_argnames=("model",))
def _copied(model: Model, posterior: Posterior) -> list[Posterior]:
    some = posterior._replace(
        theta=jax.tree.map(lambda leaf: leaf[:, ::EVERY], posterior.theta),
        log_weights=jax.nn.log_softmax(posterior.log_weights[:, ::EVERY], axis=1),
    )
    return [shift_noise(model, some, jnp.asarray(math.log(scale), some.log_weights.dtype)) for scale in SCALES]


def _noise_is_stochastic(model: Model, posterior: Posterior) -> bool:
    """Whether another noise is another θ, ψ staying the same."""
    first = jax.tree.map(lambda leaf: np.asarray(leaf)[0], (posterior.theta, posterior.psi))
    theta = jax.tree.map(lambda leaf: leaf[0], first[0])
    assert model.shift_noise is not None
    _, psi = model.shift_noise(theta, first[1], jax.device_put(np.float32(1.0)))
    same = jax.tree.map(lambda one, other: np.array_equal(one, other, equal_nan=True), psi, first[1])
    return all(jax.tree.leaves(same))


def shift_noise(model: Model, posterior: Posterior, shift: Array) -> Posterior:
    """The noise of every particle of every island times e^shift, wherever it is a parameter: in θ or in ψ."""
    assert model.shift_noise is not None
    # ψ does not depend on the particle: it comes out once for each island.
    shifted = jax.vmap(jax.vmap(model.shift_noise, (0, None, None), (0, None)), (0, 0, None))
    theta, psi = shifted(posterior.theta, posterior.psi, shift)
    return posterior._replace(theta=theta, psi=psi)


@jax.jit
def _joined(pieces: list[Posterior], shares: Array, parts: Array) -> Posterior:
    """The particles of all pieces, island by island (ψ was held and is the same), each with its part of its island's
    share: weights add up to one in an island whose share is even."""
    theta = jax.tree.map(lambda *leaves: jnp.concatenate(leaves, axis=1), *(piece.theta for piece in pieces))
    weights = [piece.log_weights + jnp.log(part) for piece, part in zip(pieces, parts, strict=True)]
    log_weights = jnp.concatenate(weights, axis=1) + jnp.log(len(shares) * shares)[:, None]
    return pieces[0]._replace(theta=theta, log_weights=log_weights)


@partial(jax.jit, static_argnames=("model",))
def _shifted(model: Model, pieces: list[Posterior], shift: Array) -> list[Posterior]:
    return [shift_noise(model, piece, jnp.asarray(shift, piece.log_weights.dtype)) for piece in pieces]


def _rows_log_prob(model: Model, pieces: list[Posterior], shares: Array, parts: Array, batch: Batch) -> Array:
    """Each row's log score by the mixture of all pieces of all islands, `[M]`."""
    return mixed([island_log_prob(model, piece, batch) for piece in pieces], shares, parts)


def _clear_shift(log_prob: np.ndarray, weight: np.ndarray) -> float:
    """Of the shifts within two standard errors of the best one, that nearest to none."""
    share = weight / np.sum(weight)
    means = log_prob @ share
    if np.sum(weight) < FEWEST_ROWS or not np.isfinite(means).any():
        return 0.0
    behind = log_prob[np.nanargmax(means)] - log_prob
    mean = behind @ share
    error = np.sqrt(np.square(behind - mean[:, None]) @ share / np.sum(weight))  # a weight counts rows
    close = np.flatnonzero(mean <= STANDARD_ERRORS * error)  # nan is not close
    return float(SHIFTS[close[np.argmin(np.abs(SHIFTS[close]))]])
