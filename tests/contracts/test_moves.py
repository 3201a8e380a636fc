"""Every proposal × L-kernel, one move from exact draws of an asymmetric target: weighted moments and E[w] are right.

And the table can fail: for every pair, the same check turns red when a piece of the mathematics is broken on purpose.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from documented import documented
from logistic_target import LogisticTarget

from partbayes import smc
from partbayes.smc import lkernels, proposals
from partbayes.smc.lkernels.near_optimal import fit_moves, settle_with
from partbayes.smc.proposals.hmc import kick
from partbayes.smc.proposals.nuts import _land as weigh_leaf_by_energy
from partbayes.smc.step import move

NUM_DRAWS = {1: 200_000, 3: 50_000, 10: 50_000}  # by dimension: a draw in ten dimensions has ten coordinates to average
TOLERANCE = 4.0  # standard errors
CAUGHT = 8.0  # a broken sampler must be off by at least twice that

# A standard error can be trusted only if the weights have a finite variance. In a Gaussian of curvature λ, leapfrog
# keeps E = K + c V exactly, c = 1 - ε²λ/4. The energy is then at most E/c at the start and at least E at the end, so
# E[exp(-2ΔH)] is an integral over at most exp(-(2 - 1/c) E): finite for any number of steps if c > ½, or ε²λ < 2.
# The targets' curvature is at most (1.2 + 3)/4 ‖A⁻¹‖² = 1.6: ε < 1.1.
STEP_SIZES = [0.2, 0.5, 1.0]
TODAY = LogisticTarget(dim=1, a=1.2, b=3.0)
YESTERDAY = LogisticTarget(dim=1, a=1.5, b=2.5)


def no_extras(target):
    return {}


def chees_extras(target):
    """The third point of the sequence is ¾: ⌈¾ · 2 / ε⌉ steps."""
    return {"trajectory_length": jnp.asarray(2.0), "counter": jnp.asarray(2)}


def full_covariance(target):
    """The factor of a covariance that is nobody's."""
    return {"covariance_factor": jnp.asarray(0.9 * np.eye(target.dim) - 0.3 * np.eye(target.dim, k=-1))}


class Row(NamedTuple):
    proposal: smc.Proposal
    extras: Callable = no_extras
    # log w of a blind step has variance of about ε² × dim: kept at its one-dimensional size, it has a finite variance.
    blind: bool = False
    # Whether a move says which standard normal noise would carry it back: the near-optimal kernel weighs that noise.
    noise: bool = True
    # Whether so many steps are worth more of the compiler's effort than tests get.
    long: bool = False


PROPOSALS = {
    "random walk": Row(smc.random_walk(), blind=True),
    "random walk, full covariance": Row(smc.random_walk(), full_covariance, blind=True),
    "Langevin": Row(smc.langevin()),
    "HMC(5)": Row(smc.hmc(5)),
    "HMC(1..5)": Row(smc.hmc(5, jitter=True)),
    "ChEES": Row(smc.chees(), chees_extras, long=True),
    "NUTS": Row(smc.nuts(max_depth=4), long=True),
    # The adjusted sampler has no noise to send back: it is weighed at the old point, whatever the L-kernel.
    "NUTS, adjusted": Row(smc.nuts_adjusted(max_depth=4), noise=False, long=True),
    # Floor 2 keeps 2 Λ(θ') > Λ(θ) for all pairs (see `second_order`): 4 > √(1.6² + 2²).
    "second order, diagonal": Row(smc.second_order("diagonal", floor=2.0)),
    "second order, full": Row(smc.second_order("full", floor=2.0)),
    # The example of docs/proposals.md, taken from the page.
    "Barker": Row(documented("proposals.md", "barker")(), noise=False),
}


def cross_fitted(settle=settle_with) -> smc.LKernel:
    """The near-optimal L-kernel, each half of the population weighed by the Gaussian fitted to the other half.

    Weighed by a fit to itself, a population has E[w] = 1 + k/J (`tests/smc/test_near_optimal.py`), more than these
    standard errors allow. Weighed by a fit to independent draws it has E[w] = 1 exactly: the mathematics is what is
    tested here.
    """

    def settle_halves(key, moves):
        half = moves.log_target_end.shape[0] // 2
        first, second = (jax.tree.map(lambda a, s=s: a[s], moves) for s in (slice(half), slice(half, None)))
        settled = settle(fit_moves(second), first), settle(fit_moves(first), second)
        return jax.tree.map(lambda a, b: jnp.concatenate([a, b]), *settled)

    return smc.near_optimal()._replace(settle=settle_halves)


