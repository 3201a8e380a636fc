r"""SMC-pBNN and stochastic-gradient SMC (Zhao et al., 2024): from the prior at every iteration, one datum at a time.

For $n = 1, \dots, M$ over the batch, with $\pi_{n-1} \propto q_0(\theta) \prod_{i<n} p(y_i \mid \theta, \psi)$ the data
seen so far,

$$\theta_n \sim K_{n-1}(\cdot \mid \theta_{n-1}) \ \ (\pi_{n-1}\text{-invariant}), \qquad
w_n = w_{n-1}\, p(y_n \mid \theta_n, \psi),$$

then one ψ step with $\frac{N}{M} \sum_j \tilde w_M^{(j)} \nabla_\psi \log p(y_S \mid \theta_M^{(j)}, \psi)$.
SMC-pBNN is the case M = N. A move costs a pass over the data seen so far, an iteration therefore O(M²).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import optax

from partbayes.algorithm import Algorithm, Info
from partbayes.errors import PartbayesError
from partbayes.model import Model, log_batch_likelihood, log_target
from partbayes.optimise import ascend
from partbayes.smc import step as smc
from partbayes.smc.lkernels import asymptotic
from partbayes.smc.proposals import Proposal, Tuning, random_walk
from partbayes.smc.resampling import Resampler, adaptive, multinomial
from partbayes.smc.weighted_gradient import weighted_gradient
from partbayes.smc.weights import normalise, uniform
from partbayes.training.state import SMCState, check_population, posterior, sample_population, summarise
from partbayes.types import Array, Batch, Key, Tree


def sgsmc(
    model: Model,
    num_data: int,
    *,
    num_particles: int = 100,
    step_size: float = 0.01,
    proposal: Proposal | None = None,
    optimiser: optax.GradientTransformation | None = None,
    resampler: Resampler | None = None,
    block_size: smc.BlockSize = "auto",
) -> Algorithm:
    """Build SGSMC; any proposal, Metropolis-adjusted, serves as the invariant kernel."""
    check_population(num_particles, step_size)
    proposal = random_walk() if proposal is None else proposal
    kernel = smc.check_kernel(smc.Kernel(proposal, asymptotic(), "same_batch", block_size))
    optimiser = optax.adam(0.01) if optimiser is None else optimiser
    resampler = adaptive(multinomial()) if resampler is None else resampler
    tuning = Tuning(jnp.asarray(step_size))
    return Algorithm(
        partial(init, model=model, optimiser=optimiser, num_particles=num_particles, tuning=tuning),
        partial(step, model=model, num_data=num_data, optimiser=optimiser, kernel=kernel, resampler=resampler),
        posterior,
    )


def smc_pbnn(model: Model, num_data: int, **options: Any) -> Algorithm:
    """Build SMC-pBNN: SGSMC that insists on the whole data set as its batch. Options are those of `sgsmc`."""
    init, step, extract = sgsmc(model, num_data, **options)
    return Algorithm(init, partial(_whole_data_step, step=step, num_data=num_data), extract)


def init(
    key: Key,
    params: tuple[Tree, Tree],
    batch: Batch,
    *,
    model: Model,
    optimiser: optax.GradientTransformation,
    num_particles: int,
    tuning: Tuning,
) -> SMCState:
    """Particles from the prior; every step draws them anew."""
    _, psi = params
    particles = _prior_particles(key, model, num_particles)
    return SMCState(particles, psi, optimiser.init(psi), tuning, jnp.zeros_like(particles.log_weights[0]))


def step(
    key: Key,
    state: SMCState,
    batch: Batch,
    *,
    model: Model,
    num_data: int,
    optimiser: optax.GradientTransformation,
    kernel: smc.Kernel,
    resampler: Resampler,
) -> tuple[SMCState, Info]:
    """A whole pass over the batch, then one ψ step."""
    key_prior, key_pass = jax.random.split(key)
    num_rows = batch.x.shape[0]
    start = _prior_particles(key_prior, model, state.particles.log_weights.shape[0])

    def one_datum(particles: smc.ParticleState, row: Array):
        return _add_datum(
            jax.random.fold_in(key_pass, row),
            particles,
            row,
            batch,
            state,
            model=model,
            kernel=kernel,
            resampler=resampler,
        )

    particles, (ess, resampled, moved) = jax.lax.scan(one_datum, start, jnp.arange(num_rows))
    log_evidence = jnp.sum(moved.log_normaliser)

    likelihood = log_batch_likelihood(model, num_data, scale="full")
    gradient = weighted_gradient(
        lambda theta, psi: likelihood(theta, psi, batch),
        particles.theta,
        particles.log_weights,
        state.psi,
        kernel.block_size,
    )
    values = jax.vmap(lambda theta: jnp.sum(batch.weight * model.log_likelihood(theta, state.psi, batch)))(
        particles.theta
    )
    psi, optimiser_state, skipped = ascend(optimiser, gradient, state.psi, state.optimiser)
    state = SMCState(particles, psi, optimiser_state, state.tuning, log_evidence)
    overall = smc.MoveInfo(moved.log_increments, log_evidence, jnp.mean(moved.acceptance), jnp.mean(moved.dead))
    info = summarise(
        state, values, batch, ess=jnp.mean(ess), resampled=jnp.mean(resampled), moved=overall, skipped=skipped
    )
    return state, info


def _add_datum(key, particles, row, batch, state, *, model, kernel, resampler):
    """Move under the data seen before `row`, then weigh by datum `row`."""
    key_resample, key_move = jax.random.split(key)
    seen = batch._replace(weight=jnp.where(jnp.arange(batch.x.shape[0]) < row, batch.weight, 0.0))
    target = log_target(model, batch.x.shape[0], scale="batch")
    particles, ess, resampled = smc.resample(key_resample, particles, resampler)
    particles, moved = smc.move(
        key_move, particles, lambda theta, psi: target(theta, psi, seen), state.psi, kernel, state.tuning
    )
    datum = jax.tree.map(lambda a: jax.lax.dynamic_slice_in_dim(a, row, 1), batch)
    increments = jax.vmap(lambda theta: datum.weight[0] * model.log_likelihood(theta, state.psi, datum)[0])(
        particles.theta
    )
    increments = jnp.where(jnp.isfinite(increments), increments, -jnp.inf)
    log_weights, log_normaliser = normalise(particles.log_weights + increments)
    moved = moved._replace(log_increments=increments, log_normaliser=moved.log_normaliser + log_normaliser)
    return particles._replace(log_weights=log_weights), (ess, resampled, moved)


def _prior_particles(key: Key, model: Model, num_particles: int) -> smc.ParticleState:
    theta = sample_population(key, model, num_particles)
    return smc.ParticleState(theta, uniform(num_particles), jax.vmap(model.log_prior)(theta))


def _whole_data_step(key: Key, state: SMCState, batch: Batch, *, step: Any, num_data: int) -> tuple[SMCState, Info]:
    if batch.x.shape[0] != num_data:
        raise PartbayesError(
            f"SMC-pBNN got a batch of {batch.x.shape[0]} rows, but it goes through all {num_data}: set the batch size "
            f"to {num_data}, or use SGSMC."
        )
    return step(key, state, batch)
