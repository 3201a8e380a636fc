"""Every proposal × L-kernel, one move from exact draws of an asymmetric target: weighted moments and E[w] are right.

And the table can fail: the same check turns red when a piece of the mathematics is broken on purpose.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from logistic_target import LogisticTarget

from partbayes import smc
from partbayes.smc.proposals.hmc import kick
from partbayes.smc.step import move

NUM_DRAWS = 200_000
TOLERANCE = 4.0  # standard errors
CAUGHT = 8.0  # a broken sampler must be off by at least twice that

PROPOSALS = {"random walk": smc.random_walk(), "Langevin": smc.langevin(), "HMC(5)": smc.hmc(5)}
LKERNELS = {"forward proposal": smc.forward_proposal(), "asymptotic": smc.asymptotic()}
TODAY = LogisticTarget(dim=1, a=2.0, b=5.0)
YESTERDAY = LogisticTarget(dim=1, a=2.4, b=4.2)


def one_move(kernel, start_from, target, step_size, inverse_mass=None):
    """Scores (in standard errors) after one move from exact draws of `start_from` towards `target`."""
    key_draw, key_move = jax.random.split(jax.random.key(0))
    theta = start_from.draw(key_draw, NUM_DRAWS)
    state = smc.ParticleState(theta, jnp.zeros(NUM_DRAWS), jax.vmap(start_from.log_density)(theta))
    tuning = smc.Tuning(jnp.asarray(step_size), inverse_mass)
    new, info = jax.jit(lambda key, state: move(key, state, target.log_density, None, kernel, tuning))(key_move, state)
    # log_weights come back normalised; the unnormalised ones are the increments, since all started at weight one.
    return target.scores(new.theta, info.log_increments)


def worst(scores):
    return max(abs(score) for score in scores.values())


@pytest.mark.parametrize("dim", [1, 10])
@pytest.mark.parametrize("step_size", [0.2, 0.5, 1.0])
@pytest.mark.parametrize("lkernel", LKERNELS)
@pytest.mark.parametrize("proposal", PROPOSALS)
def test_one_move_keeps_the_target(proposal, lkernel, step_size, dim):
    target = TODAY._replace(dim=dim)
    if proposal == "random walk":
        # log w of a blind step has variance of about ε² × dim; kept at its one-dimensional size, the standard error
        # of 200,000 weights can be trusted.
        step_size *= dim**-0.5
    kernel = smc.Kernel(PROPOSALS[proposal], LKERNELS[lkernel], "same_batch")
    scores = one_move(kernel, target, target, step_size)
    assert worst(scores) < TOLERANCE, scores


@pytest.mark.parametrize("lkernel", LKERNELS)
@pytest.mark.parametrize("proposal", PROPOSALS)
def test_cached_denominator_carries_yesterdays_target_to_todays(proposal, lkernel):
    kernel = smc.Kernel(PROPOSALS[proposal], LKERNELS[lkernel], "cached")
    scores = one_move(kernel, YESTERDAY, TODAY, 0.5)
    assert worst(scores) < TOLERANCE, scores


@pytest.mark.parametrize("proposal", ["random walk", "Langevin", "HMC(5)"])
def test_diagonal_mass_keeps_the_target(proposal):
    target = TODAY._replace(dim=3)
    inverse_mass = {"w": jnp.array([0.5, 1.0, 2.0])}
    kernel = smc.Kernel(PROPOSALS[proposal], smc.forward_proposal(), "same_batch")
    scores = one_move(kernel, target, target, 0.4, inverse_mass)
    assert worst(scores) < TOLERANCE, scores


# -- Broken on purpose: each must be caught. ------------------------------------------------------------------------


def without_kinetic_term(proposal):
    def land(*args):
        return proposal.land(*args)._replace(log_forward=jnp.zeros(()), log_reverse=jnp.zeros(()))

    return proposal._replace(land=land)


def with_volume_changed(proposal):
    """A step size that depends on the position: no longer reversible, and the determinants no longer cancel."""

    def launch(key, theta, density, tuning):
        local = tuning.step_size * (1.0 + 0.5 * jnp.tanh(theta["w"][0]))
        return proposal.launch(key, theta, density, tuning._replace(step_size=local))

    return proposal._replace(launch=launch)


@pytest.mark.parametrize("proposal", ["Langevin", "HMC(5)"])
@pytest.mark.parametrize("fault", [without_kinetic_term, with_volume_changed])
def test_broken_proposals_are_caught(proposal, fault):
    kernel = smc.Kernel(fault(PROPOSALS[proposal]), smc.forward_proposal(), "same_batch")
    scores = one_move(kernel, TODAY, TODAY, 0.5)
    assert worst(scores) > CAUGHT, scores


@pytest.mark.parametrize("proposal", ["random walk", "Langevin", "HMC(5)"])
@pytest.mark.parametrize("lkernel", LKERNELS)
def test_wrong_denominator_is_caught(proposal, lkernel):
    """Dividing by today's target where yesterday's value was due."""
    kernel = smc.Kernel(PROPOSALS[proposal], LKERNELS[lkernel], "same_batch")
    assert worst(one_move(kernel, YESTERDAY, TODAY, 0.5)) > CAUGHT


def test_rejection_that_never_rejects_is_caught():
    """The asymptotic kernel without its Metropolis step."""
    blind = smc.asymptotic()._replace(settle=lambda key, m: smc.asymptotic().settle(key, m)._replace(theta=m.end))
    kernel = smc.Kernel(smc.langevin(), blind, "same_batch")
    assert worst(one_move(kernel, TODAY, TODAY, 1.0)) > CAUGHT


def test_random_walk_weighted_as_if_it_kept_the_target_is_caught():
    """Moving without reweighting leaves the wrong distribution."""
    forgetful = smc.forward_proposal()._replace(
        settle=lambda key, m: smc.forward_proposal().settle(key, m)._replace(log_numerator=m.log_target_start)
    )
    kernel = smc.Kernel(smc.random_walk(), forgetful, "same_batch")
    assert worst(one_move(kernel, TODAY, TODAY, 0.5)) > CAUGHT


def test_leapfrog_agrees_with_blackjax(x64):
    """Three steps of ours against blackjax's velocity Verlet."""
    from blackjax.mcmc.integrators import IntegratorState, velocity_verlet

    target = TODAY._replace(dim=4)
    theta = {"w": jnp.array([0.3, -1.0, 0.2, 0.9])}
    key = jax.random.key(3)
    tuning = smc.Tuning(jnp.asarray(0.3))
    flight = smc.hmc(3).launch(key, theta, target.log_density, tuning)
    value, gradient = jax.value_and_grad(target.log_density)(flight.end)
    ours = kick(flight.carried.half, gradient, 0.15)

    verlet = velocity_verlet(target.log_density, lambda momentum, **_: 0.5 * jnp.sum(momentum["w"] ** 2))
    start = IntegratorState(theta, flight.carried.start, *jax.value_and_grad(target.log_density)(theta))
    for _ in range(3):
        start = verlet(start, 0.3)
    assert jnp.allclose(start.position["w"], flight.end["w"], rtol=1e-12)
    assert jnp.allclose(start.momentum["w"], ours["w"], rtol=1e-12)
    assert jnp.allclose(start.logdensity, value, rtol=1e-12)
