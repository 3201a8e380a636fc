"""Tuning that finds itself while training, and is frozen after the warm-up.

The acceptance statistic of every move steers the step size (`smc.adaptation.step_size`), the ChEES gradient the
trajectory length (`smc.adaptation.chees`), and half-way the weighted particles may give a diagonal mass
(`smc.adaptation.mass`). A tuning that looks at the particles costs the sampler its exactness, so after `warmup_steps`
it stays as it is. Without a number of warm-up steps it goes on for the whole run: right while ψ is still moving, since
a learned noise sharpens the target as training proceeds, and a step frozen too early is soon too long.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from partbayes.errors import PartbayesError
from partbayes.smc.adaptation import chees, diagonal_inverse_mass, step_size
from partbayes.smc.adaptation.step_size import TARGET
from partbayes.smc.proposals import Tuning, advance
from partbayes.smc.proposals.chees import duration
from partbayes.smc.step import Kernel, MoveInfo, ParticleState
from partbayes.types import Array, Tree

INITIAL_STEP_SIZE = 0.01
"""Where "auto" starts; the steering doubles or halves it until it is in range."""


TOO_LONG = 0.25
"""A warm-up move with less mean acceptance than this is not made. There is no rejection otherwise, and one step that is
far too long would fling the whole population to where no later step size could bring it back from."""


class Adaptation(NamedTuple):
    """What is adapted, and for how long. Nothing, by default."""

    warmup_steps: int | None = None
    step_size: bool = False
    trajectory_length: bool = False
    mass: bool = False
    target_acceptance: float = TARGET


class AdaptationState(NamedTuple):
    """Steps taken so far, and the state of each adaptation that is on."""

    count: Array
    step_size: step_size.StepSizeState | None
    trajectory: chees.ChEESState | None


def check_adaptation(adaptation: Adaptation, kernel: Kernel) -> Adaptation:
    """Complain early about what cannot be adapted."""
    reports = kernel.proposal.num_gradients != 0 or kernel.lkernel.needs_start or kernel.denominator == "same_batch"
    if adaptation.step_size and not reports:
        raise PartbayesError(
            "The step size is 'auto', but this proposal reports no acceptance statistic: give a number, or use "
            "denominator='same_batch'."
        )
    if adaptation.warmup_steps is not None and adaptation.warmup_steps < 1:
        raise PartbayesError(
            f"{adaptation.warmup_steps} warm-up steps were asked for, but at least one is needed (None: all steps)."
        )
    if adaptation.mass and adaptation.warmup_steps is None:
        raise PartbayesError(
            "The inverse mass is 'auto', which is found half-way through the warm-up: give warmup_steps."
        )
    return adaptation


def init(adaptation: Adaptation, tuning: Tuning) -> AdaptationState | None:
    """Before the first step; None where nothing is adapted."""
    if not (adaptation.step_size or adaptation.trajectory_length or adaptation.mass):
        return None
    return AdaptationState(
        jnp.zeros((), jnp.int32),
        step_size.init(tuning.step_size) if adaptation.step_size else None,
        # The Adaptation is built together with a Tuning that has a length; one step is as good a start as any.
        chees.init(tuning.step_size) if adaptation.trajectory_length else None,
    )


def overshoots(adaptation: Adaptation, state: AdaptationState, moved: MoveInfo) -> Array:
    """Whether this warm-up step was so long that it should only teach the step size, and move nothing."""
    if state.step_size is None:
        return jnp.array(False)
    warming = True if adaptation.warmup_steps is None else state.count < adaptation.warmup_steps
    return warming & ~(moved.acceptance >= TOO_LONG)  # nan counts as too long


def update(
    adaptation: Adaptation,
    state: AdaptationState,
    tuning: Tuning,
    before: ParticleState,
    after: ParticleState,
    moved: MoveInfo,
) -> tuple[AdaptationState, Tuning]:
    """The tuning for the next step; frozen, after the last warm-up step, at the averages."""
    count = state.count + 1
    end = jnp.iinfo(jnp.int32).max if adaptation.warmup_steps is None else adaptation.warmup_steps
    warming, last = count <= end, count == end
    new = state._replace(count=count)
    adapted = tuning
    if state.step_size is not None:
        new = new._replace(step_size=step_size.update(state.step_size, moved.acceptance, adaptation.target_acceptance))
        adapted = adapted._replace(step_size=_freeze(last, step_size.final, step_size.current, new.step_size))
    if state.trajectory is not None:
        momentum = chees.end_momentum(moved.reverse_noise, tuning.inverse_mass)
        gradient = chees.chees_gradient(
            before.theta, after.theta, momentum, after.log_weights, duration(tuning), tuning.inverse_mass
        )
        new = new._replace(trajectory=chees.update(state.trajectory, gradient, adapted.step_size))
        adapted = adapted._replace(trajectory_length=_freeze(last, chees.final, chees.current, new.trajectory))
    if adaptation.mass:
        half_way = count == max(1, end // 2)
        adapted = adapted._replace(inverse_mass=_mass(half_way, after, tuning.inverse_mass))
    new, adapted = jax.tree.map(lambda a, b: jnp.where(warming, a, b).astype(b.dtype), (new, adapted), (state, tuning))
    return new._replace(count=count), advance(adapted)


def _freeze(last: Array, final, current, state) -> Array:
    return jnp.where(last, final(state), current(state))


def _mass(now: Array, particles: ParticleState, old: Tree) -> Tree:
    """Relative variances, their mean one: the step size keeps its meaning."""
    variances = diagonal_inverse_mass(particles.theta, particles.log_weights)
    total = sum(jnp.sum(leaf) for leaf in jax.tree.leaves(variances))
    size = sum(leaf.size for leaf in jax.tree.leaves(variances))
    return jax.tree.map(lambda v, o: jnp.where(now, v * size / total, o), variances, old)
