"""The default training: its stages, its promise to resume to the same bits, and what it tells people."""

from __future__ import annotations

import math
import re
from collections import Counter

import jax
import jax.monitoring
import numpy as np
import pytest
from problems import small_network, trees_close, trees_equal

from partbayes.errors import PartbayesError
from partbayes.runtime import recipe, resumable, stages
from partbayes.runtime.recipe import OF_CLASSES, SAMPLED_UP_TO, SHRINKING, Recipe, recipe_for, train
from partbayes.runtime.refinement import LEAST_PART
from partbayes.runtime.resumable import Checkpoint
from partbayes.runtime.stacking import ITERATIONS
from partbayes.runtime.validation import islands_nll
from partbayes.types import Batch

SMALL = Recipe(
    islands=2, particles=3, epochs=6, overtrained=2, batch_size=8, adaptation_steps=6, sampling_steps=6, keep=2
)
MODEL, DATA = small_network(stochastic=["network/layers/0", "likelihood"])
TRAIN, VALIDATION = (Batch(*(field[rows] for field in DATA)) for rows in (slice(16), slice(16, 24)))
ENOUGH = VALIDATION._replace(weight=4.0 * VALIDATION.weight)  # a weight counts rows


def run(**options):
    options = {"validation": VALIDATION, "progress": False} | options
    return train(jax.random.key(0), MODEL, TRAIN, options.pop("validation"), SMALL, **options)


@pytest.fixture(scope="module")
def whole():
    return run()


def test_stages_and_shapes(whole):
    assert [stage.name for stage in whole.stages] == ["warm start", "adaptation", "sampling", "refinement"]
    assert [stage.epochs for stage in whole.stages] == [6, 6, 6, 0]
    assert all(math.isfinite(stage.validation) for stage in whole.stages)
    assert whole.posterior.log_weights.shape == (2, 1 + 6), "the warm start and two pooled iterations of three"
    assert np.exp(np.asarray(whole.posterior.log_weights)).sum() == pytest.approx(2.0, abs=1e-5)


def test_the_refinement_is_no_worse_than_what_it_mixes():
    scores = {stage.name: stage.validation for stage in run(validation=ENOUGH).stages}
    # Of P parts that set out even, n iterations are at most log(P) / n nats a row behind the best; and to leave out
    # four of less than LEAST_PART costs their weight.
    cost = math.log(5) / ITERATIONS - math.log1p(-4 * LEAST_PART)
    assert scores["refinement"] <= min(scores["warm start"], scores["sampling"]) + cost


@pytest.mark.parametrize("sigma", ["learned", "heteroscedastic"])
def test_overtrained_islands_are_those_of_the_last_epoch(sigma, monkeypatch):
    """The others are the best ones by validation, and only they are sampled."""
    model, _ = small_network(sigma=sigma)
    refine, given = recipe.refine, []

    def keep(model, posterior, validation, start, overtrained, **options):
        given.extend([posterior, start, overtrained])
        return refine(model, posterior, validation, start, overtrained, **options)

    monkeypatch.setattr(recipe, "refine", keep)
    result = train(jax.random.key(0), model, TRAIN, ENOUGH, SMALL, progress=False)
    posterior, start, overtrained = given
    assert [len(each.log_weights) for each in given] == [2, 2, 2]
    climbed = SMALL._replace(islands=4, sampling_steps=0)  # without validation rows the last epoch is kept
    last = train(jax.random.key(0), model, TRAIN, None, climbed, progress=False).posterior
    assert trees_close(overtrained, jax.tree.map(lambda leaf: leaf[2:], last), rtol=1e-3, atol=1e-5)
    assert trees_equal(posterior.psi, start.psi)
    scores = {stage.name: stage.validation for stage in result.stages}
    assert scores["warm start"] == pytest.approx(float(islands_nll(model, start, ENOUGH)), rel=1e-5)


def test_nobody_is_overtrained_where_the_rows_are_too_few_to_tell():
    few = train(jax.random.key(0), MODEL, TRAIN, VALIDATION, SMALL, progress=False)
    without = train(jax.random.key(0), MODEL, TRAIN, VALIDATION, SMALL._replace(overtrained=0), progress=False)
    assert trees_equal(few.posterior, without.posterior)
    assert [stage.validation for stage in few.stages] == [stage.validation for stage in without.stages]


@pytest.mark.parametrize(("lost", "left"), [([0], 1 + 2), ([3], 2 + 1), ([1, 2, 3], 1)])
def test_islands_that_are_lost_are_missed_by_their_own_kind(lost, left, monkeypatch):
    """Two islands and two overtrained ones; which of them a stage lost is told by the run that it hands on."""
    lose(monkeypatch, lost)
    result = train(jax.random.key(0), MODEL, TRAIN, ENOUGH, SMALL, progress=False)
    assert f"{len(lost)} of 4 islands diverged" in result.notes[0]
    judged = 2 - sum(island < 2 for island in lost)
    assert len(result.posterior.log_weights) in (judged, left), "the others may have got no part"
    assert np.isfinite(result.stages[-1].validation)


