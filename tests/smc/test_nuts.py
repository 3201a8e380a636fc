"""NUTS in SMC: no bias with uniform leaves, the published bias reproduced, and the tree is the same from every leaf."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from partbayes import smc
from partbayes.errors import PartbayesError
from partbayes.smc.proposals import propose
from partbayes.smc.proposals.doubling import Point, trajectory
from partbayes.smc.proposals.nuts import MULTINOMIAL, UNIFORM, _launch
from partbayes.smc.step import move

DIM = 10
NUM_DRAWS = 100_000


def gaussian(theta, shared=None):
    return -0.5 * (jnp.sum(theta["a"] ** 2) + theta["b"] ** 2)


def gaussian_draws(key, num=NUM_DRAWS):
    key_a, key_b = jax.random.split(key)
    return {"a": jax.random.normal(key_a, (num, DIM - 1)), "b": jax.random.normal(key_b, (num,))}


def weighted_squares(proposal, lkernel):
    """E[w] and E[w θ²] (coordinates averaged) after one move at ε = 1, each with its standard error."""
    theta = gaussian_draws(jax.random.key(0))
    state = smc.ParticleState(theta, jnp.zeros(NUM_DRAWS), jax.vmap(gaussian)(theta))
    kernel = smc.Kernel(proposal, lkernel, "same_batch", block_size=10_000)
    tuning = smc.Tuning(jnp.asarray(1.0))
    new, info = jax.jit(lambda k, s: move(k, s, gaussian, None, kernel, tuning))(jax.random.key(1), state)
    weights = np.exp(np.asarray(info.log_increments, np.float64))
    squares = np.mean(np.column_stack([new.theta["a"], new.theta["b"]]).astype(np.float64) ** 2, axis=1)
    return [(np.mean(v), np.std(v) / np.sqrt(NUM_DRAWS)) for v in (weights, weights * squares)]


@pytest.mark.parametrize(
    ("proposal", "lkernel"),
    [
        (smc.nuts(), smc.forward_proposal()),
        (smc.nuts_adjusted(), smc.forward_proposal()),
        (smc.nuts_adjusted(), smc.asymptotic()),
    ],
    ids=["uniform leaf", "adjusted", "adjusted, asymptotic"],
)
def test_no_bias_at_step_size_one(proposal, lkernel):
    for mean, error in weighted_squares(proposal, lkernel):
        assert abs(mean - 1.0) < max(4 * error, 1e-6)
        assert error < 0.005  # the published bias would be seen


def slice_launch(key, theta, density, tuning):
    """Only leaves above a slice count: H - H₀ below a standard exponential."""
    height = jax.random.exponential(jax.random.fold_in(key, 1))
    selection = MULTINOMIAL._replace(log_weight=lambda above: jnp.where(above < height, 0.0, -jnp.inf))
    return _launch(key, theta, density, tuning, max_depth=6, selection=selection)


@pytest.mark.parametrize(
    ("launch", "ratio"),
    [(slice_launch, 0.92), (partial(_launch, max_depth=6, selection=MULTINOMIAL), 0.89)],
    ids=["slice", "multinomial"],
)
def test_the_published_weight_is_eight_percent_off(launch, ratio):
    """A leaf chosen by its energy and weighed by its energy as well; with multinomial choice it is eleven percent."""
    weight, square = weighted_squares(smc.nuts()._replace(launch=launch), smc.forward_proposal())
    second_moment, error = square[0] / weight[0], square[1] / weight[0]
    assert (1.0 - second_moment) / error > 8
    assert second_moment == pytest.approx(ratio, abs=0.015)


def test_every_leaf_builds_the_same_tree_with_the_same_probability(x64):
    """From each leaf of a tree, the share of runs that end with this very tree (told by the sum of its momenta)."""
    tuning = smc.Tuning(jnp.asarray(0.25))
    num = 4000

    def density(theta):
        return -0.5 * jnp.sum(jnp.array([1.0, 4.0]) * theta**2) - 0.1 * jnp.sum(theta**4)

    def point(position, momentum):
        return Point(position, momentum, *jax.value_and_grad(density)(position))

    @jax.jit
    def grow(key, position, momentum):
        keys = jax.vmap(lambda i: jax.random.fold_in(key, i))(jnp.arange(num))
        return jax.vmap(lambda k: trajectory(k, point(position, momentum), density, tuning, 5, UNIFORM)[0])(keys)

    start = jnp.array([0.3, -0.4]), jnp.array([1.1, 0.6])
    leaves = grow(jax.random.key(0), *start)
    sums, counts = np.unique(np.round(leaves.momentum_sum, 8), axis=0, return_counts=True)
    common = sums[np.argmax(counts)]
    inside = np.all(np.isclose(leaves.momentum_sum, common, atol=1e-7), axis=1)
    expected = np.mean(inside)
    assert 0.02 < expected < 0.9
    places = np.unique(np.round(np.column_stack([leaves.position, leaves.momentum])[inside], 8), axis=0)
    assert len(places) >= 4
    for index, place in enumerate(places):
        again = grow(jax.random.key(index + 1), jnp.asarray(place[:2]), jnp.asarray(place[2:]))
        share = np.mean(np.all(np.isclose(again.momentum_sum, common, atol=1e-5), axis=1))
        # two shares of `num` runs each
        assert abs(share - expected) < 4 * np.sqrt(2 * expected * (1 - expected) / num)
    # And the leaf is uniform among them.
    picked = np.round(np.column_stack([leaves.position, leaves.momentum])[inside], 8)
    _, picks = np.unique(picked, axis=0, return_counts=True)
    fair = np.sum(inside) / len(places)
    assert np.all(np.abs(picks - fair) < 4 * np.sqrt(fair))


@pytest.mark.parametrize("build", [smc.nuts, smc.nuts_adjusted])
def test_a_step_that_diverges_at_once_stays_and_says_so(build):
    def density(theta):
        return -jnp.sum(jnp.exp(theta**2))

    move = propose(build(3), jax.random.key(0), jnp.array([0.5, 0.5]), density, smc.Tuning(jnp.asarray(50.0)))
    assert jnp.array_equal(move.start, move.end)
    assert move.acceptance == 0.0
    assert move.num_gradients == 3  # the start, the leaf thrown away, and the end


def test_gradients_are_counted():
    """At a tiny step nothing turns: the tree is full."""
    theta = {"a": jnp.zeros(DIM - 1), "b": jnp.zeros(())}
    move = propose(smc.nuts(3), jax.random.key(0), theta, gaussian, smc.Tuning(jnp.asarray(1e-4)))
    assert move.num_gradients == 2**3 + 1
    assert move.acceptance == pytest.approx(1.0)


def test_adjusted_moves_are_accepted_with_certainty():
    """The acceptance ratio is exactly one, even where log densities are large and rounded."""

    def density(theta):
        return 1e5 + gaussian(theta)

    theta = jax.tree.map(lambda a: a[0], gaussian_draws(jax.random.key(0), 1))
    move = propose(smc.nuts_adjusted(), jax.random.key(1), theta, density, smc.Tuning(jnp.asarray(0.7)))
    assert not jnp.array_equal(move.start["a"], move.end["a"])
    for seed in range(5):
        settled = smc.asymptotic().settle(jax.random.key(seed), move)
        assert jnp.array_equal(settled.theta["a"], move.end["a"])
        assert settled.log_numerator == move.log_target_start


def test_impossible_depth_is_refused():
    with pytest.raises(PartbayesError, match="depth of at most 0"):
        smc.nuts(max_depth=0)
