r"""A low-variance stand-in for the log-likelihood, for moves that see a batch in place of all rows.

The rows of a batch differ mostly in their slopes. These are known for all rows at once at one point, the **anchor**
$\theta^*$, and can be taken out (a control variate; Baker et al. 2019):

$$\tilde\ell_n(\theta) = \ell_n(\theta) - \nabla\ell_n(\theta^*)^\top (\theta - \theta^*)
+ \tfrac{1}{N} g^\top (\theta - \theta^*), \qquad g = \sum_n \nabla\ell_n(\theta^*)$$

Over all rows the sums of both are the same. Over a batch, the error of $\frac{N}{M}\sum_{n \in S} \tilde\ell_n$ grows
with the square of the distance from the anchor, that of the plain sum with the distance. It is still a log density (not
just a gradient), so moves can be accepted or weighed by it. Each evaluation costs about two of the plain one. It is for
posteriors that are narrow around the anchor; docs/recipe.md has an example of one that is not.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from partbayes import tree as tm
from partbayes.model.bnn import Model, with_more_beside_psi
from partbayes.types import Array, Batch, Tree


class Anchored(NamedTuple):
    """What stands in the place of ψ, which must be held: ψ itself, the anchor, and the slope g of all rows there."""

    psi: Tree
    anchor: Tree
    slope: Tree


def anchored(model: Model, num_data: int) -> Model:
    """The model with the stand-in as its likelihood, for `num_data` rows in all. Its ψ is an `Anchored`."""

    def log_likelihood(theta: Tree, held: Anchored, batch: Batch) -> Array:
        away = jax.tree.map(jnp.subtract, theta, held.anchor)
        _, slopes = jax.jvp(lambda t: model.log_likelihood(t, held.psi, batch), (held.anchor,), (away,))
        # Spread over the batch so that its weighted sum, scaled to all rows, is the slope of all rows.
        share = batch.x.shape[0] / num_data / jnp.sum(batch.weight)
        return model.log_likelihood(theta, held.psi, batch) - slopes + share * tm.dot(held.slope, away)

    def hold(theta: Tree, psi: Tree) -> Anchored:
        return Anchored(psi, theta, jax.tree.map(jnp.zeros_like, theta))

    return with_more_beside_psi(model, hold, log_likelihood)


def slope_of_all(model: Model, theta: Tree, psi: Tree, data: Batch, rows: int) -> Tree:
    """The gradient of the log-likelihood of all rows at θ, `rows` of them at a time."""
    num_data = data.x.shape[0]
    rows = min(rows, num_data)

    def add(total: Tree, index: Array) -> tuple[Tree, None]:
        start = jnp.minimum(index * rows, num_data - rows)  # the last block reaches back, and its first rows count zero
        block = jax.tree.map(lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, start, rows), data)
        weight = jnp.where(start + jnp.arange(rows) >= index * rows, block.weight, 0)
        gradient = jax.grad(lambda t: jnp.sum(weight * model.log_likelihood(t, psi, block)))(theta)
        return jax.tree.map(jnp.add, total, gradient), None

    nothing = jax.tree.map(jnp.zeros_like, theta)
    return jax.lax.scan(add, nothing, jnp.arange(-(-num_data // rows)))[0]
