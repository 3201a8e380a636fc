r"""Pool the particles of several late iterations: more points of one posterior for no more moves.

While ψ is held, the weighted particles of iterations $t_1 < \dots < t_m$ all stand for $\pi(\theta \mid \psi)$, and so
does their union, each iteration with the same share of the weight:

$$\hat\pi = \frac1m \sum_{i \le m} \sum_j \tilde w_{t_i}^{(j)}\, \delta_{\theta_{t_i}^{(j)}}.$$

Where ψ moves, particles of different iterations belong to different networks and must not be pooled.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from partbayes import tree as tm
from partbayes.algorithm import Algorithm, Info, Posterior
from partbayes.errors import PartbayesError
from partbayes.types import Array, Batch, Key, Tree


def pooled(algorithm: Algorithm, *, burn_in: int, every: int, keep: int) -> Algorithm:
    """`algorithm` with a posterior that pools `keep` of its iterations: after `burn_in` steps one in `every`.

    Longer runs overwrite the oldest. Until the first is kept, the posterior is the algorithm's own.
    """
    for name, value, least in (("burn_in", burn_in, 0), ("every", every, 1), ("keep", keep, 1)):
        if value < least:
            raise PartbayesError(f"Pooling came with {name}={value}, but at least {least} is needed.")
    return Algorithm(
        partial(init, algorithm=algorithm, keep=keep),
        partial(step, algorithm=algorithm, burn_in=burn_in, every=every, keep=keep),
        partial(posterior, algorithm=algorithm),
    )


class PooledState(NamedTuple):
    """The algorithm's own state, steps taken, and a ring of kept particles: θ `[keep, J, ...]`, weights `[keep, J]`."""

    inner: Any
    count: Array
    theta: Tree
    log_weights: Array


def init(key: Key, params: tuple[Tree, Tree], batch: Batch, *, algorithm: Algorithm, keep: int) -> PooledState:
    """An empty ring: weights of zero everywhere."""
    inner = algorithm.init(key, params, batch)
    start = algorithm.posterior(inner)
    theta = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (keep, *leaf.shape)), start.theta)
    log_weights = jnp.full((keep, *start.log_weights.shape), -jnp.inf, start.log_weights.dtype)
    return PooledState(inner, jnp.zeros((), jnp.int32), theta, log_weights)


def step(
    key: Key, state: PooledState, batch: Batch, *, algorithm: Algorithm, burn_in: int, every: int, keep: int
) -> tuple[PooledState, Info]:
    """One step of the algorithm; its particles are kept when it is their turn."""
    inner, info = algorithm.step(key, state.inner, batch)
    count = state.count + 1
    late = count - burn_in
    wanted = (late > 0) & (late % every == 0)
    slot = (late // every - 1) % keep
    now = algorithm.posterior(inner)
    ring, new = (state.theta, state.log_weights), (now.theta, now.log_weights)
    kept = jax.tree.map(lambda old, leaf: old.at[slot].set(jnp.where(wanted, leaf, old[slot])), ring, new)
    return PooledState(inner, count, *kept), info


def posterior(state: PooledState, *, algorithm: Algorithm) -> Posterior:
    """All kept particles as one population."""
    now = algorithm.posterior(state.inner)
    # Nothing kept yet: the current particles stand in the first slot.
    filled = jnp.isfinite(jnp.max(state.log_weights, axis=1))
    empty = ~jnp.any(filled)
    ring = tm.where(empty, _only_first(state, now), (state.theta, state.log_weights))
    theta, log_weights = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), ring)
    return Posterior(theta, log_weights - jnp.log(jnp.maximum(1, jnp.sum(filled))), now.psi)


def _only_first(state: PooledState, now: Posterior) -> tuple[Tree, Array]:
    return jax.tree.map(
        lambda ring, leaf: ring.at[0].set(leaf), (state.theta, state.log_weights), (now.theta, now.log_weights)
    )
