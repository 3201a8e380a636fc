"""From an estimator's settings to a `Model`, the same object for the same settings.

Compiled code is found again by the identity of the model, so a second fit of the same shape compiles nothing.
"""

from __future__ import annotations

import math
from functools import lru_cache, partial
from numbers import Real
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from partbayes.errors import PartbayesError
from partbayes.model import (
    Likelihood,
    Model,
    Network,
    as_network,
    categorical,
    gaussian,
    mlp,
    normal_prior,
    partial_bnn,
)
from partbayes.model.partition import Stochastic


class ModelSpec(NamedTuple):
    """All that a model depends on; hashable.

    `noise` is None for classification, and the fixed standard deviation of each (standardised) output where it is
    given as numbers. `num_outputs` counts targets or classes.
    """

    num_inputs: int
    num_outputs: int
    hidden: tuple[int, ...]
    noise: str | tuple[float, ...] | None
    stochastic: Stochastic
    prior_scale: float | str
    network: Network | None
    sample_noise: bool = False


@lru_cache(maxsize=64)
def build_model(spec: ModelSpec) -> Model:
    """The partial Bayesian network that the settings describe."""
    likelihood = _likelihood(spec)
    network = spec.network
    if network is None:
        network = mlp(spec.num_inputs, spec.hidden, likelihood.num_outputs)
    else:
        _check_outputs(network, spec.num_inputs, likelihood.num_outputs)
    return partial_bnn(
        network,
        likelihood,
        stochastic=spec.stochastic,
        sample_noise=spec.sample_noise,
        prior=normal_prior(partial(_scale, given=spec.prior_scale)),
    )


def check_hidden(hidden: Any) -> tuple[int, ...]:
    """Widths of the hidden layers as a tuple; one number is one layer."""
    widths = (hidden,) if isinstance(hidden, int | np.integer) else hidden
    try:
        checked = tuple(int(width) for width in widths)
        fine = all(width > 0 and width == given for width, given in zip(checked, widths, strict=True))
    except (TypeError, ValueError):
        checked, fine = (), False
    if not fine:
        raise PartbayesError(f"hidden is {hidden!r}, but positive layer widths are expected, such as (50, 20).")
    return checked


def check_stochastic(stochastic: Any) -> Stochastic:
    """The choice as something hashable."""
    if isinstance(stochastic, str) or callable(stochastic):
        return cast(Stochastic, stochastic)
    try:
        prefixes = tuple(stochastic)
    except TypeError:
        prefixes = ()
    if not prefixes or not all(isinstance(prefix, str) for prefix in prefixes):
        raise PartbayesError(
            f"stochastic is {stochastic!r}, but 'first', 'last', 'all', path prefixes or a predicate are expected."
        )
    return prefixes


def check_prior_scale(scale: Any) -> float | str:
    """A positive number, or "fan_in"."""
    if isinstance(scale, str) and scale == "fan_in":
        return scale
    if isinstance(scale, bool) or not isinstance(scale, Real) or not 0 < float(scale) < math.inf:
        raise PartbayesError(f"prior_scale is {scale!r}, but 'fan_in' or a positive number is expected.")
    return float(scale)


def check_network(network: Any, num_inputs: int) -> Network | None:
    """What was brought as a `Network`, or None for the house's own."""
    return None if network is None else as_network(network, jnp.zeros((1, num_inputs)))


def _likelihood(spec: ModelSpec) -> Likelihood:
    if spec.noise is None:
        return categorical(spec.num_outputs)
    return gaussian(spec.noise, spec.num_outputs)


NOISE_SCALE = 3.0
"""Prior standard deviation of a sampled noise's logarithm, in a standardised target's units: e³ either way."""


def _scale(path: str, leaf: Any, *, given: float | str) -> float:
    """A number for all of the network, or "fan_in": 1/√inputs for a weight matrix, one for a bias."""
    if path.startswith("likelihood/"):
        return NOISE_SCALE
    if not isinstance(given, str):
        return given
    return leaf.shape[0] ** -0.5 if len(leaf.shape) == 2 else 1.0


def _check_outputs(network: Network, num_inputs: int, wanted: int) -> None:
    """Run the network on shapes alone."""
    rows = jax.ShapeDtypeStruct((2, num_inputs), jnp.result_type(float))
    try:
        shape = jax.eval_shape(lambda key, x: network.apply(network.init(key), x), jax.random.key(0), rows).shape
    except (TypeError, ValueError) as error:
        raise PartbayesError(
            f"The network does not take rows of {num_inputs} features: {str(error).splitlines()[0]}"
        ) from error
    if shape != (2, wanted):
        raise PartbayesError(
            f"The network gives {shape[1:]} numbers per row, but {wanted} are needed here "
            "(one per class, or per target, and as many again for heteroscedastic noise)."
        )
