r"""SWAG (Maddox et al., 2019): a Gaussian through the iterates of an optimiser that keeps going after burn-in.

MAP's iterates $\theta_i$, one every so often after burn-in, i = 1 … n, give

$$\bar\theta_i = \frac1i \sum_{k \le i} \theta_k, \qquad
\Sigma_{\mathrm{diag}} = \mathrm{diag}\Big(\frac1n \sum_{i \le n} (\theta_i - \bar\theta_n)^2\Big), \qquad
D = \big[\theta_i - \bar\theta_i\big]_{n - R < i \le n},$$

$$\theta \sim N\Big(\bar\theta_n,\ \tfrac12 \Sigma_{\mathrm{diag}} + \tfrac{1}{2 (R - 1)} D D^\top\Big),$$

drawn as $\theta = \bar\theta_n + (\Sigma_{\mathrm{diag}}^{1/2} z_1 + D z_2 / \sqrt{R - 1}) / \sqrt2$; ψ is its own
running mean. The diagonal is summed about the running mean (Welford), which is the published
$\overline{\theta^2} - \bar\theta^2$ without its cancellation.
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
from partbayes.baselines import map as point
from partbayes.baselines.settings import check_count, check_not_negative, check_positive, steps_in
from partbayes.model import Model, Target, log_target
from partbayes.smc.weights import uniform
from partbayes.types import Array, Batch, Key, Tree


def swag(
    model: Model,
    num_data: int,
    *,
    num_particles: int = 100,
    rank: int = 20,
    burn_in_epochs: float = 50.0,
    interval_epochs: float = 1.0,
    optimiser: optax.GradientTransformation | None = None,
) -> Algorithm:
    """Build SWAG for `num_data` training rows.

    Iterates are those of `map_estimate` with the same `optimiser` (default: Adam(0.01); its rate stays up on purpose).
    After `burn_in_epochs` one is collected every `interval_epochs`; the last `rank` of them, R, make the low-rank part.
    Until the first is collected the posterior is the current iterate.
    """
    check_count("num_data", num_data)
    check_count("num_particles", num_particles)
    check_count("rank", rank, least=2)
    check_not_negative("burn_in_epochs", burn_in_epochs)
    check_positive("interval_epochs", interval_epochs)
    optimiser = optax.adam(0.01) if optimiser is None else optimiser
    return Algorithm(
        partial(init, optimiser=optimiser, rank=rank),
        partial(
            step,
            target=log_target(model, num_data),
            optimiser=optimiser,
            num_particles=num_particles,
            burn_in_epochs=burn_in_epochs,
            interval_epochs=interval_epochs,
        ),
        partial(posterior, num_particles=num_particles),
    )


class Moments(NamedTuple):
    """Of what was collected: how many, means of θ and ψ, summed squares about the mean, last deviations `[R, ...]`."""

    count: Array
    mean: Tree
    psi_mean: Tree
    squares: Tree
    deviations: Tree


class SWAGState(NamedTuple):
    """The optimiser's iterate, what was collected, steps taken, and the unchanging key of the posterior's draws."""

    iterate: point.MAPState
    moments: Moments
    num_steps: Array
    key: Key


def init(
    key: Key, params: tuple[Tree, Tree], batch: Batch, *, optimiser: optax.GradientTransformation, rank: int
) -> SWAGState:
    """MAP's start, and nothing collected."""
    theta, psi = params
    deviations = jax.tree.map(lambda leaf: jnp.zeros((rank, *leaf.shape), leaf.dtype), theta)
    none = jnp.zeros((), jnp.int32)
    zeros, psi_zeros = jax.tree.map(jnp.zeros_like, (theta, psi))
    moments = Moments(none, zeros, psi_zeros, zeros, deviations)
    return SWAGState(point.init(key, params, batch, optimiser=optimiser), moments, none, key)


def step(
    key: Key,
    state: SWAGState,
    batch: Batch,
    *,
    target: Target,
    optimiser: optax.GradientTransformation,
    num_particles: int,
    burn_in_epochs: float,
    interval_epochs: float,
) -> tuple[SWAGState, Info]:
    """One step of MAP, and its iterate collected if the time has come."""
    iterate, info = point.step(key, state.iterate, batch, target=target, optimiser=optimiser)
    num_steps = state.num_steps + 1
    past = num_steps - steps_in(burn_in_epochs, target.num_data, batch)
    due = (past > 0) & (past % max(1, steps_in(interval_epochs, target.num_data, batch)) == 0)
    moments = tm.where(due, collect(state.moments, iterate.theta, iterate.psi), state.moments)
    info = info._replace(ess=jnp.full_like(info.ess, num_particles))
    return SWAGState(iterate, moments, num_steps, state.key), info


def collect(moments: Moments, theta: Tree, psi: Tree) -> Moments:
    """One more iterate."""
    place = moments.count % jax.tree.leaves(moments.deviations)[0].shape[0]
    count = moments.count + 1

    def pull(mean: Array, value: Array) -> Array:
        return mean + (value - mean) / count

    mean, psi_mean = jax.tree.map(pull, (moments.mean, moments.psi_mean), (theta, psi))
    squares = jax.tree.map(
        lambda total, value, old, new: total + (value - old) * (value - new), moments.squares, theta, moments.mean, mean
    )
    deviations = jax.tree.map(lambda ring, value, new: ring.at[place].set(value - new), moments.deviations, theta, mean)
    return Moments(count, mean, psi_mean, squares, deviations)


def posterior(state: SWAGState, *, num_particles: int) -> Posterior:
    """Equally weighted draws, the same ones whenever asked: the key is folded, not used up."""
    moments = state.moments
    centre = (moments.mean, moments.psi_mean)
    mean, psi = tm.where(moments.count > 0, centre, (state.iterate.theta, state.iterate.psi))
    rank = jax.tree.leaves(moments.deviations)[0].shape[0]
    columns = jnp.minimum(moments.count, rank)

    def one(key: Key) -> Tree:
        key_diagonal, key_low_rank = jax.random.split(key)
        z2 = jax.random.normal(key_low_rank, (rank,))

        def place(mean: Array, squares: Array, deviations: Array, z1: Array) -> Array:
            diagonal = jnp.sqrt(squares / jnp.maximum(moments.count, 1)) * z1
            low_rank = jnp.tensordot(z2.astype(mean.dtype), deviations, 1)
            low_rank = low_rank / jnp.sqrt(jnp.maximum(columns - 1, 1).astype(mean.dtype))
            return mean + (diagonal + low_rank) / math.sqrt(2)

        noise = tm.normal_like(key_diagonal, mean)
        return jax.tree.map(place, mean, moments.squares, moments.deviations, noise)

    theta = jax.vmap(one)(jax.random.split(jax.random.fold_in(state.key, 0), num_particles))
    return Posterior(theta, uniform(num_particles), psi)
