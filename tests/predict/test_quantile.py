"""Quantiles of mixtures that defeat naive iteration: far apart, scales from 1e-6 to 1e3, tiny weights."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from partbayes.errors import PartbayesError
from partbayes.predict import GaussianMixture

LEVELS = np.array([1e-6, 1e-3, 0.049, 0.2, 0.499, 0.501, 0.7, 0.95, 0.9999])

NASTY = {
    "far apart": ([0.3, 0.3, 0.4], [-1e3, 0.0, 5e3], [1.0, 1e-2, 3.0]),
    "many scales": ([0.25, 0.25, 0.25, 0.25], [0.0, 1e-6, 1.0, -2.0], [1e-6, 1e-3, 1.0, 1e3]),
    "tiny weights": ([1e-7, 1 - 2e-7, 1e-7], [-1e3, 0.0, 1e3], [1e-6, 1.0, 1e3]),
    "needle in a haystack": ([0.5, 0.5], [0.0, 0.0], [1e-6, 1e3]),
    "away from zero": ([0.6, 0.4], [123.0, 124.0], [1e-3, 0.5]),
    "all negative": ([0.6, 0.4], [-7.0, -40.0], [1e-2, 2.0]),
}


def nasty(name, dtype):
    weights, loc, scale = (np.array(x) for x in NASTY[name])
    return GaussianMixture(
        jnp.asarray(np.log(weights), dtype),
        jnp.asarray(loc[:, None, None], dtype),
        jnp.asarray(scale[:, None, None], dtype),
    )


@pytest.mark.parametrize("name", NASTY)
def test_cdf_of_the_quantile_is_the_probability(name, dtype):
    mixture = nasty(name, dtype)
    weights, loc, scale = (np.asarray(x, np.float64).ravel() for x in mixture)
    weights = special.softmax(weights)
    answers = np.asarray(mixture.quantile(LEVELS))[:, 0, 0]
    eps = float(np.finfo(dtype).eps)
    for q, x in zip(LEVELS, answers, strict=True):
        spacing = float(np.spacing(np.abs(x)))
        z = (np.float64(x) - loc) / scale
        upper = q > 0.5
        tail, mass = (1 - q, np.sum(weights * stats.norm.sf(z))) if upper else (q, np.sum(weights * stats.norm.cdf(z)))
        # The answer is one of the two floats around the root; z is rounded three times; erfc, the weights and their
        # sum are good to some eps of the tail that is compared.
        slope = weights * stats.norm.pdf(z)
        tolerance = np.sum(slope / scale) * spacing + np.sum(slope * np.abs(z)) * 3 * eps + 32 * eps * tail
        assert abs(mass - tail) <= tolerance, (q, x, mass, tail, tolerance)


@pytest.mark.parametrize("name", NASTY)
def test_quantiles_are_ordered_and_between_the_components(name, dtype):
    mixture = nasty(name, dtype)
    answers = np.asarray(mixture.quantile(LEVELS))[:, 0, 0]
    _, loc, scale = (np.asarray(x, np.float64).ravel() for x in mixture)
    components = stats.norm.ppf(LEVELS[:, None], loc, scale)
    slack = 8 * np.finfo(dtype).eps * np.abs(components).max(axis=1)
    assert np.all(np.diff(answers) > 0)
    assert np.all((answers >= components.min(axis=1) - slack) & (answers <= components.max(axis=1) + slack))


def test_quantile_undoes_the_cdf(make, dtype):
    mixture = make(rows=50, dtype=dtype)
    x = np.asarray(mixture.sample(jax.random.key(0), 1)[0])
    probability = mixture.cdf(x)
    weights, loc, scale = (np.asarray(x, np.float64) for x in mixture)
    z = (x - loc) / scale
    density = np.einsum("c,cnd->nd", special.softmax(weights), stats.norm.pdf(z) / scale)
    eps = np.finfo(dtype).eps
    for row in range(50):
        for output in range(2):
            back = mixture.rows([row]).quantile(probability[row, output])[0, output]
            # An error of 32 eps in a probability below one moves the quantile by that over the density.
            assert abs(float(back) - float(x[row, output])) <= 32 * eps / density[row, output] + 8 * eps * abs(
                x[row, output]
            )


def test_shapes_and_ends(make, dtype):
    mixture = make(dtype=dtype)
    assert mixture.quantile(0.3).shape == (4, 2)
    assert mixture.quantile([0.3]).shape == (1, 4, 2)
    many = mixture.quantile([0.0, 0.3, 1.0])
    np.testing.assert_array_equal(many[0], np.full((4, 2), -np.inf))
    np.testing.assert_array_equal(many[1], mixture.quantile(0.3))
    np.testing.assert_array_equal(many[2], np.full((4, 2), np.inf))
    assert many.dtype == dtype


def test_probability_may_be_traced(make, dtype):
    mixture = make(dtype=dtype)
    levels = jnp.asarray([0.125, 0.5, 0.875], dtype)
    compiled = jax.jit(lambda mixture, q: mixture.quantile(q))(mixture, levels)
    np.testing.assert_allclose(compiled, mixture.quantile(levels), rtol=32 * np.finfo(dtype).eps)


def test_interval_is_two_quantiles_and_keeps_its_tails(dtype):
    mixture = nasty("away from zero", dtype)
    lower, upper = mixture.interval(0.75)
    np.testing.assert_array_equal(lower, mixture.quantile(0.125))
    np.testing.assert_array_equal(upper, mixture.quantile(0.875))
    # A tail of 1e-9 is lost next to one in float32, but not when the tails are computed by themselves.
    normal = GaussianMixture(jnp.log(jnp.full(2, 0.5, dtype)), jnp.zeros((2, 1, 1), dtype), jnp.ones((2, 1, 1), dtype))
    _, upper = normal.interval(1 - 2e-9)
    np.testing.assert_allclose(upper[0, 0], stats.norm.isf(1e-9), rtol=1e-5 if dtype is np.float32 else 1e-7)


def test_a_flat_stretch_has_its_probability(dtype):
    # Half the mass at -1, half at 1, nothing between: the median is any point of the gap, and F there is ½.
    mixture = GaussianMixture(
        jnp.log(jnp.full(2, 0.5, dtype)), jnp.asarray([[[-1.0]], [[1.0]]], dtype), jnp.full((2, 1, 1), 1e-3, dtype)
    )
    median = float(mixture.quantile(0.5)[0, 0])
    assert -1 < median < 1
    assert abs(float(mixture.cdf(np.full((1, 1), median))[0, 0]) - 0.5) <= 4 * np.finfo(dtype).eps


@pytest.mark.parametrize("q", [-0.1, 1.1, float("nan"), [0.5, 2.0]])
def test_what_is_no_probability_is_refused(make, q):
    with pytest.raises(PartbayesError, match="between 0 and 1"):
        make().quantile(q)


@pytest.mark.parametrize("level", [0.0, 1.0, 95])
def test_what_is_no_level_is_refused(make, level):
    with pytest.raises(PartbayesError, match="strictly between 0 and 1"):
        make().interval(level)


def test_a_matrix_of_probabilities_is_refused(make):
    with pytest.raises(PartbayesError, match="a vector"):
        make().quantile(np.full((2, 2), 0.5))
