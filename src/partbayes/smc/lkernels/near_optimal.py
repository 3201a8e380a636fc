r"""The Gaussian near-optimal L-kernel (Green et al., 2022; Devlin et al., 2021).

The best L is the law of the way back, given where the moves ended. With ξ the noise that would carry a particle back
(`Move.reverse_noise`; for HMC $-M^{-1/2} r^*$), a Gaussian is fitted to $(\xi, \theta')$ over the population, and

$$L(\xi \mid \theta') = N\big(\xi;\ \mu_\xi + B (\theta' - \mu_\theta),\ C\big), \qquad
B = \Sigma_{\xi\theta} \Sigma_{\theta\theta}^{-1}, \quad
C = \Sigma_{\xi\xi} - B\,\Sigma_{\theta\xi}$$

takes the place of $N(\xi; 0, I)$ in the forward-proposal weight. In equilibrium the two agree; on the way there it
takes out the variance that the proposal's own noise adds.

Any L that integrates to one would do, so the ridge that keeps the two solves stable costs no exactness. The fit does:
it has seen the particles it weighs, and flatters them. With k = d(d + 1) + d(d + 1)/2 fitted numbers, E[w] is 1 + k/J
to first order, not 1: each step adds about k/J to the log evidence, while normalised weights do not notice.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jax.scipy.linalg import cho_solve, solve_triangular

from partbayes.errors import PartbayesError
from partbayes.smc.lkernels.base import LKernel, Settled, log_numerator
from partbayes.smc.proposals.base import Move
from partbayes.types import Array, Key

RIDGE = 1e-6  # in units of a coordinate's variance; a few times the rounding of float32


def near_optimal() -> LKernel:
    """Needs J > 2·dim particles, all their moves at once, and a proposal with `reverse_noise` (all but
    `nuts_adjusted`). Two solves in dim dimensions per step and memory for J moves."""
    return LKernel(_settle, keeps_end=True, needs_start=False, population=True)


class Conditional(NamedTuple):
    """ξ given θ': mean `offset + (θ' - centre) @ slope`, covariance `factor @ factor.T`."""

    centre: Array
    offset: Array
    slope: Array
    factor: Array


def fit(noise: Array, ends: Array, usable: Array) -> Conditional:
    """The Gaussian of `noise` `[J, dim]` given `ends` `[J, dim]`, from the particles that are `usable` `[J]`."""
    mask = usable[:, None]
    num = jnp.maximum(jnp.sum(usable), 1)

    def mean(values):
        return jnp.sum(values, axis=0, where=mask) / num

    centre, offset = mean(ends), mean(noise)
    scale = jnp.sqrt(mean((ends - centre) ** 2))
    scale = jnp.where(scale > 0, scale, 1.0)
    x = jnp.where(mask, (ends - centre) / scale, 0.0)
    y = jnp.where(mask, noise - offset, 0.0)
    ridge = RIDGE * jnp.eye(x.shape[1], dtype=x.dtype)
    slope = cho_solve((jnp.linalg.cholesky(x.T @ x / num + ridge), True), x.T @ y / num)
    residuals = y - x @ slope  # unlike the difference of covariances above, these stay accurate when they are small
    factor = jnp.linalg.cholesky(residuals.T @ residuals / num + ridge)
    return Conditional(centre, offset, slope / scale[:, None], factor)


def log_density(conditional: Conditional, noise: Array, ends: Array) -> Array:
    """Log of L(ξ | θ') for each particle `[J]`, without the dim/2 log 2π that N(ξ; 0, I) has as well."""
    centre, offset, slope, factor = conditional
    deviation = noise - offset - (ends - centre) @ slope
    whitened = solve_triangular(factor, deviation.T, lower=True)
    return -jnp.sum(jnp.log(jnp.diagonal(factor))) - 0.5 * jnp.sum(whitened**2, axis=0)


def settle_with(conditional: Conditional, moves: Move) -> Settled:
    """All moves, weighed with a Gaussian that is already fitted."""
    noise, ends = _flatten(moves)
    correction = log_density(conditional, noise, ends) + 0.5 * jnp.sum(noise**2, axis=1)
    return Settled(moves.end, moves.log_target_end, log_numerator(moves) + correction)


def fit_moves(moves: Move) -> Conditional:
    """The Gaussian of the way back, over all moves."""
    noise, ends = _flatten(moves)
    num, dim = ends.shape
    if num <= 2 * dim:
        raise PartbayesError(
            f"The near-optimal L-kernel got {num} particles of {dim} stochastic parameters, but its Gaussian in "
            f"{2 * dim} dimensions needs more than {2 * dim}: use more particles, or the forward-proposal L-kernel."
        )
    usable = jnp.isfinite(moves.log_target_end) & jnp.all(jnp.isfinite(noise), axis=1)
    return fit(noise, ends, usable)


def _settle(key: Key, moves: Move) -> Settled:
    return settle_with(fit_moves(moves), moves)


def _flatten(moves: Move) -> tuple[Array, Array]:
    if moves.reverse_noise is None:
        raise PartbayesError(
            "The near-optimal L-kernel got a proposal without reverse noise, but it weighs that noise: "
            "use the asymptotic or the forward-proposal L-kernel with this proposal."
        )
    noise, ends = (jax.vmap(lambda tree: ravel_pytree(tree)[0])(tree) for tree in (moves.reverse_noise, moves.end))
    return noise, ends
