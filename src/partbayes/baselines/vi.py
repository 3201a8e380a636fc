r"""Variational inference: a Gaussian with independent coordinates for θ, fitted together with ψ.

With $q(\theta) = N(m, \mathrm{diag}(s^2))$, $\theta_i = m + s \odot z_i$ and $z_i \sim N(0, I)$, one step climbs

$$\mathrm{ELBO}_{S}(m, s, \psi) = \frac1L \sum_{i=1}^{L} \Big[
\frac{N}{M} \sum_{n \in S} \log p(y_n \mid x_n, \theta_i, \psi) + \log q_0(\theta_i)\Big]
+ \sum_d \log s_d + \frac{D}{2} \log 2\pi e$$

in $(m, \log s, \psi)$ by any optax optimiser. The prior enters by Monte Carlo, so it may be any density; the entropy of
q is exact.
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
from partbayes.baselines.settings import check_count, check_positive
from partbayes.baselines.summary import summarise
from partbayes.model import Model, Target, log_target
from partbayes.optimise import ascend
from partbayes.smc.weights import uniform
from partbayes.types import Array, Batch, Key, Tree


def vi(
    model: Model,
    num_data: int,
    *,
    num_particles: int = 100,
    num_samples: int = 10,
    initial_scale: float = 0.1,
    optimiser: optax.GradientTransformation | None = None,
) -> Algorithm:
    """Build VI for `num_data` training rows.

    `num_samples` is L, the draws that a step averages over; `num_particles` the draws that the posterior is made of.
    q starts at the network's own θ with standard deviation `initial_scale`.
    """
    check_count("num_data", num_data)
    check_count("num_particles", num_particles)
    check_count("num_samples", num_samples)
    check_positive("initial_scale", initial_scale)
    optimiser = optax.adam(0.01) if optimiser is None else optimiser
    target = log_target(model, num_data)
    return Algorithm(
        partial(init, optimiser=optimiser, initial_scale=initial_scale),
        partial(step, target=target, optimiser=optimiser, num_samples=num_samples, num_particles=num_particles),
        partial(posterior, num_particles=num_particles),
    )


class MeanField(NamedTuple):
    """q: a mean and the logarithm of a standard deviation for every coordinate of θ."""

    mean: Tree
    log_scale: Tree


class VIState(NamedTuple):
    """q and ψ, the optimiser's state for the pair, and the key that the posterior is drawn with.

    The key never changes, so posteriors of successive states differ by what was learned and not by other draws.
    """

    approximation: MeanField
    psi: Tree
    optimiser: optax.OptState
    key: Key


def init(
    key: Key,
    params: tuple[Tree, Tree],
    batch: Batch,
    *,
    optimiser: optax.GradientTransformation,
    initial_scale: float,
) -> VIState:
    """A narrow q around the network's start: a wide one drowns the data's signal in its own noise."""
    theta, psi = params
    log_scale = jax.tree.map(lambda leaf: jnp.full_like(leaf, math.log(initial_scale)), theta)
    approximation = MeanField(theta, log_scale)
    return VIState(approximation, psi, optimiser.init((approximation, psi)), key)


def step(
    key: Key,
    state: VIState,
    batch: Batch,
    *,
    target: Target,
    optimiser: optax.GradientTransformation,
    num_samples: int,
    num_particles: int,
) -> tuple[VIState, Info]:
    """One optimiser step up the ELBO. `Info.log_evidence` is the ELBO's estimate: in mean, a lower bound."""

    def objective(params: tuple[MeanField, Tree]) -> tuple[Array, Array]:
        return elbo(key, *params, batch, target=target, num_samples=num_samples)

    params = (state.approximation, state.psi)
    (value, log_likelihood), gradient = jax.value_and_grad(objective, has_aux=True)(params)
    (approximation, psi), optimiser_state, skipped = ascend(optimiser, gradient, params, state.optimiser)
    info = summarise(log_likelihood, batch, ess=num_particles, skipped=skipped, log_evidence=value)
    return VIState(approximation, psi, optimiser_state, state.key), info


def elbo(
    key: Key, approximation: MeanField, psi: Tree, batch: Batch, *, target: Target, num_samples: int
) -> tuple[Array, Array]:
    """The bound's estimate from `num_samples` draws, and each draw's plain log-likelihood of the batch."""

    def one_draw(theta: Tree) -> tuple[Array, Array]:
        value = target(theta, psi, batch)
        return value, target.log_likelihood(value, theta, batch)

    values, log_likelihood = jax.vmap(one_draw)(draw(key, approximation, num_samples))
    return jnp.mean(values) + entropy(approximation), log_likelihood


def draw(key: Key, approximation: MeanField, num: int) -> Tree:
    """`num` reparametrised draws from q, stacked."""

    def one(key: Key) -> Tree:
        noise = tm.normal_like(key, approximation.mean)
        return jax.tree.map(lambda m, s, z: m + jnp.exp(s) * z, *approximation, noise)

    return jax.vmap(one)(jax.random.split(key, num))


def entropy(approximation: MeanField) -> Array:
    """The entropy of q."""
    constant = 0.5 * math.log(2 * math.pi * math.e)
    return jax.tree.reduce(jnp.add, jax.tree.map(lambda s: jnp.sum(s + constant), approximation.log_scale))


def posterior(state: VIState, *, num_particles: int) -> Posterior:
    """Equally weighted draws from q, the same ones whenever asked: the key is folded, not used up."""
    theta = draw(jax.random.fold_in(state.key, 0), state.approximation, num_particles)
    return Posterior(theta, uniform(num_particles), state.psi)
