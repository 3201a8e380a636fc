r"""Refinement: what suits the mixture of all islands, rather than each island alone, given the particles.

Islands are trained one by one, but predict together. Some things can only be told of them together, and the validation
rows tell:

- **Start.** The point that an island's sampling set out from may stay in it as one more particle, with a share a of the
  island's weight that is the same for all. Where the samples are the worse, a tends to one. It maximises the log score
  together with the shares that follow, under a prior worth one row to either side.
- **Shares.** Island k gets the share $p_k$ that maximises $\sum_n w_n \log \sum_k p_k\, p_k(y_n \mid x_n)$ (stacking of
  predictive distributions, Yao et al. 2018) under a Dirichlet prior worth a few rows for each island: with few
  validation rows the islands stay equal. The maximum is found by expectation and maximisation.
- **Noise.** The errors of islands average out, so a mixture of well calibrated islands predicts too widely (Rahaman &
  Thiery 2021). All noise is scaled by one factor e^s: of the factors whose mean log score is within two standard errors
  of the best, the one nearest to one. It changes nothing unless the validation rows speak clearly.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from partbayes.algorithm import Posterior
from partbayes.model import Model
from partbayes.runtime.validation import island_log_prob, mean_nll
from partbayes.types import Array, Batch

PRIOR_ROWS = 5.0
"""What the Dirichlet prior of the shares counts for, per island."""

PRIOR_ROWS_OF_PARTS = 1.0
"""The same for the parts of an island: there are two for all rows to tell apart, so few rows are clear."""

ITERATIONS = 200
"""Of expectation and maximisation: shares of real tables no longer change in the third digit by then."""

SHIFTS = np.round(np.arange(-1.5, 1.01, 0.05), 2)
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
    score: float
    """Mean NLL of the validation rows."""

    def note(self) -> str:
        """One sentence for people."""
        parts = [f"the {len(self.shares)} islands have shares from {self.shares.min():.3f} to {self.shares.max():.3f}"]
        if self.start_share is not None:
            parts.append(f"the warm start has {self.start_share:.2f} of each, the samples the rest")
        if self.noise_factor != 1:
            parts.append(f"the noise is {self.noise_factor:.2f} times as large")
        return f"By the validation rows, {', and '.join(parts)}."


def refine(model: Model, posterior: Posterior, validation: Batch, start: Posterior | None = None) -> Refined:
    """Give the islands shares, the noise its level, and `start`, the same islands before sampling, its part."""
    pair = [posterior] if start is None else [start, posterior]
    shares, parts = _shares([island_log_prob(model, part, validation) for part in pair], validation.weight)
    shift = 0.0
    if model.shift_noise is not None:
        every = -(-validation.x.shape[0] // MOST_ROWS)
        some = jax.tree.map(lambda rows: rows[::every], validation) if every > 1 else validation
        tried = [_rows_log_prob(model, _shifted_pair(model, pair, shift), shares, parts, some) for shift in SHIFTS]
        shift = _clear_shift(np.asarray(tried, np.float64), np.asarray(some.weight))
    if shift != 0:
        pair = _shifted_pair(model, pair, np.float64(shift))  # the type of those tried: another is traced anew
    score = float(mean_nll(_rows_log_prob(model, pair, shares, parts, validation), validation))
    start_share = None if start is None else float(np.asarray(parts)[0])
    return Refined(_joined(pair, shares, parts), np.asarray(shares), float(np.exp(shift)), start_share, score)


def shift_noise(model: Model, posterior: Posterior, shift: Array) -> Posterior:
    """The noise of every particle of every island times e^shift, wherever it is a parameter: in θ or in ψ."""
    assert model.shift_noise is not None
    # ψ does not depend on the particle: it comes out once for each island.
    shifted = jax.vmap(jax.vmap(model.shift_noise, (0, None, None), (0, None)), (0, 0, None))
    theta, psi = shifted(posterior.theta, posterior.psi, shift)
    return posterior._replace(theta=theta, psi=psi)


@jax.jit
def _joined(pair: list[Posterior], shares: Array, parts: Array) -> Posterior:
    """The particles of both, island by island (ψ was held and is the same), each with its part of its island's share:
    weights add up to one in an island whose share is even."""
    theta = jax.tree.map(lambda *leaves: jnp.concatenate(leaves, axis=1), *(one.theta for one in pair))
    weights = [one.log_weights + jnp.log(part) for one, part in zip(pair, parts, strict=True)]
    log_weights = jnp.concatenate(weights, axis=1) + jnp.log(len(shares) * shares)[:, None]
    return pair[-1]._replace(theta=theta, log_weights=log_weights)


@jax.jit
def _shares(log_probs: list[Array], weight: Array) -> tuple[Array, Array]:
    """Islands' shares `[K]` and their parts `[P]` for P log densities `[K, M]`, both adding up to one."""
    log_prob = jnp.stack(log_probs)
    num_parts, num_islands, _ = log_prob.shape
    log_prob = jnp.where(jnp.isnan(log_prob), -jnp.inf, log_prob)
    rows = jnp.sum(weight)

    def update(_, now: tuple[Array, Array]) -> tuple[Array, Array]:
        shares, parts = now
        responsible = jax.nn.softmax(_joint(log_prob, shares, parts), axis=(0, 1))
        # A row that nobody can explain says nothing about them.
        responsible = jnp.where(jnp.isnan(responsible), 1.0 / (num_parts * num_islands), responsible)
        counts = responsible @ weight
        return (
            (jnp.sum(counts, axis=0) + PRIOR_ROWS) / (rows + PRIOR_ROWS * num_islands),
            (jnp.sum(counts, axis=1) + PRIOR_ROWS_OF_PARTS) / (rows + PRIOR_ROWS_OF_PARTS * num_parts),
        )

    even = tuple(jnp.full(count, 1.0 / count, log_prob.dtype) for count in (num_islands, num_parts))
    return jax.lax.fori_loop(0, ITERATIONS, update, even)


@partial(jax.jit, static_argnames=("model",))
def _shifted_pair(model: Model, pair: list[Posterior], shift: Array) -> list[Posterior]:
    return [shift_noise(model, part, jnp.asarray(shift, part.log_weights.dtype)) for part in pair]


def _rows_log_prob(model: Model, pair: list[Posterior], shares: Array, parts: Array, batch: Batch) -> Array:
    """Each row's log score by the mixture of all parts of all islands, `[M]`."""
    return _mixed([island_log_prob(model, part, batch) for part in pair], shares, parts)


@jax.jit
def _mixed(log_probs: list[Array], shares: Array, parts: Array) -> Array:
    return jax.nn.logsumexp(_joint(jnp.stack(log_probs), shares, parts), axis=(0, 1))


def _joint(log_prob: Array, shares: Array, parts: Array) -> Array:
    """Log densities `[P, K, M]`, each with the logarithm of its share."""
    return log_prob + jnp.log(shares)[:, None] + jnp.log(parts)[:, None, None]


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
