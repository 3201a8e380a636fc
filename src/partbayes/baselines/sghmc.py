r"""Stochastic-gradient Hamiltonian Monte Carlo (Chen et al., 2014), in their friction form (eq. 15).

For each of C chains, with velocity $v = \epsilon r$, friction $\alpha$ and an estimate $\hat\beta$ of what the batch's
own noise adds,

$$v_t = (1 - \alpha)\, v_{t-1} + \epsilon^2\, \nabla_\theta \log \pi_{S_t}(\theta_{t-1} \mid \psi_{t-1})
+ \sqrt{2 (\alpha - \hat\beta)}\, \epsilon\, z, \qquad \theta_t = \theta_{t-1} + v_t, \qquad z \sim N(0, I).$$

v is carried from batch to batch and never drawn anew. ψ takes an optimiser step with the N/M-scaled gradient at
$(\theta_{t-1}, \psi_{t-1})$, averaged over the chains.

The posterior is the chains' last J/C thinned draws each, kept in a ring of fixed size. A single chain would have to
keep J draws while ψ moves on, and the old ones no longer fit the new ψ.

On a full batch and a Gaussian target of precision A the chain's stationary covariance is
$A^{-1} (I - \epsilon^2 A / (2 (2 - \alpha)))^{-1}$: too wide by order ε², and unstable once $\epsilon^2$ times the
largest curvature reaches $2 (2 - \alpha)$.
"""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from partbayes import tree as tm
from partbayes.algorithm import Algorithm, Info, Posterior
from partbayes.baselines.population import log_likelihoods, population_gradients, sample_population
from partbayes.baselines.settings import check_count, check_not_negative, check_positive, steps_in
from partbayes.baselines.summary import summarise
from partbayes.errors import PartbayesError
from partbayes.model import Model, Target, log_target
from partbayes.optimise import ascend
from partbayes.types import Array, Batch, Key, Tree


def sghmc(
    model: Model,
    num_data: int,
    *,
    num_particles: int = 100,
    num_chains: int | None = None,
    step_size: float | None = None,
    friction: float = 0.1,
    noise_estimate: float = 0.0,
    burn_in_epochs: float = 0.0,
    window_epochs: float = 2.0,
    optimiser: optax.GradientTransformation | None = None,
) -> Algorithm:
    r"""Build SGHMC for `num_data` training rows.

    `num_chains` is C, a divisor of J (default: the largest up to ten). `step_size` is ε; the default $0.1 / \sqrt N$ is
    a learning rate $\epsilon^2 N$ of 0.01 per row, stable while no curvature reaches $2 (2 - \alpha) / 0.01 = 380$ per
    row. `friction` is α, above 0 and at most 1, and `noise_estimate` is $\hat\beta$, at most α. After `burn_in_epochs`
    the chains are thinned so that the ring spans `window_epochs` (but no finer than one draw a step): long enough for a
    chain's draws to differ, short enough for ψ to be nearly the same for all.
    """
    check_count("num_data", num_data)
    check_count("num_particles", num_particles)
    if num_chains is None:
        num_chains = max(c for c in range(1, 11) if num_particles % c == 0)
    check_count("num_chains", num_chains)
    if num_particles % num_chains:
        raise PartbayesError(
            f"{num_particles} particles cannot be shared out among {num_chains} chains: use a multiple of num_chains."
        )
    step_size = 0.1 / math.sqrt(num_data) if step_size is None else step_size
    check_positive("step_size", step_size)
    if not 0 < friction <= 1:
        raise PartbayesError(f"friction is {friction}, but a number above 0 and at most 1 is needed: try 0.1.")
    if not 0 <= noise_estimate <= friction:
        raise PartbayesError(
            f"noise_estimate is {noise_estimate}, but a number from 0 to the friction, {friction}, is needed."
        )
    check_not_negative("burn_in_epochs", burn_in_epochs)
    check_positive("window_epochs", window_epochs)
    optimiser = optax.adam(0.01) if optimiser is None else optimiser
    target = log_target(model, num_data)
    return Algorithm(
        partial(
            init,
            target=target,
            optimiser=optimiser,
            num_chains=num_chains,
            num_rows=num_particles // num_chains,
            step_size=step_size,
        ),
        partial(
            step,
            target=target,
            optimiser=optimiser,
            step_size=step_size,
            friction=friction,
            noise_estimate=noise_estimate,
            burn_in_epochs=burn_in_epochs,
            window_epochs=window_epochs,
        ),
        posterior,
    )


