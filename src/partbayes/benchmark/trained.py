"""A trained network to sample around: where the comparisons of samplers begin.

The network is d-50-20-1 with its first layer stochastic, and one noise level is learned with ψ, as the default training
does. A fixed σ = 1, the paper's choice, would leave θ closer to its prior, and a sampler less to do.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import jax
import optax

from partbayes.baselines import map_estimate
from partbayes.data import as_batch, load, split, standardise
from partbayes.data.batching import steps_per_epoch
from partbayes.model import Gaussian, Model, gaussian, mlp, partial_bnn
from partbayes.runtime import fit
from partbayes.types import Array, Batch, Tree

HIDDEN = (50, 20)
BATCH_SIZE = 64
LEARNING_RATE = 0.01


class TrainedNetwork(NamedTuple):
    """The model, the rows (standardised on the training part), and the point that Adam found."""

    model: Model
    train: Batch
    test: Batch
    theta: Tree
    psi: Tree

    def at_test_rows(self, theta: Tree, psi: Tree) -> tuple[Array, Array]:
        """What one particle predicts there: f and the noise, each `[rows]`."""
        found = self.model.components(theta, psi, self.test.x)
        assert isinstance(found, Gaussian)
        return found.loc[:, 0], found.scale[:, 0]


@lru_cache(maxsize=8)
def trained_network(
    dataset: str, seed: int, epochs: int, hidden: tuple[int, ...] = HIDDEN, data_dir: str | Path | None = None
) -> TrainedNetwork:
    """Adam on θ and ψ, its rate falling along a cosine; the epoch with the best validation loss is kept.

    Rows are split by the seed as in the other presets: 60 % training, 30 % validation, 10 % test.
    """
    splits, _, _ = standardise(split(load(dataset, data_dir), seed))
    train, validation, test = (as_batch(part) for part in splits)
    num_data, num_inputs = train.x.shape
    likelihood = gaussian("learned")
    model = partial_bnn(mlp(num_inputs, hidden, likelihood.num_outputs), likelihood)
    schedule = optax.cosine_decay_schedule(LEARNING_RATE, epochs * steps_per_epoch(num_data, BATCH_SIZE))
    found = fit(
        jax.random.key(seed),
        map_estimate(model, num_data, optimiser=optax.adam(schedule)),
        model,
        train,
        num_epochs=epochs,
        batch_size=BATCH_SIZE,
        validation=validation,
        progress=False,
    ).posterior
    theta = jax.tree.map(lambda leaf: leaf[0, 0], found.theta)
    return TrainedNetwork(model, train, test, theta, jax.tree.map(lambda leaf: leaf[0], found.psi))
