"""Likelihoods: what a network's outputs say about y. Their parameters (a learned noise) sit beside the network's."""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp

from partbayes.errors import PartbayesError
from partbayes.types import Array, Tree


class Gaussian(NamedTuple):
    """Predictive components of one particle: `loc` and `scale`, both `[M, D]`."""

    loc: Array
    scale: Array


class Categorical(NamedTuple):
    """Predictive components of one particle: `logits [M, classes]`."""

    logits: Array


class InitLikelihood(Protocol):
    def __call__(self) -> Tree: ...


class LogProb(Protocol):
    """Log density of each row, `[M]`."""

    def __call__(self, params: Tree, outputs: Array, y: Array, /) -> Array: ...


class LevelLogProb(Protocol):
    """The same with one noise level for all rows where `level` is one, and just `log_prob` where it is zero: an input,
    so that both are one program."""

    def __call__(self, params: Tree, outputs: Array, y: Array, level: Array, /) -> Array: ...


class Components(Protocol):
    """The distribution of y at each row, as the predict room wants it."""

    def __call__(self, params: Tree, outputs: Array, /) -> Gaussian | Categorical: ...


class ShiftNoise(Protocol):
    """Parameters whose noise is e^`shift` times as large (up to the floor)."""

    def __call__(self, params: Tree, shift: Array, /) -> Tree: ...


class Likelihood(NamedTuple):
    """`num_outputs` is how many numbers the network must produce per row.

    `level_log_prob`, where there is one, is what the default training climbs by, at level one and then at zero. A noise
    that may differ between rows from the start explains errors away before the mean has been learned.
    """

    init: InitLikelihood
    log_prob: LogProb
    components: Components
    num_outputs: int
    level_log_prob: LevelLogProb | None = None
    shift_noise: ShiftNoise | None = None
    """None where the noise is no parameter."""


def gaussian(
    sigma: float | tuple[float, ...] | str = "learned", num_targets: int = 1, initial: float = 1.0, floor: float = 1e-3
) -> Likelihood:
    r"""$y \sim N(f(x), \sigma^2)$, independent over targets.

    - `sigma=1.0`: a fixed number (the paper's choice), or a tuple with one for each target.
    - `sigma="learned"`: one per target, $\sigma = f + e^{\rho}$ with ρ a parameter named `likelihood/log_sigma`.
    - `sigma="heteroscedastic"`: a second output per target, $\sigma(x) = f + e^{\rho}\,\mathrm{softplus}(\cdot)$, with
      a parameter ρ per target, `likelihood/log_scale`: the one number to make stochastic if the noise's level is.

    `floor` f keeps repeated rows from driving a learned noise to zero.
    """
    if sigma == "learned":
        start = jnp.log(jnp.full((num_targets,), initial))
        return Likelihood(
            partial(_noise_params, start),
            partial(_gaussian_log_prob, noise=partial(_learned_noise, floor=floor)),
            partial(_gaussian_components, noise=partial(_learned_noise, floor=floor)),
            num_targets,
            shift_noise=partial(_shifted, name="log_sigma"),
        )
    if sigma == "heteroscedastic":
        # softplus(o + shift) equals `initial` at output zero, where a fresh network starts.
        noise = partial(_second_output_noise, floor=floor, shift=math.log(math.expm1(initial)))
        return Likelihood(
            partial(_scale_params, num_targets),
            partial(_gaussian_log_prob, noise=noise),
            partial(_gaussian_components, noise=noise),
            2 * num_targets,
            partial(_level_log_prob, noise=noise),
            partial(_shifted, name="log_scale"),
        )
    fixed = () if isinstance(sigma, str) else sigma if isinstance(sigma, tuple) else (sigma,) * num_targets
    if len(fixed) != num_targets or not all(number > 0 for number in fixed):
        raise PartbayesError(
            f"The noise is {sigma!r}, but 'learned', 'heteroscedastic' or a positive number (for each of {num_targets} "
            "targets) is expected."
        )
    noise = partial(_fixed_noise, sigma=fixed)
    return Likelihood(
        dict, partial(_gaussian_log_prob, noise=noise), partial(_gaussian_components, noise=noise), num_targets
    )


def categorical(num_classes: int) -> Likelihood:
    """Class labels 0 … C − 1 with probabilities softmax(outputs)."""
    if num_classes < 2:
        raise PartbayesError(f"There is {num_classes} class, but at least two are needed: check the labels.")
    return Likelihood(dict, _categorical_log_prob, _categorical_components, num_classes)


def _noise_params(start: Array) -> Tree:
    return {"log_sigma": start}


def _scale_params(num_targets: int) -> Tree:
    return {"log_scale": jnp.zeros(num_targets)}


def _shifted(params: Tree, shift: Array, *, name: str) -> Tree:
    return {**params, name: params[name] + shift}


def _fixed_noise(params: Tree, outputs: Array, *, sigma: tuple[float, ...]) -> Gaussian:
    return Gaussian(outputs, jnp.broadcast_to(jnp.asarray(sigma, outputs.dtype), outputs.shape))


def _learned_noise(params: Tree, outputs: Array, *, floor: float) -> Gaussian:
    return Gaussian(outputs, jnp.broadcast_to(floor + jnp.exp(params["log_sigma"]), outputs.shape))


def _second_output_noise(params: Tree, outputs: Array, *, floor: float, shift: float) -> Gaussian:
    loc, raw = jnp.split(outputs, 2, axis=-1)
    return Gaussian(loc, floor + jnp.exp(params["log_scale"]) * jax.nn.softplus(raw + shift))


def _gaussian_components(params: Tree, outputs: Array, *, noise: Components) -> Gaussian | Categorical:
    return noise(params, outputs)


def _gaussian_log_prob(params: Tree, outputs: Array, y: Array, *, noise: Components) -> Array:
    loc, scale = noise(params, outputs)  # pyright: ignore[reportAssignmentType]
    terms = -0.5 * jnp.square((y - loc) / scale) - jnp.log(scale) - 0.5 * math.log(2 * math.pi)
    return jnp.sum(terms, axis=-1)


def _level_log_prob(params: Tree, outputs: Array, y: Array, level: Array, *, noise: Components) -> Array:
    """A second output of zero is the noise's level."""
    loc, raw = jnp.split(outputs, 2, axis=-1)
    return _gaussian_log_prob(
        params, jnp.concatenate([loc, (1 - level).astype(raw.dtype) * raw], axis=-1), y, noise=noise
    )


def _categorical_components(params: Tree, outputs: Array) -> Categorical:
    return Categorical(outputs)


def _categorical_log_prob(params: Tree, outputs: Array, y: Array) -> Array:
    return jnp.take_along_axis(jax.nn.log_softmax(outputs), y[:, None], axis=-1)[:, 0]
