"""ChEES: the shared number of steps, the gradient against autodiff, and where T ends up."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from partbayes import smc
from partbayes.errors import PartbayesError
from partbayes.smc.adaptation import chees, chees_criterion, chees_gradient
from partbayes.smc.proposals import advance, propose
from partbayes.smc.proposals.chees import duration
from partbayes.smc.step import move

SCALES = np.array([1.0, 0.3, 0.1])  # standard deviations of an ill-conditioned Gaussian


def tuning(step_size=0.1, length=1.0, counter=0, inverse_mass=None):
    return smc.Tuning(jnp.asarray(step_size), inverse_mass, jnp.asarray(length), jnp.asarray(counter))


def log_density(theta, shared=None):
    return -0.5 * jnp.sum((theta["w"] / SCALES) ** 2)


def test_durations_are_the_van_der_corput_sequence():
    state, found = tuning(length=2.0), []
    for _ in range(7):
        found.append(float(duration(state)))
        state = advance(state)
    assert found == [1.0, 0.5, 1.5, 0.25, 1.25, 0.75, 1.75]


@pytest.mark.parametrize("counter", [2**10 - 1, 2**20 - 1, 2**30 - 1])
def test_no_duration_is_ever_zero(counter):
    """blackjax's default of ten bits would give zero at each of these."""
    assert duration(tuning(counter=counter)) > 0


def test_a_move_is_hmc_with_the_shared_number_of_steps(x64):
    """u T / ε = ¾ · 1 / 0.1 rounds up to eight steps."""
    theta = {"w": jnp.array([0.5, -0.2, 0.1])}
    ours = propose(smc.chees(), jax.random.key(0), theta, log_density, tuning(counter=2))
    hmc = propose(smc.hmc(8), jax.random.key(0), theta, log_density, smc.Tuning(jnp.asarray(0.1)))
    assert ours.num_gradients == 9
    assert jnp.allclose(ours.end["w"], hmc.end["w"], rtol=1e-12)
    assert jnp.allclose(ours.log_reverse, hmc.log_reverse, rtol=1e-12)


@pytest.mark.parametrize(("length", "steps"), [(1e-6, 1), (1e6, 20)])
def test_the_number_of_steps_is_bounded(length, steps):
    theta = {"w": jnp.zeros(3)}
    found = propose(smc.chees(max_steps=20), jax.random.key(0), theta, log_density, tuning(length=length))
    assert found.num_gradients == steps + 1


def test_refusals():
    with pytest.raises(PartbayesError, match="at most 0 leapfrog steps"):
        smc.chees(max_steps=0)
    with pytest.raises(PartbayesError, match="without trajectory_length or counter"):
        propose(smc.chees(), jax.random.key(0), {"w": jnp.zeros(3)}, log_density, smc.Tuning(jnp.asarray(0.1)))


def exact_flow(start, momentum, time, inverse_mass):
    """Hamilton's equations in the Gaussian, solved: each coordinate turns at its own frequency."""
    frequency = np.sqrt(inverse_mass) / SCALES
    cos, sin = jnp.cos(frequency * time), jnp.sin(frequency * time)
    end = start * cos + inverse_mass * momentum * sin / frequency
    return end, momentum * cos - start * sin * frequency / inverse_mass


