r"""Guided open-horizon SMC (Algorithm 1): gradient-based moves aimed at the current target, L-kernel weights.

At step t, with batch $S_t$ and the deterministic parameters $\psi_{t-1}$,

$$w_t = w_{t-1}\,\frac{\pi_{S_t}(\theta_t \mid \psi_{t-1})}{\pi_{S_{t-1}}(\theta_{t-1} \mid \psi_{t-2})}\,
\frac{N(-r^*; 0, M)}{N(r; 0, M)}$$

$$\psi_t = \psi_{t-1} + \epsilon\,\frac{N}{M} \sum_j \tilde w_t^{(j)}
\nabla_\psi \log p(y_{S_t} \mid \theta_t^{(j)}, \psi_{t-1})$$

(eq. `langevin_pbnn_w_eq`; the plain gradient step may be any optax optimiser). Weights start at
$\pi(\theta_0 \mid \psi_0) / q_0(\theta_0)$ (eq. `pbnn_init`).
"""

from __future__ import annotations

from functools import partial
from typing import Any, Literal, TypeAlias, get_args

import jax
import jax.numpy as jnp
import optax

from partbayes.algorithm import Algorithm
from partbayes.errors import PartbayesError
from partbayes.model import Model, Target, log_target
from partbayes.model.target import Scale
from partbayes.smc import step as smc
from partbayes.smc.blocks import resolve_block_size, scan_blocks
from partbayes.smc.lkernels import LKernel, forward_proposal
from partbayes.smc.proposals import Proposal, Tuning, langevin
from partbayes.smc.resampling import Resampler, adaptive, multinomial
from partbayes.training import adaptation as adaptation_room
from partbayes.training import open_horizon
from partbayes.training.adaptation import INITIAL_STEP_SIZE, Adaptation, check_adaptation
from partbayes.training.state import SMCState, check_population, posterior, sample_population
from partbayes.types import Batch, Key, Tree

Start: TypeAlias = Literal["prior", "given"]


def gohsmc(
    model: Model,
    num_data: int,
    *,
    num_particles: int = 100,
    step_size: float | Literal["auto"] = "auto",
    proposal: Proposal | None = None,
    lkernel: LKernel | None = None,
    denominator: smc.Denominator = "cached",
    scale: Scale = "full",
    optimiser: optax.GradientTransformation | None = None,
    hold_psi: bool = False,
    start: Start = "prior",
    resampler: Resampler | None = None,
    inverse_mass: Tree | Literal["auto"] = None,
    trajectory_length: float | Literal["auto"] | None = None,
    warmup_steps: int | None = None,
    target_acceptance: float = 0.8,
    initial_step_size: float = INITIAL_STEP_SIZE,
    block_size: smc.BlockSize = "auto",
) -> Algorithm:
    """Build GOHSMC for `num_data` training rows.

    Defaults are the paper's: Langevin, forward-proposal L-kernel, multinomial resampling at J/2, Adam(0.01).
    `step_size` is the leapfrog step ε: a number, or "auto", which steers the acceptance statistic to
    `target_acceptance`, for `warmup_steps` steps and then frozen, or all along (None, for as long as ψ moves). It sets
    out from `initial_step_size`.
    `inverse_mass` is a tree like θ (None: identity), or "auto": half-way through the warm-up, the variances of the
    weighted particles (for populations that are spread out by then).
    `trajectory_length`, a number or "auto", is for ChEES.
    `start="given"` sets out from copies of the θ that `init` is handed (a warm start) in place of draws from the prior,
    and `hold_psi` leaves ψ where it is: together they sample θ | ψ around a trained network.
    `block_size` is how many particles pass through the network at a time (see `smc.blocks`).
    """
    first_step = float(initial_step_size) if step_size == "auto" else float(step_size)
    check_population(num_particles, first_step)
    proposal = langevin() if proposal is None else proposal
    lkernel = forward_proposal() if lkernel is None else lkernel
    find_length = trajectory_length == "auto"
    kernel = smc.check_kernel(smc.Kernel(proposal, lkernel, denominator, block_size, record_noise=find_length))
    find_mass, inverse_mass = _first_mass(inverse_mass, model)
    adapt = Adaptation(
        warmup_steps,
        step_size=step_size == "auto",
        trajectory_length=find_length,
        mass=find_mass,
        target_acceptance=target_acceptance,
    )
    adapt = check_adaptation(adapt, kernel)
    optimiser = _psi_optimiser(optimiser, hold_psi)
    if start not in get_args(Start):
        raise PartbayesError(f"The start is {start!r}, but one of {', '.join(get_args(Start))} is expected.")
    resampler = adaptive(multinomial()) if resampler is None else resampler
    tuning = Tuning(jnp.asarray(first_step), inverse_mass)
    if trajectory_length is not None:
        length = first_step if trajectory_length == "auto" else float(trajectory_length)
        tuning = tuning._replace(trajectory_length=jnp.asarray(length), counter=jnp.zeros((), jnp.int32))
    target = log_target(model, num_data, scale)
    return Algorithm(
        partial(
            init,
            target=target,
            optimiser=optimiser,
            num_particles=num_particles,
            tuning=tuning,
            adapt=adapt,
            start=start,
            block_size=block_size,
        ),
        partial(open_horizon.step, target=target, optimiser=optimiser, kernel=kernel, resampler=resampler, adapt=adapt),
        posterior,
    )


