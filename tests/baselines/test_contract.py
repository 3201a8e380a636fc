"""What every baseline must do, in one table: the triple's shapes, islands, precision, any partition, bad numbers."""

from __future__ import annotations

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import linear_problem, small_network, trees_close, trees_equal

from partbayes.baselines import map_estimate, sghmc, svgd, swag, vi
from partbayes.errors import PartbayesError
from partbayes.model import categorical, mlp, partial_bnn
from partbayes.types import Batch

J = 6
BUILDERS = {
    "MAP": map_estimate,
    "VI": lambda model, num_data: vi(model, num_data, num_particles=J, num_samples=4),
    "SGHMC": lambda model, num_data: sghmc(model, num_data, num_particles=J, num_chains=3),
    "SWAG": lambda model, num_data: swag(model, num_data, num_particles=J, rank=3, burn_in_epochs=2),
    "SVGD": lambda model, num_data: svgd(model, num_data, num_particles=J, block_size=4),
}
every_baseline = pytest.mark.parametrize("name", BUILDERS)


@cache
def trial(name):
    """A baseline on the small problem, its step compiled once for several tests, and its state before the first."""
    model, data = small_network()
    algorithm = BUILDERS[name](model, 24)
    key_params, key_init = jax.random.split(jax.random.key(0))
    params = model.init(key_params)
    # Strongly typed, as the training loop makes it.
    state = jax.jit(algorithm.init)(key_init, params, data)
    state = jax.tree.map(lambda a: jax.lax.convert_element_type(a, a.dtype), state)
    return algorithm._replace(step=jax.jit(algorithm.step), posterior=jax.jit(algorithm.posterior)), params, state, data


def training(algorithm, model, data, num_steps):
    """A whole run as one function of a seed, on the full batch: last state, its posterior, and every step's Info."""

    def train(seed):
        key_params, key_init, key_steps = jax.random.split(jax.random.key(seed), 3)
        state = algorithm.init(key_init, model.init(key_params), data)

        def step(state, i):
            return algorithm.step(jax.random.fold_in(key_steps, i), state, data)

        state, infos = jax.lax.scan(step, state, jnp.arange(num_steps))
        return state, algorithm.posterior(state), infos

    return train


def structure(tree):
    return jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), tree)


def floats(tree):
    return [leaf for leaf in jax.tree.leaves(tree) if jnp.issubdtype(leaf.dtype, jnp.floating)]


def all_finite(tree):
    return all(bool(jnp.all(jnp.isfinite(leaf))) for leaf in jax.tree.leaves(tree))


@every_baseline
def test_posterior_has_normalised_weights_and_the_right_shapes(name):
    algorithm, (theta, psi), state, data = trial(name)
    num_particles = 1 if name == "MAP" else J
    stacked = jax.tree.map(lambda leaf: jnp.zeros((num_particles, *leaf.shape)), theta)
    for i in range(6):
        posterior = algorithm.posterior(state)
        assert posterior.log_weights.shape == (num_particles,)
        assert abs(jax.nn.logsumexp(posterior.log_weights)) < 1e-6  # J additions in float32
        assert structure(posterior.theta) == structure(stacked)
        assert structure(posterior.psi) == structure(psi)
        assert all_finite((posterior.theta, posterior.psi))
        assert trees_equal(posterior, algorithm.posterior(state)), "posterior(state) is not a pure function"
        state, _ = algorithm.step(jax.random.key(10 + i), state, data)


@every_baseline
def test_step_keeps_the_state_shape_and_reports_scalars(name):
    algorithm, _, state, data = trial(name)
    new, info = algorithm.step(jax.random.key(5), state, data)
    assert structure(new) == structure(state)
    assert not trees_equal(new, state)
    assert all(value.shape == () for value in info)
    assert info.finite and not info.skipped and not info.resampled and info.dead == 0
    assert jnp.isfinite(info.loss) and 1 <= info.ess <= J
    assert jnp.isnan(info.acceptance) and jnp.isnan(info.log_evidence) == (name != "VI")


@every_baseline
def test_bad_numbers_are_reported_and_move_nothing(name):
    algorithm, _, state, data = trial(name)
    state, _ = algorithm.step(jax.random.key(8), state, data)
    new, info = algorithm.step(jax.random.key(9), state, data._replace(y=data.y.at[0].set(jnp.nan)))
    assert not info.finite and info.skipped and info.dead == 1
    assert trees_equal(algorithm.posterior(state).psi, algorithm.posterior(new).psi)
    assert all_finite(floats(new))


@every_baseline
def test_islands_are_separate_runs_in_float64(name, x64):
    """Three islands at once, and each of them alone with its own seed."""
    model, data = small_network()
    train = training(BUILDERS[name](model, 24), model, data, num_steps=8)
    together = jax.jit(jax.vmap(train))(jnp.arange(3))
    assert all(leaf.dtype == jnp.float64 for leaf in floats(together))
    alone = jax.jit(train)
    for k in range(3):
        pairs = zip(floats(together), floats(alone(k)), strict=True)
        # Batched products round differently, by 1e-16; eight steps amplify that, but not a millionfold.
        assert all(np.allclose(a[k], b, rtol=1e-10, atol=1e-12, equal_nan=True) for a, b in pairs)
    theta = jax.tree.leaves(together[1].theta)[-1]
    assert not np.allclose(theta[0], theta[1], rtol=1e-3)


