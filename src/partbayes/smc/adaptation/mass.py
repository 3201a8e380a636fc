r"""Scales from the weighted particles: a diagonal inverse mass, or a covariance factor for the random walk.

Both are shrunk towards the mean variance $\bar v$ of all coordinates, as if five particles had shown it:
$(n V + 5 \bar v I) / (n + 5)$ with n the effective sample size. (Five is Stan's number; its target, 0.001, has units.)
"""

from __future__ import annotations

from functools import reduce

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from partbayes.smc.weights import ess
from partbayes.types import Array, Tree

PRIOR_PARTICLES = 5.0


def diagonal_inverse_mass(theta: Tree, log_weights: Array, fallback: Tree = None) -> Tree:
    """The particles' variances as `Tuning.inverse_mass`, for θ stacked `[J, ...]` and normalised log-weights.

    A population that has collapsed onto one point shows no scale: `fallback` (default: ones) then comes back.
    """
    weights = jnp.exp(log_weights)
    variances = jax.tree.map(lambda leaf: _variance(leaf, weights), theta)
    leaves = jax.tree.leaves(variances)
    mean = reduce(jnp.add, (jnp.sum(leaf) for leaf in leaves)) / sum(leaf.size for leaf in leaves)
    num = ess(log_weights)
    usable = jnp.isfinite(mean) & (mean > 0)
    fallback = jax.tree.map(jnp.ones_like, variances) if fallback is None else fallback

    def shrink(variance: Array, instead: Array) -> Array:
        return jnp.where(usable, (num * variance + PRIOR_PARTICLES * mean) / (num + PRIOR_PARTICLES), instead)

    return jax.tree.map(shrink, variances, fallback)


def covariance_factor(theta: Tree, log_weights: Array) -> Array:
    """The Cholesky factor `[dim, dim]` of the particles' covariance over the ravelled θ (`Tuning.covariance_factor`).

    A population that has collapsed onto one point gives the identity.
    """
    weights = jnp.exp(log_weights)
    flat = jax.vmap(lambda tree: ravel_pytree(tree)[0])(theta)
    centred = flat - weights @ flat
    covariance = centred.T @ (weights[:, None] * centred)
    dim = flat.shape[1]
    mean = jnp.trace(covariance) / dim
    num = ess(log_weights)
    eye = jnp.eye(dim, dtype=flat.dtype)
    shrunk = (num * covariance + PRIOR_PARTICLES * mean * eye) / (num + PRIOR_PARTICLES)
    return jnp.linalg.cholesky(jnp.where(jnp.isfinite(mean) & (mean > 0), shrunk, eye))


def _variance(leaf: Array, weights: Array) -> Array:
    mean = jnp.tensordot(weights, leaf, axes=1)
    return jnp.tensordot(weights, (leaf - mean) ** 2, axes=1)
