"""The problem that every row solves: one step on a fixed batch, first layer stochastic, learned Gaussian noise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from partbayes.algorithm import Algorithm
from partbayes.model import Model, gaussian, mlp, partial_bnn
from partbayes.types import Batch

NUM_DATA = 1000
"""Rows that the batch stands for; it enters as a factor and costs nothing."""
LEARNING_RATE = 0.01

Call = Callable[[], Any]
"""One step, from the same state every time; what it returns is waited for."""


class Shape(NamedTuple):
    inputs: int
    width: int
    second: int
    particles: int
    batch: int

    @property
    def name(self) -> str:
        return "-".join(map(str, self))


SHAPES = (Shape(8, 50, 20, 100, 100), Shape(8, 450, 20, 100, 100), Shape(17, 900, 20, 100, 50))


class Problem(NamedTuple):
    shape: Shape
    model: Model
    batch: Batch


def problem(shape: Shape) -> Problem:
    """Network and batch of a shape."""
    likelihood = gaussian("learned")
    network = mlp(shape.inputs, (shape.width, shape.second), likelihood.num_outputs)
    x = jax.random.normal(jax.random.key(0), (shape.batch, shape.inputs))
    batch = Batch(x, jnp.sin(x[:, :1]), jnp.ones(shape.batch))
    return Problem(shape, partial_bnn(network, likelihood, stochastic="first"), batch)


def bind(algorithm: Algorithm, model: Model, batch: Batch) -> Call:
    """The compiled step of an algorithm, as `fit` compiles it but alone."""
    params = model.init(jax.random.key(1))
    state = jax.jit(algorithm.init)(jax.random.key(2), params, batch)
    step = jax.jit(algorithm.step)
    key = jax.random.key(3)
    return lambda: step(key, state, batch)
