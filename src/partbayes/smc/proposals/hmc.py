r"""Hamiltonian and Langevin proposals: S leapfrog steps without accept/reject.

$$r \sim N(0, M), \quad r \mathrel{+}= \tfrac{\epsilon}{2} \nabla \log\pi(\theta), \quad
\theta \mathrel{+}= \epsilon M^{-1} r, \quad r^* = r + \tfrac{\epsilon}{2} \nabla \log\pi(\theta')$$

Langevin dynamics is S = 1 (the paper's eqs. `mom_update`, `pos_step`, `full_step`). Leapfrog preserves volume and
retraces itself from $(\theta', -r^*)$, so the determinants of forward and reverse change of variables cancel and
$L/q = N(-r^*; 0, M) / N(r; 0, M)$ (eqs. `lv_after_change` to `langevin_pbnn_w_eq`).
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from partbayes import tree as tm
from partbayes.errors import PartbayesError
from partbayes.smc.proposals.base import Density, Flight, Move, Proposal, Tuning
from partbayes.types import Array, Key, Tree


def langevin() -> Proposal:
    """The paper's proposal: one leapfrog step, two gradients."""
    return hmc(1)


def hmc(num_steps: int) -> Proposal:
    """S leapfrog steps, S + 1 gradients."""
    if num_steps < 1:
        raise PartbayesError(f"HMC came with {num_steps} leapfrog steps, but at least one is needed.")
    return Proposal(partial(_launch, num_steps=num_steps), _land, num_gradients=num_steps + 1)


class _Momenta(NamedTuple):
    start: Tree
    half: Tree
    """Just before the last half-kick."""


def _launch(key: Key, theta: Tree, density: Density, tuning: Tuning, *, num_steps: int) -> Flight:
    value_and_grad = jax.value_and_grad(density)
    value, gradient = value_and_grad(theta)
    momentum = draw_momentum(key, theta, tuning.inverse_mass)
    half = kick(momentum, gradient, 0.5 * tuning.step_size)
    end = drift(theta, half, tuning)
    if num_steps > 1:

        def full_step(_, position_and_half):
            position, half = position_and_half
            half = kick(half, jax.grad(density)(position), tuning.step_size)
            return drift(position, half, tuning), half

        end, half = jax.lax.fori_loop(1, num_steps, full_step, (end, half))
    return Flight(theta, value, end, _Momenta(momentum, half))


def _land(flight: Flight, value: Array, gradient: Tree, density: Density, tuning: Tuning) -> Move:
    momenta: _Momenta = flight.carried
    last = kick(momenta.half, gradient, 0.5 * tuning.step_size)
    return Move(
        flight.start,
        flight.end,
        flight.log_target_start,
        value,
        log_forward=-kinetic_energy(momenta.start, tuning.inverse_mass),
        log_reverse=-kinetic_energy(last, tuning.inverse_mass),  # even in the momentum: -r* has the same density as r*
    )


def draw_momentum(key: Key, theta: Tree, inverse_mass: Tree) -> Tree:
    """r ~ N(0, Mass)."""
    noise = tm.normal_like(key, theta)
    return noise if inverse_mass is None else jax.tree.map(lambda z, v: z / jnp.sqrt(v), noise, inverse_mass)


def kinetic_energy(momentum: Tree, inverse_mass: Tree) -> Array:
    """½ rᵀ Mass⁻¹ r, which is -log N(r; 0, Mass) without its constant."""
    return 0.5 * tm.dot(momentum, _velocity(momentum, inverse_mass))


def kick(momentum: Tree, gradient: Tree, step: Array) -> Tree:
    """Momentum after `step` along the gradient of the log density."""
    return jax.tree.map(lambda r, g: r + step * g, momentum, gradient)


def drift(theta: Tree, momentum: Tree, tuning: Tuning) -> Tree:
    """Position after one step along the velocity."""
    velocity = _velocity(momentum, tuning.inverse_mass)
    return jax.tree.map(lambda t, v: t + tuning.step_size * v, theta, velocity)


def _velocity(momentum: Tree, inverse_mass: Tree) -> Tree:
    return momentum if inverse_mass is None else jax.tree.map(jnp.multiply, inverse_mass, momentum)
