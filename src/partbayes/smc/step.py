r"""One step of a sequential Monte Carlo sampler: resample, move, reweight (Algorithm 1, lines 4 to 13).

$$w_t = w_{t-1}\;\frac{\pi_t(\theta_t)}{\mathrm{denominator}}\;
\frac{L(\theta_{t-1} \mid \theta_t)}{q(\theta_t \mid \theta_{t-1})}$$

- `cached`: the value that stood in the particle's previous numerator, carried along with it (eq. `langevin_pbnn_w_eq`);
- `same_batch`: $\pi_t(\theta_{t-1})$, under today's batch and ψ, which leaves only the move's own error;
- `none`: one, for bootstrap weights that multiply a likelihood in (OHSMC as published).

The step knows a log density of `(theta, shared)` and nothing about networks. This is the one place that maps over
particles; it takes them in blocks.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias, get_args

import jax
import jax.numpy as jnp

from partbayes import tree as tm
from partbayes.errors import PartbayesError
from partbayes.smc import weighted_gradient as wg
from partbayes.smc.blocks import BlockSize, check_block_size, resolve_block_size, scan_blocks
from partbayes.smc.lkernels import LKernel, Settled, log_acceptance_ratio
from partbayes.smc.proposals.base import Move, Proposal, Tuning
from partbayes.smc.resampling import Resampler
from partbayes.smc.shards import add_up
from partbayes.smc.weights import normalise
from partbayes.types import Array, Key, LogDensity, Tree

Denominator: TypeAlias = Literal["cached", "same_batch", "none"]


class ParticleState(NamedTuple):
    """Weighted particles: θ `[J, ...]`, normalised log-weights, each particle's target when it was last weighted."""

    theta: Tree
    log_weights: Array
    log_target: Array


class Kernel(NamedTuple):
    """How particles move and are weighed. `record_noise` keeps each particle's reverse noise (for ChEES adaptation)."""

    proposal: Proposal
    lkernel: LKernel
    denominator: Denominator = "cached"
    block_size: BlockSize = "auto"
    record_noise: bool = False


class MoveInfo(NamedTuple):
    """What happened: per-particle log-increments, log Σ w̃ e^increment, acceptance statistic, particles lost; the mean
    number of gradients that a particle's move took, and each particle's reverse noise if it was asked for."""

    log_increments: Array
    log_normaliser: Array
    acceptance: Array
    dead: Array
    num_gradients: Array | None = None
    reverse_noise: Tree = None


def check_kernel(kernel: Kernel) -> Kernel:
    """Complain early about a kernel that cannot run."""
    if kernel.denominator not in get_args(Denominator):
        raise PartbayesError(
            f"The denominator is {kernel.denominator!r}, but one of {', '.join(get_args(Denominator))} is expected."
        )
    check_block_size(kernel.block_size)
    return kernel


def initialise(theta: Tree, log_target: Array, log_weights: Array) -> tuple[ParticleState, Array]:
    """Particles with unnormalised starting weights (eq. `pbnn_init`), and log of their mean: the evidence so far."""
    log_weights = jnp.where(jnp.isfinite(log_weights), log_weights, -jnp.inf)
    normalised, total = normalise(log_weights)
    return ParticleState(theta, normalised, log_target), total - jnp.log(log_weights.shape[0])


def resample(key: Key, state: ParticleState, resampler: Resampler) -> tuple[ParticleState, Array, Array]:
    """Survivors with their cached targets, the effective sample size before, and whether anything was done."""
    indices, log_weights, ess, resampled = resampler(key, state.log_weights)
    theta, log_target = tm.gather((state.theta, state.log_target), indices)
    return ParticleState(theta, log_weights.astype(state.log_weights.dtype), log_target), ess, resampled


def move(
    key: Key, state: ParticleState, log_density: LogDensity, shared: Tree, kernel: Kernel, tuning: Tuning
) -> tuple[ParticleState, MoveInfo]:
    """Move and reweight every particle."""
    state, info, _ = _move(key, state, log_density, shared, kernel, tuning, with_gradient=False)
    return state, info


def move_with_gradient(
    key: Key, state: ParticleState, log_density: LogDensity, shared: Tree, kernel: Kernel, tuning: Tuning
) -> tuple[ParticleState, MoveInfo, Tree]:
    """Move and reweight, and the weighted gradient of the log density with respect to `shared` at the new points."""
    if kernel.lkernel.keeps_end and not kernel.lkernel.population:
        return _move(key, state, log_density, shared, kernel, tuning, with_gradient=True)
    state, info, _ = _move(key, state, log_density, shared, kernel, tuning, with_gradient=False)
    gradient = wg.weighted_gradient(log_density, state.theta, state.log_weights, shared, kernel.block_size)
    return state, info, gradient


class _Outcome(NamedTuple):
    """What is known of each particle's move once it is weighed."""

    increments: Array
    acceptance: Array
    alive: Array
    num_gradients: Array
    noise: Tree


