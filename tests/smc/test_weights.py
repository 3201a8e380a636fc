"""Log-weights and effective sample size."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from partbayes import smc
from partbayes.smc.weights import uniform


def test_normalise_is_exact_far_from_zero():
    log_weights, total = smc.normalise(jnp.array([-1e4, -1e4 + np.log(3.0)]))
    np.testing.assert_allclose(np.exp(log_weights), [0.25, 0.75], rtol=2e-3)  # float32 resolves 1e4 to about 1e-3
    np.testing.assert_allclose(total, -1e4 + np.log(4.0), rtol=1e-6)


def test_ess_lies_between_one_and_j():
    assert np.isclose(smc.ess(uniform(7)), 7.0)
    assert np.isclose(smc.ess(jnp.array([0.0, -jnp.inf, -jnp.inf])), 1.0)
    assert np.isclose(smc.ess(jnp.log(jnp.array([0.5, 0.25, 0.25]))), 1 / (0.25 + 0.125))


def test_all_dead_gives_an_infinite_total_and_no_nan():
    log_weights, total = smc.normalise(jnp.full(4, -jnp.inf))
    assert total == -jnp.inf
    np.testing.assert_allclose(log_weights, -np.log(4))
