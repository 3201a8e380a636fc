r"""Stacking: shares of islands, and of the parts that all of them have, which maximise the log score of some rows.

$$\sum_n w_n \log \sum_{k,i} p_k\, a_i\, p_{ki}(y_n \mid x_n)$$

(Yao et al. 2018) with Dirichlet priors on p and a, by expectation and maximisation. Those who have other islands
than the rest take part as one density, the same for all k.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from partbayes.types import Array

PRIOR_ROWS = 5.0
"""What the Dirichlet prior of the shares counts for, per island."""

ITERATIONS = 200
"""Of expectation and maximisation: shares of real tables no longer change in the third digit by then."""


@jax.jit
def stacked(log_probs: list[Array], weight: Array, prior_rows: np.ndarray | float = 0.0) -> tuple[Array, Array]:
    """Islands' shares `[K]` and the parts `[P]` of P log densities `[K, M]` in all of them; both add up to one.

    `prior_rows` is what the prior counts for, of all parts or of each `[P]`: with none, a part may vanish."""
    log_prob = jnp.stack(log_probs)
    num_parts, num_islands, _ = log_prob.shape
    rows, prior = jnp.sum(weight), jnp.broadcast_to(jnp.asarray(prior_rows, log_prob.dtype), num_parts)

    def update(_, now: tuple[Array, Array]) -> tuple[Array, Array]:
        shares, parts = now
        responsible = jax.nn.softmax(_joint(log_prob, shares, parts), axis=(0, 1))
        # A row that nobody can explain says nothing about them.
        responsible = jnp.where(jnp.isnan(responsible), 1.0 / (num_parts * num_islands), responsible)
        counts = responsible @ weight
        return (
            (jnp.sum(counts, axis=0) + PRIOR_ROWS) / (rows + PRIOR_ROWS * num_islands),
            (jnp.sum(counts, axis=1) + prior) / (rows + jnp.sum(prior)),
        )

    even = tuple(jnp.full(count, 1.0 / count, log_prob.dtype) for count in (num_islands, num_parts))
    return jax.lax.fori_loop(0, ITERATIONS, update, even)


@jax.jit
def mixed(log_probs: list[Array], shares: Array, parts: Array) -> Array:
    """Each row's log density by the mixture of them all, `[M]`."""
    return jax.nn.logsumexp(_joint(jnp.stack(log_probs), shares, parts), axis=(0, 1))


@jax.jit
def over_islands(log_probs: list[Array], shares: Array) -> list[Array]:
    """The same for each part alone, as if there were one island: P of `[1, M]`."""
    joint = _joint(jnp.stack(log_probs), shares, jnp.ones(len(log_probs), shares.dtype))
    return list(jax.nn.logsumexp(joint, axis=1, keepdims=True))


@partial(jax.jit, static_argnames=("num_islands",))
def as_one(log_prob: Array, num_islands: int) -> Array:
    """The even mixture of other islands `[L, M]`, as a part of each of `num_islands`."""
    finite = jnp.where(jnp.isnan(log_prob), -jnp.inf, log_prob)
    mixture = jax.nn.logsumexp(finite, axis=0) - jnp.log(log_prob.shape[0])
    return jnp.broadcast_to(mixture, (num_islands, *mixture.shape))


def _joint(log_prob: Array, shares: Array, parts: Array) -> Array:
    """Log densities `[P, K, M]`, each with the logarithm of its share; one that is nan explains nothing."""
    log_prob = jnp.where(jnp.isnan(log_prob), -jnp.inf, log_prob)
    return log_prob + jnp.log(shares)[:, None] + jnp.log(parts)[:, None, None]
