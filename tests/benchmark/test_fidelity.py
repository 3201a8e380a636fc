"""Fidelity to the true posterior: its pieces on problems with known answers, and a tiny unit from end to end."""

from __future__ import annotations

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from command_line import refused, run
from problems import NOISE, linear_problem

from partbayes import smc
from partbayes.benchmark import fidelity_table, fidelity_units, read_lines, run_fidelity_unit
from partbayes.benchmark.fidelity import FidelitySettings, errors
from partbayes.benchmark.fidelity_table import closest_samplers
from partbayes.benchmark.samplers import SAMPLERS, Sampler, build
from partbayes.benchmark.sampling import Pool, run_sampler
from partbayes.benchmark.trained import TrainedNetwork
from partbayes.benchmark.truth import Truth, TruthSettings, cached_truth, long_hmc, split_rhat
from partbayes.errors import PartbayesError

TINY = FidelitySettings(
    epochs=3,
    hidden=(4, 3),
    particles=4,
    share=0.5,
    least_warmup_steps=3,
    truth=TruthSettings(chains=2, leapfrog_steps=3, warmup=5, draws=10, chunk=10, max_draws=10)._asdict(),
)


def exact_problem():
    """Bayesian linear regression as a 'trained network', and the exact mean and sd of f at its rows."""
    model, data, exact = linear_problem(num_data=8)
    network = TrainedNetwork(model, data, data, *model.init(jax.random.key(0)))
    x = np.asarray(data.x, np.float64)
    return network, x @ exact.mean, np.sqrt(np.einsum("ni,ij,nj->n", x, exact.cov, x))


def test_the_truth_is_the_exact_posterior(unchecked_keys):
    network, mean, sd = exact_problem()
    # Of a Gaussian the flight must not be a whole period, after which every chain is back where it was: eight steps of
    # the step size that the warm-up finds here nearly are.
    settings = TruthSettings(leapfrog_steps=5, draws=600, chunk=200)
    truth = long_hmc(jax.random.key(0), network, settings)
    # Four standard errors, with the effective sample size that the run itself reports: of a mean 1/√n, of a standard
    # deviation 1/√(2n), whose squares mix no slower than half as fast.
    n = truth.ess.min()
    assert n > 200
    assert np.abs((truth.mean - mean) / sd).max() < 4 / np.sqrt(n)
    assert np.abs(truth.sd / sd - 1).max() < 4 / np.sqrt(n)
    np.testing.assert_allclose(truth.noise, NOISE, rtol=1e-6)
    assert truth.rhat.max() < 1.02
    draws = 600 + settings.chunk * round((float(truth.num_gradients) / 8 - 100 * 6 - 600 * 5) / (200 * 5))
    assert float(truth.num_gradients) == 8 * (100 * 6 + draws * 5)


