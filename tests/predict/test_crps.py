"""The mixture's CRPS against its defining integral and scoringrules, and its memory."""

from __future__ import annotations

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scoringrules
from scipy import special
from scipy.integrate import quad

from partbayes.errors import PartbayesError
from partbayes.predict import GaussianMixture, crps
from partbayes.predict.crps import _crps
from partbayes.predict.host import BLOCK, over_rows

CASES = {
    "one": (0.3, [0.1], [0.7], [1.0]),
    "one, tiny scale": (3e-7, [0.0], [1e-6], [1.0]),
    "two": (0.5, [0.0, 1.0], [1.0, 2.0], [0.3, 0.7]),
    "tiny scales": (0.0, [-1.0, 0.0, 1.0], [1e-6, 1e-6, 1e-6], [0.2, 0.5, 0.3]),
    "many scales": (0.0, [-100.0, 0.0, 1e3, 2.0], [1e-6, 1.0, 1e3, 1e-3], [0.2, 0.4, 0.3, 0.1]),
    "tiny weight": (1e-6, [0.0, 1e4], [1e-3, 1e3], [1 - 1e-8, 1e-8]),
    "far target": (1e8, [0.0, 1.0], [1e-3, 2.0], [0.5, 0.5]),
    "far target below": (-50.0, [0.0, 1.0, 3.0], [0.1, 2.0, 0.5], [0.5, 0.25, 0.25]),
}


def integral(y, loc, scale, weights):
    """∫ F² below y plus ∫ (1 − F)² above, panel by panel between the points where F bends."""

    def below(x):
        return np.sum(weights * special.ndtr((x - loc) / scale)) ** 2

    def above(x):
        return np.sum(weights * special.ndtr((loc - x) / scale)) ** 2

    bends = np.concatenate([[y], *(loc + k * scale for k in (-40, -8, -5, -3, -2, -1, 0, 1, 2, 3, 5, 8, 40))])
    panels = pairwise(np.unique(bends))
    return sum(quad(below if b <= y else above, a, b, epsabs=0, epsrel=1e-12, limit=200)[0] for a, b in panels)


def single(y, loc, scale, weights):
    with jax.enable_x64(True):
        mixture = GaussianMixture(
            *(
                jnp.asarray(x, jnp.float64)
                for x in (np.log(weights), np.reshape(loc, (-1, 1, 1)), np.reshape(scale, (-1, 1, 1)))
            )
        )
        return float(crps(mixture, np.full((1, 1), y))[0, 0])


@pytest.mark.filterwarnings("ignore::scipy.integrate.IntegrationWarning")
@pytest.mark.parametrize("name", CASES)
def test_crps_is_its_integral(name):
    y, *parameters = CASES[name]
    loc, scale, weights = (np.array(x) for x in parameters)
    expected = integral(y, loc, scale, weights)
    # E|X − y| and E|X − X'| cancel down to the score: each is good to some eps of its own size.
    size = np.sum(weights * (np.abs(y - loc) + scale))
    assert abs(single(y, loc, scale, weights) - expected) <= 1e-11 * expected + 16 * np.finfo(float).eps * size


@pytest.mark.parametrize("components", [1, 2, 3, 7, 8, 31])
def test_crps_is_that_of_scoringrules(make, components):
    # Odd and even counts: the cyclic pairing treats its last shift differently.
    with jax.enable_x64(True):
        mixture = make(components, rows=6, outputs=2, seed=components, dtype=np.float64)
    y = np.random.default_rng(1).normal(size=(6, 2))
    log_weights, loc, scale = (np.asarray(x) for x in mixture)
    expected = scoringrules.crps_mixnorm(
        y, np.moveaxis(loc, 0, -1), np.moveaxis(scale, 0, -1), np.exp(log_weights), backend="numpy"
    )
    np.testing.assert_allclose(crps(mixture, y), expected, rtol=1e-12)


def test_one_component_is_the_gaussian_score():
    y, loc, scale = -0.4, 1.1, 0.6
    expected = float(scoringrules.crps_normal(y, loc, scale, backend="numpy"))
    np.testing.assert_allclose(single(y, [loc], [scale], [1.0]), expected, rtol=1e-13)
    # Ten copies of a component are that component.
    np.testing.assert_allclose(single(y, [loc] * 10, [scale] * 10, [0.1] * 10), expected, rtol=1e-13)


