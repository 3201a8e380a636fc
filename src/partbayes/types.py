"""Names shared by every room: arrays, keys, trees and the batch that travels from data to model."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, TypeAlias

import jax

Array: TypeAlias = jax.Array
Key: TypeAlias = jax.Array
"""A typed key (`jax.random.key`), never a raw uint32 array."""
Tree: TypeAlias = Any
"""Any JAX pytree of arrays."""


class Batch(NamedTuple):
    """Rows of a table, ready for a network.

    `x` is `[M, features]`, `y` is `[M, outputs]` for regression and `[M]` integers for classification.
    `weight` is `[M]`: sample weights, and zero for a row that does not count yet (SGSMC) or at all (padding).
    """

    x: Array
    y: Array
    weight: Array


class LogDensity(Protocol):
    """`log_density(theta, shared)`: one particle's log density, up to a constant.

    `shared` is whatever all particles have in common (for a partial Bayesian network, the deterministic ψ):
    the SMC room differentiates with respect to it, but does not know what it means.
    """

    def __call__(self, theta: Tree, shared: Tree, /) -> Array: ...
