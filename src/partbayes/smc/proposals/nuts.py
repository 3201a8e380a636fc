r"""No-U-turn proposals: a leaf of the tree that `proposals.doubling` grows.

Every leaf builds the same tree with the same probability, so what is left to weigh is the choice of the leaf:

- `nuts`: uniformly among all leaves. The way back is as probable, hence $L/q = N(r_\mathrm{leaf}; 0, M) / N(r; 0, M)$,
  and the forward-proposal weight is $e^{-\Delta H}$.
- `nuts_adjusted`: with probability proportional to $e^{-H}$, as the usual sampler does. That leaves π invariant, and a
  factor $e^{-\Delta H}$ on top would count the energy twice (at ε = 1 on a Gaussian in ten dimensions, second moments
  come out 11 % low, or 8 % with slice selection). The kernel is reversible,
  $\pi(\theta)\,q(\theta' \mid \theta) = \pi(\theta')\,q(\theta \mid \theta')$, so $\pi(\theta')\,L/q = \pi(\theta)$:
  the weight is taken at the old point.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from partbayes.errors import PartbayesError
from partbayes.smc.proposals.base import Density, Flight, Move, Proposal, Tuning
from partbayes.smc.proposals.doubling import Point, Selection, trajectory
from partbayes.smc.proposals.hmc import draw_momentum, kinetic_energy, to_noise
from partbayes.types import Array, Key, Tree

UNIFORM = Selection(log_weight=jnp.zeros_like, switch=jax.nn.sigmoid)
MULTINOMIAL = Selection(log_weight=jnp.negative, switch=lambda above: jnp.exp(jnp.minimum(above, 0.0)))
"""Switching with probability min(1, new / old) is in balance too, and leads further away (Betancourt, 2017)."""


def nuts(max_depth: int = 6) -> Proposal:
    """Uniform leaf, to be weighed by exp(-ΔH); at most `2**max_depth` + 1 gradients.

    A block's particles grow together, so its time is that of its largest tree.
    """
    launch = partial(_launch, max_depth=_check(max_depth), selection=UNIFORM)
    return Proposal(launch, _land, num_gradients=None)


def nuts_adjusted(max_depth: int = 6) -> Proposal:
    """The usual sampler, which leaves π invariant; at most `2**max_depth` + 1 gradients.

    Forward and reverse density say so themselves: the asymptotic L-kernel accepts every move, and the forward-proposal
    L-kernel gives the same weight at the old point, without a second pass for the ψ-gradient.
    """
    launch = partial(_launch, max_depth=_check(max_depth), selection=MULTINOMIAL)
    return Proposal(launch, _land_adjusted, num_gradients=None)


def _check(max_depth: int) -> int:
    if not 1 <= max_depth <= 20:
        raise PartbayesError(f"NUTS came with a depth of at most {max_depth}, but 1 to 20 doublings are possible.")
    return max_depth


class _Carried(NamedTuple):
    momentum: Tree
    leaf_momentum: Tree
    acceptance: Array
    count: Array


def _launch(key: Key, theta: Tree, density: Density, tuning: Tuning, *, max_depth: int, selection: Selection) -> Flight:
    key_momentum, key_tree = jax.random.split(key)
    momentum = draw_momentum(key_momentum, theta, tuning.inverse_mass)
    value, gradient = jax.value_and_grad(density)(theta)
    start = Point(theta, momentum, value, gradient)
    leaves, visited = trajectory(key_tree, start, density, tuning, max_depth, selection)
    # Start and chosen leaf say little about the step size: where the first step diverges, they are the same point.
    acceptance = visited.acceptance / jnp.maximum(visited.count, 1)
    return Flight(theta, value, leaves.position, _Carried(momentum, leaves.momentum, acceptance, visited.count))


def _land(flight: Flight, value: Array, gradient: Tree, density: Density, tuning: Tuning) -> Move:
    carried: _Carried = flight.carried
    return Move(
        flight.start,
        flight.end,
        flight.log_target_start,
        value,
        log_forward=-kinetic_energy(carried.momentum, tuning.inverse_mass),
        log_reverse=-kinetic_energy(carried.leaf_momentum, tuning.inverse_mass),
        reverse_noise=to_noise(carried.leaf_momentum, tuning.inverse_mass),
        acceptance=carried.acceptance,
        num_gradients=carried.count + 2,  # and the start's and the end's
    )


def _land_adjusted(flight: Flight, value: Array, gradient: Tree, density: Density, tuning: Tuning) -> Move:
    # Detailed balance: q(θ' | θ) : q(θ | θ') = π(θ') : π(θ).
    return _land(flight, value, gradient, density, tuning)._replace(
        log_forward=value, log_reverse=flight.log_target_start, reverse_noise=None
    )