def _move(key, state, log_density, shared, kernel, tuning, *, with_gradient):
    # A particle's keys depend on its index alone, so blocks of any size draw the same numbers. They are made for all
    # particles at once: many small draws of keys are slower than one.
    key_launch, key_settle = jax.random.split(key)
    settle = kernel.lkernel.settle
    indices = jnp.arange(state.log_weights.shape[0])
    keys = [jax.vmap(lambda i, key=key: jax.random.fold_in(key, i))(indices) for key in (key_launch, key_settle)]
    # As plain numbers: cut into blocks, keys would count as used before they are.
    words = [jax.random.key_data(each) for each in keys]

    def body(running, block):
        words, particles = block
        impl = jax.random.key_impl(key)
        keys_launch, keys_settle = (jax.random.wrap_key_data(each, impl=impl) for each in words)
        moves, pullback = _fly(keys_launch, particles, log_density, shared, kernel.proposal, tuning)
        if kernel.lkernel.population:
            return running, moves
        new, outcome = _weigh(particles, moves, jax.vmap(settle)(keys_settle, moves), kernel)
        if with_gradient:
            running = wg.add_block(running, new.log_weights, pullback)
        return running, (new, outcome)

    block_size = resolve_block_size(kernel.block_size, log_density, state.theta, shared)
    running = wg.start(shared, state.log_weights.dtype) if with_gradient else None
    running, result = scan_blocks(body, running, (words, state), block_size, wg.merge if with_gradient else add_up)
    new, outcome = _weigh(state, result, settle(key_settle, result), kernel) if kernel.lkernel.population else result
    log_weights, log_normaliser = normalise(new.log_weights)
    info = MoveInfo(
        outcome.increments,
        log_normaliser,
        jnp.sum(jnp.exp(state.log_weights) * outcome.acceptance),
        jnp.mean(~outcome.alive),
        jnp.mean(outcome.num_gradients),
        outcome.noise,
    )
    return new._replace(log_weights=log_weights), info, wg.finish(running, shared) if with_gradient else None


def _fly(keys, particles: ParticleState, log_density, shared, proposal: Proposal, tuning: Tuning):
    """A block's moves, and the pullback of its end points to the flipped `shared`."""

    def density(theta):
        return log_density(theta, shared)

    flights = jax.vmap(lambda k, t: proposal.launch(k, t, density, tuning))(keys, particles.theta)
    # A position that ran off to infinity would poison the whole block's gradient; the place it came from might, too.
    # Its particle is lost anyway: one that is still there stands in for it.
    in_range = jax.vmap(tm.all_finite)(flights.end)
    ends = tm.where(jnp.any(in_range), flights.end, flights.start)
    stand_in = jax.tree.map(lambda a: jnp.broadcast_to(a[jnp.argmax(in_range)], a.shape), ends)
    flights = flights._replace(end=tm.where(in_range, flights.end, stand_in))

    def at_ends(ends, flipped):
        return jax.vmap(log_density, (0, None))(ends, tm.unflip(flipped, shared))

    values, pullback = jax.vjp(at_ends, flights.end, tm.flip(shared))
    gradients = pullback(jnp.ones_like(values))[0]
    moves = jax.vmap(lambda f, v, g: proposal.land(f, v, g, density, tuning))(flights, values, gradients)
    moves = moves._replace(log_target_end=jnp.where(in_range, moves.log_target_end, -jnp.inf))
    return moves, lambda weights: pullback(weights)[1]


def _weigh(particles: ParticleState, moves: Move, settled: Settled, kernel: Kernel) -> tuple[ParticleState, _Outcome]:
    """The new particles with unnormalised log-weights."""
    proposal, lkernel, denominator, *_ = kernel
    below = {"cached": particles.log_target, "same_batch": moves.log_target_start, "none": 0.0}[denominator]
    increments = settled.log_numerator - below
    alive = jnp.isfinite(increments) & jnp.isfinite(settled.log_target)
    new = ParticleState(
        tm.where(alive, settled.theta, particles.theta),
        jnp.where(alive, particles.log_weights + increments, -jnp.inf),
        jnp.where(alive, settled.log_target, particles.log_target),
    )
    if moves.acceptance is not None:
        acceptance = jnp.nan_to_num(moves.acceptance, nan=0.0)
    elif proposal.num_gradients != 0 or lkernel.needs_start or denominator == "same_batch":
        acceptance = jnp.nan_to_num(jnp.exp(jnp.minimum(0.0, log_acceptance_ratio(moves))), nan=0.0)
    else:  # a bootstrap random walk never looks at its start, and should not pay for it
        acceptance = jnp.full_like(increments, jnp.nan)
    num_gradients = moves.num_gradients
    if num_gradients is None:
        count = proposal.num_gradients
        num_gradients = jnp.full(increments.shape, jnp.nan if count is None else count)
    noise = moves.reverse_noise if kernel.record_noise else None
    return new, _Outcome(increments, acceptance, alive, num_gradients, noise)