@pytest.mark.parametrize("inverse_mass", [np.ones(3), np.array([2.0, 0.1, 0.5])], ids=["identity", "diagonal"])
def test_gradient_is_the_derivative_of_the_weighted_criterion(inverse_mass, x64):
    """Against autodiff through the exact flow, with uneven weights; means are held fixed in both."""
    rng = np.random.default_rng(0)
    start, momentum = rng.normal(size=(2, 50, 3)) * [[[1.0, 0.5, 0.2]], [[1.0, 2.0, 3.0]]]
    log_weights = jax.nn.log_softmax(jnp.asarray(2.0 * rng.normal(size=50)))
    weights, u, length = jnp.exp(log_weights), 0.6, 1.3

    def criterion(log_length):
        end, _ = exact_flow(start, momentum, u * jnp.exp(log_length), inverse_mass)
        centre = jax.lax.stop_gradient(weights @ end)
        squares = [jnp.sum((x - m) ** 2 / inverse_mass, axis=1) for x, m in ((end, centre), (start, weights @ start))]
        return 0.25 * jnp.sum(weights * (squares[0] - squares[1]) ** 2)

    end, last = exact_flow(start, momentum, u * length, inverse_mass)
    trees = [{"w": jnp.asarray(x)} for x in (start, end, last)]
    found = chees_gradient(*trees, log_weights, u * length, {"w": jnp.asarray(inverse_mass)})
    assert found == pytest.approx(float(jax.grad(criterion)(jnp.log(length))), rel=1e-9)
    itself = chees_criterion(*trees[:2], log_weights, {"w": jnp.asarray(inverse_mass)})
    assert itself == pytest.approx(float(criterion(jnp.log(length))), rel=1e-9)
    if np.all(inverse_mass == 1):
        assert chees_gradient(*trees, log_weights, u * length) == pytest.approx(float(found), rel=1e-12)
    unweighted = chees_gradient(*trees, jnp.full(50, -np.log(50)), u * length, {"w": jnp.asarray(inverse_mass)})
    assert unweighted != pytest.approx(float(found), rel=0.1)


def test_dead_particles_do_not_count():
    rng = np.random.default_rng(0)
    trees = [{"w": jnp.asarray(rng.normal(size=(20, 3)))} for _ in range(3)]
    log_weights = jax.nn.log_softmax(jnp.asarray(rng.normal(size=20)))
    with_dead = [{"w": jnp.concatenate([t["w"], jnp.full((1, 3), jnp.nan)])} for t in trees]
    found = chees_gradient(*with_dead, jnp.append(log_weights, -jnp.inf), jnp.asarray(1.0))
    assert found == pytest.approx(float(chees_gradient(*trees, log_weights, jnp.asarray(1.0))), rel=1e-5)


def best_length():
    """For N(0, s²), ChEES = Σ s⁴ sin²(uT/s); averaged over u in (0, 1), its maximum by grid search."""
    lengths = np.linspace(0.05, 10.0, 4000)
    x = lengths[:, None] / SCALES
    return lengths[np.argmax(np.sum(SCALES**4 * (0.5 - np.sin(2 * x) / (4 * x)), axis=1))]


@pytest.mark.parametrize("start", [0.1, 3.5])
def test_trajectory_length_finds_the_best_fixed_one(start):
    """On the ill-conditioned Gaussian, from one step and from above (below the criterion's first valley, at 3.9)."""
    num, num_steps = 200, 600
    kernel = smc.Kernel(smc.chees(max_steps=400), smc.forward_proposal(), "same_batch", record_noise=True)

    def one_step(carry, index):
        state, adaptation, tuned = carry
        tuned = tuned._replace(trajectory_length=chees.current(adaptation))
        new, info = move(jax.random.fold_in(jax.random.key(1), index), state, log_density, None, kernel, tuned)
        gradient = chees_gradient(
            state.theta, new.theta, chees.end_momentum(info.reverse_noise), new.log_weights, duration(tuned)
        )
        key_resample = jax.random.fold_in(jax.random.key(2), index)
        new, *_ = smc.resample(key_resample, new, smc.adaptive(smc.systematic()))
        return (new, chees.update(adaptation, gradient, tuned.step_size), advance(tuned)), None

    theta = {"w": jax.random.normal(jax.random.key(0), (num, 3)) * SCALES}
    state = smc.ParticleState(theta, jnp.full(num, -jnp.log(num)), jax.vmap(log_density)(theta))
    carry = (state, chees.init(start), tuning(step_size=0.1))
    (_, adaptation, _), _ = jax.jit(lambda carry: jax.lax.scan(one_step, carry, jnp.arange(num_steps)))(carry)
    assert float(chees.final(adaptation)) == pytest.approx(best_length(), rel=0.3)


def test_a_gradient_that_is_not_finite_changes_nothing():
    state = chees.init(1.0)
    after = chees.update(state, jnp.asarray(jnp.nan), jnp.asarray(0.1))
    assert jax.tree.all(jax.tree.map(jnp.array_equal, state, after))
