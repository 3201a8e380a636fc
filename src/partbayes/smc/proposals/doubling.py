r"""A trajectory that grows by doubling, forwards or backwards at random, until it turns back (Hoffman & Gelman, 2014).

A tree of $2^D$ leaves is kept only if none of its balanced subtrees turns or diverges; the doubling that breaks this is
discarded, while a tree that only turns as a whole is kept and grows no further. All proper subtrees have then passed,
whichever leaf one starts from; the one sequence of directions that leads to the tree has probability $2^{-D}$; and
whether growth ends depends on the tree alone. So **every leaf builds the same tree with the same probability**.
`proposals.nuts` rests on this.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from blackjax.mcmc.metrics import gaussian_euclidean
from blackjax.mcmc.termination import iterative_uturn_numpyro
from jax.flatten_util import ravel_pytree

from partbayes import tree as tm
from partbayes.smc.proposals.base import Density, Tuning
from partbayes.smc.proposals.hmc import drift, kick, kinetic_energy
from partbayes.types import Array, Key, Tree

# A tree whose energies differ by more has diverged. The range over the tree, unlike the distance from the first energy
# that other samplers use, is the same from every leaf.
MAX_ENERGY_RANGE = 1000.0


class Selection(NamedTuple):
    """How a leaf is chosen: its log-weight, given how far its energy lies above the start's, and the probability to
    switch to the new half, given how far its log-weight lies above the old half's."""

    log_weight: Callable[[Array], Array]
    switch: Callable[[Array], Array]


class Point(NamedTuple):
    position: Tree
    momentum: Tree
    value: Array
    gradient: Tree


class Leaves(NamedTuple):
    """What is summed up over a stretch of leaves, and the leaf chosen among them."""

    momentum_sum: Tree
    log_weight: Array
    position: Tree
    momentum: Tree


class Visited(NamedTuple):
    """Over all leaves computed, the discarded ones too: range of energies, Σ min(1, exp(-ΔH)), number of new leaves."""

    lowest: Array
    highest: Array
    acceptance: Array
    count: Array


class _Tree(NamedTuple):
    left: Point
    right: Point
    leaves: Leaves
    depth: Array


def trajectory(
    key: Key, start: Point, density: Density, tuning: Tuning, max_depth: int, selection: Selection
) -> tuple[Leaves, Visited]:
    """The final tree's leaves, with the chosen one, and what was met on the way."""
    energy = _energy(start, tuning)
    turning = gaussian_euclidean(_flat_inverse_mass(start.position, tuning)).check_turning
    checkpoints = iterative_uturn_numpyro(turning)[0](start, max_depth)
    grow = partial(_grow, density=density, tuning=tuning, turning=turning, selection=selection, first_energy=energy)

    def unfinished(state):
        tree, _, stop = state
        return (tree.depth < max_depth) & ~stop

    def double(state):
        tree, visited, _ = state
        key_side, key_leaves, key_switch = jax.random.split(jax.random.fold_in(key, tree.depth), 3)
        forwards = jax.random.bernoulli(key_side)
        direction = jnp.where(forwards, 1, -1)
        edge = tm.where(forwards, tree.right, tree.left)
        edge, new, visited, valid = grow(key_leaves, edge, direction, 1 << tree.depth, visited, checkpoints)
        left, right = tm.where(forwards, (tree.left, edge), (edge, tree.right))
        leaves = _join(key_switch, tree.leaves, new, selection.switch)
        turned = turning(left.momentum, right.momentum, leaves.momentum_sum)
        tree = tm.where(valid, _Tree(left, right, leaves, tree.depth + 1), tree)
        return tree, visited, ~valid | turned

    zero = jnp.zeros((), jnp.int32)
    alone = Leaves(start.momentum, selection.log_weight(jnp.zeros_like(energy)), start.position, start.momentum)
    visited = Visited(energy, energy, jnp.zeros_like(energy), zero)
    state = (_Tree(start, start, alone, zero), visited, ~jnp.isfinite(energy))
    tree, visited, _ = jax.lax.while_loop(unfinished, double, state)
    return tree.leaves, visited


def _grow(key, edge, direction, num_leaves, visited, checkpoints, *, density, tuning, turning, selection, first_energy):
    """Add leaves beyond `edge`, until there are `num_leaves` or a subtree turns or diverges: then they are invalid."""
    _, update_checkpoints, subtree_turns = iterative_uturn_numpyro(turning)

    def unfinished(state):
        step, *_, valid = state
        return (step < num_leaves) & valid

    def add_leaf(state):
        step, edge, leaves, visited, checkpoints, _ = state
        edge = _leap(edge, density, tuning._replace(step_size=direction * tuning.step_size))
        energy = _energy(edge, tuning)
        leaf = Leaves(edge.momentum, selection.log_weight(energy - first_energy), edge.position, edge.momentum)
        # Inside the new half every leaf has its fair share; only halves are switched in favour of the new one.
        leaves = _join(jax.random.fold_in(key, step), leaves, leaf, jax.nn.sigmoid)
        visited = Visited(
            jnp.minimum(visited.lowest, energy),
            jnp.maximum(visited.highest, energy),
            visited.acceptance + jnp.exp(jnp.minimum(first_energy - energy, 0.0)),
            visited.count + 1,
        )
        checkpoints = update_checkpoints(checkpoints, leaves.momentum_sum, edge.momentum, step)
        turned = subtree_turns(checkpoints, leaves.momentum_sum, edge.momentum)
        valid = (visited.highest - visited.lowest <= MAX_ENERGY_RANGE) & ~turned
        return step + 1, edge, leaves, visited, checkpoints, valid

    no_momentum = jax.tree.map(jnp.zeros_like, edge.momentum)
    none = Leaves(no_momentum, jnp.full_like(first_energy, -jnp.inf), edge.position, edge.momentum)
    state = (jnp.zeros((), jnp.int32), edge, none, visited, checkpoints, jnp.array(True))
    _, edge, leaves, visited, _, valid = jax.lax.while_loop(unfinished, add_leaf, state)
    return edge, leaves, visited, valid


def _join(key: Key, old: Leaves, new: Leaves, switch: Callable[[Array], Array]) -> Leaves:
    take = jax.random.uniform(key, dtype=old.log_weight.dtype) < switch(new.log_weight - old.log_weight)
    position, momentum = tm.where(take, (new.position, new.momentum), (old.position, old.momentum))
    total = jax.tree.map(jnp.add, old.momentum_sum, new.momentum_sum)
    return Leaves(total, jnp.logaddexp(old.log_weight, new.log_weight), position, momentum)


def _leap(point: Point, density: Density, tuning: Tuning) -> Point:
    """One leapfrog step; a negative step size goes back in time."""
    half = kick(point.momentum, point.gradient, 0.5 * tuning.step_size)
    position = drift(point.position, half, tuning)
    value, gradient = jax.value_and_grad(density)(position)
    return Point(position, kick(half, gradient, 0.5 * tuning.step_size), value, gradient)


def _energy(point: Point, tuning: Tuning) -> Array:
    energy = kinetic_energy(point.momentum, tuning.inverse_mass) - point.value
    return jnp.where(jnp.isnan(energy), jnp.inf, energy)


def _flat_inverse_mass(theta: Tree, tuning: Tuning) -> Array:
    if tuning.inverse_mass is None:
        return jnp.ones_like(ravel_pytree(theta)[0])
    return ravel_pytree(tuning.inverse_mass)[0]
