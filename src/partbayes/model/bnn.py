r"""A partial Bayesian neural network $f(x; \theta, \psi)$: network, likelihood and prior joined into log densities."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from partbayes.model.likelihoods import Categorical, Gaussian, Likelihood
from partbayes.model.networks import Network
from partbayes.model.partition import Stochastic, combine, partition, select
from partbayes.model.priors import LogPrior, Prior, normal_prior
from partbayes.types import Array, Batch, Key, Tree


class InitModel(Protocol):
    """Starting values of one island: `(theta, psi)` as the network draws them."""

    def __call__(self, key: Key, /) -> tuple[Tree, Tree]: ...


class LogLikelihood(Protocol):
    r"""$\log p(y_n \mid x_n, \theta, \psi)$ of each row, `[M]`, before any weighting."""

    def __call__(self, theta: Tree, psi: Tree, batch: Batch, /) -> Array: ...


class LevelLogLikelihood(Protocol):
    """The same with one noise level for all rows where `level` is one, and just `LogLikelihood` where it is zero."""

    def __call__(self, theta: Tree, psi: Tree, batch: Batch, level: Array, /) -> Array: ...


class SampleTheta(Protocol):
    def __call__(self, key: Key, /) -> Tree: ...


class PredictComponents(Protocol):
    """The distribution that one particle predicts for each row."""

    def __call__(self, theta: Tree, psi: Tree, x: Array, /) -> Gaussian | Categorical: ...


class ShiftModelNoise(Protocol):
    """`(theta, psi)` with a noise that is e^`shift` times as large."""

    def __call__(self, theta: Tree, psi: Tree, shift: Array, /) -> tuple[Tree, Tree]: ...


class HoldMore(Protocol):
    """What stands in the place of ψ where a model starts."""

    def __call__(self, theta: Tree, psi: Tree, /) -> Tree: ...


class Model(NamedTuple):
    """All that training and prediction ask of a network. Each function is for one particle."""

    init: InitModel
    log_likelihood: LogLikelihood
    log_prior: LogPrior
    sample_prior: SampleTheta
    components: PredictComponents
    level_log_likelihood: LevelLogLikelihood | None = None
    """What the default training climbs by (see `Likelihood`): whoever gives a model another `log_likelihood` gives it
    another of these, or None."""
    shift_noise: ShiftModelNoise | None = None
    """None where the noise is no parameter."""
    temperature: float = 1.0
    """What `log_likelihood` and `log_prior` have been divided by (`model.tempered`)."""


def partial_bnn(
    network: Network,
    likelihood: Likelihood,
    *,
    stochastic: Stochastic = "first",
    sample_noise: bool = False,
    prior: Prior | None = None,
) -> Model:
    """Make the chosen part of a network stochastic, and with `sample_noise` the likelihood's own parameters too.

    The parameter tree is `{"network": ..., "likelihood": ...}`, so a predicate may pick any weight, and the noise too
    (`stochastic=["network/layers/0", "likelihood"]`). "first" and "last" look at the network's layers.
    """
    prior = normal_prior() if prior is None else prior
    example = _example_tree(network, likelihood)
    if stochastic in ("first", "last"):
        inside = select(stochastic, example["network"])
        predicate = partial(_in_network, inside=inside)
    else:
        predicate = select(stochastic, example)
    if sample_noise:
        predicate = partial(_or_in_likelihood, chosen=predicate)
    theta, _, static = partition(example, predicate)
    shapes = jax.eval_shape(lambda: theta)

    def init(key: Key) -> tuple[Tree, Tree]:
        return partition(_init_tree(key, network, likelihood), predicate)[:2]

    def rows_of(log_prob: Callable[..., Array], theta: Tree, psi: Tree, batch: Batch, *level: Array) -> Array:
        params = combine(theta, psi, static)
        return log_prob(params["likelihood"], network.apply(params["network"], batch.x), batch.y, *level)

    def components(theta: Tree, psi: Tree, x: Array) -> Gaussian | Categorical:
        params = combine(theta, psi, static)
        return likelihood.components(params["likelihood"], network.apply(params["network"], x))

    def sample_prior(key: Key) -> Tree:
        return prior.sample(key, shapes)

    def shift_noise(theta: Tree, psi: Tree, shift: Array) -> tuple[Tree, Tree]:
        params = combine(theta, psi, static)
        assert likelihood.shift_noise is not None
        shifted = {**params, "likelihood": likelihood.shift_noise(params["likelihood"], shift)}
        return partition(shifted, predicate)[:2]

    level = likelihood.level_log_prob
    return Model(
        init,
        partial(rows_of, likelihood.log_prob),
        prior.log_density,
        sample_prior,
        components,
        None if level is None else partial(rows_of, level),
        None if likelihood.shift_noise is None else shift_noise,
    )


def with_more_beside_psi(model: Model, hold: HoldMore, log_likelihood: LogLikelihood) -> Model:
    """The model with something in the place of ψ that holds ψ, as its field `psi`, and more: what `log_likelihood`, in
    the place of the model's own, asks for besides."""

    def init(key: Key) -> tuple[Tree, Tree]:
        theta, psi = model.init(key)
        return theta, hold(theta, psi)

    return model._replace(
        init=init,
        log_likelihood=log_likelihood,
        components=lambda theta, held, x: model.components(theta, held.psi, x),
        level_log_likelihood=None,
        shift_noise=None,
    )


def _init_tree(key: Key, network: Network, likelihood: Likelihood) -> Tree:
    return {"network": network.init(key), "likelihood": likelihood.init()}


def _example_tree(network: Network, likelihood: Likelihood) -> Tree:
    """The structure of the parameters and all that is no parameter. Drawing them to see it would cost seconds, so they
    are zero here (numpy's: JAX would compile a program for each shape), unless there are other arrays among them, whose
    numbers count (buffers of integers)."""
    draw = partial(_init_tree, jax.random.key(0), network, likelihood)
    outline = eqx.filter_eval_shape(draw)
    arrays = [leaf for leaf in jax.tree.leaves(outline) if isinstance(leaf, jax.ShapeDtypeStruct)]
    if not all(jnp.issubdtype(leaf.dtype, jnp.inexact) for leaf in arrays):
        return draw()

    def zero(leaf):
        return jax.device_put(np.zeros(leaf.shape, leaf.dtype)) if isinstance(leaf, jax.ShapeDtypeStruct) else leaf

    return jax.tree.map(zero, outline)


def _or_in_likelihood(path: str, leaf: Array, *, chosen) -> bool:
    return path.startswith("likelihood/") or chosen(path, leaf)


def _in_network(path: str, leaf: Array, *, inside) -> bool:
    room, _, rest = path.partition("/")
    return room == "network" and inside(rest, leaf)
