r"""Automatic step size: steer the acceptance statistic, or compare the weights' variance at a few step sizes.

**Steering** needs nothing but the population mean $a_t$ of $\min(1, e^{-\Delta H})$, which every move reports:

$$\log\epsilon_{t+1} = \log\epsilon_t + \gamma_t \log 2 \cdot e_t, \qquad
e_t = (a_t - a^*) / \max(a^*, 1 - a^*), \qquad \gamma_t = (1 + n_t)^{-3/4}$$

This is Robbins & Monro's recursion in $\log\epsilon$ with Kesten's gain: $n_t$ counts how often $e_t$ changed its sign,
so that ε doubles or halves at most until it is in range, however far it starts, and settles only then. The error is
linear in $a_t$, so that it is the mean acceptance that is steered, however few particles it is estimated from; only
before the first change of sign, when ε is far off, is it divided by the room on its own side, $a^*$ or $1 - a^*$. The
frozen value is the average of $\log\epsilon$ with the same gains.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from partbayes.errors import PartbayesError
from partbayes.smc.proposals.base import Tuning
from partbayes.smc.step import Kernel, ParticleState, move
from partbayes.smc.weights import ess
from partbayes.types import Array, Key, LogDensity, Tree

TARGET = 0.8
FACTORS = (0.25, 0.5, 0.7, 1.0, 1.4, 2.0, 4.0)


class StepSizeState(NamedTuple):
    """log ε in use, its average, the last error (its sign counts) and the number of sign changes."""

    log_step_size: Array
    average: Array
    error: Array
    num_flips: Array


def init(step_size: float | Array) -> StepSizeState:
    """Start anywhere: 1e-5 or 1 make no difference in the end."""
    log_step_size = jnp.log(jnp.asarray(step_size, float))
    return StepSizeState(log_step_size, log_step_size, jnp.zeros_like(log_step_size), jnp.zeros_like(log_step_size))


def update(state: StepSizeState, acceptance: Array, target: float = TARGET) -> StepSizeState:
    """After one move made with `current(state)` that had this mean acceptance statistic."""
    if not 0.0 < target < 1.0:
        raise PartbayesError(f"The target acceptance is {target}, but a number between 0 and 1 is expected.")
    acceptance = jnp.nan_to_num(jnp.asarray(acceptance, state.error.dtype), nan=0.0)
    difference = acceptance - target
    room = jnp.where(difference > 0, 1.0 - target, target)
    error = difference / jnp.where(state.num_flips == 0, room, max(target, 1.0 - target))
    num_flips = state.num_flips + (error * state.error < 0)
    gain = (1.0 + num_flips) ** -0.75
    log_step_size = state.log_step_size + gain * jnp.log(2.0) * error
    average = state.average + gain * (log_step_size - state.average)
    return StepSizeState(log_step_size, average, error, num_flips)


def current(state: StepSizeState) -> Array:
    """The step size to use while warming up."""
    return jnp.exp(state.log_step_size)


def final(state: StepSizeState) -> Array:
    """The step size to freeze."""
    return jnp.exp(state.average)


def least_variance_step_size(
    key: Key,
    state: ParticleState,
    log_density: LogDensity,
    shared: Tree,
    kernel: Kernel,
    tuning: Tuning,
    factors: tuple[float, ...] = FACTORS,
    slack: float = 0.1,
) -> tuple[Array, Array]:
    r"""The step size among `factors` × the current one whose incremental weights vary least, and all the variances.

    It needs no gradient and no acceptance statistic, and serves any proposal and L-kernel. All candidates move the same
    particles with the same random numbers, so that their differences are due to the step alone. The variance is that of
    the incremental weights $e^\delta$ under the current weights, relative to their squared mean:
    $\sum_j \tilde w_j e^{2\delta_j} / (\sum_j \tilde w_j e^{\delta_j})^2 - 1$.

    Unless the L-kernel is close to optimal, a particle that stands still has the steadiest weight, and the least
    variance alone would shrink the step for ever. So the largest step counts whose variance is within `slack` of the
    least: a tenth costs a tenth of the effective sample size. `slack=0` is the plain minimum.
    """

    def variance(factor: Array) -> Array:
        scaled = tuning._replace(step_size=factor * tuning.step_size)
        # The one place where a key is meant to be used again.
        _, info = move(jax.random.clone(key), state, log_density, shared, kernel, scaled)
        increments = jnp.where(jnp.isfinite(info.log_increments), info.log_increments, -jnp.inf)
        increments = increments - jnp.max(increments)  # the ratio below does not change, but large numbers would round
        first, second = (jax.nn.logsumexp(state.log_weights + power * increments) for power in (1, 2))
        return jnp.where(jnp.isfinite(first), jnp.expm1(second - 2.0 * first), jnp.inf)

    candidates = jnp.asarray(sorted(factors))
    variances = jax.lax.map(variance, candidates)
    # An estimate from n particles cannot exceed n - 1. Close to that a few particles carry all weight, long steps look
    # no worse than short ones, and only a shorter step can tell.
    known = variances < 0.25 * ess(state.log_weights)
    good = known & (variances <= jnp.min(variances) + slack)
    factor = jnp.where(jnp.any(good), jnp.max(jnp.where(good, candidates, 0.0)), candidates[0])
    return factor * tuning.step_size, variances
