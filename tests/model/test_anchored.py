"""The anchored likelihood: the same sum over all rows, and far less spread between batches."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from partbayes.model import Anchored, anchored, gaussian, log_target, mlp, partial_bnn, slope_of_all
from partbayes.types import Batch

NUM_DATA = 90


@pytest.fixture(scope="module")
def problem():
    with jax.enable_x64(True):
        model = partial_bnn(mlp(3, (6, 4), 2), gaussian("heteroscedastic"))
        rng = np.random.default_rng(0)
        x, y = rng.standard_normal((NUM_DATA, 3)), rng.standard_normal((NUM_DATA, 1))
        data = Batch(jnp.asarray(x), jnp.asarray(y), jnp.asarray(rng.integers(1, 4, NUM_DATA).astype(float)))
        anchor, psi = model.init(jax.random.key(0))
        step = model.sample_prior(jax.random.key(1))
        slope = slope_of_all(model, anchor, psi, data, rows=40)
        return model, data, anchor, psi, step, Anchored(psi, anchor, slope)


def away(anchor, step, distance):
    return jax.tree.map(lambda a, s: a + distance * s, anchor, step)


def test_the_slope_is_the_gradient_over_all_rows_whatever_the_blocks(x64, problem):
    model, data, anchor, psi, _, held = problem
    exact = jax.grad(lambda t: jnp.sum(data.weight * model.log_likelihood(t, psi, data)))(anchor)
    for rows in (7, 45, NUM_DATA, 1000):
        found = slope_of_all(model, anchor, psi, data, rows)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12), found, exact)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12), held.slope, exact)


def test_over_all_rows_it_is_the_plain_target(x64, problem):
    model, data, anchor, psi, step, held = problem
    theta = away(anchor, step, 0.7)
    plain, low = log_target(model, NUM_DATA), log_target(anchored(model, NUM_DATA), NUM_DATA)
    np.testing.assert_allclose(low(theta, held, data), plain(theta, psi, data), rtol=1e-10)


def test_over_batches_its_mean_is_the_plain_target(x64, problem):
    model, data, anchor, psi, step, held = problem
    theta = away(anchor, step, 0.7)
    even = data._replace(weight=jnp.ones(NUM_DATA))
    held = held._replace(slope=slope_of_all(model, anchor, psi, even, NUM_DATA))
    low = log_target(anchored(model, NUM_DATA), NUM_DATA)
    batches = jax.tree.map(lambda leaf: leaf.reshape(9, 10, *leaf.shape[1:]), even)
    values = jax.vmap(lambda batch: low(theta, held, batch))(batches)
    np.testing.assert_allclose(jnp.mean(values), log_target(model, NUM_DATA)(theta, psi, even), rtol=1e-10)


def test_the_spread_between_batches_falls_with_the_square_of_the_distance(x64, problem):
    model, data, anchor, psi, step, _ = problem
    even = data._replace(weight=jnp.ones(NUM_DATA))
    held = Anchored(psi, anchor, slope_of_all(model, anchor, psi, even, NUM_DATA))
    batches = jax.tree.map(lambda leaf: leaf.reshape(9, 10, *leaf.shape[1:]), even)

    def spread(model, held, distance):
        target = log_target(model, NUM_DATA)
        theta = away(anchor, step, distance)
        # From the anchor: a constant of each batch makes no difference to its moves.
        gains = jax.vmap(lambda batch: target(theta, held, batch) - target(anchor, held, batch))(batches)
        return float(jnp.std(gains))

    low, plain = anchored(model, NUM_DATA), model
    assert spread(low, held, 1e-3) / spread(low, held, 1e-2) == pytest.approx(0.01, rel=0.2)
    assert spread(plain, psi, 1e-3) / spread(plain, psi, 1e-2) == pytest.approx(0.1, rel=0.2)
    assert spread(low, held, 1e-2) < 0.1 * spread(plain, psi, 1e-2)
