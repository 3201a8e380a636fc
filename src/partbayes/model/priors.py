"""Priors on θ: a normalised log density (the evidence needs the constant) and a way to draw from it."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeAlias

import jax
import jax.numpy as jnp

from partbayes import tree as tm
from partbayes.errors import PartbayesError
from partbayes.model.partition import path_name
from partbayes.types import Array, Key, Tree

Scale: TypeAlias = float | Callable[[str, Any], float]


class LogPrior(Protocol):
    def __call__(self, theta: Tree, /) -> Array: ...


class SamplePrior(Protocol):
    """Draws one θ in the shape of `like`."""

    def __call__(self, key: Key, like: Tree, /) -> Tree: ...


class Prior(NamedTuple):
    """Any distribution over θ. Bring your own pair; `log_density` should be normalised if the evidence is read."""

    log_density: LogPrior
    sample: SamplePrior


def normal_prior(scale: Scale = 1.0) -> Prior:
    r"""Independent normals $\theta_i \sim N(0, s^2)$.

    `scale` is one number for all of θ, or a function of `(path, leaf)` for a scale per leaf, for instance
    `lambda path, leaf: leaf.shape[0] ** -0.5 if leaf.ndim == 2 else 1.0`.
    """
    if not callable(scale) and not scale > 0:
        raise PartbayesError(f"The prior scale is {scale}, but it must be a positive number: pass one, such as 1.0.")
    return Prior(partial(_normal_log_density, scale=scale), partial(_normal_sample, scale=scale))


def _normal_log_density(theta: Tree, *, scale: Scale) -> Array:
    def leaf_term(leaf: Array, s: float) -> Array:
        return -0.5 * jnp.sum(jnp.square(leaf / s)) - leaf.size * (math.log(s) + 0.5 * math.log(2 * math.pi))

    terms = jax.tree.map(leaf_term, theta, _scales(theta, scale))
    return jax.tree.reduce(jnp.add, terms)


def _normal_sample(key: Key, like: Tree, *, scale: Scale) -> Tree:
    return jax.tree.map(lambda z, s: s * z, tm.normal_like(key, like), _scales(like, scale))


def _scales(theta: Tree, scale: Scale) -> Tree:
    if not callable(scale):
        return jax.tree.map(lambda leaf: scale, theta)
    return jax.tree_util.tree_map_with_path(lambda path, leaf: float(scale(path_name(path), leaf)), theta)
