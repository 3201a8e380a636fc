"""Regression: everything comes back in the target's own units and in the shapes that y had."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from scipy.stats import norm

from partbayes.errors import PartbayesError
from partbayes.estimators import PartialBNNRegressor, networks
from partbayes.model import mlp
from partbayes.runtime import loop
from partbayes.runtime.resumable import Checkpoint
from partbayes.types import Batch


def test_it_learns_the_curve_in_the_targets_units(regressor, curve):
    mean, std = regressor.predict(curve.x, return_std=True)
    truth = 1000 + 50 * curve.x[:, 0] ** 2
    assert np.sqrt(np.mean((mean - truth) ** 2)) < 6  # the noise is 2 and 10
    wide, narrow = std[curve.x[:, 1] > 0].mean(), std[curve.x[:, 1] <= 0].mean()
    assert wide > 1.5 * narrow  # heteroscedastic noise was seen


def test_all_predictions_agree_with_the_distribution(regressor, curve):
    x = curve.x[:10]
    mixture = regressor.predict_dist(x)
    mean, std = regressor.predict(x, return_std=True)
    np.testing.assert_allclose(mixture.mean()[:, 0], mean, rtol=1e-6)
    # The mixture holds means near 1000 in float32: a spacing of 6e-5, so that much is uncertain about differences.
    np.testing.assert_allclose(mixture.std()[:, 0], std, rtol=1e-4)
    interval = regressor.predict_interval(x, 0.8)
    assert interval.shape == (10, 2)
    np.testing.assert_array_equal(interval, regressor.predict_quantiles(x, [0.1, 0.9]))
    np.testing.assert_allclose(mixture.interval(0.8)[0][:, 0], interval[:, 0], rtol=1e-6)
    median = regressor.predict_quantiles(x, 0.5)
    assert median.shape == (10,)
    assert np.all((interval[:, 0] < median) & (median < interval[:, 1]))


def test_draws_follow_the_distribution(regressor, curve):
    x = curve.x[:3]
    draws = regressor.sample_y(x, 4000, random_state=1)
    assert draws.shape == (3, 4000)
    mean, std = regressor.predict(x, return_std=True)
    # Five standard errors of a mean of 4000, and of a standard deviation (whose error is below 1/sqrt(2n) times 2).
    np.testing.assert_array_less(np.abs(draws.mean(axis=1) - mean), 5 * std / np.sqrt(4000))
    np.testing.assert_allclose(draws.std(axis=1), std, rtol=5 * 2 / np.sqrt(2 * 4000))
    np.testing.assert_array_equal(draws, regressor.sample_y(x, 4000, random_state=1))
    assert not np.array_equal(draws, regressor.sample_y(x, 4000, random_state=2))


def test_a_draw_is_one_function_with_independent_noise(regressor, curve):
    """At a row given twice, two draws share the function but not the noise."""
    twice = np.repeat(curve.x[:1], 2, axis=0)
    first, second = regressor.sample_y(twice, 500)
    assert not np.any(first == second)


def test_a_row_is_predicted_alike_in_any_company(regressor, curve):
    many = np.tile(curve.x, (3, 1))  # more than one chunk
    everywhere = regressor.predict(many)
    np.testing.assert_array_equal(everywhere[:160], everywhere[160:320])
    np.testing.assert_array_equal(everywhere[:1], regressor.predict(curve.x[:1]))


def test_what_fit_tells(regressor):
    names = ["level start", "warm start", "adaptation", "sampling", "refinement"]
    assert [stage.name for stage in regressor.stages_] == names
    assert regressor.n_iter_ == sum(stage.epochs for stage in regressor.stages_)
    assert all(np.isfinite(stage.validation) for stage in regressor.stages_)
    assert regressor.training_seconds_ > 0
    assert isinstance(regressor.posterior_.log_weights, np.ndarray)
    assert regressor.posterior_.log_weights.shape[0] == 3


def test_several_targets_of_different_size(curve, quickest):
    y = np.column_stack([curve.y, 1e-3 * curve.x[:, 0]])
    model = PartialBNNRegressor(**{**quickest, "epochs": 200}).fit(curve.x, y)
    mean, std = model.predict(curve.x, return_std=True)
    assert mean.shape == std.shape == (160, 2)
    assert model.score(curve.x, y) > 0.8
    assert model.predict_interval(curve.x).shape == (160, 2, 2)
    assert model.predict_quantiles(curve.x, [0.1, 0.5, 0.9]).shape == (160, 2, 3)
    assert model.predict_quantiles(curve.x, 0.5).shape == (160, 2)
    assert model.sample_y(curve.x, 5).shape == (160, 2, 5)
    assert model.predict_dist(curve.x).mean().shape == (160, 2)


def test_fixed_noise_is_in_the_targets_units(curve, quickest):
    y = np.column_stack([curve.y, 1e-3 * curve.y])
    model = PartialBNNRegressor(**quickest, noise=0.25).fit(curve.x, y)
    np.testing.assert_allclose(model.predict_dist(curve.x).scale, 0.25, rtol=1e-5)


def test_fixed_noise_has_the_density_of_its_gaussian():
    spec = networks.ModelSpec(1, 2, (4,), (0.5, 2.0), "first", 1.0, None)
    model = networks.build_model(spec)
    theta, psi = model.init(jax.random.key(0))
    x, y = jax.numpy.ones((3, 1)), jax.numpy.arange(6.0).reshape(3, 2)
    components = model.components(theta, psi, x)
    expected = norm.logpdf(y, components.loc, [0.5, 2.0]).sum(axis=1)
    np.testing.assert_allclose(model.log_likelihood(theta, psi, Batch(x, y, jax.numpy.ones(3))), expected, rtol=1e-5)


def test_a_second_fit_of_the_same_shape_compiles_nothing(curve, quickest):
    PartialBNNRegressor(**quickest).fit(*curve)
    before = loop._run_epoch.compiled._cache_size(), loop._start.compiled._cache_size()
    PartialBNNRegressor(**{**quickest, "random_state": 1}).fit(curve.x, 3 * curve.y)
    assert (loop._run_epoch.compiled._cache_size(), loop._start.compiled._cache_size()) == before


def test_means_stay_near_the_targets_however_far_the_inputs_go(curve, regressor):
    """A network goes on along a straight line; its components' means end half a range outside of the targets."""
    far = curve.x * [1e6, 1e6, 1.0]
    low, high = curve.y.min(), curve.y.max()
    margin = 0.5 * (high - low)
    mean = regressor.predict(far)
    assert (mean >= low - margin - 1e-3).all() and (mean <= high + margin + 1e-3).all()
    loc = np.asarray(regressor.predict_dist(far).loc)
    assert np.isclose(loc.max(), high + margin) or np.isclose(loc.min(), low - margin), "some do reach the limit"
    draws = regressor.sample_y(far, n_samples=3)
    assert np.isfinite(draws).all()
    inside = regressor.predict_dist(curve.x)
    assert (np.asarray(inside.loc) < high + margin).all() and (np.asarray(inside.loc) > low - margin).all()