def lose(monkeypatch, islands: list[int]) -> None:
    """The first stage ends without these islands."""
    whole = stages.fit_resumable

    def without(*args, **options):
        fit = whole(*args, **options)
        if options["islands"] < 4:
            return fit
        alive = np.delete(np.arange(4), islands)
        run = fit.run._replace(alive=jax.numpy.asarray(np.isin(np.arange(4), alive)))
        note = f"{len(islands)} of 4 islands diverged and were left out."
        return fit._replace(run=run, posterior=jax.tree.map(lambda leaf: leaf[alive], fit.posterior), notes=[note])

    monkeypatch.setattr(stages, "fit_resumable", without)


def test_a_noise_that_differs_between_rows_starts_level():
    model, _ = small_network(sigma="heteroscedastic")
    result = train(jax.random.key(0), model, TRAIN, VALIDATION, SMALL, progress=False)
    names = ["level start", "warm start", "adaptation", "sampling", "refinement"]
    assert [stage.name for stage in result.stages] == names
    assert [stage.epochs for stage in result.stages] == [3, 3, 6, 6, 0]


@pytest.fixture
def recorded(monkeypatch):
    """What stages hand on, by their names: model, posterior, and the score where it was known already."""
    found = {}
    record = stages.Stages.record

    def keep(self, name, epochs, started, model, posterior, score=None):
        found[name] = (model, posterior, score)
        record(self, name, epochs, started, model, posterior, score)

    monkeypatch.setattr(stages.Stages, "record", keep)
    return found


def test_the_noise_is_level_in_the_level_start_and_let_go_after_it(recorded):
    model, _ = small_network(sigma="heteroscedastic")
    alone = SMALL._replace(sampling_steps=0, refine=False)
    result = train(jax.random.key(0), model, TRAIN, VALIDATION, alone, progress=False)
    levels = {name: np.asarray(posterior.psi.level).tolist() for name, (_, posterior, _) in recorded.items()}
    assert levels == {"level start": [1.0, 1.0], "warm start": [0.0, 0.0]}, "Adam does not move it"
    # While the noise is level nothing moves the second output: its bias is still the zero it was drawn as.
    biases = [np.asarray(p.psi.psi["network"]["layers"][-1]["bias"]) for _, p, _ in recorded.values()]
    assert [bool(np.any(bias[:, 1])) for bias in biases] == [False, True]
    # Scored as the model itself scores what is handed on, not as it would with one level.
    expected = float(islands_nll(model, result.posterior, VALIDATION))
    assert result.stages[-1].validation == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("sigma", ["learned", "heteroscedastic"])
def test_what_is_compiled_ahead_is_what_the_stages_call(sigma):
    """One epoch to climb by, with or without the level start, and one to sample by; none of them twice."""
    model, _ = small_network(sigma=sigma)
    compiled = Counter()

    def count(event: str, _: float, **labels) -> None:
        if event.endswith("backend_compile_duration"):
            compiled[labels.get("fun_name")] += 1

    jax.monitoring.register_event_duration_secs_listener(count)
    try:
        train(jax.random.key(0), model, TRAIN, VALIDATION, SMALL, progress=False)
    finally:
        jax.monitoring.unregister_event_duration_listener(count)
    starts = 3 if sigma == "heteroscedastic" else 2
    assert (compiled["jit(_start)"], compiled["jit(_run_epoch)"]) == (starts, 2)


def test_a_stage_that_cannot_be_prepared_says_so_itself(monkeypatch):
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("nobody reads this")

    monkeypatch.setattr(stages, "prepare", fail)
    assert len(run().stages) == 4


def test_recorded_scores_are_those_of_the_posteriors_handed_on(recorded):
    run()
    told = {name: found for name, found in recorded.items() if found[-1] is not None}
    assert set(told) == {"warm start", "refinement"}
    for model, posterior, score in told.values():
        assert score == pytest.approx(float(islands_nll(model, posterior, VALIDATION)), rel=1e-5)


def test_without_sampling_and_refinement_it_is_a_deep_ensemble():
    alone = SMALL._replace(sampling_steps=0, refine=False)
    result = train(jax.random.key(0), MODEL, TRAIN, VALIDATION, alone, progress=False)
    assert [stage.name for stage in result.stages] == ["warm start"]
    assert result.posterior.log_weights.shape == (2, 1)
    refined = train(jax.random.key(0), MODEL, TRAIN, VALIDATION, alone._replace(refine=True), progress=False)
    assert [stage.name for stage in refined.stages] == ["warm start", "refinement"]
    assert trees_equal(refined.posterior.psi, result.posterior.psi)
    assert np.exp(np.asarray(refined.posterior.log_weights)).sum() == pytest.approx(2.0, abs=1e-5)