LKERNELS = {
    "forward proposal": smc.forward_proposal(),
    "asymptotic": smc.asymptotic(),
    "near-optimal": cross_fitted(),
}
PAIRS = [(p, k) for p, row in PROPOSALS.items() for k in LKERNELS if row.noise or k != "near-optimal"]


def test_every_proposal_and_lkernel_has_its_row():
    """A new file under smc/proposals or smc/lkernels whose builder is missing here is found."""

    def builders(room, made):
        return {f for f in vars(room).values() if inspect.isfunction(f) and _returns(f) == made}

    def where(function):
        return inspect.getmodule(getattr(function, "func", function))

    rows = {where(row.proposal.launch) for row in PROPOSALS.values()}
    assert {inspect.getmodule(builder) for builder in builders(proposals, "Proposal")} <= rows
    assert {builder.__name__ for builder in builders(lkernels, "LKernel")} == {
        name.replace(" ", "_").replace("-", "_") for name in LKERNELS
    }


def _returns(function) -> str:
    return inspect.signature(function).return_annotation


@cache
def draws(target: LogisticTarget):
    theta = target.draw(jax.random.key(0), NUM_DRAWS[target.dim])
    return smc.ParticleState(theta, jnp.zeros(NUM_DRAWS[target.dim]), jax.vmap(target.log_density)(theta))


@cache
def mover(kernel: smc.Kernel, target: LogisticTarget, long: bool):
    """One compilation for all step sizes."""
    return jax.jit(
        lambda key, state, tuning: move(key, state, target.log_density, None, kernel, tuning),
        compiler_options={"xla_backend_optimization_level": 1} if long else None,
    )


def one_move(row: Row, lkernel, denominator, start_from, target, step_size, **more):
    """Scores (in standard errors) after one move from exact draws of `start_from` towards `target`."""
    if row.blind:
        step_size *= target.dim**-0.5
    tuning = smc.Tuning(jnp.asarray(step_size), **row.extras(target), **more)
    kernel = smc.Kernel(row.proposal, lkernel, denominator)
    new, info = mover(kernel, target, row.long)(jax.random.key(1), draws(start_from), tuning)
    # log_weights come back normalised; the unnormalised ones are the increments, since all started at weight one.
    return target.scores(new.theta, info.log_increments)


def worst(scores):
    return max(abs(score) for score in scores.values())


# Where the target stays, both denominators are one number. So each is tried in one dimension only, and the program that
# stays with today's target carries yesterday's to it as well.


@pytest.mark.parametrize(("dim", "denominator"), [(1, "cached"), (10, "same_batch")])
@pytest.mark.parametrize(("proposal", "lkernel"), PAIRS)
def test_one_move_keeps_the_target(proposal, lkernel, dim, denominator):
    target = TODAY._replace(dim=dim)
    for step_size in STEP_SIZES:
        scores = one_move(PROPOSALS[proposal], LKERNELS[lkernel], denominator, target, target, step_size)
        assert worst(scores) < TOLERANCE, (step_size, scores)
    if denominator == "cached":
        scores = one_move(PROPOSALS[proposal], LKERNELS[lkernel], denominator, YESTERDAY, target, 0.5)
        assert worst(scores) < TOLERANCE, ("from yesterday's", scores)


@pytest.mark.parametrize("proposal", ["random walk", "Langevin", "HMC(5)", "ChEES", "NUTS", "NUTS, adjusted"])
def test_diagonal_mass_keeps_the_target(proposal):
    target = TODAY._replace(dim=3)
    inverse_mass = {"w": jnp.array([0.5, 1.0, 2.0])}
    scores = one_move(
        PROPOSALS[proposal], smc.forward_proposal(), "same_batch", target, target, 0.4, inverse_mass=inverse_mass
    )
    assert worst(scores) < TOLERANCE, scores


# -- Broken on purpose: each must be caught. ------------------------------------------------------------------------


def without_kinetic_term(proposal):
    def land(*args):
        return proposal.land(*args)._replace(log_forward=jnp.zeros(()), log_reverse=jnp.zeros(()))

    return proposal._replace(land=land)


