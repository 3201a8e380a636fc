"""What `fit` adds to its steps: the same hundred steps of GOHSMC-LD by `fit`, and as one bare compiled scan."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from benchmarks import ours
from benchmarks.problem import Call, Problem, Shape, problem
from partbayes import runtime, training
from partbayes.data.batching import batch_indices, epoch_order, steps_per_epoch, take
from partbayes.types import Batch

FIT, SCAN = "fit, 100 steps", "bare scan, 100 steps"
EPOCHS, STEPS = 5, 20


def rows(shape: Shape) -> dict[str, Call]:
    """Both calls, on a data set of 20 batches."""
    built: Problem = problem(shape)
    x = jax.random.normal(jax.random.key(4), (STEPS * shape.batch, shape.inputs))
    data = Batch(x, jnp.sin(x[:, :1]), jnp.ones(x.shape[0]))
    algorithm = training.gohsmc(built.model, x.shape[0], num_particles=shape.particles, step_size=ours.STEP_SIZE)
    options = {"num_epochs": EPOCHS, "batch_size": shape.batch, "progress": False}
    assert steps_per_epoch(x.shape[0], shape.batch) == STEPS

    @jax.jit
    def scan(key, state, data):
        def epoch(state, number):
            order = epoch_order(key, number, x.shape[0])

            def step(state, i):
                batch = take(data, batch_indices(order, i, shape.batch))
                return algorithm.step(jax.random.fold_in(key, number * STEPS + i), state, batch)

            return jax.lax.scan(step, state, jnp.arange(STEPS))

        return jax.lax.scan(epoch, state, jnp.arange(EPOCHS))

    start = runtime.start(jax.random.key(5), algorithm, built.model, data, batch_size=shape.batch)
    state = jax.tree.map(lambda leaf: leaf[0], start.state)
    key = jax.random.key(6)
    return {
        FIT: lambda: runtime.fit(key, algorithm, built.model, data, **options).posterior,
        SCAN: lambda: scan(key, state, data),
    }
