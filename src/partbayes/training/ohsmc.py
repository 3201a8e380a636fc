r"""Open-horizon SMC (Zhao et al., 2024): random-walk moves, then weights multiplied by the batch's likelihood.

$$\theta_t = \theta_{t-1} + \sigma z, \qquad w_t = w_{t-1}\, p(y_{S_t} \mid \theta_t, \psi_{t-1})$$

The kernel does not look at the current target; that is what GOHSMC guides. With `weight="target_ratio"` the increment
is the target ratio of GOHSMC instead, so that the two differ in the proposal alone.
"""

from __future__ import annotations

from functools import partial
from typing import Literal

import jax.numpy as jnp
import optax

from partbayes.algorithm import Algorithm
from partbayes.errors import PartbayesError
from partbayes.model import Model, log_batch_likelihood
from partbayes.model.target import Scale
from partbayes.smc import step as smc
from partbayes.smc.lkernels import forward_proposal
from partbayes.smc.proposals import Tuning, random_walk
from partbayes.smc.resampling import Resampler, adaptive, multinomial
from partbayes.smc.weights import uniform
from partbayes.training import open_horizon
from partbayes.training.gohsmc import gohsmc
from partbayes.training.state import SMCState, check_population, posterior, sample_population
from partbayes.types import Batch, Key, Tree


def ohsmc(
    model: Model,
    num_data: int,
    *,
    num_particles: int = 100,
    step_size: float = 0.01,
    weight: Literal["likelihood", "target_ratio"] = "likelihood",
    scale: Scale = "batch",
    optimiser: optax.GradientTransformation | None = None,
    resampler: Resampler | None = None,
    block_size: smc.BlockSize = "auto",
) -> Algorithm:
    """Build OHSMC for `num_data` training rows; `step_size` is the random walk's standard deviation σ."""
    check_population(num_particles, step_size)
    optimiser = optax.adam(0.01) if optimiser is None else optimiser
    resampler = adaptive(multinomial()) if resampler is None else resampler
    if weight == "target_ratio":
        return gohsmc(
            model,
            num_data,
            num_particles=num_particles,
            step_size=step_size,
            proposal=random_walk(),
            scale=scale,
            optimiser=optimiser,
            resampler=resampler,
            block_size=block_size,
        )
    if weight != "likelihood":
        raise PartbayesError(f"The OHSMC weight is {weight!r}, but 'likelihood' or 'target_ratio' is expected.")
    kernel = smc.check_kernel(smc.Kernel(random_walk(), forward_proposal(), "none", block_size))
    target = log_batch_likelihood(model, num_data, scale)
    tuning = Tuning(jnp.asarray(step_size))
    return Algorithm(
        partial(init, model=model, optimiser=optimiser, num_particles=num_particles, tuning=tuning),
        partial(open_horizon.step, target=target, optimiser=optimiser, kernel=kernel, resampler=resampler),
        posterior,
    )


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
    """Draw equally weighted particles from the prior."""
    _, psi = params
    log_weights = uniform(num_particles)
    theta = sample_population(key, model, num_particles)
    particles = smc.ParticleState(theta, log_weights, jnp.zeros_like(log_weights))
    return SMCState(particles, psi, optimiser.init(psi), tuning, jnp.zeros_like(log_weights[0]))
