r"""Second-order Langevin: the step follows the curvature where the particle stands.

$$q(\theta' \mid \theta) = N\big(\theta';\ \theta + \tfrac{\epsilon^2}{2} \Lambda(\theta)^{-1} g(\theta),\
\epsilon^2 \Lambda(\theta)^{-1}\big)$$

with g the gradient and Λ a positive definite precision made from the curvature of log π. The weight has the two exact
Gaussians, $q(\theta \mid \theta') / q(\theta' \mid \theta)$: gradient and curvature are taken at both ends. The
half-kicked −r* of `proposals.hmc` would be the right reverse momentum only for a Λ that does not vary. One that the
population shares does not vary: that is `langevin()` with `Tuning.inverse_mass` = 1/Λ.
"""

from __future__ import annotations

from functools import partial
from typing import Literal, NamedTuple, Protocol, TypeAlias, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from partbayes import tree as tm
from partbayes.errors import PartbayesError
from partbayes.smc.proposals.base import Density, Flight, Move, Proposal, Tuning
from partbayes.types import Array, Key, Tree

Curvature: TypeAlias = Literal["diagonal", "full"]
MAX_DIM = 200  # of a θ whose Hessian is computed column by column
GRADIENTS_PER_PRODUCT = 2  # a Hessian-vector product costs about two gradients


def second_order(curvature: Curvature = "diagonal", floor: float = 1.0, num_probes: int | None = None) -> Proposal:
    r"""The precision is $\Lambda = \sqrt{H^2 + \mathrm{floor}^2}$, H the Hessian or its diagonal: at least `floor`.

    `floor=1` is the curvature of a standard normal prior. The weights have finite variance only if
    $2 \Lambda(\theta') > \Lambda(\theta)$ for all pairs, so where curvature varies more than twofold raise `floor` to
    $\lambda_{\max} / \sqrt 3$.

    The exact Hessian or diagonal takes one Hessian-vector product per dimension, at both ends of the move. With
    `num_probes` = m the diagonal takes m: coordinates are dealt into m classes, and each class is probed by one fixed
    vector of signs, which leaves a class's own off-diagonal entries in the result. Λ remains a fixed function of θ, so
    the weights remain exact.
    """
    if curvature not in get_args(Curvature):
        raise PartbayesError(
            f"The curvature is {curvature!r}, but one of {', '.join(get_args(Curvature))} is expected."
        )
    if not floor > 0:
        raise PartbayesError(f"The curvature's floor is {floor}, but a positive number is expected.")
    if num_probes is not None and (curvature == "full" or num_probes < 1):
        raise PartbayesError(
            f"{num_probes} probes came with {curvature} curvature, but only the diagonal takes probes, one or more."
        )
    metric = partial(_full, floor=floor) if curvature == "full" else partial(_diagonal, floor=floor, probes=num_probes)
    return Proposal(partial(_launch, metric=metric), partial(_land, metric=metric), num_gradients=None)


class _Precision(NamedTuple):
    """Λ = V diag(values) Vᵀ; without vectors V is the identity."""

    values: Array
    vectors: Array | None
    num_products: int

    def power(self, exponent: float, vector: Array) -> Array:
        """Λ^exponent · vector."""
        if self.vectors is None:
            return self.values**exponent * vector
        return self.vectors @ (self.values**exponent * (self.vectors.T @ vector))


class _Metric(Protocol):
    def __call__(self, gradient_at, theta: Array, /) -> _Precision: ...


class _Carried(NamedTuple):
    noise: Array
    log_det: Array


def _launch(key: Key, theta: Tree, density: Density, tuning: Tuning, *, metric: _Metric) -> Flight:
    flat, unravel = ravel_pytree(theta)
    value, gradient = jax.value_and_grad(density)(theta)
    precision = metric(_flat_gradient(density, unravel), flat)
    noise = ravel_pytree(tm.normal_like(key, theta))[0]
    end = _mean(flat, gradient, precision, tuning) + tuning.step_size * precision.power(-0.5, noise)
    return Flight(theta, value, unravel(end), _Carried(noise, _log_det(precision)))


def _land(flight: Flight, value: Array, gradient: Tree, density: Density, tuning: Tuning, *, metric: _Metric) -> Move:
    carried: _Carried = flight.carried
    flat, unravel = ravel_pytree(flight.end)
    precision = metric(_flat_gradient(density, unravel), flat)
    way_back = ravel_pytree(flight.start)[0] - _mean(flat, gradient, precision, tuning)
    noise = precision.power(0.5, way_back) / tuning.step_size
    return Move(
        flight.start,
        flight.end,
        flight.log_target_start,
        value,
        log_forward=0.5 * (carried.log_det - carried.noise @ carried.noise),
        log_reverse=0.5 * (_log_det(precision) - noise @ noise),
        reverse_noise=unravel(noise),
        num_gradients=jnp.asarray(2 + 2 * GRADIENTS_PER_PRODUCT * precision.num_products),
    )


def _mean(flat: Array, gradient: Tree, precision: _Precision, tuning: Tuning) -> Array:
    return flat + 0.5 * tuning.step_size**2 * precision.power(-1.0, ravel_pytree(gradient)[0])


def _log_det(precision: _Precision) -> Array:
    return jnp.sum(jnp.log(precision.values))


def _flat_gradient(density: Density, unravel):
    return jax.grad(lambda flat: density(unravel(flat)))


def _full(gradient_at, theta: Array, *, floor: float) -> _Precision:
    dim = _check_dim(theta.shape[0])
    values, vectors = jnp.linalg.eigh(jax.jacfwd(gradient_at)(theta))
    return _Precision(jnp.hypot(values, floor), vectors, dim)


def _diagonal(gradient_at, theta: Array, *, floor: float, probes: int | None) -> _Precision:
    dim = theta.shape[0]
    num = _check_dim(dim) if probes is None else min(probes, dim)
    member = np.arange(num)[:, None] == np.arange(dim) % num
    signs = np.random.default_rng(0).choice([-1.0, 1.0], dim)  # fixed: the way back must see the same Λ
    vectors = jnp.asarray(member * signs, theta.dtype)
    products = jax.vmap(lambda v: v * jax.jvp(gradient_at, (theta,), (v,))[1])(vectors)
    return _Precision(jnp.hypot(jnp.sum(products, axis=0), floor), None, num)


def _check_dim(dim: int) -> int:
    if dim > MAX_DIM:
        raise PartbayesError(
            f"The exact curvature of {dim} stochastic parameters was asked for, but at most {MAX_DIM} are feasible: "
            "use diagonal curvature with num_probes, or langevin() with an inverse mass."
        )
    return dim
