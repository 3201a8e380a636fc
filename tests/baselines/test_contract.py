"""What every baseline must do, in one table: the triple's shapes, islands, precision, any partition, bad numbers."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import linear_problem, small_network, trees_close, trees_equal

from partbayes.baselines import map_estimate, sghmc, svgd, swag, vi
from partbayes.errors import PartbayesError
from partbayes.model import categorical, mlp, partial_bnn
from partbayes.runtime import fit
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


def started(name, model, data, seed=0):
    algorithm = BUILDERS[name](model, data.x.shape[0])
    key_params, key_init = jax.random.split(jax.random.key(seed))
    params = model.init(key_params)
    return algorithm, params, algorithm.init(key_init, params, data)


def structure(tree):
    return jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), tree)


@every_baseline
@pytest.mark.parametrize("num_steps", [0, 1, 5])
def test_posterior_has_normalised_weights_and_the_right_shapes(name, num_steps):
    model, data = small_network()
    algorithm, (theta, psi), state = started(name, model, data)
    step = jax.jit(algorithm.step)
    for i in range(num_steps):
        state, _ = step(jax.random.key(10 + i), state, data)
    posterior = algorithm.posterior(state)
    num_particles = 1 if name == "MAP" else J
    assert posterior.log_weights.shape == (num_particles,)
    assert abs(jax.nn.logsumexp(posterior.log_weights)) < 1e-6  # J additions in float32
    stacked = jax.tree.map(lambda leaf: jnp.zeros((num_particles, *leaf.shape)), theta)
    assert structure(posterior.theta) == structure(stacked)
    assert structure(posterior.psi) == structure(psi)
    assert trees_equal(posterior, algorithm.posterior(state)), "posterior(state) is not a pure function"


@every_baseline
def test_step_keeps_the_state_shape_under_jit_and_reports_scalars(name):
    model, data = small_network()
    algorithm, _, state = started(name, model, data)
    new, info = jax.jit(algorithm.step)(jax.random.key(5), state, data)
    assert structure(new) == structure(state)
    plain, _ = algorithm.step(jax.random.key(5), state, data)
    keyless = [leaf for leaf in jax.tree.leaves(new) if not jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)]
    plain = [leaf for leaf in jax.tree.leaves(plain) if not jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)]
    assert trees_close(keyless, plain, rtol=1e-4, atol=1e-5)
    assert all(value.shape == () for value in info)
    assert info.finite and not info.skipped and not info.resampled and info.dead == 0
    assert jnp.isfinite(info.loss) and 1 <= info.ess <= J
    assert jnp.isnan(info.acceptance) and jnp.isnan(info.log_evidence) == (name != "VI")


@every_baseline
def test_islands_are_separate_runs(name, x64):
    """Three islands at once, and each of them alone with its own key: a deep ensemble is K fits of MAP."""
    model, data = small_network()
    algorithm = BUILDERS[name](model, 24)
    keys = jax.random.split(jax.random.key(3), 3)
    settings = {"num_epochs": 4, "batch_size": 10, "validation": data, "progress": False}
    together = fit(keys, algorithm, model, data, **settings)
    for k in range(3):
        alone = fit(keys[k : k + 1], algorithm, model, data, **settings)
        island = jax.tree.map(lambda leaf, k=k: leaf[k : k + 1], together.posterior)
        # Batched products round differently; twelve steps of Adam amplify that, but not a thousandfold.
        assert trees_close(island, alone.posterior, rtol=1e-9, atol=1e-11)
    assert not trees_close(
        *(jax.tree.map(lambda leaf, k=k: leaf[k], together.posterior.psi) for k in (0, 1)), rtol=1e-3
    )


@every_baseline
def test_float64_throughout(name, x64):
    model, data = small_network()
    algorithm, _, state = started(name, model, data)
    state, info = jax.jit(algorithm.step)(jax.random.key(1), state, data)
    floats = [leaf for leaf in jax.tree.leaves((state, algorithm.posterior(state), info.loss)) if _is_float(leaf)]
    assert floats and all(leaf.dtype == jnp.float64 for leaf in floats)


@every_baseline
def test_float32_data_stay_float32_where_64_bits_are_on(name):
    """Settings are Python numbers: they must not widen a state, or the training loop's scan would not close."""
    model, data = small_network()
    algorithm, _, state = started(name, model, data)
    with jax.enable_x64(True):
        new, _ = algorithm.step(jax.random.key(1), state, data)
    assert structure(new) == structure(state)


