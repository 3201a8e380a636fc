"""PIT, coverage and reliability: uniform for the truth, wrong for the wrong, by hand where a hand suffices."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from partbayes.errors import PartbayesError
from partbayes.predict import (
    GaussianMixture,
    calibration_curve,
    calibration_error,
    coverage,
    expected_calibration_error,
    pit,
    reliability_curve,
)

NUM = 4000


@pytest.fixture(scope="module")
def truth():
    """A skewed bimodal mixture, and NUM independent rows drawn from it (one draw each: rows of one draw are not)."""
    one = GaussianMixture(
        jnp.log(jnp.array([0.6, 0.3, 0.1])),
        jnp.array([-1.0, 2.0, 6.0])[:, None, None],
        jnp.array([0.5, 1.0, 0.2])[:, None, None],
    )
    y = np.asarray(one.sample(jax.random.key(0), NUM))[:, 0]
    return one.rows(np.zeros(NUM, int)), y


def widened(mixture, factor):
    """Around its own mean, so that only the spread is wrong."""
    centre = mixture.mean()
    return GaussianMixture(mixture.log_weights, centre + factor * (mixture.loc - centre), factor * mixture.scale)


def test_pit_is_uniform_for_the_truth_and_not_otherwise(truth):
    mixture, y = truth
    assert pit(mixture, y).shape == (NUM, 1)
    assert stats.kstest(pit(mixture, y)[:, 0], "uniform").pvalue > 0.01
    assert stats.kstest(pit(widened(mixture, 1.3), y)[:, 0], "uniform").pvalue < 1e-6


def test_pit_in_two_outputs(make):
    mixture = make()
    y = np.random.default_rng(0).normal(size=(4, 2))
    log_weights, loc, scale = (np.asarray(x, np.float64) for x in mixture)
    weights = np.exp(log_weights) / np.exp(log_weights).sum()
    np.testing.assert_allclose(
        pit(mixture, y), np.einsum("c,cnd->nd", weights, stats.norm.cdf(y, loc, scale)), rtol=1e-12
    )


def test_coverage_is_membership_of_the_interval(truth):
    mixture, y = truth
    for level in (0.1, 0.5, 0.9):
        lower, upper = mixture.interval(level)
        inside = np.mean((y >= np.asarray(lower)) & (y <= np.asarray(upper)))
        # The interval's ends are float32, the PIT float64: a row or two may fall on the other side.
        assert abs(coverage(mixture, y, level) - inside) <= 2 / NUM
        assert abs(coverage(mixture, y, level) - level) < 4 * np.sqrt(level * (1 - level) / NUM)


def test_curve_is_the_diagonal_for_the_truth(truth):
    mixture, y = truth
    levels = np.array([0.1, 0.3, 0.5, 0.7, 0.9])
    error = 4 * np.sqrt(levels * (1 - levels) / NUM)
    assert np.all(np.abs(calibration_curve(mixture, y, levels) - levels) < error)
    assert np.all(calibration_curve(widened(mixture, 2.0), y, levels)[1:] > (levels + error)[1:])
    # The mean of absolute deviations, each with standard error at most ½/√n.
    assert calibration_error(mixture, y) < 4 * 0.5 / np.sqrt(NUM)
    assert calibration_error(widened(mixture, 2.0), y) > 0.1


def test_calibration_error_by_hand():
    mixture = GaussianMixture(jnp.zeros(1), jnp.zeros((1, 4, 1)), jnp.ones((1, 4, 1)))
    # All targets at the median: every interval covers all of them, and the mean of 1 − p over 5 % … 95 % is ½.
    assert calibration_error(mixture, np.zeros((4, 1))) == pytest.approx(0.5, abs=1e-12)
    # |F − ½| = 0.05, 0.15, 0.25, 0.45: three quarters lie in the central 60 %, all in the central 95 %.
    y = stats.norm.ppf([0.55, 0.35, 0.75, 0.05])[:, None]
    np.testing.assert_array_equal(calibration_curve(mixture, y, [0.05, 0.2, 0.6, 0.95]), [0.0, 0.25, 0.75, 1.0])
    assert calibration_error(mixture, y, [0.05, 0.2, 0.6, 0.95]) == pytest.approx((0.05 + 0.05 + 0.15 + 0.05) / 4)


@pytest.mark.parametrize("levels", [[0.0], [1.0], [0.5, 95], [], 0.5])
def test_what_is_no_level_is_refused(make, levels):
    with pytest.raises(PartbayesError, match="strictly between 0 and 1"):
        calibration_curve(make(), np.zeros((4, 2)), levels)


# Top labels 0.95, 0.92 (one right), 0.65, 0.61 (both right), 0.55 (wrong); ten bins of width 0.1.
PROBS = np.array([[0.95, 0.05], [0.08, 0.92], [0.65, 0.35], [0.39, 0.61], [0.55, 0.45]])
LABELS = np.array([0, 0, 0, 1, 1])


def test_expected_calibration_error_by_hand():
    by_hand = (2 * abs(0.5 - 0.935) + 2 * abs(1.0 - 0.63) + 1 * abs(0.0 - 0.55)) / 5
    assert expected_calibration_error(PROBS, LABELS, bins=10) == pytest.approx(by_hand, rel=1e-12)
    # In one bin the errors cancel: mean confidence 0.736, accuracy 3/5.
    assert expected_calibration_error(PROBS, LABELS, bins=1) == pytest.approx(0.736 - 0.6, rel=1e-12)


def test_reliability_curve_by_hand():
    curve = reliability_curve(PROBS, LABELS, bins=10)
    np.testing.assert_array_equal(curve.count, [0, 0, 0, 0, 0, 1, 2, 0, 0, 2])
    np.testing.assert_allclose(curve.confidence, [np.nan] * 5 + [0.55, 0.63] + [np.nan] * 2 + [0.935], rtol=1e-12)
    np.testing.assert_allclose(curve.accuracy, [np.nan] * 5 + [0.0, 1.0] + [np.nan] * 2 + [0.5], rtol=1e-12)


def test_a_bin_ends_at_its_upper_edge():
    curve = reliability_curve(np.array([[0.5, 0.25, 0.25], [0.75, 0.25, 0.0]]), np.array([0, 0]), bins=4)
    np.testing.assert_array_equal(curve.count, [0, 1, 1, 0])


def test_certainty_falls_into_the_last_bin():
    # On the edge, and just above it by rounding.
    curve = reliability_curve(np.array([[1.0, 0.0], [1 + 2e-16, 0.0]]), np.array([0, 1]), bins=15)
    assert curve.count[-1] == 2
    assert curve.accuracy[-1] == 0.5


@pytest.mark.parametrize("y", [np.array([0, 0, 0, 1, 2]), np.array([0, 0, 0, 1, -1]), np.zeros(4, int), np.zeros(5)])
def test_what_is_no_label_is_refused(y):
    with pytest.raises(PartbayesError, match="encode the labels"):
        expected_calibration_error(PROBS, y)


def test_probabilities_of_another_shape_are_refused():
    with pytest.raises(PartbayesError, match="rows, classes"):
        reliability_curve(PROBS[:, 0], LABELS)