class SGHMCState(NamedTuple):
    """Positions and velocities `[C, ...]`, the ring of draws `[J/C, C, ...]` and how many rows ever went in, and ψ."""

    theta: Tree
    velocity: Tree
    draws: Tree
    num_drawn: Array
    num_steps: Array
    psi: Tree
    optimiser: optax.OptState


def init(
    key: Key,
    params: tuple[Tree, Tree],
    batch: Batch,
    *,
    target: Target,
    optimiser: optax.GradientTransformation,
    num_chains: int,
    num_rows: int,
    step_size: float,
) -> SGHMCState:
    """Positions from the prior, velocities from their stationary law N(0, ε²), and an empty ring."""
    _, psi = params
    key_theta, key_velocity = jax.random.split(key)
    theta = sample_population(key_theta, target, num_chains)
    velocity = jax.tree.map(lambda z: step_size * z, tm.normal_like(key_velocity, theta))
    # What fills the empty places is never weighted, but has to be finite.
    draws = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (num_rows, *leaf.shape)), theta)
    none = jnp.zeros((), jnp.int32)
    return SGHMCState(theta, velocity, draws, none, none, psi, optimiser.init(psi))


def step(
    key: Key,
    state: SGHMCState,
    batch: Batch,
    *,
    target: Target,
    optimiser: optax.GradientTransformation,
    step_size: float,
    friction: float,
    noise_estimate: float,
    burn_in_epochs: float,
    window_epochs: float,
) -> tuple[SGHMCState, Info]:
    """Move the chains and ψ, and keep a row of draws if its turn has come."""
    values, scores, gradient = population_gradients(state.theta, state.psi, batch, target)
    spread = math.sqrt(2 * (friction - noise_estimate)) * step_size

    def push(v: Array, g: Array, z: Array) -> Array:
        return (1 - friction) * v + step_size**2 * g + spread * z

    velocity = jax.tree.map(push, state.velocity, scores, tm.normal_like(key, state.theta))
    theta = jax.tree.map(jnp.add, state.theta, velocity)
    theta, velocity = _without_lost_chains((theta, velocity), (state.theta, state.velocity), values)
    psi, optimiser_state, skipped = ascend(optimiser, gradient, state.psi, state.optimiser)

    num_steps = state.num_steps + 1
    num_rows, num_chains = jax.tree.leaves(state.draws)[0].shape[:2]
    thinning = max(1, steps_in(window_epochs / num_rows, target.num_data, batch))
    past = num_steps - steps_in(burn_in_epochs, target.num_data, batch)
    due = (past > 0) & (past % thinning == 0)
    draws = _put(state.draws, theta, state.num_drawn % num_rows, due)
    num_drawn = state.num_drawn + due.astype(jnp.int32)

    log_likelihood = log_likelihoods(values, state.theta, batch, target)
    info = summarise(log_likelihood, batch, ess=num_chains * jnp.clip(num_drawn, 1, num_rows), skipped=skipped)
    return SGHMCState(theta, velocity, draws, num_drawn, num_steps, psi, optimiser_state), info


def posterior(state: SGHMCState) -> Posterior:
    """The draws in the ring, equally weighted; before the first, the chains' positions."""
    num_rows, num_chains = jax.tree.leaves(state.draws)[0].shape[:2]
    draws = jax.tree.map(lambda leaf, ring: jnp.where(state.num_drawn == 0, leaf, ring), state.theta, state.draws)
    theta = jax.tree.map(lambda ring: ring.reshape(num_rows * num_chains, *ring.shape[2:]), draws)
    num_held = num_chains * jnp.clip(state.num_drawn, 1, num_rows)
    held = jnp.arange(num_rows * num_chains) < num_held
    return Posterior(theta, jnp.where(held, -jnp.log(num_held.astype(float)), -jnp.inf), state.psi)


def _put(ring: Tree, theta: Tree, row: Array, due: Array) -> Tree:
    """The ring with θ in its row, if due. One row is written, so that a scan can work in place."""
    return jax.tree.map(lambda rows, leaf: rows.at[row].set(jnp.where(due, leaf, rows[row])), ring, theta)


def _without_lost_chains(moved: Tree, before: Tree, values: Array) -> Tree:
    """A chain at a non-finite target, or off to infinity, goes on from a living one; with none left, nothing moves."""
    alive = jnp.isfinite(values) & jax.vmap(tm.all_finite)(moved)
    heir = jnp.where(alive, jnp.arange(len(values)), jnp.argmax(alive))
    return tm.where(jnp.any(alive), tm.gather(moved, heir), before)