def test_any_number_of_the_recipe_may_be_given(curve, tmp_path):
    options = {"hidden": (4,), "islands": 2, "epochs": 2, "random_state": 0, "effort": "quick"}
    recipe = {"leapfrog_steps": 0, "adaptation_steps": 2, "sampling_steps": 4, "keep": 2}
    model = PartialBNNRegressor(recipe=recipe, **options).fit(*curve)
    assert [stage.epochs for stage in model.stages_[2:4]] == [2, 4]
    assert model.posterior_.log_weights.shape == (2, 1 + 2)
    model.save(tmp_path / "model")
    assert PartialBNNRegressor.load(tmp_path / "model").recipe == recipe
    for wrong in ({"leap_frogs": 3}, {"islands": 3}, {"keep": 0}, {"keep": 2.5}, {"weights": "none"}, [20]):
        with pytest.raises(PartbayesError):
            PartialBNNRegressor(recipe=wrong, **options).fit(*curve)
    with pytest.raises(PartbayesError, match="two or more"):
        PartialBNNRegressor(recipe={"weights": "forward"}, **options).fit(*curve)
    with pytest.raises(PartbayesError, match="follows none"):
        PartialBNNRegressor("map", recipe=recipe).fit(*curve)


def test_ten_rows_train_without_validation(curve, quickest):
    model = PartialBNNRegressor(**quickest).fit(curve.x[:10], curve.y[:10])
    assert np.isnan(model.stages_[0].validation)
    assert np.isfinite(model.predict(curve.x)).all()


def test_validation_rows_may_be_given(curve, quickest):
    model = PartialBNNRegressor(**quickest).fit(curve.x[:40], curve.y[:40], validation=(curve.x[40:], curve.y[40:]))
    assert np.isfinite(model.stages_[0].validation)
    with pytest.raises(PartbayesError, match="2 columns"):
        model.fit(*curve, validation=(curve.x, np.column_stack([curve.y, curve.y])))


