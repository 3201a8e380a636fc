"""The house's own network: a plain multilayer perceptron as `(init, apply)`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp

from partbayes.types import Array, Key, Tree


class InitNetwork(Protocol):
    def __call__(self, key: Key, /) -> Tree: ...


class ApplyNetwork(Protocol):
    """Outputs `[M, num_outputs]` for rows `x [M, features]`."""

    def __call__(self, params: Tree, x: Array, /) -> Array: ...


class Network(NamedTuple):
    """Any network, seen as two pure functions."""

    init: InitNetwork
    apply: ApplyNetwork


def mlp(
    num_inputs: int, hidden: Sequence[int], num_outputs: int, activation: Callable[[Array], Array] = jax.nn.gelu
) -> Network:
    """Dense layers with an activation between them; parameters are `layers/i/weight` `[in, out]` and `layers/i/bias`.

    Weights start LeCun-normal and biases at zero, as in Flax.
    """
    sizes = (num_inputs, *hidden, num_outputs)
    return Network(partial(_mlp_init, sizes=sizes), partial(_mlp_apply, activation=activation))


def _mlp_init(key: Key, *, sizes: tuple[int, ...]) -> Tree:
    draw = jax.nn.initializers.lecun_normal()
    keys = jax.random.split(key, len(sizes) - 1)
    shapes = zip(keys, sizes[:-1], sizes[1:], strict=True)
    return {"layers": [{"weight": draw(k, (m, n)), "bias": jnp.zeros(n)} for k, m, n in shapes]}


def _mlp_apply(params: Tree, x: Array, *, activation: Callable[[Array], Array]) -> Array:
    *inner, last = params["layers"]
    for layer in inner:
        x = activation(x @ layer["weight"] + layer["bias"])
    return x @ last["weight"] + last["bias"]
