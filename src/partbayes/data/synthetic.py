r"""Problems with a known answer: linear regression with its exact posterior, and a curve with its true noise."""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from partbayes.data.dataset import Dataset, make_dataset
from partbayes.errors import PartbayesError
from partbayes.types import Batch, Key


class ExactPosterior(NamedTuple):
    """θ | y ~ N(mean, cov), and log p(y), in float64."""

    mean: np.ndarray
    cov: np.ndarray
    log_evidence: float


class LinearGaussian(NamedTuple):
    """Rows drawn from the model, and the exact answer for just these rows."""

    batch: Batch
    mean: np.ndarray
    cov: np.ndarray
    log_evidence: float


def exact_linear_gaussian(x: ArrayLike, y: ArrayLike, noise: float, prior_scale: float) -> ExactPosterior:
    r"""Posterior and evidence of $y = X\theta + \sigma e$, $\theta \sim N(0, s^2 I)$, $e \sim N(0, I)$.

    With $A = X^\top X / \sigma^2 + I / s^2$ the posterior is $N(m, A^{-1})$, $m = A^{-1} X^\top y / \sigma^2$, and

    $$\log p(y) = -\tfrac12 \Big(N \log 2\pi\sigma^2 + d \log s^2 + \log|A|
        + \|y - Xm\|^2 / \sigma^2 + \|m\|^2 / s^2\Big),$$

    whose last two terms equal $y^\top y / \sigma^2 - m^\top A m$ without its cancellation.
    `y` is `[N]` or `[N, 1]`.
    """
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    if x.ndim != 2 or y.shape not in ((len(x),), (len(x), 1)):
        raise PartbayesError(f"x has shape {x.shape} and y {y.shape}, but [N, dim] and [N] or [N, 1] are needed.")
    _check_scales(noise, prior_scale)
    y = y.reshape(-1)
    num_data, dim = x.shape
    precision = x.T @ x / noise**2 + np.eye(dim) / prior_scale**2
    root = np.linalg.cholesky(precision)
    root_inverse = np.linalg.inv(root)
    cov = root_inverse.T @ root_inverse
    mean = cov @ (x.T @ y) / noise**2
    log_evidence = -0.5 * (
        num_data * math.log(2 * math.pi * noise**2)
        + 2 * dim * math.log(prior_scale)
        + 2 * np.log(np.diag(root)).sum()
        + np.sum((y - x @ mean) ** 2) / noise**2
        + np.sum(mean**2) / prior_scale**2
    )
    return ExactPosterior(mean, cov, float(log_evidence))


def linear_gaussian(key: Key, num_data: int, dim: int, noise: float = 0.5, prior_scale: float = 1.0) -> LinearGaussian:
    """Draw θ from the prior, standard normal inputs and noisy targets, and solve for θ given them.

    The answer belongs to the batch as it is stored: it is computed after rounding to the batch's dtype.
    """
    _check_scales(noise, prior_scale)
    key_x, key_theta, key_noise = jax.random.split(key, 3)
    x = jax.random.normal(key_x, (num_data, dim))
    theta = prior_scale * jax.random.normal(key_theta, (dim,))
    y = x @ theta + noise * jax.random.normal(key_noise, (num_data,))
    return LinearGaussian(
        Batch(x, y[:, None], jnp.ones(num_data, x.dtype)), *exact_linear_gaussian(x, y, noise, prior_scale)
    )


def wiggle(seed: int, n: int) -> Dataset:
    """`n` rows of a curve whose noise grows from left to right, with a gap in the inputs between -0.5 and 1."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-3.0, 1.5, n)
    x = np.where(x > -0.5, x + 1.5, x)
    mean, std = wiggle_moments(x)
    return make_dataset(x[:, None], mean + std * rng.standard_normal(n), feature_names=("x",), target_names=("y",))


def wiggle_moments(x: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """True mean and standard deviation of `wiggle`'s y given x, elementwise."""
    x = np.asarray(x, np.float64)
    return np.sin(2.0 * x) + 0.3 * x, 0.05 + 0.3 / (1.0 + np.exp(-2.0 * x))


def _check_scales(noise: float, prior_scale: float) -> None:
    if not (noise > 0 and prior_scale > 0):
        raise PartbayesError(f"noise is {noise} and prior_scale {prior_scale}, but both must be > 0.")