def with_local_step_size(proposal):
    """A step size that depends on the position: the way back has another one, and volume is not preserved."""

    def launch(key, theta, density, tuning):
        local = tuning.step_size * (1.0 + 0.5 * jnp.tanh(theta["w"][0]))
        return proposal.launch(key, theta, density, tuning._replace(step_size=local))

    return proposal._replace(launch=launch)


def counting_energy_twice(proposal):
    """The published NUTS weight: a leaf that was chosen by its energy, weighed by its energy."""
    return proposal._replace(land=weigh_leaf_by_energy)


def never_rejecting(lkernel):
    return lkernel._replace(settle=lambda key, m: smc.asymptotic().settle(key, m)._replace(theta=m.end))


def without_determinant(lkernel):
    """The fitted Gaussian without its normalising constant."""

    def settle(conditional, moves):
        settled = settle_with(conditional, moves)
        log_det = jnp.sum(jnp.log(jnp.diagonal(conditional.factor)))
        return settled._replace(log_numerator=settled.log_numerator + log_det)

    return cross_fitted(settle)


@pytest.mark.parametrize(("proposal", "lkernel"), PAIRS)
def test_an_error_in_every_pair_is_caught(proposal, lkernel):
    row, kernel = PROPOSALS[proposal], LKERNELS[lkernel]
    if proposal == "NUTS, adjusted":
        row = row._replace(proposal=counting_energy_twice(row.proposal))
    elif lkernel == "forward proposal":
        row = row._replace(proposal=with_local_step_size(row.proposal))
    elif lkernel == "asymptotic":
        kernel = never_rejecting(kernel)
    else:
        kernel = without_determinant(kernel)
    # Out of equilibrium the way back is not N(0, I), and a forgotten determinant shows.
    start_from = YESTERDAY._replace(a=1.0, b=1.0) if lkernel == "near-optimal" else TODAY
    # The asymptotic kernel's weights are all one here, at any step size, and long steps are the ones to reject.
    step_size = 2.5 if lkernel == "asymptotic" else 1.0
    scores = one_move(row, kernel, "cached", start_from, TODAY, step_size)
    assert worst(scores) > CAUGHT, scores


@pytest.mark.parametrize("proposal", ["Langevin", "HMC(5)", "HMC(1..5)", "NUTS"])
def test_a_forgotten_kinetic_term_is_caught(proposal):
    row = PROPOSALS[proposal]
    row = row._replace(proposal=without_kinetic_term(row.proposal))
    assert worst(one_move(row, smc.forward_proposal(), "same_batch", TODAY, TODAY, 1.0)) > CAUGHT


@pytest.mark.parametrize(
    ("broken", "lkernel"),
    [
        ("_log_direction(-step, slope)", "forward proposal"),
        # The law of a step from the end, taken backwards: it integrates to one, so as L it would be right.
        ("_log_direction(step, slope_there)", "asymptotic"),
    ],
    ids=["gradient of the start", "same step"],
)
def test_an_error_in_the_documented_proposal_is_caught(broken, lkernel):
    row = Row(documented("proposals.md", "barker", ("_log_direction(-step, slope_there)", broken))())
    assert worst(one_move(row, LKERNELS[lkernel], "same_batch", TODAY, TODAY, 1.0)) > CAUGHT


@pytest.mark.parametrize("proposal", ["random walk", "Langevin", "NUTS"])
@pytest.mark.parametrize("lkernel", LKERNELS)
def test_wrong_denominator_is_caught(proposal, lkernel):
    """Dividing by today's target where yesterday's value was due."""
    yesterday, today = (target._replace(dim=10) for target in (YESTERDAY, TODAY))
    assert worst(one_move(PROPOSALS[proposal], LKERNELS[lkernel], "same_batch", yesterday, today, 0.5)) > CAUGHT


def test_random_walk_weighted_as_if_it_kept_the_target_is_caught():
    """Moving without reweighting leaves the wrong distribution."""
    forgetful = smc.forward_proposal()._replace(
        settle=lambda key, m: smc.forward_proposal().settle(key, m)._replace(log_numerator=m.log_target_start)
    )
    assert worst(one_move(PROPOSALS["random walk"], forgetful, "same_batch", TODAY, TODAY, 0.5)) > CAUGHT


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
