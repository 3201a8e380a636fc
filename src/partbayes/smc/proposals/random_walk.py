r"""Random walk: $\theta' = \theta + \sigma z$, $z \sim N(0, I)$, or $N(0, \mathrm{Mass}^{-1})$, or $N(0, CC^\top)$.

The second is a diagonal scale (`Tuning.inverse_mass`), the third a full one (`Tuning.covariance_factor`), both usually
taken from the population (`smc.adaptation.mass`).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from partbayes import tree as tm
from partbayes.smc.proposals.base import Density, Flight, Move, Proposal, Tuning
from partbayes.types import Array, Key, Tree


def random_walk() -> Proposal:
    """The symmetric, gradient-free proposal of OHSMC; `step_size` is the standard deviation σ."""
    return Proposal(_launch, _land, num_gradients=0)


def _launch(key: Key, theta: Tree, density: Density, tuning: Tuning) -> Flight:
    noise = tm.normal_like(key, theta)
    end = jax.tree.map(lambda t, z: t + tuning.step_size * z, theta, _scaled(noise, tuning))
    return Flight(theta, density(theta), end, noise)


def _land(flight: Flight, value: Array, gradient: Tree, density: Density, tuning: Tuning) -> Move:
    symmetric = jnp.zeros_like(value)
    back = jax.tree.map(jnp.negative, flight.carried)
    return Move(flight.start, flight.end, flight.log_target_start, value, symmetric, symmetric, reverse_noise=back)


def _scaled(noise: Tree, tuning: Tuning) -> Tree:
    if tuning.covariance_factor is not None:
        flat, unravel = ravel_pytree(noise)
        return unravel(tuning.covariance_factor.astype(flat.dtype) @ flat)
    if tuning.inverse_mass is not None:
        return jax.tree.map(lambda z, v: jnp.sqrt(v) * z, noise, tuning.inverse_mass)
    return noise