@every_baseline
def test_float32_data_stay_float32_where_64_bits_are_on(name):
    """Settings are Python numbers: they must not widen a state, or the training loop's scan would not close."""
    algorithm, _, state, data = trial(name)
    with jax.enable_x64(True):
        new, _ = jax.eval_shape(algorithm.step, jax.random.key(1), state, data)
    assert structure(new) == structure(state)


@every_baseline
def test_loss_falls_below_that_of_a_constant(name):
    """The best constant with the best noise has loss ½ log(2πe Var y); a network that learned anything does better."""
    model, data = small_network()
    _, _, infos = jax.jit(training(BUILDERS[name](model, 24), model, data, num_steps=300))(1)
    constant = 0.5 * np.log(2 * np.pi * np.e * np.var(np.asarray(data.y)))
    assert infos.loss[0] > constant > np.mean(infos.loss[-10:])


def two_classes():
    rng = np.random.default_rng(4)
    x = rng.normal(size=(24, 2))
    data = Batch(jnp.asarray(x), jnp.asarray((x[:, 0] > 0).astype(np.int32)), jnp.ones(24))
    return partial_bnn(mlp(2, (6,), 2), categorical(2), stochastic="last"), data


PROBLEMS = {
    "everything stochastic, ψ empty": lambda: small_network(stochastic="all"),
    "middle layer and noise stochastic": lambda: small_network(stochastic=["network/layers/1", "likelihood"]),
    "two classes, last layer stochastic": two_classes,
}


@every_baseline
@pytest.mark.parametrize("problem", PROBLEMS)
def test_any_partition_and_likelihood(name, problem):
    model, data = PROBLEMS[problem]()
    _, posterior, infos = jax.jit(training(BUILDERS[name](model, 24), model, data, num_steps=300))(2)
    assert all_finite((posterior.theta, posterior.psi))
    assert np.all(infos.finite) and not np.any(infos.skipped)
    assert np.mean(infos.loss[-10:]) < infos.loss[0]


@pytest.mark.parametrize("name", ["VI", "SVGD"])  # the others' steps depend on N in further ways
def test_rows_of_weight_zero_do_not_count(name):
    """A batch padded from 24 to 48 rows that stand for N = 48: the factor N/M is still one."""
    model, data = small_network()
    padded = jax.tree.map(lambda a: jnp.concatenate([a, 7 + a]), data)
    padded = padded._replace(weight=jnp.concatenate([data.weight, 0 * data.weight]))
    runs = [training(BUILDERS[name](model, len(batch.x)), model, batch, num_steps=3) for batch in (data, padded)]
    (_, posterior, infos), (_, padded_posterior, padded_infos) = (jax.jit(run)(6) for run in runs)
    assert trees_close((posterior, infos.loss), (padded_posterior, padded_infos.loss), rtol=1e-4, atol=1e-5)


IMPOSSIBLE = [
    (lambda m: map_estimate(m, 0), "num_data is 0"),
    (lambda m: vi(m, 8, num_particles=0), "num_particles is 0"),
    (lambda m: vi(m, 8, num_samples=0), "num_samples is 0"),
    (lambda m: vi(m, 8, initial_scale=0.0), "initial_scale is 0.0"),
    (lambda m: sghmc(m, 8, step_size=-1.0), "step_size is -1.0"),
    (lambda m: sghmc(m, 8, step_size=float("nan")), "step_size is nan"),
    (lambda m: sghmc(m, 8, friction=0.0), "friction is 0.0"),
    (lambda m: sghmc(m, 8, friction=1.5), "friction is 1.5"),
    (lambda m: sghmc(m, 8, friction=0.1, noise_estimate=0.2), "noise_estimate is 0.2"),
    (lambda m: sghmc(m, 8, num_particles=10, num_chains=3), "10 particles cannot be shared out among 3 chains"),
    (lambda m: sghmc(m, 8, num_chains=0), "num_chains is 0"),
    (lambda m: sghmc(m, 8, window_epochs=0.0), "window_epochs is 0.0"),
    (lambda m: swag(m, 8, rank=1), "rank is 1"),
    (lambda m: swag(m, 8, burn_in_epochs=-1.0), "burn_in_epochs is -1.0"),
    (lambda m: swag(m, 8, interval_epochs=0.0), "interval_epochs is 0.0"),
    (lambda m: svgd(m, 8, num_particles=2.5), "num_particles is 2.5"),
    (lambda m: svgd(m, 8, block_size=0), "block size is 0"),
]


@pytest.mark.parametrize(("build", "complaint"), IMPOSSIBLE, ids=[text for _, text in IMPOSSIBLE])
def test_impossible_settings_are_refused_in_one_sentence(build, complaint):
    model, _, _ = linear_problem()
    with pytest.raises(PartbayesError, match=complaint) as caught:
        build(model)
    assert str(caught.value).endswith(".") and "\n" not in str(caught.value)
