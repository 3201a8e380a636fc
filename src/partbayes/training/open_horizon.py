"""The loop body of Algorithm 1, shared by OHSMC and GOHSMC: they differ in kernel and target, not in the steps."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import optax

from partbayes import tree as tm
from partbayes.algorithm import Info
from partbayes.model import Target
from partbayes.optimise import ascend
from partbayes.smc import step as smc
from partbayes.smc.proposals import advance
from partbayes.smc.resampling import Resampler
from partbayes.training import adaptation as adaptation_room
from partbayes.training.adaptation import Adaptation
from partbayes.training.state import SMCState, summarise
from partbayes.types import Array, Batch, Key, Tree

NOTHING = Adaptation()


def step(
    key: Key,
    state: SMCState,
    batch: Batch,
    *,
    target: Target,
    optimiser: optax.GradientTransformation | None,
    kernel: smc.Kernel,
    resampler: Resampler,
    adapt: Adaptation = NOTHING,
) -> tuple[SMCState, Info]:
    """Resample if the effective sample size is low, move and reweight the particles, then move ψ unless it is held."""
    key_resample, key_move = jax.random.split(key)
    resampled_particles, ess, resampled = smc.resample(key_resample, state.particles, resampler)

    def log_density(theta: Tree, psi: Tree) -> Array:
        return target(theta, psi, batch)

    psi, optimiser_state, skipped = state.psi, state.optimiser, jnp.array(False)
    if optimiser is None:
        particles, moved = smc.move(key_move, resampled_particles, log_density, state.psi, kernel, state.tuning)
    else:
        particles, moved, gradient = smc.move_with_gradient(
            key_move, resampled_particles, log_density, state.psi, kernel, state.tuning
        )
        gradient = jax.tree.map(lambda g: target.gradient_factor(batch) * g, gradient)
        psi, optimiser_state, skipped = ascend(optimiser, gradient, state.psi, state.optimiser)

    adaptation, tuning = state.adaptation, advance(state.tuning)
    if adaptation is not None:
        overshot = adaptation_room.overshoots(adapt, adaptation, moved)
        particles, psi, optimiser_state = tm.where(
            overshot, (resampled_particles, state.psi, state.optimiser), (particles, psi, optimiser_state)
        )
        moved = moved._replace(log_normaliser=jnp.where(overshot, 0.0, moved.log_normaliser))
        adaptation, tuning = adaptation_room.update(
            adapt, adaptation, state.tuning, resampled_particles, particles, moved
        )

    log_evidence = state.log_evidence + moved.log_normaliser
    state = SMCState(particles, psi, optimiser_state, tuning, log_evidence, adaptation)
    log_likelihood = jax.vmap(lambda value, theta: target.log_likelihood(value, theta, batch))(
        particles.log_target, particles.theta
    )
    info = summarise(state, log_likelihood, batch, ess=ess, resampled=resampled, moved=moved, skipped=skipped)
    return state, info
