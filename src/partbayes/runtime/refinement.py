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
  two standard errors of the best, the one nearest to one, each with the shape that suits it best. It changes nothing
  unless the validation rows speak clearly.
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
from partbayes.runtime.stacking import mixed, over_islands, stacked
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
        said = [f"the {len(self.shares)} islands have shares from {self.shares.min():.3f} to {self.shares.max():.3f}"]
        parts = [] if self.start_share is None else [f"{self.start_share:.2f} is the warm start"]
        parts += [f"{share:.2f} copies with {scale:.2g} times the noise" for scale, share in self.copies.items()]
        if parts:
            said.append(f"of each, {', '.join(parts)}, and the rest the particles as they were")
        if self.noise_factor != 1:
            said.append(f"the noise is {self.noise_factor:.2f} times as large")
        return f"By the validation rows: {'; '.join(said)}."


def refine(
    model: Model, posterior: Posterior, validation: Batch, start: Posterior | None = None, *, noise_shape: bool = True
) -> Refined:
    """Give the islands shares, `start` (the same islands before sampling) its part, and the noise its shape and level.

    Without `noise_shape` the noise stays normal.
    """
    own = [posterior] if start is None else [start, posterior]
    enough = np.sum(np.asarray(validation.weight)) >= FEWEST_ROWS
    copies = _copies(model, posterior) if noise_shape and enough else []
    pieces = own + copies
    prior_rows = (PRIOR_ROWS_OF_PARTS,) * len(own) + (0.0,) * len(copies)
    shares, parts = _stacked(model, pieces, validation, prior_rows)
    shift = _level(model, pieces, validation, shares, prior_rows) if enough and model.shift_noise is not None else 0.0
    if shift != 0:
        pieces = _shifted(model, pieces, np.float64(shift))  # the type of those tried: another is traced anew
        shares, parts = _stacked(model, pieces, validation, prior_rows)
    parts = np.array(parts)
    parts[len(own) :][parts[len(own) :] < LEAST_SHARE] = 0.0
    parts /= np.sum(parts)
    log_probs = [island_log_prob(model, piece, validation) for piece in pieces]
    score = float(mean_nll(mixed(log_probs, shares, parts), validation))
    return Refined(
        _joined(pieces, np.asarray(shares), parts),
        np.asarray(shares),
        float(np.exp(shift)),
        None if start is None else float(parts[0]),
        {scale: float(part) for scale, part in zip(SCALES, parts[len(own) :], strict=False) if part > 0},
        score,
    )


def _stacked(model: Model, pieces: list[Posterior], batch: Batch, prior_rows: tuple[float, ...]) -> tuple[Array, Array]:
    return stacked([island_log_prob(model, piece, batch) for piece in pieces], batch.weight, prior_rows)


def _level(
    model: Model, pieces: list[Posterior], validation: Batch, shares: Array, prior_rows: tuple[float, ...]
) -> float:
    """The logarithm of the noise's factor. At each that is tried the parts are found anew: at a wrong level, copies
    would stand in for the right one."""
    every = -(-validation.x.shape[0] // MOST_ROWS)
    some = jax.tree.map(lambda rows: rows[::every], validation) if every > 1 else validation
    tried = []
    for shift in SHIFTS:
        shifted = _shifted(model, pieces, shift)
        by_piece = over_islands([island_log_prob(model, piece, some) for piece in shifted], shares)
        one, parts = stacked(by_piece, some.weight, prior_rows)
        tried.append(mixed(by_piece, one, parts))
    return _clear_shift(np.asarray(tried, np.float64), np.asarray(some.weight))


def _copies(model: Model, posterior: Posterior) -> list[Posterior]:
    """Some of the particles at each of `SCALES`; none where the noise is no parameter, or one of ψ, which all particles
    of an island share."""
    if model.shift_noise is None or not _noise_is_stochastic(model, posterior):
        return []
    return _copied(model, posterior)


@partial(jax.jit, static_argnames=("model",))
def _copied(model: Model, posterior: Posterior) -> list[Posterior]:
    theta, log_weights = jax.tree.map(lambda leaf: leaf[:, ::EVERY], (posterior.theta, posterior.log_weights))
    total = jax.nn.logsumexp(log_weights, axis=1, keepdims=True)
    log_weights = jnp.where(jnp.isneginf(total), -jnp.inf, log_weights - total)  # those of no weight stay so
    some = posterior._replace(theta=theta, log_weights=log_weights)
    return [shift_noise(model, some, jnp.asarray(math.log(scale), log_weights.dtype)) for scale in SCALES]


def _noise_is_stochastic(model: Model, posterior: Posterior) -> bool:
    """Whether another noise is another θ, ψ staying the same."""
    theta, psi = jax.tree.map(lambda leaf: np.zeros(leaf.shape[1:], leaf.dtype), (posterior.theta, posterior.psi))
    assert model.shift_noise is not None
    _, shifted = model.shift_noise(jax.tree.map(lambda leaf: leaf[0], theta), psi, jax.device_put(np.float32(1.0)))
    return not any(np.any(np.asarray(leaf)) for leaf in jax.tree.leaves(shifted))


def shift_noise(model: Model, posterior: Posterior, shift: Array) -> Posterior:
    """The noise of every particle of every island times e^shift, wherever it is a parameter: in θ or in ψ."""
    assert model.shift_noise is not None
    # ψ does not depend on the particle: it comes out once for each island.
    shifted = jax.vmap(jax.vmap(model.shift_noise, (0, None, None), (0, None)), (0, 0, None))
    theta, psi = shifted(posterior.theta, posterior.psi, shift)
    return posterior._replace(theta=theta, psi=psi)


def _joined(pieces: list[Posterior], shares: np.ndarray, parts: np.ndarray) -> Posterior:
    """The particles of all pieces that have a part, island by island (ψ was held and is the same), each with its part
    of its island's share: weights add up to one in an island whose share is even.

    By numpy: which pieces there are differs from fit to fit, and each choice would be compiled anew.
    """
    kept = [(piece, np.log(part)) for piece, part in zip(pieces, parts, strict=True) if part > 0]
    thetas = [jax.tree.map(np.asarray, piece.theta) for piece, _ in kept]
    theta = jax.tree.map(lambda *leaves: np.concatenate(leaves, axis=1), *thetas)
    log_weights = np.concatenate([np.asarray(piece.log_weights) + log_part for piece, log_part in kept], axis=1)
    log_weights += np.log(len(shares) * shares)[:, None]
    return jax.device_put(pieces[0]._replace(theta=theta, log_weights=log_weights))


@partial(jax.jit, static_argnames=("model",))
def _shifted(model: Model, pieces: list[Posterior], shift: Array) -> list[Posterior]:
    return [shift_noise(model, piece, jnp.asarray(shift, piece.log_weights.dtype)) for piece in pieces]


def _clear_shift(log_prob: np.ndarray, weight: np.ndarray) -> float:
    """Of the shifts within two standard errors of the best one, that nearest to none."""
    share = weight / np.sum(weight)
    means = log_prob @ share
    if not np.isfinite(means).any():
        return 0.0
    behind = log_prob[np.nanargmax(means)] - log_prob
    mean = behind @ share
    error = np.sqrt(np.square(behind - mean[:, None]) @ share / np.sum(weight))  # a weight counts rows
    close = np.flatnonzero(mean <= STANDARD_ERRORS * error)  # nan is not close
    return float(SHIFTS[close[np.argmin(np.abs(SHIFTS[close]))]])
