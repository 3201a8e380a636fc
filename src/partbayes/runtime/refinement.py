r"""Refinement: what suits the mixture of all islands, rather than each island alone, given the particles.

Islands are trained one by one, but predict together. Two things can only be told of them together, and the validation
rows tell:

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
from partbayes.runtime.validation import mixture_log_prob
from partbayes.types import Array, Batch

PRIOR_ROWS = 5.0
"""What the Dirichlet prior counts for, per island."""

ITERATIONS = 200
"""Of expectation and maximisation: shares of real tables no longer change in the third digit by then."""

SHIFTS = np.round(np.arange(-1.5, 1.01, 0.05), 2)
"""Logarithms of the noise's factor that are tried: a fifth to three times."""

STANDARD_ERRORS = 2.0

FEWEST_ROWS = 30
"""Below so many rows their standard error is a guess itself, and the noise stays."""

MOST_ROWS = 5_000
"""Rows that the noise is judged by: their standard error is small enough."""


class Refined(NamedTuple):
    """The posterior, and what was done to it."""

    posterior: Posterior
    shares: np.ndarray
    noise_factor: float

    def note(self) -> str:
        """One sentence for people."""
        shares = f"islands have shares from {self.shares.min():.3f} to {self.shares.max():.3f} of the mixture"
        noise = "" if self.noise_factor == 1 else f", and the noise is {self.noise_factor:.2f} times as large"
        return f"By the validation rows, the {len(self.shares)} {shares}{noise}."


def refine(model: Model, posterior: Posterior, validation: Batch) -> Refined:
    """Give the islands shares, and the noise its level."""
    shares = _shares(_island_log_prob(model, posterior, validation), validation.weight)
    posterior = posterior._replace(log_weights=posterior.log_weights + jnp.log(len(shares) * shares)[:, None])
    shift = 0.0
    if model.shift_noise is not None:
        every = -(-validation.x.shape[0] // MOST_ROWS)
        some = jax.tree.map(lambda rows: rows[::every], validation)
        shift = _clear_shift(np.asarray(_shifted_log_prob(model, posterior, some), np.float64), np.asarray(some.weight))
    if shift != 0:
        posterior = shift_noise(model, posterior, jnp.asarray(shift, posterior.log_weights.dtype))
    return Refined(posterior, np.asarray(shares), float(np.exp(shift)))


def shift_noise(model: Model, posterior: Posterior, shift: Array) -> Posterior:
    """The noise of every particle of every island times e^shift, wherever it is a parameter: in θ or in ψ."""
    assert model.shift_noise is not None
    # ψ does not depend on the particle: it comes out once for each island.
    shifted = jax.vmap(jax.vmap(model.shift_noise, (0, None, None), (0, None)), (0, 0, None))
    theta, psi = shifted(posterior.theta, posterior.psi, shift)
    return posterior._replace(theta=theta, psi=psi)


@partial(jax.jit, static_argnames=("model",))
def _island_log_prob(model: Model, posterior: Posterior, batch: Batch) -> Array:
    """`[K, M]`."""
    return jax.lax.map(lambda island: mixture_log_prob(model, island, batch), posterior)


@jax.jit
def _shares(log_prob: Array, weight: Array) -> Array:
    num_islands = log_prob.shape[0]
    log_prob = jnp.where(jnp.isnan(log_prob), -jnp.inf, log_prob)
    total = jnp.sum(weight) + PRIOR_ROWS * num_islands

    def update(_, shares: Array) -> Array:
        responsible = jax.nn.softmax(log_prob + jnp.log(shares)[:, None], axis=0)
        # A row that no island can explain says nothing about them.
        rows = jnp.where(jnp.isnan(responsible), 1.0 / num_islands, responsible)
        return (rows @ weight + PRIOR_ROWS) / total

    return jax.lax.fori_loop(0, ITERATIONS, update, jnp.full(num_islands, 1.0 / num_islands, log_prob.dtype))


@partial(jax.jit, static_argnames=("model",))
def _shifted_log_prob(model: Model, posterior: Posterior, batch: Batch) -> Array:
    """Each row's log score under each of the shifts, `[shifts, M]`."""

    def one(shift: Array) -> Array:
        islands = _island_log_prob(model, shift_noise(model, posterior, shift), batch)
        return jax.nn.logsumexp(islands, axis=0) - jnp.log(islands.shape[0])

    return jax.lax.map(one, jnp.asarray(SHIFTS, posterior.log_weights.dtype))


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