@every_baseline
def test_loss_falls_below_that_of_a_constant(name):
    """The best constant with the best noise has loss ½ log(2πe Var y); a network that learned anything does better."""
    model, data = small_network()
    algorithm = BUILDERS[name](model, 24)
    result = fit(jax.random.key(1), algorithm, model, data, num_epochs=300, batch_size=24, progress=False)
    constant = 0.5 * np.log(2 * np.pi * np.e * np.var(np.asarray(data.y)))
    losses = np.array([record["loss"] for record in result.history])
    assert losses[0] > constant > losses[-10:].mean()


@every_baseline
@pytest.mark.parametrize("stochastic", ["all", "last", ["network/layers/1", "likelihood"]], ids=str)
def test_any_partition(name, stochastic):
    """Everything stochastic (ψ empty), the last layer, or a middle layer together with the noise."""
    model, data = small_network(stochastic=stochastic)
    result = fit(jax.random.key(2), BUILDERS[name](model, 24), model, data, num_epochs=2, batch_size=10, progress=False)
    assert all(jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves((result.posterior.theta, result.posterior.psi)))


@every_baseline
def test_classification(name):
    rng = np.random.default_rng(4)
    x = rng.normal(size=(30, 2))
    data = Batch(jnp.asarray(x), jnp.asarray((x[:, 0] > 0).astype(np.int32)), jnp.ones(30))
    model = partial_bnn(mlp(2, (6,), 2), categorical(2))
    result = fit(
        jax.random.key(3), BUILDERS[name](model, 30), model, data, num_epochs=200, batch_size=30, progress=False
    )
    assert np.mean([r["loss"] for r in result.history[-10:]]) < np.log(2)  # below a coin's


@every_baseline
def test_bad_numbers_are_reported_and_move_nothing(name):
    model, data = small_network()
    algorithm, _, state = started(name, model, data)
    state, _ = algorithm.step(jax.random.key(8), state, data)
    bad = data._replace(y=data.y.at[0].set(jnp.nan))
    new, info = jax.jit(algorithm.step)(jax.random.key(9), state, bad)
    assert not info.finite and info.skipped and info.dead == 1
    before, after = algorithm.posterior(state), algorithm.posterior(new)
    assert trees_equal(before.psi, after.psi)
    assert all(jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(after.theta))


@pytest.mark.parametrize("name", ["VI", "SVGD"])  # the others' steps depend on N in further ways
def test_rows_of_weight_zero_do_not_count(name):
    """A batch padded from 24 to 48 rows that stand for N = 48: the factor N/M is still one."""
    model, data = small_network()
    padded = jax.tree.map(lambda a: jnp.concatenate([a, 7 + a]), data)
    padded = padded._replace(weight=jnp.concatenate([data.weight, 0 * data.weight]))
    found = []
    for batch in (data, padded):
        algorithm, _, state = started(name, model, batch)
        state, info = jax.jit(algorithm.step)(jax.random.key(2), state, batch)
        found.append((algorithm.posterior(state), info.loss))
    assert trees_close(*found, rtol=1e-4, atol=1e-5)


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
    (lambda m: svgd(m, 8, block_size=0), "block_size is 0"),
]


@pytest.mark.parametrize(("build", "complaint"), IMPOSSIBLE, ids=[text for _, text in IMPOSSIBLE])
def test_impossible_settings_are_refused_in_one_sentence(build, complaint):
    model, _, _ = linear_problem()
    with pytest.raises(PartbayesError, match=complaint) as caught:
        build(model)
    assert str(caught.value).endswith(".") and "\n" not in str(caught.value)


def _is_float(leaf):
    return jnp.issubdtype(leaf.dtype, jnp.floating)
