"""What a proposal is: a launch and a landing.

A move is proposed in two halves, because the density at its end point is evaluated by `smc.step` for a whole block of
particles at once: the same forward pass then serves the weight, the proposal's last half-kick and the ψ-gradient.
Both halves are written for one particle.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeAlias

import jax

from partbayes.types import Array, Key, Tree

Density: TypeAlias = Callable[[Tree], Array]
"""θ -> log density, with everything else (ψ, batch) already inside."""


class Tuning(NamedTuple):
    """Numbers of a proposal that may be adapted while running; all traced, so changing them compiles nothing.

    `inverse_mass` is the diagonal of Mass⁻¹ as a tree like θ, or None for the identity. The rest is read by some
    proposals only: `trajectory_length` T and `counter`, the number of the move (ChEES), and `covariance_factor`, a
    lower triangular C with covariance C Cᵀ over the ravelled θ (random walk; it takes the place of `inverse_mass`).
    """

    step_size: Array
    inverse_mass: Tree = None
    trajectory_length: Array | None = None
    counter: Array | None = None
    covariance_factor: Array | None = None


class Flight(NamedTuple):
    """A move in the air: it knows where it ends, not yet what the density is there."""

    start: Tree
    log_target_start: Array
    end: Tree
    carried: Any
    """What the landing needs: momenta, forward density."""


class Move(NamedTuple):
    """A finished move. `log_forward` and `log_reverse` are log q and log L up to a common constant."""

    start: Tree
    end: Tree
    log_target_start: Array
    log_target_end: Array
    log_forward: Array
    log_reverse: Array
    reverse_noise: Tree = None
    """The noise that would carry the same proposal back from end to start, a tree like θ. It is scaled so that the
    proposal draws it from N(0, I): `log_reverse` is -½ |reverse_noise|² plus what L-kernels leave alone."""
    acceptance: Array | None = None
    """The proposal's own acceptance statistic, where start and end alone do not tell how well a step went (NUTS)."""
    num_gradients: Array | None = None
    """Gradients this move took, the end point's included, where `Proposal.num_gradients` cannot know."""


class Launch(Protocol):
    def __call__(self, key: Key, theta: Tree, density: Density, tuning: Tuning, /) -> Flight: ...


class Land(Protocol):
    """Completes the flight, given value and gradient of the log density at its end."""

    def __call__(self, flight: Flight, value: Array, gradient: Tree, density: Density, tuning: Tuning, /) -> Move: ...


class Proposal(NamedTuple):
    """`num_gradients` counts gradients per move, the end point's included; a proposal without any is free of them.

    None says that moves differ, or that it depends on θ: each `Move` then carries its own count.
    """

    launch: Launch
    land: Land
    num_gradients: int | None
    needs_length: bool = False
    """Whether it flies for `Tuning.trajectory_length`, which somebody has to give or find."""


def propose(proposal: Proposal, key: Key, theta: Tree, density: Density, tuning: Tuning) -> Move:
    """Both halves at once, for one particle: the textbook move."""
    flight = proposal.launch(key, theta, density, tuning)
    value, gradient = jax.value_and_grad(density)(flight.end)
    return proposal.land(flight, value, gradient, density, tuning)
