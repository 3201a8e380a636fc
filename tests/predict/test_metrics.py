"""Metrics against scikit-learn, scipy and the identities that the paper's table obeys."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats
from scipy.integrate import quad
from sklearn import metrics as sk

from partbayes.errors import PartbayesError
from partbayes.predict import (
    CategoricalMixture,
    GaussianMixture,
    classification_metrics,
    crps,
    paper_metrics,
    regression_metrics,
)

FLOOR = (np.sqrt(2) - 1) / np.sqrt(np.pi)


def test_regression_metrics_one_by_one(make, dtype):
    rows = 200
    mixture = make(rows=rows, dtype=dtype)
    y = np.random.default_rng(1).normal(size=(rows, 2)) + np.array([0.0, 1.0])
    got = regression_metrics(mixture, y)

    log_weights, loc, scale = (np.asarray(x, np.float64) for x in mixture)
    weights = special.softmax(log_weights)
    error = np.einsum("c,cnd->nd", weights, loc) - y
    parts = stats.norm.logpdf(y, loc, scale).sum(-1)
    transform = np.einsum("c,cnd->nd", weights, stats.norm.cdf(y, loc, scale))
    expected = {
        "rmse": np.mean(np.sqrt(np.mean(error**2, axis=0))),
        "r2": np.mean(1 - np.mean(error**2, axis=0) / y.var(axis=0)),
        "bias": np.mean(np.abs(error.mean(axis=0))),
        "mae": np.mean(np.abs(error)),
        "nll": -np.mean(special.logsumexp(parts, axis=0, b=weights[:, None])),
        "crps": np.mean(crps(mixture, y)),
    }
    for level in (0.5, 0.9, 0.95):
        expected[f"coverage_{round(100 * level)}"] = np.mean(np.abs(transform - 0.5) <= level / 2)
    grid = np.arange(5, 100, 5) / 100
    expected["calibration_error"] = np.mean([abs(np.mean(np.abs(transform - 0.5) <= p / 2) - p) for p in grid])
    with jax.enable_x64(True):
        wide = GaussianMixture(*(jnp.asarray(x) for x in (log_weights, loc, scale)))
        expected["width_90"] = np.mean(np.asarray(wide.quantile(0.95) - wide.quantile(0.05)))

    assert list(got) == [
        "rmse", "r2", "bias", "mae", "nll", "crps",
        "coverage_50", "coverage_90", "coverage_95", "width_90", "calibration_error",
    ]  # fmt: skip
    assert all(type(value) is float for value in got.values())
    for name, value in expected.items():
        assert got[name] == pytest.approx(value, rel=1e-12), name


def test_bias_is_the_absolute_mean_error_of_each_output():
    # Errors +1, +2 in one output and -1, -4 in the other: |1.5| and |-2.5|, not their signed mean.
    loc = jnp.array([[[1.0, -1.0], [2.0, -4.0]]])
    assert regression_metrics(GaussianMixture(jnp.zeros(1), loc, jnp.ones_like(loc)), np.zeros((2, 2)))["bias"] == 2.0


def test_one_gaussian_has_the_closed_forms():
    rng = np.random.default_rng(0)
    loc, scale, y = rng.normal(size=(50, 1)), np.exp(rng.normal(size=(50, 1))), rng.normal(size=(50, 1))
    with jax.enable_x64(True):
        got = regression_metrics(GaussianMixture(jnp.zeros(1), jnp.asarray(loc[None]), jnp.asarray(scale[None])), y)
    z = (y - loc) / scale
    score = scale * (z * (2 * stats.norm.cdf(z) - 1) + 2 * stats.norm.pdf(z) - 1 / np.sqrt(np.pi))
    assert got["nll"] == pytest.approx(-np.mean(stats.norm.logpdf(y, loc, scale)), rel=1e-12)
    assert got["crps"] == pytest.approx(np.mean(score), rel=1e-12)
    assert got["width_90"] == pytest.approx(2 * stats.norm.ppf(0.95) * np.mean(scale), rel=1e-12)


def test_levels_name_their_coverage(make):
    got = regression_metrics(make(), np.zeros((4, 2)), levels=(0.8, 0.999))
    assert {"coverage_80", "coverage_99.9"} < set(got)
    assert "coverage_50" not in got


def test_paper_form_obeys_the_tables_identities(make, dtype):
    mixture = make(rows=30, outputs=1, dtype=dtype)
    y = np.random.default_rng(1).normal(size=(30, 1))
    got = paper_metrics(mixture, y)
    assert got["nll"] == pytest.approx(0.5 * np.log(2 * np.pi) + got["rmse"] ** 2 / 2, rel=1e-12)
    # The mixture's own spread plays no part.
    assert paper_metrics(mixture._replace(scale=7 * mixture.scale), y) == got
    true = regression_metrics(mixture, y)
    assert {name: got[name] for name in ("rmse", "r2", "bias")} == {name: true[name] for name in ("rmse", "r2", "bias")}
    assert abs(got["nll"] - true["nll"]) > 0.01
    mean = np.einsum(
        "c,cnd->nd", special.softmax(np.asarray(mixture.log_weights, np.float64)), np.asarray(mixture.loc, np.float64)
    )
    assert got["scaled_bias"] == pytest.approx(sk.explained_variance_score(y, mean) - sk.r2_score(y, mean), abs=1e-12)


def test_paper_crps_has_its_floor_at_zero_error():
    loc = jnp.array([[[0.5], [1.0], [-2.0]]])
    mixture = GaussianMixture(jnp.zeros(1), loc, jnp.full_like(loc, 0.01))
    y = np.asarray(loc[0], np.float64)
    got = paper_metrics(mixture, y)
    assert got["crps"] == pytest.approx(FLOOR, rel=1e-12)
    assert got["nll"] == pytest.approx(0.5 * np.log(2 * np.pi), rel=1e-12)
    assert got["rmse"] == got["bias"] == got["scaled_bias"] == 0.0
    off = paper_metrics(mixture, y + 0.7)["crps"]
    integral = quad(lambda x: stats.norm.cdf(x) ** 2, -12, 0.7)[0] + quad(lambda x: stats.norm.sf(x) ** 2, 0.7, 12)[0]
    assert off == pytest.approx(integral, rel=1e-8)
    assert off > FLOOR


def test_paper_nll_of_two_outputs_is_joint():
    mixture = GaussianMixture(jnp.zeros(1), jnp.zeros((1, 2, 2)), jnp.ones((1, 2, 2)))
    y = np.array([[1.0, 2.0], [0.0, -1.0]])
    assert paper_metrics(mixture, y)["nll"] == pytest.approx(np.log(2 * np.pi) + (1 + 4 + 0 + 1) / 4, rel=1e-12)


@pytest.mark.parametrize("score", [regression_metrics, paper_metrics])
def test_bad_regression_input_is_refused(make, score):
    mixture = make()
    with pytest.raises(PartbayesError, match="reshape y"):
        score(mixture, np.zeros(4))
    with pytest.raises(PartbayesError, match="not finite: drop"):
        score(mixture, np.full((4, 2), np.nan))
    with pytest.raises(PartbayesError, match="in 1 of 4 rows"):
        score(mixture._replace(loc=mixture.loc.at[:, 2, 1].set(jnp.nan)), np.zeros((4, 2)))


@pytest.mark.filterwarnings("error")
def test_one_row_has_no_r2(make):
    got = regression_metrics(make(rows=1), np.zeros((1, 2)))
    assert np.isnan(got["r2"])
    assert np.isfinite(got["rmse"])


def categorical(classes, rows=60, seed=0):
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(5, rows, classes))
    mixture = CategoricalMixture(jnp.asarray(np.log(rng.dirichlet(np.ones(5)))), jnp.asarray(logits))
    return mixture, rng.integers(classes, size=rows)


@pytest.mark.parametrize("classes", [2, 4])
def test_classification_metrics_are_those_of_scikit_learn(classes, dtype):
    mixture, y = categorical(classes)
    log_weights, logits = (np.asarray(x, np.float64) for x in mixture)
    probs = np.einsum("c,cnk->nk", special.softmax(log_weights), special.softmax(logits, axis=-1))
    got = classification_metrics(mixture, y)
    labels = np.arange(classes)
    column = probs[:, 1] if classes == 2 else probs
    assert got["accuracy"] == pytest.approx(sk.accuracy_score(y, probs.argmax(-1)), rel=1e-12)
    assert got["nll"] == pytest.approx(sk.log_loss(y, probs, labels=labels), rel=1e-10)
    assert got["brier"] == pytest.approx(sk.brier_score_loss(y, probs, labels=labels, scale_by_half=False), rel=1e-10)
    assert got["auc"] == pytest.approx(sk.roc_auc_score(y, column, multi_class="ovr", labels=labels), rel=1e-12)
    assert list(got) == ["accuracy", "nll", "brier", "ece", "auc"]
    assert all(type(value) is float for value in got.values())


def test_classification_by_hand():
    # Two rows, certain to 0.8, one right and one wrong.
    logits = jnp.log(jnp.array([[[0.8, 0.2], [0.8, 0.2]]]))
    got = classification_metrics(CategoricalMixture(jnp.zeros(1), logits), np.array([0, 1]))
    assert got["accuracy"] == 0.5
    assert got["nll"] == pytest.approx(-(np.log(0.8) + np.log(0.2)) / 2, rel=1e-6)
    assert got["brier"] == pytest.approx((2 * 0.2**2 + 2 * 0.8**2) / 2, rel=1e-6)
    assert got["ece"] == pytest.approx(0.3, rel=1e-6)
    assert got["auc"] == 0.5


@pytest.mark.filterwarnings("error")
def test_auc_needs_every_class():
    mixture, y = categorical(3)
    assert np.isfinite(classification_metrics(mixture, y)["auc"])
    assert np.isnan(classification_metrics(mixture, np.minimum(y, 1))["auc"])


def test_bad_classification_input_is_refused():
    mixture, y = categorical(3)
    for bad in (y - 1, y + 1, y[:, None], y.astype(float)):
        with pytest.raises(PartbayesError, match="encode the labels"):
            classification_metrics(mixture, bad)
    with pytest.raises(PartbayesError, match="in 1 of 60 rows"):
        classification_metrics(mixture._replace(logits=mixture.logits.at[:, 3].set(jnp.nan)), y)
