"""Scales from weighted particles."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from partbayes import smc
from partbayes.smc.adaptation import covariance_factor, diagonal_inverse_mass

RNG = np.random.default_rng(0)
THETA = {"a": jnp.asarray(RNG.normal(size=(40, 2, 3)) * [0.1, 1.0, 10.0]), "b": jnp.asarray(RNG.normal(size=40))}
LOG_WEIGHTS = jax.nn.log_softmax(jnp.asarray(RNG.normal(size=40)))


def flat(theta):
    return np.column_stack([np.asarray(theta["a"], np.float64).reshape(-1, 6), np.asarray(theta["b"], np.float64)])


def expected():
    """Variances shrunk on the log scale, and the covariance shrunk towards them."""
    weights = np.exp(np.asarray(LOG_WEIGHTS, np.float64))
    covariance = np.cov(flat(THETA).T, aweights=weights, bias=True)
    num = np.sum(weights) ** 2 / np.sum(weights**2)
    logs = np.log(np.diag(covariance))
    variances = np.exp((num * logs + 5 * np.mean(logs)) / (num + 5))
    return variances, (num * covariance + 5 * np.diag(variances)) / (num + 5)


def test_diagonal_is_the_shrunk_weighted_variance():
    found = diagonal_inverse_mass(THETA, LOG_WEIGHTS)
    assert jax.tree.map(jnp.shape, found) == {"a": (2, 3), "b": ()}
    ours = np.append(np.asarray(found["a"]).ravel(), found["b"])
    assert np.allclose(ours, expected()[0], rtol=1e-4)


def test_factor_is_that_of_the_shrunk_covariance():
    factor = np.asarray(covariance_factor(THETA, LOG_WEIGHTS))
    assert np.allclose(factor, np.tril(factor))
    assert np.allclose(factor @ factor.T, expected()[1], rtol=1e-3, atol=1e-4)


def test_units_do_not_matter():
    """A target measured in millimetres has the mass of the same target in metres, scaled."""
    scaled = jax.tree.map(lambda leaf: 1000.0 * leaf, THETA)
    found, reference = (diagonal_inverse_mass(theta, LOG_WEIGHTS) for theta in (scaled, THETA))
    assert jax.tree.all(jax.tree.map(lambda a, b: jnp.allclose(a, 1e6 * b, rtol=1e-4), found, reference))


def test_a_collapsed_population_falls_back():
    point = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf[:1], leaf.shape), THETA)
    uniform = jnp.full(40, -jnp.log(40.0))
    one = jax.tree.map(lambda leaf: leaf[0], THETA)
    assert jax.tree.all(jax.tree.map(lambda v: bool(jnp.all(v == 1.0)), diagonal_inverse_mass(point, uniform)))
    assert jnp.array_equal(diagonal_inverse_mass(point, uniform, fallback=one)["b"], one["b"])
    assert jnp.array_equal(covariance_factor(point, uniform), jnp.eye(7))


def test_a_coordinate_without_spread_gets_the_common_size():
    still = THETA | {"b": jnp.full(40, 3.0)}
    found = diagonal_inverse_mass(still, LOG_WEIGHTS)
    assert found["b"] == pytest.approx(float(jnp.exp(jnp.mean(jnp.log(found["a"])))), rel=1e-4)
    assert jnp.all(jnp.isfinite(covariance_factor(still, LOG_WEIGHTS)))


def test_mass_makes_langevin_accept_on_an_ill_conditioned_target():
    """The use of it: at one step size, most moves are accepted with the mass, and none without."""
    scales = jnp.array([1.0, 0.1, 0.01])

    def log_density(theta, shared):
        return -0.5 * jnp.sum((theta / scales) ** 2)

    theta = scales * jax.random.normal(jax.random.key(0), (500, 3))
    state = smc.ParticleState(theta, jnp.full(500, -jnp.log(500.0)), jax.vmap(log_density, (0, None))(theta, None))
    kernel = smc.Kernel(smc.langevin(), smc.asymptotic(), "same_batch")
    mass = diagonal_inverse_mass(theta, state.log_weights)
    with_mass, without = (
        smc.move(jax.random.key(1), state, log_density, None, kernel, smc.Tuning(jnp.asarray(0.5), m))[1].acceptance
        for m in (mass, None)
    )
    assert with_mass > 0.5
    assert without == pytest.approx(0.0, abs=0.01)