def test_without_validation_the_sampled_posterior_is_used():
    result = run(validation=None)
    assert result.posterior.log_weights.shape == (2, 6)
    assert all(math.isnan(stage.validation) for stage in result.stages)


def test_the_warm_start_is_the_first_particle_of_each_island(whole):
    """Its share, and how it comes by it, is tested with the refinement."""
    alone = SMALL._replace(sampling_steps=0, refine=False)
    ensemble = train(jax.random.key(0), MODEL, TRAIN, VALIDATION, alone, progress=False)
    weights = [result.posterior.theta["network"]["layers"][0]["weight"][:, 0] for result in (whole, ensemble)]
    np.testing.assert_array_equal(*weights)
    assert any(re.search(r"0\.\d\d the warm start and 0\.\d\d the particles", note) for note in whole.notes)


@pytest.mark.parametrize("stop_at", [3, 9, 15])
def test_an_interrupted_run_resumes_to_the_same_bits(whole, tmp_path, monkeypatch, stop_at):
    """Stopped in each of the three stages; the interrupt arrives while an epoch is running."""
    calls = 0
    true_fit = resumable.fit

    def interrupted_fit(*args, on_epoch, **options):
        def count(*record):
            nonlocal calls
            calls += 1
            if calls == stop_at:
                raise KeyboardInterrupt
            on_epoch(*record)

        return true_fit(*args, on_epoch=count, **options)

    monkeypatch.setattr(resumable, "fit", interrupted_fit)
    with pytest.raises(KeyboardInterrupt):
        run(checkpoint=Checkpoint(tmp_path / "run", description={"width": 5}))
    monkeypatch.setattr(resumable, "fit", true_fit)
    with pytest.raises(PartbayesError, match="already holds a run"):
        run(checkpoint=Checkpoint(tmp_path / "run", description={"width": 5}))
    with pytest.raises(PartbayesError, match="other settings"):
        run(checkpoint=Checkpoint(tmp_path / "run", resume=True, description={"width": 6}))
    resumed = run(checkpoint=Checkpoint(tmp_path / "run", resume=True, description={"width": 5}))
    assert trees_equal(resumed.posterior, whole.posterior)


def test_time_is_kept(whole):
    """A limit that has passed at once leaves one epoch a stage."""
    result = run(max_time=1e-9)
    assert [stage.epochs for stage in result.stages] == [1, 1, 1, 0]
    with pytest.raises(PartbayesError, match="max_time"):
        run(max_time=0.0)


def test_recipes_fit_the_table():
    assert recipe_for("standard", 600) == Recipe(overtrained=Recipe().islands // 2)
    assert recipe_for("standard", 1_200).sampling_steps == Recipe().sampling_steps // 2
    assert recipe_for("thorough", 10**6).sampling_steps == SHRINKING["sampling_steps"].least
    assert recipe_for("standard", 4_000).leapfrog_steps == Recipe().leapfrog_steps // 2
    assert recipe_for("standard", SAMPLED_UP_TO).islands == Recipe().islands
    beyond = recipe_for("standard", SAMPLED_UP_TO + 1)
    assert (beyond.sampling_steps, beyond.islands) == (0, 2 * Recipe().islands), "more islands in place of sampling"
    assert recipe_for("standard", 12_000).islands == Recipe().islands
    assert recipe_for("standard", 12_000, particles=2).islands == Recipe().islands // 2, "asks for sampling"
    assert recipe_for("standard", 12_000, islands=7, epochs=9).sampling_steps == 0
    assert recipe_for("standard", 10**6, sampling_steps=7).sampling_steps == 7
    large = recipe_for("standard", 1_000_000)
    assert large.epochs * (1_000_000 / large.batch_size) <= 110_000
    assert recipe_for("quick", 500, islands=3, particles=None).islands == 3
    assert recipe_for("standard", 600, classes=True) == Recipe(temperature=OF_CLASSES)
    assert recipe_for("standard", 600, classes=True, temperature=1.0).temperature == 1.0
    assert recipe_for("standard", 600, islands=7).overtrained == 3
    assert (beyond.overtrained, recipe_for("standard", 600, overtrained=0).overtrained) == (0, 0)
    assert recipe_for("standard", 12_000, overtrained=5).sampling_steps == 0, "does not ask for sampling"
    assert recipe_for("standard", 12_000, noise_shape=False).sampling_steps == 0, "does not ask for sampling"
    with pytest.raises(PartbayesError, match="sampling_steps is 'many', but a whole number"):
        recipe_for("standard", 100, sampling_steps="many")
    with pytest.raises(PartbayesError, match="temperature is 0"):
        recipe_for("standard", 100, temperature=0.0)
    with pytest.raises(PartbayesError, match="noise_shape"):
        recipe_for("standard", 100, noise_shape=1)
    with pytest.raises(PartbayesError, match="quick, standard, thorough"):
        recipe_for("lazy", 100)
    with pytest.raises(PartbayesError, match="islands"):
        recipe_for("quick", 100, islands=0)
