"""What the SMC training algorithms share: their state, and the summary of a step."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from partbayes.algorithm import Info, Posterior
from partbayes.errors import PartbayesError
from partbayes.model import Model
from partbayes.smc.proposals import Tuning
from partbayes.smc.step import MoveInfo, ParticleState
from partbayes.training.adaptation import AdaptationState
from partbayes.types import Array, Batch, Key, Tree


class SMCState(NamedTuple):
    """Particles of θ, the ψ they belong to, the optimiser's state (None where ψ is held), the proposal's tuning and the
    log evidence so far."""

    particles: ParticleState
    psi: Tree
    optimiser: Any
    tuning: Tuning
    log_evidence: Array
    adaptation: AdaptationState | None = None


def posterior(state: SMCState) -> Posterior:
    """The weighted particles and ψ of one island."""
    return Posterior(state.particles.theta, state.particles.log_weights, state.psi)


def check_population(num_particles: int, step_size: float) -> None:
    """Complain early."""
    if num_particles < 1:
        raise PartbayesError(f"{num_particles} particles were asked for, but at least one is needed.")
    if not step_size > 0:
        raise PartbayesError(f"The step size is {step_size}, but a positive number is expected.")


def sample_population(key: Key, model: Model, num_particles: int) -> Tree:
    """J draws from the prior (Algorithm 1: initialise samples)."""
    return jax.vmap(model.sample_prior)(jax.random.split(key, num_particles))


def summarise(
    state: SMCState,
    log_likelihood: Array,
    batch: Batch,
    *,
    ess: Array,
    resampled: Array,
    moved: MoveInfo,
    skipped: Array,
) -> Info:
    """The step in numbers. `log_likelihood` is each particle's sum over the batch's rows, `[J]`."""
    weights = jnp.exp(state.particles.log_weights)
    weighted = jnp.sum(jnp.where(weights > 0, weights * log_likelihood, 0.0))  # the dead may say nan
    return Info(
        loss=-weighted / jnp.sum(batch.weight),
        ess=ess,
        acceptance=moved.acceptance,
        resampled=resampled,
        dead=moved.dead,
        finite=jnp.isfinite(moved.log_normaliser),
        skipped=skipped,
        log_evidence=state.log_evidence,
        num_gradients=jnp.asarray(jnp.nan if moved.num_gradients is None else moved.num_gradients),
    )
