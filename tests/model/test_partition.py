"""Any subset of any parameter tree may be stochastic: plain dicts, Equinox, Flax Linen and NNX."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen, nnx
from problems import trees_equal

from partbayes.errors import PartbayesError
from partbayes.model import (
    as_network,
    combine,
    from_equinox,
    from_function,
    from_linen,
    from_nnx,
    gaussian,
    mlp,
    partial_bnn,
    partition,
    paths,
    select,
)
from partbayes.training import gohsmc
from partbayes.types import Batch

X = np.linspace(-1, 1, 12).reshape(4, 3)
BATCH = Batch(jnp.asarray(X), jnp.asarray(X[:, :1]), jnp.ones(4))


class LinenNet(linen.Module):
    @linen.compact
    def __call__(self, x):
        for width in (5,) * 11:  # eleven layers: Dense_10 must not come before Dense_2
            x = linen.gelu(linen.Dense(width)(x))
        return linen.Dense(1)(x)


class NnxNet(nnx.Module):
    def __init__(self, rngs):
        self.layers = nnx.List([nnx.Linear(3, 5, rngs=rngs), nnx.Linear(5, 4, rngs=rngs), nnx.Linear(4, 1, rngs=rngs)])

    def __call__(self, x):
        for layer in self.layers[:-1]:
            x = nnx.gelu(layer(x))
        return self.layers[-1](x)


def plain_init(key):
    keys = jax.random.split(key, 2)
    return {
        "in": {"w": jax.random.normal(keys[0], (3, 5)), "b": jnp.zeros(5)},
        "out": {"w": jax.random.normal(keys[1], (5, 1)), "b": jnp.zeros(1)},
    }


def plain_apply(params, x):
    return jnp.tanh(x @ params["in"]["w"] + params["in"]["b"]) @ params["out"]["w"] + params["out"]["b"]


NETWORKS = {
    "house": lambda: mlp(3, (5, 4), 1),
    "equinox": lambda: from_equinox(lambda key: eqx.nn.MLP(3, 1, 5, 2, activation=jax.nn.gelu, key=key)),
    "linen": lambda: from_linen(LinenNet(), jnp.ones((1, 3))),
    "nnx": lambda: from_nnx(NnxNet),
    "dict": lambda: from_function(plain_apply, plain_init),
}
FIRST = {
    "house": {"layers/0/weight", "layers/0/bias"},
    "equinox": {"layers/0/weight", "layers/0/bias"},
    "linen": {"Dense_0/kernel", "Dense_0/bias"},
    "nnx": {"layers/0/kernel", "layers/0/bias"},
    "dict": {"in/w", "in/b"},
}
LAST = {
    "house": {"layers/2/weight", "layers/2/bias"},
    "equinox": {"layers/2/weight", "layers/2/bias"},
    "linen": {"Dense_11/kernel", "Dense_11/bias"},
    "nnx": {"layers/2/kernel", "layers/2/bias"},
    "dict": {"out/w", "out/b"},
}


def chosen(network, stochastic):
    params = network.init(jax.random.key(0))
    return set(paths(partition(params, select(stochastic, params)).theta)), set(paths(params))


@pytest.mark.parametrize("kind", NETWORKS)
def test_first_last_all_and_one_bias(kind):
    network = NETWORKS[kind]()
    theta, everything = chosen(network, "first")
    assert theta == FIRST[kind]
    assert chosen(network, "last")[0] == LAST[kind]
    assert chosen(network, "all")[0] == everything
    bias = next(path for path in sorted(FIRST[kind]) if path.endswith(("bias", "b")))
    assert chosen(network, lambda path, leaf: path == bias)[0] == {bias}
    assert chosen(network, bias)[0] == {bias}
    assert chosen(network, [bias, *LAST[kind]])[0] == {bias} | LAST[kind]


@pytest.mark.parametrize("kind", NETWORKS)
def test_nothing_is_a_clear_error(kind):
    network = NETWORKS[kind]()
    with pytest.raises(PartbayesError, match="No parameter was selected as stochastic.*" + min(FIRST[kind])):
        partial_bnn(network, gaussian(1.0), stochastic=lambda path, leaf: False)
    with pytest.raises(PartbayesError, match="No parameter lies under 'nowhere'"):
        partial_bnn(network, gaussian(1.0), stochastic="nowhere")


@pytest.mark.parametrize("kind", NETWORKS)
@pytest.mark.parametrize("stochastic", ["first", pytest.param("last", marks=pytest.mark.slow), "all"])
def test_every_subset_of_every_network_trains(kind, stochastic):
    """Parts put together again compute what the network computes, and a training step moves both parts."""
    network = NETWORKS[kind]()
    model = partial_bnn(network, gaussian("learned"), stochastic=stochastic)
    theta, psi = model.init(jax.random.key(3))
    whole = network.apply(network.init(jax.random.key(3)), BATCH.x)
    np.testing.assert_allclose(model.components(theta, psi, BATCH.x).loc, whole, rtol=1e-6)

    algorithm = gohsmc(model, num_data=4, num_particles=3, step_size=1e-3)
    state = jax.jit(algorithm.init)(jax.random.key(4), (theta, psi), BATCH)
    after, info = jax.jit(algorithm.step)(jax.random.key(5), state, BATCH)
    assert bool(info.finite)
    assert not trees_equal(after.particles.theta, state.particles.theta)
    if jax.tree.leaves(psi):
        assert not trees_equal(after.psi, state.psi)


def test_parts_are_exact_and_disjoint():
    tree = {"a": {"w": jnp.ones((2, 2)), "n": 7}, "b": jnp.zeros(3), "f": jax.nn.relu, "i": jnp.arange(2)}
    parts = partition(tree, lambda path, leaf: path == "a/w")
    assert paths(parts.theta) == ["a/w"]
    assert paths(parts.psi) == ["b"]
    assert paths(parts.static) == ["a/n", "f", "i"]
    whole = combine(*parts)
    assert whole["f"] is jax.nn.relu and whole["a"]["n"] == 7
    np.testing.assert_array_equal(whole["i"], [0, 1])


def test_likelihood_parameters_can_be_stochastic_too():
    model = partial_bnn(mlp(3, (5,), 1), gaussian("learned"), stochastic=["network/layers/0", "likelihood"])
    theta, psi = model.init(jax.random.key(0))
    assert set(paths(theta)) == {"network/layers/0/weight", "network/layers/0/bias", "likelihood/log_sigma"}
    assert set(paths(psi)) == {"network/layers/1/weight", "network/layers/1/bias"}


def test_as_network_recognises_what_it_is_given():
    for brought in (mlp(3, (5,), 1), eqx.nn.MLP(3, 1, 5, 1, key=jax.random.key(0)), LinenNet()):
        network = as_network(brought, jnp.ones((1, 3)))
        assert network.apply(network.init(jax.random.key(1)), BATCH.x).shape == (4, 1)
    with pytest.raises(PartbayesError, match=r"NnxNet came.*from_nnx"):
        as_network(NnxNet(nnx.Rngs(0)), jnp.ones((1, 3)))
