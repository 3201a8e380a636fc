"""MAP against closed forms: its optimum, its step, and the deep ensemble that islands make of it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax
from problems import linear_problem, small_network, trees_close

from partbayes.baselines import map_estimate
from partbayes.runtime import fit, mixture_nll


def test_optimum_is_the_posterior_mode(x64):
    """A Gaussian posterior's mode is its mean. Gradient ascent contracts by 1 − lr·a/N per step, a its curvatures."""
    model, data, exact = linear_problem()
    curvature = np.linalg.eigvalsh(np.linalg.inv(exact.cov)) / 8
    rate = 1 / curvature.max()
    num_epochs = int(np.ceil(np.log(1e-10) / np.log(1 - rate * curvature.min())))
    algorithm = map_estimate(model, 8, optimiser=optax.sgd(rate))
    result = fit(jax.random.key(0), algorithm, model, data, num_epochs=num_epochs, batch_size=8, progress=False)
    # It starts at zero, a distance of |mean| away.
    assert np.allclose(result.posterior.theta["network"]["w"], exact.mean, atol=1e-9 * np.linalg.norm(exact.mean))


def test_step_climbs_the_target_per_row(x64):
    model, data = small_network()
    batch = jax.tree.map(lambda rows: rows[:6], data)
    algorithm = map_estimate(model, 24, optimiser=optax.sgd(0.1))
    params = model.init(jax.random.key(1))
    state = jax.jit(algorithm.init)(jax.random.key(3), params, batch)
    state, info = jax.jit(algorithm.step)(jax.random.key(2), state, batch)

    @jax.jit
    def objective(params):
        return jnp.mean(model.log_likelihood(*params, batch)) + model.log_prior(params[0]) / 24

    expected = jax.tree.map(lambda p, g: p + 0.1 * g, params, jax.grad(objective)(params))
    assert trees_close((state.theta, state.psi), expected, rtol=1e-12)
    assert np.isclose(info.loss, -jnp.mean(model.log_likelihood(*params, batch)), rtol=1e-12)


def test_deep_ensemble_is_separate_fits_of_map(x64):
    """Parameters and the mixture's validation loss of K islands, from K fits that know nothing of each other."""
    model, data = small_network()
    algorithm = map_estimate(model, 24)
    keys = jax.random.split(jax.random.key(5), 4)
    settings = {"num_epochs": 5, "batch_size": 8, "progress": False}
    ensemble = fit(keys, algorithm, model, data, **settings).posterior
    members = [fit(keys[k : k + 1], algorithm, model, data, **settings).posterior for k in range(4)]
    stacked = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *members)
    assert trees_close(ensemble, stacked, rtol=1e-10, atol=1e-12)
    islands = jax.vmap(lambda posterior: mixture_nll(model, posterior, data))(ensemble)
    alone = [mixture_nll(model, jax.tree.map(lambda leaf: leaf[0], member), data) for member in members]
    assert np.allclose(islands, alone, rtol=1e-10)
    assert len(np.unique(np.round(islands, 6))) == 4
