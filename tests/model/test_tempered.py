"""Another temperature divides the whole target, and nothing else."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import small_network

from partbayes.errors import PartbayesError
from partbayes.model import log_target, tempered


def test_the_whole_target_is_divided_and_predictions_stay():
    model, data = small_network(sigma="heteroscedastic")
    cold = tempered(model, 0.1)
    theta, psi = model.init(jax.random.key(0))
    plain, divided = (log_target(one, len(data.y))(theta, psi, data) for one in (model, cold))
    np.testing.assert_allclose(divided, plain / 0.1, rtol=1e-5)
    rows = jnp.sum(data.weight * model.log_likelihood(theta, psi, data))
    cold_target = log_target(cold, len(data.y))
    np.testing.assert_allclose(cold_target.log_likelihood(divided, theta, data), rows, rtol=1e-4)
    np.testing.assert_allclose(cold_target.gradient_factor(data), 0.1, rtol=1e-6)
    assert tempered(cold, 0.5).temperature == pytest.approx(0.05)
    assert cold.components is model.components and cold.sample_prior is model.sample_prior
    assert tempered(model, 1.0) is model


@pytest.mark.parametrize("temperature", [0.0, -1.0, float("nan")])
def test_no_temperature_is_said(temperature):
    with pytest.raises(PartbayesError, match="temperature"):
        tempered(small_network()[0], temperature)