def test_a_common_offset_does_not_matter():
    # All numbers are exact in float64 at 2^27, so that only the score's own arithmetic could lose them.
    loc, scale, weights = np.array([0.0, 1.0, 0.25]), np.array([0.5, 0.125, 1.0]), np.array([0.5, 0.25, 0.25])
    np.testing.assert_allclose(
        single(2.0**27 + 0.5, 2.0**27 + loc, scale, weights), single(0.5, loc, scale, weights), rtol=1e-13
    )


@pytest.mark.parametrize("block", [1, 10, 30, 65, 10_000])
def test_chunks_join_to_the_whole(make, block):
    # 5 components × 2 outputs = 10 numbers a row: 1, 1, 3, 6 and all 11 rows at a time; 11 divides by none of them.
    mixture = make(rows=11)
    y = np.random.default_rng(1).normal(size=(11, 2))
    whole = over_rows(_crps, mixture, y, block=10**9)
    assert crps(mixture, y, block=block).shape == (11, 2)
    np.testing.assert_allclose(crps(mixture, y, block=block), whole, rtol=1e-13)


def test_no_chunk_is_larger_than_the_block(make):
    seen = []

    def record(mixture, y):
        seen.append(mixture.loc.size)
        assert mixture.loc.shape[1:] == y.shape
        assert mixture.loc.dtype == mixture.log_weights.dtype == y.dtype == np.float64
        return y

    y = np.random.default_rng(1).normal(size=(101, 2))
    np.testing.assert_array_equal(over_rows(record, make(rows=101), y, block=100), y)
    assert max(seen) <= 100
    assert len(set(seen)) == 1  # one shape: compiled once
    assert len(seen) == 11


def test_memory_grows_neither_with_the_pairs_nor_with_the_rows():
    components = 1000
    with jax.enable_x64(True):
        shape = jax.ShapeDtypeStruct((components, BLOCK // components, 1), jnp.float64)
        mixture = GaussianMixture(jax.ShapeDtypeStruct((components,), jnp.float64), shape, shape)
        compiled = _crps.lower(mixture, jax.ShapeDtypeStruct(shape.shape[1:], jnp.float64)).compile()
    memory = compiled.memory_analysis()
    # The mixture (2 arrays of BLOCK float64 numbers), its stand-ins and their squares (4), the doubled ones (4), and
    # vectors of length C, together less than one more. All pairs at once would be 1000 arrays.
    assert memory.temp_size_in_bytes + memory.argument_size_in_bytes < 11 * BLOCK * 8


def test_single_precision_input_is_scored_in_double(make):
    mixture = make(dtype=np.float32)
    y = np.random.default_rng(1).normal(size=(4, 2))
    assert mixture.loc.dtype == np.float32
    with jax.enable_x64(True):
        wide = GaussianMixture(*(jnp.asarray(np.asarray(x), jnp.float64) for x in mixture))
        expected = crps(wide, y)
    assert crps(mixture, y).dtype == np.float64
    np.testing.assert_array_equal(crps(mixture, y), expected)
    assert jnp.zeros(1).dtype == np.float32  # the caller's precision is left as it was


def test_dead_components_and_unnormalised_weights(make):
    mixture = make()
    y = np.random.default_rng(1).normal(size=(4, 2))
    dead = GaussianMixture(
        jnp.append(mixture.log_weights, -jnp.inf) + 3.0,
        jnp.concatenate([mixture.loc, jnp.full((1, 4, 2), jnp.nan)]),
        jnp.concatenate([mixture.scale, jnp.full((1, 4, 2), jnp.nan)]),
    )
    # Adding 3 rounds the float32 log-weights at eps · 3, hence the tolerance.
    np.testing.assert_allclose(crps(dead, y), crps(mixture, y), rtol=1e-5)


def test_nothing_to_score_is_refused(make):
    with pytest.raises(PartbayesError, match="no rows"):
        crps(make().rows(slice(0, 0)), np.zeros((0, 2)))
    with pytest.raises(PartbayesError, match="positive weight"):
        crps(make()._replace(log_weights=jnp.full(5, -jnp.inf)), np.zeros((4, 2)))
