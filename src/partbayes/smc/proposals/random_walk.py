r"""Random walk: $\theta' = \theta + \sigma z$, $z \sim N(0, I)$ (or $N(0, \mathrm{Mass}^{-1})$ with a diagonal mass)."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from partbayes import tree as tm
from partbayes.smc.proposals.base import Density, Flight, Move, Proposal, Tuning
from partbayes.types import Array, Key, Tree


def random_walk() -> Proposal:
    """The symmetric, gradient-free proposal of OHSMC; `step_size` is the standard deviation σ."""
    return Proposal(_launch, _land, num_gradients=0)


def _launch(key: Key, theta: Tree, density: Density, tuning: Tuning) -> Flight:
    noise = tm.normal_like(key, theta)
    if tuning.inverse_mass is not None:
        noise = jax.tree.map(lambda z, v: jnp.sqrt(v) * z, noise, tuning.inverse_mass)
    end = jax.tree.map(lambda t, z: t + tuning.step_size * z, theta, noise)
    return Flight(theta, density(theta), end, None)


def _land(flight: Flight, value: Array, gradient: Tree, density: Density, tuning: Tuning) -> Move:
    symmetric = jnp.zeros_like(value)
    return Move(flight.start, flight.end, flight.log_target_start, value, symmetric, symmetric)
