"""Likelihoods: densities against scipy, and the level start of a noise that differs between rows."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

from partbayes.model import gaussian, mlp, partial_bnn
from partbayes.types import Batch

OUTPUTS = jnp.array([[0.3, -1.0], [1.2, 0.4], [-0.5, 2.0]])
Y = jnp.array([[0.1], [1.0], [0.7]])


def test_heteroscedastic_density():
    likelihood = gaussian("heteroscedastic", floor=0.01, initial=0.5)
    params = {"log_scale": jnp.array([0.3])}
    shift = np.log(np.expm1(0.5))
    scale = 0.01 + np.exp(0.3) * np.log1p(np.exp(np.asarray(OUTPUTS[:, 1]) + shift))
    expected = stats.norm.logpdf(Y[:, 0], OUTPUTS[:, 0], scale)
    assert np.allclose(likelihood.log_prob(params, OUTPUTS, Y), expected, rtol=1e-5)
    assert np.allclose(likelihood.components(params, OUTPUTS).scale[:, 0], scale, rtol=1e-5)


def test_level_density_is_the_same_where_the_second_output_is_zero():
    likelihood = gaussian("heteroscedastic", floor=0.01, initial=0.5)
    params = {"log_scale": jnp.array([0.3])}
    flat = OUTPUTS.at[:, 1].set(0.0)
    assert likelihood.level_log_prob is not None
    level = likelihood.level_log_prob(params, OUTPUTS, Y, jnp.ones(()))
    assert np.allclose(level, likelihood.log_prob(params, flat, Y), rtol=1e-5)
    assert not np.allclose(level, likelihood.log_prob(params, OUTPUTS, Y), rtol=1e-2)
    let_go = likelihood.level_log_prob(params, OUTPUTS, Y, jnp.zeros(()))
    assert np.allclose(let_go, likelihood.log_prob(params, OUTPUTS, Y), rtol=1e-6)


def test_sampled_noise_is_part_of_theta():
    likelihood = gaussian("heteroscedastic")
    network = mlp(3, (4,), 2)
    for sampled in (False, True):
        model = partial_bnn(network, likelihood, sample_noise=sampled)
        theta, psi = model.init(jax.random.key(0))
        noise = theta if sampled else psi
        assert noise["likelihood"]["log_scale"].shape == (1,)
        assert (psi if sampled else theta)["likelihood"]["log_scale"] is None
        batch = Batch(jnp.ones((2, 3)), jnp.ones((2, 1)), jnp.ones(2))
        assert model.level_log_likelihood is not None
        assert model.level_log_likelihood(theta, psi, batch, jnp.ones(())).shape == (2,)
        let_go = model.level_log_likelihood(theta, psi, batch, jnp.zeros(()))
        assert np.allclose(let_go, model.log_likelihood(theta, psi, batch), rtol=1e-6)
