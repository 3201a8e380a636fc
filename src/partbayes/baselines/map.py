r"""Maximum a posteriori (MAP): one θ, climbed to together with ψ. With K islands it is a deep ensemble.

$$(\theta_t, \psi_t) = (\theta_{t-1}, \psi_{t-1}) + \epsilon\, \nabla_{\theta, \psi}\,
\frac1N \Big[\frac{N}{M} \sum_{n \in S_t} \log p(y_n \mid x_n, \theta, \psi) + \log q_0(\theta)\Big]$$

(the plain gradient step may be any optax optimiser). ψ has no prior: θ is MAP, ψ maximum likelihood. The objective is
taken per row, 1/N of the sampler's target, so that a learning rate means the same whatever the size of the data; Adam
does not notice.

A deep ensemble (Lakshminarayanan et al., 2017) is `fit(key, map_estimate(model, num_data), ..., islands=K)`: each
island has its own start, its own batches and its own (θ, ψ), and the predictive is their mixture.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from partbayes.algorithm import Algorithm, Info, Posterior
from partbayes.baselines.settings import check_count
from partbayes.baselines.summary import summarise
from partbayes.model import Model, Target, log_target
from partbayes.optimise import ascend
from partbayes.smc.weights import uniform
from partbayes.types import Batch, Key, Tree


def map_estimate(model: Model, num_data: int, *, optimiser: optax.GradientTransformation | None = None) -> Algorithm:
    """Build MAP for `num_data` training rows; `optimiser` (default: Adam(0.01)) moves θ and ψ."""
    check_count("num_data", num_data)
    optimiser = optax.adam(0.01) if optimiser is None else optimiser
    target = log_target(model, num_data)
    return Algorithm(partial(init, optimiser=optimiser), partial(step, target=target, optimiser=optimiser), posterior)


class MAPState(NamedTuple):
    """The point so far, and the optimiser's state for the pair (θ, ψ)."""

    theta: Tree
    psi: Tree
    optimiser: optax.OptState


def init(key: Key, params: tuple[Tree, Tree], batch: Batch, *, optimiser: optax.GradientTransformation) -> MAPState:
    """Start where the network does."""
    return MAPState(*params, optimiser.init(params))


def step(
    key: Key, state: MAPState, batch: Batch, *, target: Target, optimiser: optax.GradientTransformation
) -> tuple[MAPState, Info]:
    """One optimiser step on the batch; it uses no random numbers."""
    params = (state.theta, state.psi)
    value, gradient = jax.value_and_grad(lambda p: target(p[0], p[1], batch))(params)
    gradient = jax.tree.map(lambda g: g / target.num_data, gradient)
    (theta, psi), optimiser_state, skipped = ascend(optimiser, gradient, params, state.optimiser)
    log_likelihood = target.log_likelihood(value, state.theta, batch)
    info = summarise(log_likelihood[None], batch, ess=1.0, skipped=skipped)
    return MAPState(theta, psi, optimiser_state), info


def posterior(state: MAPState) -> Posterior:
    """A single particle of weight one."""
    return Posterior(jax.tree.map(lambda leaf: leaf[jnp.newaxis], state.theta), uniform(1), state.psi)
