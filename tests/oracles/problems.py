"""Small problems that several tests train on."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from partbayes.data import exact_linear_gaussian
from partbayes.model import from_function, gaussian, mlp, normal_prior, partial_bnn
from partbayes.types import Batch

NOISE = 0.8
PRIOR = 0.7


def linear_problem(num_data: int = 8, dim: int = 2):
    """y = xᵀθ + noise with every weight stochastic: model, data, and the exact posterior and evidence."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(num_data, dim))
    y = x @ rng.normal(size=dim) * PRIOR + NOISE * rng.normal(size=num_data)
    network = from_function(lambda params, x: (x @ params["w"])[:, None], {"w": jnp.zeros(dim)})
    model = partial_bnn(network, gaussian(NOISE), stochastic="all", prior=normal_prior(PRIOR))
    data = Batch(jnp.asarray(x), jnp.asarray(y)[:, None], jnp.ones(num_data))
    return model, data, exact_linear_gaussian(x, y, NOISE, PRIOR)


def small_network(num_data: int = 24, features: int = 3, hidden=(5, 4), sigma="learned", stochastic="first"):
    """A small network on a smooth curve: model and data."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(num_data, features))
    y = np.sin(x[:, :1]) + 0.1 * rng.normal(size=(num_data, 1))
    likelihood = gaussian(sigma)
    model = partial_bnn(mlp(features, hidden, likelihood.num_outputs), likelihood, stochastic=stochastic)
    return model, Batch(jnp.asarray(x), jnp.asarray(y), jnp.ones(num_data))


def trees_equal(a, b) -> bool:
    """Bit-for-bit equality of two trees of arrays (keys compared by their data)."""

    def raw(leaf):
        return jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf

    return all(np.array_equal(raw(x), raw(y)) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))


def trees_close(a, b, rtol: float, atol: float = 0.0) -> bool:
    """Equality up to rounding."""
    pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return all(np.allclose(x, y, rtol=rtol, atol=atol) for x, y in pairs)


def watched(model):
    """The same model, and a list that grows whenever its likelihood is traced."""
    traced = []

    def log_likelihood(theta, psi, batch):
        traced.append(batch.x.shape)
        return model.log_likelihood(theta, psi, batch)

    return model._replace(log_likelihood=log_likelihood), traced
