"""Identities between algorithms, block sizes, islands and interrupted runs."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from problems import small_network, trees_close, trees_equal

from partbayes import smc
from partbayes.errors import PartbayesError
from partbayes.runtime import fit, restore_checkpoint, save_checkpoint, start
from partbayes.training import gohsmc, ohsmc, sgsmc, smc_pbnn

N = 24
ALGORITHMS = {
    "gohsmc": lambda model, **kw: gohsmc(model, N, num_particles=7, step_size=0.02, **kw),
    "gohsmc same batch": lambda model, **kw: gohsmc(
        model, N, num_particles=7, step_size=0.02, denominator="same_batch", **kw
    ),
    "gohsmc asymptotic": lambda model, **kw: gohsmc(
        model, N, num_particles=7, step_size=0.02, lkernel=smc.asymptotic(), **kw
    ),
    "ohsmc": lambda model, **kw: ohsmc(model, N, num_particles=7, step_size=0.02, **kw),
    "sgsmc": lambda model, **kw: sgsmc(model, N, num_particles=7, step_size=0.02, **kw),
}


def run_steps(algorithm, model, data, num_steps=4, seed=0):
    key_params, key_init, key_steps = jax.random.split(jax.random.key(seed), 3)
    state = jax.jit(algorithm.init)(key_init, model.init(key_params), data)
    step = jax.jit(algorithm.step)
    for t in range(num_steps):
        state, _ = step(jax.random.fold_in(key_steps, t), state, data)
    return state


def test_langevin_is_hmc_with_one_step():
    model, data = small_network()
    one = run_steps(gohsmc(model, N, num_particles=7, proposal=smc.langevin()), model, data)
    other = run_steps(gohsmc(model, N, num_particles=7, proposal=smc.hmc(1)), model, data)
    assert trees_equal(one, other)
    two = run_steps(gohsmc(model, N, num_particles=7, proposal=smc.hmc(2)), model, data)
    assert not trees_equal(one, two)


def test_hmc_with_tiny_steps_follows_one_long_langevin_free_flight(x64):
    """S steps of ε/S travel as far as one of ε when the force is negligible: the loop counts its steps right."""
    theta = {"w": jnp.array([0.4, -0.2])}
    flat = lambda t: 0.0 * jnp.sum(t["w"])  # noqa: E731
    ends = [
        smc.hmc(s).launch(jax.random.key(0), theta, flat, smc.Tuning(jnp.asarray(0.6 / s))).end["w"]
        for s in (1, 2, 3, 6)
    ]
    for end in ends[1:]:
        np.testing.assert_allclose(end, ends[0], rtol=1e-12)


def test_smc_pbnn_is_sgsmc_on_the_whole_data_set():
    model, data = small_network()
    whole = run_steps(smc_pbnn(model, N, num_particles=7), model, data, 2)
    assert trees_equal(whole, run_steps(sgsmc(model, N, num_particles=7), model, data, 2))
    part = jax.tree.map(lambda a: a[:10], data)
    with pytest.raises(PartbayesError, match=r"batch of 10 rows.*all 24"):
        run_steps(smc_pbnn(model, N, num_particles=7), model, part, 1)


def test_ohsmc_target_ratio_is_gohsmc_with_a_random_walk():
    model, data = small_network()
    one = run_steps(ohsmc(model, N, num_particles=7, weight="target_ratio", scale="full"), model, data)
    assert trees_equal(
        one, run_steps(gohsmc(model, N, num_particles=7, step_size=0.01, proposal=smc.random_walk()), model, data)
    )


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize("block_size", [3])  # of 7: two full blocks and a remainder
def test_blocks_change_nothing(x64, name, block_size):
    model, data = small_network()
    whole = run_steps(ALGORITHMS[name](model), model, data)
    blocked = run_steps(ALGORITHMS[name](model, block_size=block_size), model, data)
    assert trees_close(whole, blocked, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", ["gohsmc", "ohsmc", "sgsmc"])
def test_islands_are_separate_runs(x64, name):
    model, data = small_network()
    algorithm = ALGORITHMS[name](model)
    options = dict(num_epochs=3, batch_size=8, validation=data)
    together = fit(jax.random.key(5), algorithm, model, data, islands=3, **options)
    for k, key in enumerate(jax.random.split(jax.random.key(5), 3)):
        alone = fit(key[None], algorithm, model, data, **options)
        island = jax.tree.map(lambda a, k=k: a[k : k + 1], together.posterior)
        assert trees_close(island, alone.posterior, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", ["gohsmc", "ohsmc", "sgsmc"])
def test_saved_and_restored_run_goes_on_to_the_same_bits(name, tmp_path):
    model, data = small_network()
    algorithm = ALGORITHMS[name](model)
    options = dict(batch_size=8, validation=data)
    straight = fit(jax.random.key(6), algorithm, model, data, num_epochs=5, islands=2, **options)

    first = fit(jax.random.key(6), algorithm, model, data, num_epochs=2, islands=2, **options)
    save_checkpoint(tmp_path / "run", first.run, {"method": name})
    fresh = start(jax.random.key(0), algorithm, model, data, batch_size=8, islands=2)
    restored = restore_checkpoint(tmp_path / "run", fresh, {"method": name})
    assert trees_equal(restored, first.run)
    resumed = fit(jax.random.key(7), algorithm, model, data, num_epochs=5, resume=restored, **options)
    assert trees_equal(resumed.run, straight.run)
    assert trees_equal(resumed.posterior, straight.posterior)


def test_checkpoint_of_another_run_is_refused(tmp_path):
    model, data = small_network()
    algorithm = ALGORITHMS["gohsmc"](model)
    fresh = start(jax.random.key(0), algorithm, model, data, batch_size=8)
    with pytest.raises(PartbayesError, match="no checkpoint"):
        restore_checkpoint(tmp_path / "none", fresh)
    save_checkpoint(tmp_path / "run", fresh, {"seed": 1})
    with pytest.raises(PartbayesError, match="other settings \\(seed\\)"):
        restore_checkpoint(tmp_path / "run", fresh, {"seed": 2})
    larger = gohsmc(model, N, num_particles=9)
    with pytest.raises(PartbayesError, match="does not fit"):
        restore_checkpoint(tmp_path / "run", start(jax.random.key(0), larger, model, data, batch_size=8), {"seed": 1})


@pytest.mark.parametrize("optimiser", [optax.sgd(1e-4), optax.adamw(1e-3), optax.lion(1e-4)])
def test_any_optimiser_moves_psi(optimiser):
    model, data = small_network()
    algorithm = gohsmc(model, N, num_particles=5, step_size=0.01, optimiser=optimiser)
    before, after = (run_steps(algorithm, model, data, num_steps).psi for num_steps in (0, 2))
    assert not trees_equal(before, after)


def test_the_psi_step_carries_n_over_m():
    """With plain gradient ascent the ψ step is lr · N/M · Σ w̃ ∇ log p, whatever the target's own scale."""
    model, data = small_network(sigma=1.0)
    rows = jax.tree.map(lambda a: a[:6], data)
    for scale in ("full", "batch"):
        algorithm = gohsmc(model, N, num_particles=5, step_size=0.01, scale=scale, optimiser=optax.sgd(1e-3))
        state = jax.jit(algorithm.init)(jax.random.key(1), model.init(jax.random.key(0)), rows)
        after, _ = jax.jit(algorithm.step)(jax.random.key(2), state, rows)

        def weighted(psi, after=after):
            rows_of = jax.vmap(lambda theta: jnp.sum(model.log_likelihood(theta, psi, rows)))(after.particles.theta)
            return jnp.sum(jnp.exp(after.particles.log_weights) * rows_of)

        gradient = jax.jit(jax.grad(weighted))(state.psi)
        expected = jax.tree.map(lambda p, g: p + 1e-3 * (N / 6) * g, state.psi, gradient)
        assert trees_close(after.psi, expected, rtol=1e-4, atol=1e-5)
