"""The loop: one compilation, best state kept, early stopping, progress, precision."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from problems import small_network, trees_close, trees_equal, watched

from partbayes import tree as tm
from partbayes.baselines import map_estimate
from partbayes.errors import PartbayesError
from partbayes.runtime import fit, loop, mixture_nll, prepare
from partbayes.runtime.validation import islands_nll, islands_together
from partbayes.smc import blocks
from partbayes.training import gohsmc, ohsmc

N = 24


def build(model, **options):
    return gohsmc(model, N, **{"num_particles": 6, "step_size": 0.01, **options})


def test_one_compilation_per_configuration():
    model, data = small_network()
    algorithm = build(model)
    before = loop._run_epoch.compiled._cache_size(), loop._start.compiled._cache_size()
    for seed in (0, 1):  # the second fit, from another seed and for longer, finds everything compiled
        fit(jax.random.key(seed), algorithm, model, data, num_epochs=2 + seed, batch_size=7, validation=data)
        assert (loop._run_epoch.compiled._cache_size(), loop._start.compiled._cache_size()) == (
            before[0] + 1,
            before[1] + 1,
        )


@pytest.mark.parametrize("given", [False, True], ids=["from the model", "from given parameters"])
@pytest.mark.parametrize("validated", [False, True], ids=["no validation", "validation"])
def test_what_was_prepared_is_what_fit_calls(given, validated):
    network, data = small_network()
    model, traced = watched(network)
    for algorithm in (map_estimate(model, N), build(model)):
        keys = jax.random.split(jax.random.key(1), 2)
        points = jax.vmap(model.init)(keys) if given else None
        options = {"batch_size": 7, "islands": 2, "validation": data if validated else None}
        shapes = jax.eval_shape(lambda: points)  # noqa: B023
        prepare(jax.random.key(0), algorithm, model, data, params=shapes, **options)
        ahead = len(traced)
        assert ahead > 0
        fit(jax.random.key(0), algorithm, model, data, num_epochs=2, params=points, **options)
        assert len(traced) == ahead
        traced.clear()


def test_a_run_with_no_epoch_to_go_ends_with_its_last_state():
    """Whatever it was validated by before: without validation the last state counts."""
    model, data = small_network()
    algorithm = build(model)
    options = {"num_epochs": 3, "batch_size": 7}
    run = fit(jax.random.key(0), algorithm, model, data, validation=data, **options).run
    run = run._replace(best=jax.tree.map(jnp.zeros_like, run.best))  # as one that was better long ago
    again = fit(jax.random.key(0), algorithm, model, data, resume=run, **options).posterior
    assert trees_equal(again, jax.vmap(algorithm.posterior)(run.state))


def test_step_is_traced_once():
    network, data = small_network()
    model, traced = watched(network)
    algorithm = build(model)
    fit(jax.random.key(0), algorithm, model, data, num_epochs=1, batch_size=8)
    before = len(traced)
    fit(jax.random.key(1), algorithm, model, data, num_epochs=4, batch_size=8)
    assert len(traced) == before


def test_best_validation_state_is_kept_for_each_island():
    model, data = small_network()
    algorithm = build(model, optimiser=optax.adam(1.0))  # so large that the loss goes up and down
    states = []
    result = fit(
        jax.random.key(0),
        algorithm,
        model,
        data,
        num_epochs=15,
        batch_size=8,
        validation=data,
        islands=2,
        on_epoch=lambda run, record: states.append(run.state),
    )
    for k in range(2):
        posteriors = [jax.tree.map(lambda a, k=k: a[k], jax.vmap(algorithm.posterior)(state)) for state in states]
        losses = [float(mixture_nll(model, posterior, data)) for posterior in posteriors]
        best = int(np.argmin(losses))
        assert best < 14
        assert int(result.run.best_epoch[k]) == best + 1
        np.testing.assert_allclose(result.run.best_loss[k], losses[best], rtol=1e-4)
        assert trees_equal(jax.tree.map(lambda a, k=k: a[k], result.posterior), posteriors[best])


def test_patience_stops_early_and_without_validation_the_last_state_counts():
    model, data = small_network()
    algorithm = build(model, optimiser=optax.adam(0.5))
    result = fit(jax.random.key(0), algorithm, model, data, num_epochs=400, batch_size=8, validation=data, patience=5)
    assert len(result.history) < 400
    assert len(result.history) - int(result.run.best_epoch.max()) == 5
    last = fit(jax.random.key(0), algorithm, model, data, num_epochs=3, batch_size=8)
    assert trees_equal(last.posterior, jax.vmap(algorithm.posterior)(last.run.state))


@pytest.mark.parametrize(("cache", "together"), [(1, 1), (7 * 5 * 4 * 6 * 2, 2)])
def test_islands_that_take_turns_end_where_they_do_side_by_side(monkeypatch, cache, together):
    """Four islands of six particles on seven rows, the widest layer of five: one at a time, or two."""
    model, data = small_network()
    options = {"num_epochs": 2, "batch_size": 7, "validation": data, "islands": 4}
    side_by_side = fit(jax.random.key(0), build(model), model, data, **options)
    monkeypatch.setattr(blocks, "CACHE_BYTES", cache)
    batch = jax.tree.map(lambda rows: rows[:7], data)
    assert islands_together(model, side_by_side.posterior, batch) == together
    in_turns = fit(jax.random.key(0), build(model, block_size=None), model, data, **options)
    assert trees_close(in_turns.posterior, side_by_side.posterior, rtol=1e-4, atol=1e-5)


def test_same_seed_same_numbers_other_seed_other_numbers():
    model, data = small_network()
    algorithm = build(model)
    runs = [fit(jax.random.key(s), algorithm, model, data, num_epochs=2, batch_size=8).posterior for s in (0, 0, 1)]
    assert trees_equal(runs[0], runs[1])
    assert not trees_equal(runs[0], runs[2])


def test_mixture_nll_is_the_weighted_log_score():
    model, data = small_network()
    algorithm = build(model)
    result = fit(jax.random.key(0), algorithm, model, data, num_epochs=1, batch_size=8)
    island = jax.tree.map(lambda a: a[0], result.posterior)
    rows = np.stack([model.log_likelihood(tm.gather(island.theta, j), island.psi, data) for j in jnp.arange(6)])
    direct = -np.mean(np.log(np.exp(np.asarray(island.log_weights, np.float64)) @ np.exp(rows.astype(np.float64))))
    np.testing.assert_allclose(mixture_nll(model, island, data), direct, rtol=1e-5)


@pytest.mark.parametrize("builder", [gohsmc, ohsmc])
def test_training_learns(builder):
    model, data = small_network(num_data=120)
    algorithm = builder(model, 120, num_particles=20, step_size=0.005)
    result = fit(jax.random.key(0), algorithm, model, data, num_epochs=60, batch_size=20, validation=data)
    losses = [record["validation"] for record in result.history]
    assert min(losses) < losses[0] - 0.5


def test_float32_by_default_float64_when_told():
    for x64, dtype in ((False, jnp.float32), (True, jnp.float64)):
        with jax.enable_x64(x64):
            model, data = small_network()
            algorithm = build(model)
            result = fit(jax.random.key(0), algorithm, model, data, num_epochs=2, batch_size=8, validation=data)
            leaves = jax.tree.leaves((result.posterior, result.run.state.particles, result.run.state.log_evidence))
            assert {leaf.dtype for leaf in leaves} == {jnp.dtype(dtype)}


def test_weights_of_rows_count(x64):
    """A row of weight two is the same as the row twice, for the target and for the validation loss."""
    model, data = small_network(num_data=6)
    doubled = data._replace(weight=data.weight.at[0].set(2.0))
    twice = jax.tree.map(lambda a: jnp.concatenate([a[:1], a]), data)
    _, psi = model.init(jax.random.key(0))
    theta = jax.vmap(model.sample_prior)(jax.random.split(jax.random.key(1), 3))
    from partbayes.algorithm import Posterior
    from partbayes.model import log_target

    one = jax.tree.map(lambda a: a[0], theta)
    assert np.isclose(log_target(model, 6, "batch")(one, psi, doubled), log_target(model, 7, "batch")(one, psi, twice))
    posterior = Posterior(theta, jnp.full(3, -np.log(3.0)), psi)
    assert trees_close(mixture_nll(model, posterior, doubled), mixture_nll(model, posterior, twice), rtol=1e-10)


def test_progress_bar_shows_the_numbers(capsys):
    model, data = small_network()
    fit(jax.random.key(0), build(model), model, data, num_epochs=2, batch_size=8, validation=data, progress=True)
    shown = capsys.readouterr().err
    for word in ("training", "2/2", "loss", "val", "ess", "acc", "eta"):
        assert word in shown


def test_joint_selection_keeps_the_epoch_in_which_the_mixture_is_best():
    """Recomputed from the states of every epoch; all islands then come from the same one."""
    model, data = small_network()
    algorithm = build(model, optimiser=optax.adam(1.0))  # so large that the loss goes up and down
    posteriors, scores = [], []

    def keep(run, record):
        posterior = jax.vmap(algorithm.posterior)(run.state)
        posteriors.append(posterior)
        islands = jnp.stack([mixture_rows(model, tm.gather(posterior, k), data) for k in (0, 1, 2)])
        scores.append(float(-jnp.mean(jax.nn.logsumexp(islands, axis=0) - jnp.log(3.0))))

    result = fit(
        jax.random.key(0),
        algorithm,
        model,
        data,
        num_epochs=6,
        batch_size=8,
        islands=3,
        validation=data,
        select="joint",
        on_epoch=keep,
    )
    best = int(np.argmin(scores))
    assert best != 5, "the last epoch would be kept by mistake as well"
    assert trees_equal(result.posterior, posteriors[best])
    assert np.allclose(result.run.best_loss, scores[best], rtol=1e-5)


def test_the_first_islands_may_be_chosen_among_and_the_others_trained_on():
    """Two of three keep the epoch in which their own mixture is best, which is not that of all three."""
    model, data = small_network()
    algorithm = build(model, optimiser=optax.adam(1.0))  # so large that the loss goes up and down
    options = {"num_epochs": 6, "batch_size": 8, "islands": 3, "validation": data}
    posteriors, scores = [], []

    def keep(run, record):
        posterior = jax.vmap(algorithm.posterior)(run.state)
        posteriors.append(posterior)
        first = jax.tree.map(lambda leaf: leaf[:2], posterior)
        scores.append(float(islands_nll(model, first, data)))

    result = fit(jax.random.key(0), algorithm, model, data, select=2, on_epoch=keep, **options)
    best = int(np.argmin(scores))
    assert best != 5, "all would keep the last epoch"
    kept = jax.tree.map(lambda chosen, last: np.concatenate([chosen[:2], last[2:]]), posteriors[best], posteriors[-1])
    assert trees_equal(result.posterior, kept)
    assert np.allclose(result.run.best_loss[:2], scores[best], rtol=1e-5)
    together = fit(jax.random.key(0), algorithm, model, data, select="joint", **options)
    assert not np.allclose(together.run.best_loss[:2], result.run.best_loss[:2], rtol=1e-5)
    patient = fit(jax.random.key(0), algorithm, model, data, select=2, patience=3, **{**options, "num_epochs": 40})
    assert len(patient.history) < 40, "that the third has a new state each epoch is no gain"
    for wrong in (0, 4, 1.5, True, "best"):
        with pytest.raises(PartbayesError, match="select is"):
            fit(jax.random.key(0), algorithm, model, data, select=wrong, **options)


def test_without_any_island_that_is_judged_there_is_nothing_to_keep():
    model, data = small_network()
    theta, psi = jax.vmap(model.init)(jax.random.split(jax.random.key(0), 3))
    lost = jax.tree.map(lambda leaf: leaf.at[:2].set(jnp.nan), theta)
    options = {"num_epochs": 3, "batch_size": 8, "islands": 3, "validation": data, "params": (lost, psi)}
    climber = map_estimate(model, N)
    with pytest.raises(PartbayesError, match="all 2 islands by which epochs are kept"):
        fit(jax.random.key(0), climber, model, data, select=2, **options)
    kept = fit(jax.random.key(0), climber, model, data, select="joint", **options)
    assert "2 of 3 islands diverged" in kept.notes[0]


def mixture_rows(model, island, batch):
    """log p of each row under one island."""
    rows = [model.log_likelihood(tm.gather(island.theta, j), island.psi, batch) for j in range(6)]
    return jax.nn.logsumexp(jnp.stack(rows) + island.log_weights[:, None], axis=0)


def test_a_validation_score_that_is_never_finite_is_refused():
    """No state could be chosen by it, and the starting one must not pass for a trained one."""
    model, data = small_network()
    hopeless = data._replace(y=data.y.at[0].set(jnp.nan))
    for select in ("island", "joint"):
        with pytest.raises(PartbayesError, match="never finite"):
            fit(
                jax.random.key(0),
                build(model),
                model,
                data,
                num_epochs=1,
                batch_size=8,
                validation=hopeless,
                select=select,
            )


def test_a_time_limit_is_told():
    model, data = small_network()
    result = fit(jax.random.key(0), build(model), model, data, num_epochs=3, batch_size=8, max_time=1e-9)
    assert result.notes == ["The time limit ended it after 1 of 3 epochs."]