def test_bring_your_own_network(curve, quickest):
    options = {**quickest, "network": mlp(3, (5,), 2)}
    model = PartialBNNRegressor(**options).fit(*curve)
    assert model.posterior_.psi["network"]["layers"][1]["weight"].shape == (2, 5, 2)
    with pytest.raises(PartbayesError, match="gives \\(3,\\) numbers per row, but 2 are needed"):
        PartialBNNRegressor(**{**options, "network": mlp(3, (5,), 3)}).fit(*curve)
    with pytest.raises(PartbayesError, match="does not take rows of 3 features"):
        PartialBNNRegressor(**{**options, "network": mlp(4, (5,), 2)}).fit(*curve)


def test_time_may_be_limited(curve, quickest):
    model = PartialBNNRegressor(**{**quickest, "epochs": 10_000_000}, max_time=1e-3).fit(*curve)
    assert model.n_iter_ < 10
    assert "time limit" in model.notes_[-1]


def test_rows_too_far_off_to_be_represented_are_refused(curve, quickest):
    far = curve.x.copy()
    far[0, 0] = 1e300
    with pytest.raises(PartbayesError, match="x holds values too large for float32"):
        PartialBNNRegressor(**quickest).fit(*curve, validation=(far, curve.y))


def test_a_training_is_resumed_only_as_it_was(curve, quickest, tmp_path):
    whole = PartialBNNRegressor(**quickest).fit(*curve, checkpoint=tmp_path)
    with pytest.raises(PartbayesError, match="already holds a run"):
        PartialBNNRegressor(**quickest).fit(*curve, checkpoint=tmp_path)
    again = PartialBNNRegressor(**quickest, verbose=False).fit(*curve, checkpoint=Checkpoint(tmp_path, resume=True))
    np.testing.assert_array_equal(again.predict(curve.x), whole.predict(curve.x))
    assert again.n_iter_ == whole.n_iter_ == 5
    with pytest.raises(PartbayesError, match="cannot be repeated"):
        PartialBNNRegressor(**quickest, max_time=9).fit(*curve, checkpoint=Checkpoint(tmp_path, resume=True))
    for changed, name in (({"learning_rate": 0.5}, "learning_rate"), ({"random_state": 1}, "random_state")):
        with pytest.raises(PartbayesError, match=f"other settings \\({name}"):
            PartialBNNRegressor(**{**quickest, **changed}).fit(*curve, checkpoint=Checkpoint(tmp_path, resume=True))
    with pytest.raises(PartbayesError, match="other settings \\(data"):
        PartialBNNRegressor(**quickest).fit(curve.x, curve.y + 1, checkpoint=Checkpoint(tmp_path, resume=True))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "mcmc"}, "method is 'mcmc'"),
        ({"effort": "much"}, "effort is 'much'"),
        ({"hidden": (0,)}, "hidden is \\(0,\\)"),
        ({"hidden": "wide"}, "hidden is 'wide'"),
        ({"noise": -1.0}, "noise is -1.0"),
        ({"noise": "some"}, "noise is 'some'"),
        ({"islands": 0}, "islands is 0"),
        ({"epochs": 1.5}, "epochs is 1.5"),
        ({"learning_rate": 0}, "learning_rate is 0"),
        ({"max_time": -1}, "max_time is -1"),
        ({"prior_scale": 0}, "prior_scale is 0"),
        ({"prior_scale": [1.0]}, "prior_scale is \\[1.0\\]"),
        ({"stochastic": 3}, "stochastic is 3"),
        ({"stochastic": "third"}, "No parameter lies under 'third'"),
        ({"validation_fraction": 1.0}, "validation_fraction is 1.0"),
        ({"method": "vi", "proposal": "hmc"}, "'vi' takes none"),
        ({"proposal": "hmc"}, "default training moves by its own"),
        ({"method": "gohsmc", "proposal": "jump"}, "proposal is 'jump'"),
        ({"method": "map", "particles": 3}, "'map' has one"),
        ({"network": object()}, "network of type object"),
    ],
)
def test_bad_parameters_are_named_in_one_sentence(curve, options, message):
    with pytest.raises(PartbayesError, match=message) as caught:
        PartialBNNRegressor(**options).fit(*curve)
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("level", [0, 1, 1.5, "wide", True])
def test_bad_levels(regressor, curve, level):
    with pytest.raises(PartbayesError, match="level"):
        regressor.predict_interval(curve.x, level)


@pytest.mark.parametrize("q", [0.0, 1.0, [0.5, 2.0], [[0.5]]])
def test_bad_quantiles(regressor, curve, q):
    with pytest.raises(PartbayesError, match="strictly between 0 and 1"):
        regressor.predict_quantiles(curve.x, q)
