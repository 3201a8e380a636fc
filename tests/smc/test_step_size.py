"""Automatic step size: where the steering ends, and the choice by the weights' variance."""

from __future__ import annotations

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from partbayes import smc
from partbayes.errors import PartbayesError
from partbayes.smc import step
from partbayes.smc.adaptation import least_variance_step_size, step_size

move = jax.jit(step.move, static_argnums=(2, 4))  # run step by step it takes seconds

SCALE = 0.05  # the target is ten independent N(0, SCALE²)
NUM = 200


def log_density(theta, shared=None):
    return -0.5 * jnp.sum((theta["w"] / SCALE) ** 2)


def population(key, num=NUM):
    theta = {"w": SCALE * jax.random.normal(key, (num, 10))}
    return smc.ParticleState(theta, jnp.full(num, -jnp.log(num)), jax.vmap(log_density)(theta))


def acceptance_at(proposal, size, key):
    kernel = smc.Kernel(proposal, smc.asymptotic(), "same_batch")
    return move(key, population(jax.random.key(7), 5000), log_density, None, kernel, smc.Tuning(size))[1].acceptance


@cache
def steering(proposal, num_steps=150):
    """A warm-up on fresh particles of the target at each step, as a function of the first step size."""
    kernel = smc.Kernel(proposal, smc.forward_proposal(), "same_batch")

    def one_step(state, index):
        key_draw, key_move = jax.random.split(jax.random.fold_in(jax.random.key(0), index))
        tuning = smc.Tuning(step_size.current(state))
        _, info = move(key_move, population(key_draw), log_density, None, kernel, tuning)
        return step_size.update(state, info.acceptance), step_size.current(state)

    return jax.jit(lambda start: jax.lax.scan(one_step, step_size.init(start), jnp.arange(num_steps)))


def steer(proposal, start):
    """The frozen step size, and all that were used on the way."""
    state, used = steering(proposal)(start)
    return step_size.final(state), used


@pytest.mark.parametrize(
    "proposal",
    [smc.langevin(), smc.hmc(5), smc.nuts(4), smc.nuts_adjusted(4), smc.random_walk()],
    ids=["LD", "HMC", "NUTS", "adjusted", "RW"],
)
def test_steering_forgets_where_it_started(proposal):
    low, high = (steer(proposal, jnp.asarray(start))[0] for start in (1e-5, 1.0))
    assert 0.5 < low / high < 2.0
    found = acceptance_at(proposal, low, jax.random.key(5))
    assert found == pytest.approx(step_size.TARGET, abs=0.05)


def test_a_step_at_most_doubles_or_halves():
    _, used = steer(smc.langevin(), jnp.asarray(1e-5))
    ratios = np.asarray(used[1:] / used[:-1])
    assert np.all(ratios < 2.001) and np.all(ratios > 0.499)


def test_it_is_the_mean_acceptance_that_is_steered_however_noisy():
    """One particle that is accepted or not, with probability e^(-ε): the target is met at ε = -log 0.8."""

    def one_step(state, index):
        accepted = jax.random.bernoulli(
            jax.random.fold_in(jax.random.key(1), index), jnp.exp(-step_size.current(state))
        )
        return step_size.update(state, accepted.astype(float)), None

    state, _ = jax.lax.scan(one_step, step_size.init(1e-3), jnp.arange(20_000))
    # log ε averages over some thousand effective draws of variance 1: a tenth is several standard errors. The published
    # recursion, whose errors are divided by the room on either side, would settle at ε = log 2, acceptance 0.5.
    assert float(jnp.exp(-step_size.final(state))) == pytest.approx(0.8, abs=0.03)


def test_a_broken_move_counts_as_rejected():
    state = step_size.update(step_size.init(1.0), jnp.asarray(jnp.nan))
    assert step_size.current(state) == pytest.approx(0.5)


def test_impossible_target_is_refused():
    with pytest.raises(PartbayesError, match="target acceptance is 1"):
        step_size.update(step_size.init(1.0), jnp.asarray(0.5), target=1.0)


def variances_by_hand(kernel, tuning, state, sizes):
    found = []
    for size in sizes:
        _, info = move(jax.random.key(3), state, log_density, None, kernel, tuning._replace(step_size=size))
        weights, base = np.exp(np.asarray(info.log_increments, np.float64)), np.exp(state.log_weights)
        found.append(np.sum(base * weights**2) / np.sum(base * weights) ** 2 - 1)
    return np.array(found)


def test_least_variance_is_the_minimum_with_common_random_numbers():
    state, tuning = population(jax.random.key(1)), smc.Tuning(jnp.asarray(0.03))
    kernel = smc.Kernel(smc.langevin(), smc.forward_proposal(), "same_batch")
    factors = (2.0, 0.5, 1.0)

    def choose(slack):
        return least_variance_step_size(jax.random.key(3), state, log_density, None, kernel, tuning, factors, slack)

    chosen, variances = choose(0.0)
    expected = variances_by_hand(kernel, tuning, state, 0.03 * np.array(sorted(factors)))
    assert np.allclose(variances, expected, rtol=1e-2, atol=1e-6)
    assert chosen == pytest.approx(0.03 * sorted(factors)[np.argmin(expected)])
    assert choose(float(expected[1] - expected[0]) * 1.1)[0] == pytest.approx(0.03)


def test_repeated_choice_ends_where_the_slack_allows():
    """From far below and far above, the choice leads to one step size, and the weights' variance is near the slack."""
    state = population(jax.random.key(1), 2000)
    kernel = smc.Kernel(smc.langevin(), smc.forward_proposal(), "same_batch")
    choose = jax.jit(
        lambda key, size: least_variance_step_size(key, state, log_density, None, kernel, smc.Tuning(size))[0]
    )
    ends = []
    for start in (1e-5, 1.0):
        size = jnp.asarray(start)
        for index in range(12):
            size = choose(jax.random.fold_in(jax.random.key(2), index), size)
        ends.append(float(size))
    assert 0.5 < ends[0] / ends[1] < 2.0
    assert variances_by_hand(kernel, smc.Tuning(jnp.asarray(0.0)), state, [ends[0]])[0] < 0.2
    assert variances_by_hand(kernel, smc.Tuning(jnp.asarray(0.0)), state, [2 * ends[0]])[0] > 0.1
