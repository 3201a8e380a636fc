"""Every method by its name, with settings that follow from the number of rows."""

from __future__ import annotations

import numpy as np
import pytest

from partbayes import smc
from partbayes.errors import PartbayesError
from partbayes.estimators import PartialBNNRegressor
from partbayes.estimators.methods import METHODS, PROPOSALS, as_proposal, build_algorithm, make_plan
from partbayes.estimators.networks import ModelSpec, build_model

SPEC = ModelSpec(2, 1, (4,), "learned", "first", "fan_in", None)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_trains(method):
    random = np.random.default_rng(0)
    x = random.normal(size=(20, 2))
    particles = METHODS[method].particles if method == "map" else 4
    model = PartialBNNRegressor(method, hidden=(4,), islands=2, particles=particles, epochs=2, random_state=0)
    model.fit(x, 10 * x[:, 0])
    assert [stage.name for stage in model.stages_] == [method]
    assert model.posterior_.log_weights.shape == (2, particles)
    assert np.isfinite(model.predict_interval(x)).all()


@pytest.mark.parametrize("name", PROPOSALS)
def test_proposals_by_name(name):
    proposal = as_proposal(name)
    assert isinstance(proposal, smc.Proposal)
    assert as_proposal(proposal) is proposal
    plan = make_plan("gohsmc", "quick", 100, proposal=name)
    model = build_model(SPEC)
    # The same objects again: that is how compiled code is found.
    assert build_model(SPEC) is model
    assert build_algorithm(model, plan) is build_algorithm(model, plan)


@pytest.mark.parametrize("proposal", ["chees", smc.chees(50)])
def test_chees_finds_its_trajectory_length(proposal):
    algorithm = build_algorithm(build_model(SPEC), make_plan("gohsmc", "quick", 100, proposal=proposal))
    assert algorithm.init.keywords["tuning"].trajectory_length is not None  # pyright: ignore


@pytest.mark.parametrize("effort", ["quick", "standard", "thorough"])
def test_small_and_large_tables_get_a_like_number_of_steps(effort):
    steps = [make_plan("gohsmc", effort, rows).num_steps for rows in (100, 1_000, 10_000, 100_000)]
    assert max(steps) < 1.4 * min(steps)
    assert make_plan("gohsmc", effort, 1_000_000).epochs >= 2


def test_a_batch_is_never_larger_than_the_table():
    assert make_plan("map", "quick", 10).batch_size == 10
    assert make_plan("map", "quick", 10, batch_size=64).batch_size == 10
    assert make_plan("smc_pbnn", "quick", 100, batch_size=64).batch_size == 100


def test_what_would_take_forever_is_refused():
    with pytest.raises(PartbayesError, match="use 'sgsmc' or 'gohsmc'"):
        make_plan("smc_pbnn", "quick", 100_000)
