"""The samplers against a posterior and an evidence known in closed form.

Each seed is an island. A seed's weighted mean and covariance are averaged over seeds; the standard error comes from
their spread, and four of them are allowed. The self-normalised weights' bias, of order 1/J, is far below that.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from problems import linear_problem

from partbayes import smc
from partbayes.model import tempered
from partbayes.runtime import fit
from partbayes.training import gohsmc, ohsmc, sgsmc, smc_pbnn

SEEDS = 64
STILL = optax.sgd(0.0)  # ψ is empty here; the optimiser has nothing to do


def weighted_moments(posterior):
    """Each island's posterior mean `[K, d]` and covariance `[K, d, d]`."""
    weights = np.exp(np.asarray(posterior.log_weights, np.float64))
    theta = np.asarray(posterior.theta["network"]["w"], np.float64)
    mean = np.einsum("kj,kjd->kd", weights, theta)
    centred = theta - mean[:, None]
    return mean, np.einsum("kj,kjd,kje->kde", weights, centred, centred)


def standard_errors(samples, exact):
    """How many standard errors the mean over seeds is from the exact value, at worst."""
    spread = np.std(samples, axis=0, ddof=1) / np.sqrt(len(samples))
    return np.max(np.abs(np.mean(samples, axis=0) - exact) / spread)


def check(result, exact):
    mean, covariance = weighted_moments(result.posterior)
    evidence = np.exp(np.asarray(result.run.state.log_evidence, np.float64) - exact.log_evidence)
    assert standard_errors(mean, exact.mean) < 4
    assert standard_errors(covariance, exact.cov) < 4
    assert standard_errors(evidence, 1.0) < 4
    # The evidence estimate must be precise enough for that to mean something.
    assert np.std(evidence) / np.sqrt(SEEDS) < 0.05


# A random walk's weight is π(θ')/π(θ): its variance is infinite once σ² times the number of steps between two
# resamplings reaches the smallest posterior variance, here 0.05. So its step is short; the others' need not be.
MOVES = [(smc.random_walk(), 0.05), (smc.langevin(), 0.25), (smc.hmc(5), 0.25)]


@pytest.mark.parametrize("denominator", ["cached", "same_batch"])
@pytest.mark.parametrize(("proposal", "step_size"), MOVES, ids=["RW", "LD", "HMC5"])
def test_gohsmc_posterior_and_evidence(proposal, step_size, denominator):
    model, data, exact = linear_problem()
    algorithm = gohsmc(
        model,
        num_data=8,
        num_particles=1000,
        step_size=step_size,
        proposal=proposal,
        denominator=denominator,
        optimiser=STILL,
        resampler=smc.adaptive(smc.systematic()),
    )
    check(fit(jax.random.key(1), algorithm, model, data, num_epochs=12, batch_size=8, islands=SEEDS), exact)


def test_gohsmc_with_the_asymptotic_kernel():
    model, data, exact = linear_problem()
    algorithm = gohsmc(model, num_data=8, num_particles=1000, step_size=0.6, lkernel=smc.asymptotic(), optimiser=STILL)
    check(fit(jax.random.key(2), algorithm, model, data, num_epochs=12, batch_size=8, islands=SEEDS), exact)


def test_at_another_temperature_only_the_width_is_another():
    """N(m, Σ) to the power 1/T is N(m, TΣ). Particles set out from one point, and moves enough forget it."""
    temperature = 0.1
    model, data, exact = linear_problem()
    algorithm = gohsmc(
        tempered(model, temperature),
        num_data=8,
        num_particles=300,
        step_size=0.1,
        proposal=smc.hmc(5),
        lkernel=smc.asymptotic(),
        hold_psi=True,
        start="given",
    )
    result = fit(jax.random.key(7), algorithm, model, data, num_epochs=60, batch_size=8, islands=SEEDS)
    mean, covariance = weighted_moments(result.posterior)
    assert standard_errors(mean, exact.mean) < 4
    assert standard_errors(covariance, temperature * exact.cov) < 4


@pytest.mark.parametrize("build", [smc_pbnn, sgsmc])
def test_datum_by_datum_posterior_and_evidence(build):
    model, data, exact = linear_problem()
    algorithm = build(model, 8, num_particles=1000, step_size=0.5, optimiser=STILL)
    check(fit(jax.random.key(3), algorithm, model, data, num_epochs=1, batch_size=8, islands=SEEDS), exact)


def test_ohsmc_first_step_is_importance_sampling_from_the_prior():
    """Before the published weights begin to compound, they are the likelihood: posterior and evidence are exact."""
    model, data, exact = linear_problem()
    algorithm = ohsmc(model, 8, num_particles=4000, step_size=1e-4, optimiser=STILL)
    check(fit(jax.random.key(4), algorithm, model, data, num_epochs=1, batch_size=8, islands=SEEDS), exact)


def test_the_check_sees_a_wrong_posterior():
    """A target with the prior counted twice is caught by the same comparison."""
    model, data, exact = linear_problem()
    twice = model._replace(log_prior=lambda theta: 2 * model.log_prior(theta))
    algorithm = gohsmc(twice, num_data=8, num_particles=1000, step_size=0.25, optimiser=STILL)
    result = fit(jax.random.key(5), algorithm, twice, data, num_epochs=12, batch_size=8, islands=SEEDS)
    mean, _ = weighted_moments(result.posterior)
    assert standard_errors(mean, exact.mean) > 8


def test_evidence_is_carried_through_resampling(x64):
    """Resampling at every step leaves the evidence unbiased as well."""
    model, data, exact = linear_problem()
    algorithm = gohsmc(
        model, num_data=8, num_particles=400, step_size=0.3, optimiser=STILL, resampler=smc.multinomial()
    )
    result = fit(jax.random.key(6), algorithm, model, data, num_epochs=6, batch_size=8, islands=SEEDS)
    assert result.run.state.log_evidence.dtype == jnp.float64
    evidence = np.exp(np.asarray(result.run.state.log_evidence) - exact.log_evidence)
    assert standard_errors(evidence, 1.0) < 4
