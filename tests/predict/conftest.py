"""Both precisions, and a mixture with nothing symmetric or equal about it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from partbayes.predict import GaussianMixture


@pytest.fixture(params=[np.float32, np.float64], ids=["float32", "float64"])
def dtype(request):
    with jax.enable_x64(request.param is np.float64):
        yield request.param


@pytest.fixture
def make():
    """`make(components, rows, outputs, seed, dtype)`: random unequal weights, means and scales."""

    def build(components=5, rows=4, outputs=2, seed=0, dtype=np.float32):
        rng = np.random.default_rng(seed)
        log_weights = np.log(rng.dirichlet(np.full(components, 1.5)))
        loc = rng.normal(size=(components, rows, outputs)) * 2 + rng.normal(size=(rows, outputs))
        scale = np.exp(rng.normal(size=(components, rows, outputs)))
        return GaussianMixture(*(jnp.asarray(x, dtype) for x in (log_weights, loc, scale)))

    return build
