"""Run a sampler for a budget of gradients, and pool the predictions of its late iterations.

Every late iteration has the same share, its particles their weights, as `training.pooled` has it; what is kept are sums
over the particles, so that every iteration can count.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from partbayes.algorithm import Algorithm
from partbayes.benchmark.trained import TrainedNetwork
from partbayes.types import Array, Key

LEAST_COST = 1.0
"""Gradients that a move counts for at least: a random walk takes none, but two densities, somewhat less than one."""


class Pool(NamedTuple):
    """The pooled predictive at the test rows: mean and standard deviation of f, root mean square noise, log density of
    the true target; then what the run took."""

    mean: np.ndarray
    sd: np.ndarray
    noise: np.ndarray
    log_prob: np.ndarray
    num_gradients: float
    iterations: int
    pooled: int
    acceptance: float
    ess: float
    state: Any

    @property
    def total_sd(self) -> np.ndarray:
        """Of the predictive: f and noise together."""
        return np.sqrt(self.sd**2 + self.noise**2)


class _Sums(NamedTuple):
    """Of one iteration, under its weights; f relative to the trained network's."""

    first: Array
    second: Array
    noise: Array
    log_prob: Array


def run_sampler(
    key: Key,
    algorithm: Algorithm,
    network: TrainedNetwork,
    num_particles: int,
    budget: float,
    *,
    burn_in: float,
    warmup_steps: int,
) -> Pool:
    """Steps on all rows until `budget` gradients are spent; pooled after `burn_in` of it and the warm-up."""
    key_init, key_steps = jax.random.split(key)
    state = algorithm.init(key_init, (network.theta, network.psi), network.train)
    reference, _ = network.at_test_rows(network.theta, network.psi)

    @jax.jit
    def step(index, state):
        state, info = algorithm.step(jax.random.fold_in(key_steps, index), state, network.train)
        return state, info, _sums(algorithm, network, state, reference)

    spent, count, total = 0.0, 0, 0
    sums: list[Any] = [0.0, 0.0, 0.0, -np.inf]
    seen = []
    while spent < budget:
        state, info, now = step(total, state)
        total += 1
        spent += num_particles * max(LEAST_COST, float(info.num_gradients))
        if total > warmup_steps and spent > burn_in * budget:
            count += 1
            first, second, noise, log_prob = (np.asarray(value, np.float64) for value in now)
            sums = [sums[0] + first, sums[1] + second, sums[2] + noise, np.logaddexp(sums[3], log_prob)]
            seen.append((float(info.acceptance), float(info.ess)))
    mean = sums[0] / max(1, count)
    return Pool(
        mean=mean + np.asarray(reference, np.float64),
        sd=np.sqrt(np.maximum(sums[1] / max(1, count) - mean**2, 0.0)),
        noise=np.sqrt(sums[2] / max(1, count)),
        log_prob=sums[3] - np.log(max(1, count)),
        num_gradients=spent,
        iterations=total,
        pooled=count,
        acceptance=float(np.mean([a for a, _ in seen])) if seen else np.nan,
        ess=float(np.mean([e for _, e in seen])) if seen else np.nan,
        state=state,
    )


def _sums(algorithm: Algorithm, network: TrainedNetwork, state: Any, reference: Array) -> _Sums:
    theta, log_weights, psi = algorithm.posterior(state)
    loc, scale = jax.vmap(lambda t: network.at_test_rows(t, psi))(theta)
    weights = jnp.exp(log_weights)[:, None]
    alive = weights > 0  # the dead may predict nan
    offset, variance = (jnp.where(alive, value, 0.0) for value in (loc - reference, scale**2))
    rows = jax.vmap(lambda t: network.model.log_likelihood(t, psi, network.test))(theta)
    return _Sums(
        jnp.sum(weights * offset, axis=0),
        jnp.sum(weights * offset**2, axis=0),
        jnp.sum(weights * variance, axis=0),
        jax.nn.logsumexp(jnp.where(alive, rows, -jnp.inf) + log_weights[:, None], axis=0),
    )
