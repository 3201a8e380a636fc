r"""Scales from the weighted particles: a diagonal inverse mass, or a covariance factor for the random walk.

Few particles give noisy variances, so those are shrunk towards their common size as if five more particles had shown
it, on the log scale, where neither units nor a wide range of scales matter:
$\log v_i \leftarrow (n \log v_i + 5 \overline{\log v}) / (n + 5)$ with n the effective sample size. A covariance is
shrunk towards these variances in the same proportion, $(n V + 5 \operatorname{diag} v) / (n + 5)$. (Five is Stan's
number; its own target, 0.001, would drown every smaller variance.)
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from partbayes.smc.weights import ess
from partbayes.types import Array, Tree

PRIOR_PARTICLES = 5.0


def diagonal_inverse_mass(theta: Tree, log_weights: Array, fallback: Tree = None) -> Tree:
    """The particles' variances as `Tuning.inverse_mass`, for θ stacked `[J, ...]` and normalised log-weights.

    A coordinate without spread gets the common size. A population that has collapsed onto one point shows no scale at
    all: `fallback` (default: ones) then comes back.
    """
    flat, unravel = _flatten(theta)
    variances, collapsed = _variances(flat, log_weights)
    instead = jnp.ones_like(variances) if fallback is None else ravel_pytree(fallback)[0]
    return unravel(jnp.where(collapsed, instead, variances))


def covariance_factor(theta: Tree, log_weights: Array) -> Array:
    """The Cholesky factor `[dim, dim]` of the particles' covariance over the ravelled θ (`Tuning.covariance_factor`).

    A population that has collapsed onto one point gives the identity.
    """
    flat, _ = _flatten(theta)
    weights, num = jnp.exp(log_weights), ess(log_weights)
    variances, collapsed = _variances(flat, log_weights)
    centred = flat - weights @ flat
    covariance = centred.T @ (weights[:, None] * centred)
    shrunk = (num * covariance + PRIOR_PARTICLES * jnp.diag(variances)) / (num + PRIOR_PARTICLES)
    return jnp.linalg.cholesky(jnp.where(collapsed, jnp.eye(flat.shape[1], dtype=flat.dtype), shrunk))


def _flatten(theta: Tree):
    """Particles as rows `[J, dim]`, and the way back for one row."""
    _, unravel = ravel_pytree(jax.tree.map(lambda leaf: leaf[0], theta))
    return jax.vmap(lambda tree: ravel_pytree(tree)[0])(theta), unravel


def _variances(flat: Array, log_weights: Array) -> tuple[Array, Array]:
    """Shrunk variances `[dim]`, and whether there was no spread to see."""
    weights, num = jnp.exp(log_weights), ess(log_weights)
    variances = weights @ (flat - weights @ flat) ** 2
    rounding = (10 * jnp.finfo(flat.dtype).eps) ** 2 * (weights @ flat**2)
    seen = jnp.isfinite(variances) & (variances > rounding)
    logs = jnp.log(jnp.where(seen, variances, 1.0))
    common = jnp.sum(logs) / jnp.maximum(jnp.sum(seen), 1)
    logs = jnp.where(seen, logs, common)
    return jnp.exp((num * logs + PRIOR_PARTICLES * common) / (num + PRIOR_PARTICLES)), ~jnp.any(seen)
