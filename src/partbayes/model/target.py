r"""The sampler's target, and the only place where N/M lives.

$$\log \pi_S(\theta \mid \psi) = s \sum_{n \in S} \log p(y_n \mid x_n, \theta, \psi) + \log q_0(\theta)$$

with $s = N/M$ (`scale="full"`, the batch stands for all N rows) or $s = 1$ (`scale="batch"`).
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

import jax.numpy as jnp

from partbayes.errors import PartbayesError
from partbayes.model.bnn import Model
from partbayes.types import Array, Batch, Tree

Scale: TypeAlias = Literal["full", "batch"]


class Target(NamedTuple):
    """The log density above for one particle; without the prior it is the batch's likelihood alone."""

    model: Model
    num_data: int
    scale: Scale = "full"
    with_prior: bool = True

    def __call__(self, theta: Tree, psi: Tree, batch: Batch) -> Array:
        rows = batch.weight * self.model.log_likelihood(theta, psi, batch)
        return self.likelihood_factor(batch) * jnp.sum(rows) + self._prior(theta)

    def likelihood_factor(self, batch: Batch) -> float:
        """The number s."""
        return self.num_data / batch.x.shape[0] if self.scale == "full" else 1.0

    def gradient_factor(self, batch: Batch) -> float:
        """What turns this target's ψ-gradient into the one that carries N/M, as it always must."""
        return self.model.temperature * self.num_data / batch.x.shape[0] / self.likelihood_factor(batch)

    def log_likelihood(self, value: Array, theta: Tree, batch: Batch) -> Array:
        """The batch's plain log-likelihood, recovered from the target's `value` at `theta`."""
        return self.model.temperature * (value - self._prior(theta)) / self.likelihood_factor(batch)

    def _prior(self, theta: Tree) -> Array | float:
        return self.model.log_prior(theta) if self.with_prior else 0.0


def log_target(model: Model, num_data: int, scale: Scale = "full") -> Target:
    """Likelihood and prior: what GOHSMC samples."""
    return Target(model, num_data, _check(scale), with_prior=True)


def log_batch_likelihood(model: Model, num_data: int, scale: Scale = "batch") -> Target:
    """The likelihood alone: what OHSMC multiplies its weights by."""
    return Target(model, num_data, _check(scale), with_prior=False)


def _check(scale: Scale) -> Scale:
    if scale not in ("full", "batch"):
        raise PartbayesError(f"The target's scale is {scale!r}, but 'full' (N/M) or 'batch' (1) is expected.")
    return scale
