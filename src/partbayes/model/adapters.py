"""Bring your own network: Equinox, Flax (Linen and NNX), or a function, all turned into `Network(init, apply)`.

Flax is imported only when one of its modules is handed in.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax

from partbayes.errors import PartbayesError
from partbayes.model.networks import ApplyNetwork, Network
from partbayes.types import Array, Key, Tree


def from_function(apply: ApplyNetwork, params: Tree | Callable[[Key], Tree]) -> Network:
    """A function `apply(params, x)` and its parameters: a tree, or `params(key)` for islands that start apart."""
    return Network(params if callable(params) else partial(_constant, params), apply)


def from_equinox(module: eqx.Module | Callable[[Key], eqx.Module]) -> Network:
    """An Equinox module for one row, or `module(key)` that makes one so that each island starts elsewhere."""
    make = partial(_constant, module) if isinstance(module, eqx.Module) else module
    static = eqx.filter(make(jax.random.key(0)), eqx.is_inexact_array, inverse=True)  # structure only
    return Network(partial(_equinox_init, make=make), partial(_equinox_apply, static=static))


def from_linen(module: Any, example: Array) -> Network:
    """A Flax Linen module; `example` is one row or a batch of inputs, used for shapes only."""
    return Network(partial(_linen_init, module=module, example=example), partial(_linen_apply, module=module))


def from_nnx(make: Callable[[Any], Any]) -> Network:
    """A function `make(rngs)` that builds a Flax NNX module."""
    from flax import nnx

    graph, parameters, rest = nnx.split(make(nnx.Rngs(0)), nnx.Param, ...)
    return Network(partial(_nnx_init, make=make), partial(_nnx_apply, graph=graph, parameters=parameters, rest=rest))


def as_network(network: Any, example: Array) -> Network:
    """Recognise what was brought: a `Network`, an Equinox or Linen module. NNX modules need `from_nnx`."""
    if isinstance(network, Network):
        return network
    if isinstance(network, eqx.Module):
        return from_equinox(network)
    if any(base.__module__.startswith("flax.linen") for base in type(network).__mro__):
        return from_linen(network, example)
    raise PartbayesError(
        f"A network of type {type(network).__name__} came, but a partbayes Network, an Equinox module or a Flax Linen "
        "module is expected: wrap others with from_function or from_nnx."
    )


def _constant(value: Any, key: Key) -> Any:
    return value


def _equinox_init(key: Key, *, make: Callable[[Key], eqx.Module]) -> Tree:
    return eqx.filter(make(key), eqx.is_inexact_array)


def _equinox_apply(params: Tree, x: Array, *, static: Tree) -> Array:
    return jax.vmap(eqx.combine(params, static))(x)


def _linen_init(key: Key, *, module: Any, example: Array) -> Tree:
    return module.init(key, example)["params"]


def _linen_apply(params: Tree, x: Array, *, module: Any) -> Array:
    return module.apply({"params": params}, x)


def _nnx_init(key: Key, *, make: Callable[[Any], Any]) -> Tree:
    from flax import nnx

    return nnx.to_pure_dict(nnx.split(make(nnx.Rngs(key)), nnx.Param, ...)[1])


def _nnx_apply(params: Tree, x: Array, *, graph: Any, parameters: Any, rest: Any) -> Array:
    from flax import nnx

    state = jax.tree.map(lambda leaf: leaf, parameters)  # a copy: replace_by_pure_dict works in place
    nnx.replace_by_pure_dict(state, params)
    return nnx.merge(graph, state, rest)(x)