def init(
    key: Key,
    params: tuple[Tree, Tree],
    batch: Batch,
    *,
    target: Target,
    optimiser: optax.GradientTransformation | None,
    num_particles: int,
    tuning: Tuning,
    adapt: Adaptation,
    start: Start = "prior",
    block_size: smc.BlockSize = "auto",
) -> SMCState:
    """Draw particles from the prior and weigh them by π / q₀, or copy the given θ, all with one weight.

    Copies have no density to be weighed by: the evidence is then a ratio to an unknown constant.
    """
    given, psi = params
    if start == "prior":
        theta = sample_population(key, target.model, num_particles)
        size = resolve_block_size(block_size, lambda t: target(t, psi, batch), theta)
        weigh = jax.vmap(lambda t: target(t, psi, batch))
        _, values = scan_blocks(lambda _, block: (None, weigh(block)), None, theta, size)
        particles, log_evidence = smc.initialise(theta, values, values - jax.vmap(target.model.log_prior)(theta))
    else:
        theta = jax.tree.map(lambda leaf: jnp.repeat(leaf[jnp.newaxis], num_particles, axis=0), given)
        values = jnp.broadcast_to(target(given, psi, batch), (num_particles,))
        particles, log_evidence = smc.initialise(theta, values, jnp.zeros_like(values))
    optimiser_state = None if optimiser is None else optimiser.init(psi)
    return SMCState(particles, psi, optimiser_state, tuning, log_evidence, adaptation_room.init(adapt, tuning))


def _first_mass(inverse_mass: Any, model: Model) -> tuple[bool, Tree]:
    """Whether it is to be found, and what to begin with: ones, as every coordinate's own number."""
    if not isinstance(inverse_mass, str):
        return False, inverse_mass
    if inverse_mass != "auto":
        raise PartbayesError(f"The inverse mass is {inverse_mass!r}, but a tree like θ, None or 'auto' is expected.")
    theta, _ = jax.eval_shape(model.init, jax.random.key(0))
    return True, jax.tree.map(lambda leaf: jnp.ones(leaf.shape, leaf.dtype), theta)


def _psi_optimiser(
    optimiser: optax.GradientTransformation | None, hold_psi: bool
) -> optax.GradientTransformation | None:
    """None for a ψ that is held."""
    if not hold_psi:
        return optax.adam(0.01) if optimiser is None else optimiser
    if optimiser is not None:
        raise PartbayesError("An optimiser for ψ came together with hold_psi=True: leave one of them out.")
    return None
