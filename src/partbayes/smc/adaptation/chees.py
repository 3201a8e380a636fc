r"""The trajectory length T of ChEES-HMC, by Adam on log T (Hoffman, Radul & Sountsov, 2021).

T is to make the *change in the estimator of the expected square* large,

$$\mathrm{ChEES} = \tfrac14\, E\big[(\lVert\theta' - E\theta'\rVert^2 - \lVert\theta - E\theta\rVert^2)^2\big],$$

with expectations under the normalised weights (in place of the acceptance probabilities of a Markov chain, which has no
weights). The end of a flight of length uT moves with its velocity, $\partial\theta' / \partial \log T = u T\, v'$, so

$$\frac{\partial\,\mathrm{ChEES}}{\partial \log T} = u T\, \sum_j \tilde w_j
\big(\lVert\theta_j' - \bar\theta'\rVert^2 - \lVert\theta_j - \bar\theta\rVert^2\big)\,
(\theta_j' - \bar\theta')^\top M v_j'.$$

Means and weights are held fixed: in equilibrium they do not depend on T. Norms are those of the mass M, in which the
sampler's space is isotropic; with $v' = M^{-1} r'$ the last product is $(\theta' - \bar\theta')^\top r'$.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from partbayes import tree as tm
from partbayes.smc.proposals.hmc import from_noise
from partbayes.types import Array, Tree

MAX_LOG_CHANGE = 0.35  # of log T per step, about half a doubling: a single wild gradient must not set T
LEARNING_RATE = 0.025  # the paper's

# The paper's settings: no momentum, since each gradient belongs to another u, and a short memory for its scale.
DIRECTION = optax.scale_by_adam(b1=0.0, b2=0.95)


class ChEESState(NamedTuple):
    """log T in use, its average, Adam's moments, the last gradient (its sign counts), the number of its sign changes
    and of updates."""

    log_length: Array
    average: Array
    optimiser: optax.OptState
    gradient: Array
    num_flips: Array
    count: Array


def init(trajectory_length: float | Array) -> ChEESState:
    """Start short, as a rule with one step size: the criterion has further, lower maxima at lengths beyond the best."""
    log_length = jnp.log(jnp.asarray(trajectory_length, float))
    zero = jnp.zeros_like(log_length)
    return ChEESState(log_length, log_length, DIRECTION.init(log_length), zero, zero, jnp.zeros((), jnp.int32))


def update(state: ChEESState, gradient: Array, step_size: Array, max_steps: int = 1000) -> ChEESState:
    """After one move made with `current(state)` and this `chees_gradient`. T stays within one and `max_steps` steps.

    While the gradient keeps its sign, T may grow or shrink by half a doubling each time: it often starts far too short.
    With every change of sign the rate falls, down to the paper's (Kesten's gain, as for the step size).
    """
    direction, moments = DIRECTION.update(gradient, state.optimiser)
    num_flips = state.num_flips + (gradient * state.gradient < 0)
    rate = jnp.maximum(LEARNING_RATE, MAX_LOG_CHANGE * (1.0 + num_flips) ** -0.75)
    log_length = state.log_length + jnp.clip(rate * jnp.asarray(direction), -MAX_LOG_CHANGE, MAX_LOG_CHANGE)
    log_length = jnp.clip(log_length, jnp.log(step_size), jnp.log(max_steps * step_size))
    count = state.count + 1
    # Weights t^-½ forget the way up from the start, and average over many u afterwards.
    average = state.average + (log_length - state.average) * count**-0.5
    new = ChEESState(log_length, average, moments, gradient.astype(state.gradient.dtype), num_flips, count)
    return tm.where(jnp.isfinite(gradient), new, state)


def current(state: ChEESState) -> Array:
    """The trajectory length to use while warming up."""
    return jnp.exp(state.log_length)


def final(state: ChEESState) -> Array:
    """The trajectory length to freeze."""
    return jnp.exp(state.average)


def chees_gradient(
    start: Tree, end: Tree, momentum: Tree, log_weights: Array, duration: Array, inverse_mass: Tree = None
) -> Array:
    """∂ChEES/∂log T of one move of the population.

    Trees are stacked `[J, ...]`: where particles started, where they ended and with which momentum (`end_momentum`);
    `log_weights` are normalised, and `duration` is uT (`proposals.chees.duration`).
    """
    weights = jnp.exp(log_weights)
    start, end, momentum = (_without_dead(tree, weights) for tree in (start, end, momentum))
    start, end = _centred(start, weights), _centred(end, weights)
    change = _square(end, inverse_mass) - _square(start, inverse_mass)
    return duration * jnp.sum(weights * change * jax.vmap(tm.dot)(end, momentum))


def chees_criterion(start: Tree, end: Tree, log_weights: Array, inverse_mass: Tree = None) -> Array:
    """ChEES itself, of one move of the population: what `chees_gradient` climbs."""
    weights = jnp.exp(log_weights)
    start, end = (_centred(_without_dead(tree, weights), weights) for tree in (start, end))
    return 0.25 * jnp.sum(weights * (_square(end, inverse_mass) - _square(start, inverse_mass)) ** 2)


def end_momentum(reverse_noise: Tree, inverse_mass: Tree = None) -> Tree:
    """The end momentum r' of HMC moves, from their reverse noise (`MoveInfo.reverse_noise`)."""
    return jax.tree.map(jnp.negative, from_noise(reverse_noise, inverse_mass))


def _without_dead(tree: Tree, weights: Array) -> Tree:
    return tm.where(weights > 0, tree, jax.tree.map(jnp.zeros_like, tree))


def _centred(tree: Tree, weights: Array) -> Tree:
    return jax.tree.map(lambda leaf: leaf - jnp.tensordot(weights, leaf, axes=1), tree)


def _square(tree: Tree, inverse_mass: Tree) -> Array:
    """Each particle's squared norm in the mass, `[J]`."""
    scaled = tree if inverse_mass is None else jax.tree.map(jnp.divide, tree, inverse_mass)
    return jax.vmap(tm.dot)(tree, scaled)
