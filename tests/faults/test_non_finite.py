"""Particles that reach a non-finite target are lost; the run goes on. All lost is one clear sentence."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import small_network

from partbayes import smc
from partbayes.errors import PartbayesError
from partbayes.runtime import fit
from partbayes.smc.step import move_with_gradient
from partbayes.training import gohsmc, ohsmc, sgsmc, smc_pbnn

N = 24


def half_dead_density(theta, psi):
    """Not a number where the first coordinate is positive."""
    value = -0.5 * jnp.sum(theta["w"] ** 2) * psi
    return jnp.where(theta["w"][0] > 0, jnp.nan, value)


@pytest.mark.parametrize("proposal", [smc.random_walk(), smc.langevin(), smc.hmc(3)], ids=["RW", "LD", "HMC"])
def test_a_lost_particle_has_weight_zero_and_a_finite_place(proposal):
    theta = {"w": -jnp.abs(jax.random.normal(jax.random.key(0), (200, 2)))}
    psi = jnp.array(1.0)
    state = smc.ParticleState(theta, jnp.full(200, -np.log(200.0)), jax.vmap(half_dead_density, (0, None))(theta, psi))
    kernel = smc.Kernel(proposal, smc.forward_proposal())
    new, info, _ = move_with_gradient(
        jax.random.key(1), state, half_dead_density, psi, kernel, smc.Tuning(jnp.asarray(0.5))
    )
    dead = np.isneginf(np.asarray(new.log_weights))
    assert 0.05 < dead.mean() < 0.6
    np.testing.assert_allclose(info.dead, dead.mean(), rtol=1e-6)
    assert np.all(np.isfinite(new.theta["w"])) and np.all(np.isfinite(new.log_target))
    np.testing.assert_allclose(np.exp(new.log_weights).sum(), 1.0, rtol=1e-5)
    assert np.all(np.asarray(new.theta["w"][:, 0]) <= 0)


def test_runaway_positions_do_not_poison_the_gradient():
    """An exploding leapfrog step (positions at infinity) costs its particle, not the ψ-gradient."""

    def density(theta, psi):
        return -psi * jnp.sum(theta["w"] ** 4)

    theta = {"w": jnp.concatenate([jnp.full((3, 1), 1e12), jnp.full((5, 1), 0.1)])}
    psi = jnp.array(1.0)
    state = smc.ParticleState(theta, jnp.full(8, -np.log(8.0)), jax.vmap(density, (0, None))(theta, psi))
    kernel = smc.Kernel(smc.hmc(3), smc.forward_proposal())
    new, info, gradient = move_with_gradient(
        jax.random.key(1), state, density, psi, kernel, smc.Tuning(jnp.asarray(0.1))
    )
    assert info.dead == 3 / 8
    assert np.isfinite(gradient) and gradient < 0
    assert np.array_equal(np.isneginf(new.log_weights), [True] * 3 + [False] * 5)


@pytest.mark.parametrize("build", [gohsmc, ohsmc, sgsmc])
def test_training_goes_on_past_lost_particles(build):
    model, data = small_network()
    fragile = model._replace(
        log_likelihood=lambda theta, psi, batch: jnp.where(
            theta["network"]["layers"][0]["bias"][0] > 1.5, jnp.nan, model.log_likelihood(theta, psi, batch)
        )
    )
    algorithm = build(fragile, N, num_particles=50, step_size=0.05)
    result = fit(jax.random.key(0), algorithm, fragile, data, num_epochs=3, batch_size=12)
    weights = np.exp(np.asarray(result.posterior.log_weights[0]))
    bias = np.asarray(result.posterior.theta["network"]["layers"][0]["bias"][0, :, 0])
    assert np.isclose(weights.sum(), 1.0, atol=1e-5)
    assert weights[bias > 1.5].sum() == 0
    assert np.isfinite(result.history[-1]["loss"])


@pytest.mark.parametrize("build", [gohsmc, ohsmc, sgsmc])
def test_all_particles_lost_is_one_clear_sentence(build):
    model, data = small_network()
    broken = model._replace(log_likelihood=lambda theta, psi, batch: jnp.full(batch.x.shape[0], jnp.nan))
    algorithm = build(broken, N, num_particles=5, step_size=0.05)
    with pytest.raises(PartbayesError, match=r"Every particle of every island.*smaller step size"):
        fit(jax.random.key(0), algorithm, broken, data, num_epochs=2, batch_size=12)


def test_a_lost_island_is_left_out_with_a_note():
    model, data = small_network()
    # Island 1's ψ is poisoned at the start; the others are sound.
    keys = jax.random.split(jax.random.key(3), 3)
    marker = model.init(jax.random.split(jax.random.fold_in(keys[1], 0), 3)[0])[1]["network"]["layers"][1]["weight"][
        0, 0
    ]

    def log_likelihood(theta, psi, batch):
        return jnp.where(
            jnp.abs(psi["network"]["layers"][1]["weight"][0, 0] - marker) < 1e-6, jnp.nan, 0.0
        ) + model.log_likelihood(theta, psi, batch)

    fragile = model._replace(log_likelihood=log_likelihood)
    algorithm = gohsmc(fragile, N, num_particles=5, step_size=0.01)
    result = fit(jax.random.key(3), algorithm, fragile, data, num_epochs=2, batch_size=12, islands=3)
    assert result.notes == ["1 of 3 islands diverged and were left out."]
    assert result.posterior.log_weights.shape == (2, 5)
    assert all(np.isfinite(record["loss"]) for record in result.history)


def test_settings_that_cannot_work_are_refused_early():
    model, data = small_network()
    with pytest.raises(PartbayesError, match="step size is -1"):
        gohsmc(model, N, step_size=-1)
    with pytest.raises(PartbayesError, match="0 particles"):
        smc_pbnn(model, N, num_particles=0)
    with pytest.raises(PartbayesError, match="denominator is 'other'"):
        gohsmc(model, N, denominator="other")
    with pytest.raises(PartbayesError, match="scale is 'half'"):
        gohsmc(model, N, scale="half")
    with pytest.raises(PartbayesError, match="block size is 0"):
        gohsmc(model, N, block_size=0)
    with pytest.raises(PartbayesError, match="weight is 'x'"):
        ohsmc(model, N, weight="x")
    with pytest.raises(PartbayesError, match="0 leapfrog steps"):
        smc.hmc(0)
    algorithm = gohsmc(model, N)
    with pytest.raises(PartbayesError, match="0 epochs"):
        fit(jax.random.key(0), algorithm, model, data, num_epochs=0, batch_size=8)
    with pytest.raises(PartbayesError, match="without validation"):
        fit(jax.random.key(0), algorithm, model, data, num_epochs=1, batch_size=8, patience=2)
