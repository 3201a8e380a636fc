"""The one shape of every training method: `Algorithm(init, step, posterior)`, and what it ends in, a `Posterior`."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from partbayes.types import Array, Batch, Key, Tree


class Posterior(NamedTuple):
    """Weighted particles of θ and the ψ that belongs to them.

    With its island axis, as everything after training expects it: `theta` leaves are `[K, J, ...]`, `log_weights`
    is `[K, J]`, `psi` leaves are `[K, ...]`. Weights add up to K: each island's row to one, unless the islands have
    been given shares of their own (`runtime.refinement`). Islands of fewer particles are filled up with idle ones, of
    weight zero.
    K = 1 is one population, J = 1 a deep ensemble. `Algorithm.posterior` returns one island, without the K axis;
    `runtime.fit` stacks them.
    """

    theta: Tree
    log_weights: Array
    psi: Tree


class Init(Protocol):
    """`init(key, params, batch)`: the state before the first step, for one island.

    `params` is `(theta, psi)` as drawn by `Model.init`. Methods that start from the prior ignore its θ.
    """

    def __call__(self, key: Key, params: tuple[Tree, Tree], batch: Batch, /) -> Any: ...


class Step(Protocol):
    """`step(key, state, batch)`: one training step of one island."""

    def __call__(self, key: Key, state: Any, batch: Batch, /) -> tuple[Any, Info]: ...


class Extract(Protocol):
    """`posterior(state)`: the weighted particles that the state stands for."""

    def __call__(self, state: Any, /) -> Posterior: ...


class Algorithm(NamedTuple):
    """A training method as three pure functions, each written for one island."""

    init: Init
    step: Step
    posterior: Extract


class Info(NamedTuple):
    """What people look at while training; one scalar each, per step.

    A quantity that a method does not have is `nan` (an acceptance statistic of plain Adam, say).
    """

    loss: Array
    """Weighted mean negative log-likelihood per row of the batch."""
    ess: Array
    """Effective sample size of the weights before resampling, between 1 and J."""
    acceptance: Array
    """Weighted mean of min(1, exp(-ΔH)) over the particles' moves."""
    resampled: Array
    """Whether this step resampled."""
    dead: Array
    """Fraction of particles whose move ended in a non-finite target: they got weight zero."""
    finite: Array
    """False when every particle is dead: the island is lost."""
    skipped: Array
    """True when the ψ-gradient was not finite, and ψ therefore stayed."""
    log_evidence: Array
    """Running estimate of log p(y | ψ)."""
    num_gradients: Array
    """Gradients of the log target that a particle's move took, mean over particles."""