@pytest.mark.parametrize("name", ["hmc_5", "random_walk_adjusted"])
def test_a_sampler_with_enough_gradients_finds_the_exact_predictive(name):
    network, mean, sd = exact_problem()
    budget, particles = 60_000, 50
    pool = run_sampler(
        jax.random.key(1),
        build(SAMPLERS[name], network, particles, 40),
        network,
        particles,
        budget,
        burn_in=0.25,
        warmup_steps=40,
    )
    cost = particles * SAMPLERS[name].cost
    assert budget <= pool.num_gradients < budget + cost
    assert pool.iterations == -(-budget // cost)
    assert pool.pooled < pool.iterations
    # Iterations that are fifty apart are independent many times over: at least 3000 independent draws in all.
    assert np.abs((pool.mean - mean) / sd).max() < 0.1
    assert np.abs(pool.sd / sd - 1).max() < 0.1
    y = np.asarray(network.test.y)[:, 0]
    variance = sd**2 + NOISE**2
    exact = -0.5 * np.log(2 * np.pi * variance) - 0.5 * (y - mean) ** 2 / variance
    np.testing.assert_allclose(pool.log_prob, exact, atol=0.03)


def test_a_sampler_that_ignores_its_weights_is_told_apart():
    """The same steps at a step size ten times the scale, all weights equal: the error shows."""
    network, _, sd = exact_problem()
    careless = smc.forward_proposal()._replace(
        settle=lambda key, m: smc.forward_proposal().settle(key, m)._replace(log_numerator=m.log_target_start)
    )
    algorithm = build(Sampler(smc.random_walk(), careless, 1), network, 50, 40)
    pool = run_sampler(jax.random.key(1), algorithm, network, 50, 20_000, burn_in=0.25, warmup_steps=40)
    assert np.mean(np.abs(pool.sd / sd - 1)) > 0.5


def test_split_rhat_agrees_with_arviz():
    arviz = pytest.importorskip("arviz")
    rng = np.random.default_rng(0)
    draws = rng.normal(size=(4, 100, 3)) + np.array([0.0, 0.0, 0.5])[None, None] * np.arange(4)[:, None, None]
    expected = [float(arviz.rhat(draws[..., row], method="split")) for row in range(3)]
    np.testing.assert_allclose(split_rhat(draws), expected, rtol=1e-6)
    assert expected[2] > 1.1 > max(expected[:2])


def test_errors_by_hand():
    ones = np.ones(2)
    truth = Truth(ones, 3 * ones, 4 * ones, ones, ones, np.ones((2, 2)), np.array(10.0), np.array(0.1))
    pool = Pool(ones + 3, np.array([3.3, 2.4]), 4 * ones, -ones, 10, 1, 1, 0.8, 1.0, None)
    found = errors(pool, truth)
    total = np.hypot([3.3, 2.4], 4.0)
    expected = {"mean": 1.0, "sd": 0.15, "sd_ratio": 0.95, "total_mean": 0.6}
    expected |= {"total_sd": np.mean(np.abs(total / 5 - 1)), "total_sd_ratio": total.mean() / 5}
    assert found == pytest.approx(expected)


@pytest.fixture(scope="module")
def tiny_lines(tmp_path_factory):
    folder = tmp_path_factory.mktemp("truths")
    with jax.debug_key_reuse(False):
        units = fidelity_units(["yacht"], ["langevin", "nuts_adjusted"], 1, TINY)
        return [json.loads(json.dumps(unit | run_fidelity_unit(unit, truths=folder))) for unit in units], folder


def test_a_unit_from_end_to_end(tiny_lines):
    lines, folder = tiny_lines
    assert [line["method"] for line in lines] == ["langevin", "nuts_adjusted"]
    moves = 2 * (5 * 4 + 10 * 3)
    for line in lines:
        assert line["truth"]["gradients"] == moves
        assert line["gradients"] >= 0.5 * moves
        assert line["num_parameters"] == 7 * 4 and line["num_test"] == 32
        assert np.isfinite(list(line["errors"].values())).all()
    assert lines[0]["truth"] == lines[1]["truth"]
    assert "nuts_adjusted" in fidelity_table(lines)
    least = min(lines, key=lambda line: line["errors"]["sd"])
    assert closest_samplers(lines).startswith(f"`{least['method']}` on yacht ({100 * least['errors']['sd']:.1f} %")
    assert [file.name for file in folder.iterdir()] == ["yacht-0.npz"]


def test_a_truth_is_read_only_where_it_is_the_same_truth(tmp_path, unchecked_keys):
    network, *_ = exact_problem()
    settings = TruthSettings(**TINY.truth)
    file = tmp_path / "sub" / "t.npz"
    first = cached_truth(file, jax.random.key(0), network, settings, identity={"seed": 0})
    again = cached_truth(file, jax.random.key(1), network, settings, identity={"seed": 0})
    other = cached_truth(file, jax.random.key(1), network, settings, identity={"seed": 1})
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not np.array_equal(first.mean, other.mean)


def test_unknown_samplers_and_presets_are_refused(tmp_path):
    with pytest.raises(PartbayesError, match="no method 'magic'"):
        fidelity_units(["yacht"], ["magic"], 1)
    refused(run("benchmark", "--preset", "loyalty", "-o", tmp_path / "x.jsonl"), "loyalty", "fidelity")
    refused(run("benchmark", "--preset", "fidelity", "--methods", "magic", "-o", tmp_path / "x.jsonl"), "magic")


def test_the_command_prints_finished_lines(tiny_lines, tmp_path, monkeypatch):
    """All units are there already: nothing is run, and the table is shown."""
    monkeypatch.setattr("partbayes.benchmark.fidelity.FidelitySettings.__new__.__defaults__", tuple(TINY))
    lines, _ = tiny_lines
    file = tmp_path / "fidelity.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    shown = run("benchmark", "--preset", "fidelity", "--datasets", "yacht", "--methods", "langevin", "-o", file, "-q")
    assert shown.code == 0 and "| yacht | langevin | 1 |" in shown.out
    assert len(read_lines(file)) == 2


def test_the_dead_do_not_count():
    """A particle of weight zero may predict nan."""
    network, *_ = exact_problem()
    algorithm = build(SAMPLERS["hmc_5"], network, 4, 5)

    def with_a_dead_one(key, state, batch):
        state, info = algorithm.step(key, state, batch)
        particles = state.particles
        theta = jax.tree.map(lambda leaf: leaf.at[0].set(jnp.nan), particles.theta)
        weights = jax.nn.log_softmax(particles.log_weights.at[0].set(-jnp.inf))
        return state._replace(particles=particles._replace(theta=theta, log_weights=weights)), info

    pool = run_sampler(
        jax.random.key(0), algorithm._replace(step=with_a_dead_one), network, 4, 200, burn_in=0.0, warmup_steps=0
    )
    assert np.isfinite(pool.mean).all() and np.isfinite(pool.log_prob).all()
