"""Automatic tuning: steers to its target, forgets where it started, freezes when told."""

from __future__ import annotations

import jax
import numpy as np
import optax
import pytest
from problems import linear_problem, small_network

from partbayes import smc
from partbayes.errors import PartbayesError
from partbayes.runtime import fit
from partbayes.training import gohsmc

N = 8
STILL = optax.sgd(0.0)


def train(step_size, num_epochs, proposal=None, **options):
    """Full-batch steps on the linear problem from a given first step size."""
    model, data, _ = linear_problem()
    fixed = {"num_particles": 100, "denominator": "same_batch", "optimiser": STILL}
    algorithm = gohsmc(model, N, proposal=proposal, initial_step_size=step_size, **fixed, **options)
    return fit(jax.random.key(0), algorithm, model, data, num_epochs=num_epochs, batch_size=N)


@pytest.mark.parametrize("proposal", [smc.langevin(), smc.hmc(5), smc.random_walk()], ids=["LD", "HMC5", "RW"])
def test_any_start_ends_at_the_same_step_with_the_wanted_acceptance(proposal):
    short, long = (train(start, 200, proposal, warmup_steps=150) for start in (1e-5, 10.0))
    ends = [float(result.run.state.tuning.step_size[0]) for result in (short, long)]
    assert 0.5 < ends[0] / ends[1] < 2
    for result in (short, long):
        # What the recursion controls is the mean while it steers; a frozen step may fare a little better or worse.
        assert abs(np.mean([record["acceptance"] for record in result.history[75:150]]) - 0.8) < 0.1


def test_frozen_after_the_warm_up():
    sizes = [float(train(0.1, epochs, warmup_steps=20).run.state.tuning.step_size[0]) for epochs in (10, 20, 40)]
    assert sizes[0] != sizes[1]
    assert sizes[1] == sizes[2]


def test_without_a_limit_it_goes_on():
    sizes = [float(train(0.1, epochs).run.state.tuning.step_size[0]) for epochs in (20, 40)]
    assert sizes[0] != sizes[1]


def test_chees_finds_a_length_and_counts_its_moves():
    result = train(0.1, 60, smc.chees(100), trajectory_length="auto", warmup_steps=50)
    tuning = result.run.state.tuning
    assert int(tuning.counter[0]) == 60
    assert float(tuning.trajectory_length[0]) > float(tuning.step_size[0])


def test_the_mass_is_that_of_the_particles():
    """Against the closed form: relative variances of the posterior, each known from 2,000 particles to 3 %."""
    model, data, exact = linear_problem()
    algorithm = gohsmc(
        model,
        N,
        num_particles=2000,
        proposal=smc.hmc(5),
        denominator="same_batch",
        optimiser=STILL,
        inverse_mass="auto",
        warmup_steps=40,
    )

    def found(epochs):
        run = fit(jax.random.key(0), algorithm, model, data, num_epochs=epochs, batch_size=N).run
        return np.concatenate([np.ravel(leaf[0]) for leaf in jax.tree.leaves(run.state.tuning.inverse_mass)])

    variances = np.diag(exact.cov)
    np.testing.assert_array_equal(found(19), 1.0)  # half-way it is found, once
    np.testing.assert_allclose(found(20), variances / variances.mean(), rtol=0.15)
    np.testing.assert_array_equal(found(20), found(45))


def test_a_mass_needs_an_end_of_the_warm_up():
    model, _, _ = linear_problem()
    with pytest.raises(PartbayesError, match="warmup_steps"):
        gohsmc(model, N, inverse_mass="auto")
    with pytest.raises(PartbayesError, match="'diagonal'"):
        gohsmc(model, N, inverse_mass="diagonal", warmup_steps=5)


def test_a_number_is_kept():
    model, data = small_network()
    algorithm = gohsmc(model, 24, num_particles=5, step_size=0.02)
    result = fit(jax.random.key(0), algorithm, model, data, num_epochs=2, batch_size=8)
    np.testing.assert_allclose(result.run.state.tuning.step_size, 0.02)


def test_what_cannot_be_steered_is_refused():
    model, _ = small_network()
    with pytest.raises(PartbayesError, match="no acceptance statistic"):
        gohsmc(model, 24, proposal=smc.random_walk())
    with pytest.raises(PartbayesError, match="0 warm-up steps"):
        gohsmc(model, 24, warmup_steps=0)
    with pytest.raises(PartbayesError, match="step size is -1"):
        gohsmc(model, 24, initial_step_size=-1)
