r"""Hamiltonian and Langevin proposals: S leapfrog steps without accept/reject.

$$r \sim N(0, M), \quad r \mathrel{+}= \tfrac{\epsilon}{2} \nabla \log\pi(\theta), \quad
\theta \mathrel{+}= \epsilon M^{-1} r, \quad r^* = r + \tfrac{\epsilon}{2} \nabla \log\pi(\theta')$$

Langevin dynamics is S = 1 (the paper's eqs. `mom_update`, `pos_step`, `full_step`). Leapfrog preserves volume and
retraces itself from $(\theta', -r^*)$, so the determinants of forward and reverse change of variables cancel and
$L/q = N(-r^*; 0, M) / N(r; 0, M)$ (eqs. `lv_after_change` to `langevin_pbnn_w_eq`). That holds for every S, hence also
for one that is drawn without looking at the state: the way back draws it with the same probability.
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


def hmc(num_steps: int, jitter: bool = False) -> Proposal:
    """S leapfrog steps, S + 1 gradients.

    With `jitter` each particle draws its own S uniformly from 1 to `num_steps`, which breaks resonances. A block's
    particles fly together, so its time is that of its longest flight, close to `num_steps`; ChEES shares one S.
    """
    if num_steps < 1:
        raise PartbayesError(f"HMC came with {num_steps} leapfrog steps, but at least one is needed.")
    if jitter:
        return Proposal(partial(_launch_jittered, max_steps=num_steps), land, num_gradients=None)
    return Proposal(partial(launch, num_steps=num_steps), land, num_gradients=num_steps + 1)


class _Carried(NamedTuple):
    start: Tree
    """The momentum drawn."""
    half: Tree
    """The momentum just before the last half-kick."""
    num_steps: int | Array


def launch(key: Key, theta: Tree, density: Density, tuning: Tuning, *, num_steps: int | Array) -> Flight:
    """All of the flight but the last half-kick. `num_steps` may be traced, and should then be shared by a block."""
    value, gradient = jax.value_and_grad(density)(theta)
    momentum = draw_momentum(key, theta, tuning.inverse_mass)
    half = kick(momentum, gradient, 0.5 * tuning.step_size)
    end = drift(theta, half, tuning)

    def full_step(_, position_and_half):
        position, half = position_and_half
        half = kick(half, jax.grad(density)(position), tuning.step_size)
        return drift(position, half, tuning), half

    if not isinstance(num_steps, int) or num_steps > 1:
        end, half = jax.lax.fori_loop(1, num_steps, full_step, (end, half))
    return Flight(theta, value, end, _Carried(momentum, half, num_steps))


def _launch_jittered(key: Key, theta: Tree, density: Density, tuning: Tuning, *, max_steps: int) -> Flight:
    key_momentum, key_steps = jax.random.split(key)
    num_steps = jax.random.randint(key_steps, (), 1, max_steps + 1)
    return launch(key_momentum, theta, density, tuning, num_steps=num_steps)


def land(flight: Flight, value: Array, gradient: Tree, density: Density, tuning: Tuning) -> Move:
    """The last half-kick, and both momenta's densities."""
    carried: _Carried = flight.carried
    last = kick(carried.half, gradient, 0.5 * tuning.step_size)
    return Move(
        flight.start,
        flight.end,
        flight.log_target_start,
        value,
        log_forward=-kinetic_energy(carried.start, tuning.inverse_mass),
        log_reverse=-kinetic_energy(last, tuning.inverse_mass),  # even in the momentum: -r* has the same density as r*
        reverse_noise=jax.tree.map(jnp.negative, to_noise(last, tuning.inverse_mass)),
        num_gradients=jnp.asarray(carried.num_steps + 1),
    )


def draw_momentum(key: Key, theta: Tree, inverse_mass: Tree) -> Tree:
    """r ~ N(0, Mass)."""
    return from_noise(tm.normal_like(key, theta), inverse_mass)


def from_noise(noise: Tree, inverse_mass: Tree) -> Tree:
    """The momentum Mass^½ z of a standard normal z."""
    return noise if inverse_mass is None else jax.tree.map(lambda z, v: z / jnp.sqrt(v), noise, inverse_mass)


def to_noise(momentum: Tree, inverse_mass: Tree) -> Tree:
    """Mass^-½ r, standard normal when r ~ N(0, Mass)."""
    return momentum if inverse_mass is None else jax.tree.map(lambda r, v: r * jnp.sqrt(v), momentum, inverse_mass)


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
