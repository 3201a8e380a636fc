r"""Refinement: what suits the mixture of all islands, rather than each island alone, given the particles.

Islands are trained one by one, but predict together. Some things can only be told of them together, and the validation
rows tell:

- **Start.** The point that an island's sampling set out from may stay in it as one more particle, with a part a of the
  island's weight that is the same for all. Where the samples are the worse, a tends to one. It maximises the log score
  together with the shares that follow, and so do all other parts.
- **Overtrained islands** (`runtime.overtraining`) remember the training rows. They get a part together, each as much.
- **Shares.** Island k gets the share $p_k$ that maximises $\sum_n w_n \log \sum_k p_k\, p_k(y_n \mid x_n)$ (stacking of
  predictive distributions, Yao et al. 2018) under a Dirichlet prior worth a few rows for each island: with few
  validation rows the islands stay equal. The maximum is found by expectation and maximisation.
- **Shape of the noise.** Errors of real tables are seldom normal: most are smaller than the noise says, a few much
  larger. Copies of some particles with a third and with three times their noise get a part each; where errors are
  normal they get none. A scale mixture of normals has a sharper peak and heavier tails.
- **Level of the noise.** The errors of islands average out, so a mixture of well calibrated islands predicts too
  widely (Rahaman & Thiery 2021). All noise is scaled by one factor e^s: of the factors whose mean log score is within
  two standard errors of the best, the one nearest to one, each with the shape that suits it best. It changes nothing
  unless the validation rows speak clearly.

Parts have no prior where the rows are enough to tell: one that they speak against vanishes. But where the noise has no
level, as with classes, the start has one of a row.
"""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from partbayes import tree as tm
from partbayes.algorithm import Posterior
from partbayes.model import Model
from partbayes.runtime.stacking import as_one, mixed, over_islands, stacked
from partbayes.runtime.validation import island_log_prob, mean_nll
from partbayes.types import Array, Batch

SCALES = (1 / 3, 3.0)
"""Of the copies' noise. Quarters and fourfolds scored the same in trial runs, halves and doubles a little less."""

EVERY = 3
"""Of an island's particles, how many there are for each that is copied: their places differ less than their noise."""

LEAST_PART = 0.01
"""Less is left out: predictions would take longer for nothing."""

SHIFTS = np.round(np.arange(-1.5, 1.01, 0.1), 2)
"""Logarithms of the noise's factor that are tried: a fifth to three times."""

STANDARD_ERRORS = 2.0

FEWEST_ROWS = 30
"""Below so many rows their standard error is a guess itself: the noise stays, nobody is overtrained, and each part has
a prior worth as many rows as are missing."""

START_ROWS = 1.0
"""What the prior of the start counts for where the noise has no level, as with classes. Samples are less sure of
everything there, and where rows hardly tell the two apart, averaging made the start doubtful enough already."""

MOST_ROWS = 1_000
"""Rows that the noise is judged by: their standard error is small enough."""


class _Pieces(NamedTuple):
    """What there is to mix: for all islands their start, their samples and copies of these, and other islands."""

    own: list[Posterior]
    other: Posterior | None


class Refined(NamedTuple):
    """The posterior, and what was done to it. Parts are of the whole."""

    posterior: Posterior
    shares: np.ndarray
    noise_factor: float
    start_part: float | None
    copies: dict[float, float]
    """The part of each scale."""
    overtrained_part: float
    score: float
    """Mean NLL of the validation rows."""

    def note(self) -> str:
        """One sentence for people."""
        said = [f"the {len(self.shares)} islands have shares from {self.shares.min():.3f} to {self.shares.max():.3f}"]
        parts = [f"{self.start_part:.2f} the warm start"] if self.start_part else []
        parts += [f"{part:.2f} copies with {scale:.2g} times the noise" for scale, part in self.copies.items()]
        if self.overtrained_part > 0:
            parts.append(f"{self.overtrained_part:.2f} other islands (trained to the end)")
        if parts:
            rest = 1 - (self.start_part or 0.0) - sum(self.copies.values()) - self.overtrained_part
            parts += [f"{rest:.2f} the particles as they were"] if rest > LEAST_PART / 2 else []
            said.append(f"the mixture is {', '.join(parts[:-1])}{' and ' * (len(parts) > 1)}{parts[-1]}")
        if self.noise_factor != 1:
            said.append(f"the noise is {self.noise_factor:.2f} times as large")
        return f"By the validation rows: {'; '.join(said)}."


def refine(
    model: Model,
    posterior: Posterior,
    validation: Batch,
    start: Posterior | None = None,
    overtrained: Posterior | None = None,
    *,
    noise_shape: bool = True,
) -> Refined:
    """Give the islands shares, `start` (the same islands before sampling) and the `overtrained` (others) their parts,
    and the noise its shape and level.

    Without `noise_shape` the noise stays normal.
    """
    own = [posterior] if start is None else [start, posterior]
    able = enough(validation)
    copies = _copies(model, posterior) if noise_shape and able else []
    other = _that_predict(model, overtrained, validation) if overtrained is not None and able else None
    pieces = _Pieces(own + copies, other)
    log_probs = _log_probs(model, pieces, validation)
    prior_rows = np.full(len(log_probs), max(0.0, FEWEST_ROWS - np.sum(np.asarray(validation.weight))), np.float32)
    if start is not None and model.shift_noise is None:
        prior_rows[0] += START_ROWS
    shares, parts = stacked(log_probs, validation.weight, prior_rows)
    shift = _level(model, pieces, validation, shares) if able and model.shift_noise is not None else 0.0
    if shift != 0:
        pieces = _shifted(model, pieces, np.float64(shift))  # the type of those tried: another is traced anew
        log_probs = _log_probs(model, pieces, validation)
        shares, parts = stacked(log_probs, validation.weight, prior_rows)
    parts = np.array(parts)
    parts[parts < LEAST_PART] = 0.0
    parts /= np.sum(parts)
    score = float(mean_nll(mixed(log_probs, shares, parts), validation))
    of_copies = parts[len(own) : len(pieces.own)]
    return Refined(
        _joined(pieces, np.asarray(shares), parts),
        np.asarray(shares),
        float(np.exp(shift)),
        None if start is None else float(parts[0]),
        {scale: float(part) for scale, part in zip(SCALES, of_copies, strict=False) if part > 0},
        0.0 if pieces.other is None else float(parts[-1]),
        score,
    )


def enough(validation: Batch | None) -> bool:
    """Whether the rows can tell more than how to weigh the islands."""
    return validation is not None and bool(np.sum(np.asarray(validation.weight)) >= FEWEST_ROWS)


def _that_predict(model: Model, islands: Posterior, validation: Batch) -> Posterior | None:
    """Those of the islands, which nobody has looked at before, that have an answer to every row."""
    answers = ~np.isnan(np.asarray(island_log_prob(model, islands, validation))).any(axis=1)
    if answers.all():
        return islands
    return tm.gather(islands, jnp.asarray(np.flatnonzero(answers))) if answers.any() else None


def _log_probs(model: Model, pieces: _Pieces, batch: Batch) -> list[Array]:
    """Of each piece `[K, M]`; the other islands are one density in the place of K."""
    own = [island_log_prob(model, piece, batch) for piece in pieces.own]
    if pieces.other is None:
        return own
    return [*own, as_one(island_log_prob(model, pieces.other, batch), own[0].shape[0])]


def _level(model: Model, pieces: _Pieces, validation: Batch, shares: Array) -> float:
    """The logarithm of the noise's factor. At each that is tried the parts are found anew: at a wrong level, copies
    would stand in for the right one."""
    every = -(-validation.x.shape[0] // MOST_ROWS)
    some = jax.tree.map(lambda rows: rows[::every], validation) if every > 1 else validation
    tried = []
    for shift in SHIFTS:
        shifted = _shifted(model, pieces, shift)
        by_piece = over_islands(_log_probs(model, shifted, some), shares)
        one, parts = stacked(by_piece, some.weight)
        tried.append(mixed(by_piece, one, parts))
    return _clear_shift(np.asarray(tried, np.float64), np.asarray(some.weight))


def _copies(model: Model, posterior: Posterior) -> list[Posterior]:
    """Some of the particles at each of `SCALES`; none where the noise is no parameter, or one of ψ, which all particles
    of an island share."""
    if model.shift_noise is None or not _noise_is_stochastic(model, posterior):
        return []
    return _copied(model, posterior)


@partial(jax.jit, static_argnames=("model",))
def _copied(model: Model, posterior: Posterior) -> list[Posterior]:
    theta, log_weights = jax.tree.map(lambda leaf: leaf[:, ::EVERY], (posterior.theta, posterior.log_weights))
    total = jax.nn.logsumexp(log_weights, axis=1, keepdims=True)
    log_weights = jnp.where(jnp.isneginf(total), -jnp.inf, log_weights - total)  # those of no weight stay so
    some = posterior._replace(theta=theta, log_weights=log_weights)
    return [shift_noise(model, some, jnp.asarray(math.log(scale), log_weights.dtype)) for scale in SCALES]


def _noise_is_stochastic(model: Model, posterior: Posterior) -> bool:
    """Whether another noise is another θ, ψ staying the same."""
    theta, psi = jax.tree.map(lambda leaf: np.zeros(leaf.shape[1:], leaf.dtype), (posterior.theta, posterior.psi))
    assert model.shift_noise is not None
    _, shifted = model.shift_noise(jax.tree.map(lambda leaf: leaf[0], theta), psi, jax.device_put(np.float32(1.0)))
    return not any(np.any(np.asarray(leaf)) for leaf in jax.tree.leaves(shifted))


def shift_noise(model: Model, posterior: Posterior, shift: Array) -> Posterior:
    """The noise of every particle of every island times e^shift, wherever it is a parameter: in θ or in ψ."""
    assert model.shift_noise is not None
    # ψ does not depend on the particle: it comes out once for each island.
    shifted = jax.vmap(jax.vmap(model.shift_noise, (0, None, None), (0, None)), (0, 0, None))
    theta, psi = shifted(posterior.theta, posterior.psi, shift)
    return posterior._replace(theta=theta, psi=psi)


def _joined(pieces: _Pieces, shares: np.ndarray, parts: np.ndarray) -> Posterior:
    """The particles of all own pieces that have a part, island by island (ψ was held and is the same), each with its
    part of its island's share, and then the other islands.

    By numpy: which pieces there are differs from fit to fit, and each choice would be compiled anew.
    """
    kept = [(jax.tree.map(np.asarray, p), np.log(part)) for p, part in zip(pieces.own, parts, strict=False) if part > 0]
    other = None if pieces.other is None or parts[-1] == 0 else jax.tree.map(np.asarray, pieces.other)
    islands = []
    if kept:
        theta = jax.tree.map(lambda *leaves: np.concatenate(leaves, axis=1), *(piece.theta for piece, _ in kept))
        log_weights = np.concatenate([piece.log_weights + log_part for piece, log_part in kept], axis=1)
        log_weights += np.log(shares)[:, None]
        islands.append(kept[0][0]._replace(theta=theta, log_weights=log_weights))
    if other is not None:
        log_weights = other.log_weights + np.log(parts[-1]) - np.log(len(other.log_weights))
        islands.append(other._replace(log_weights=log_weights))
    widest = max(posterior.log_weights.shape[1] for posterior in islands)
    islands = [_widened(posterior, widest) for posterior in islands]
    whole = jax.tree.map(lambda *leaves: np.concatenate(leaves), *islands)
    dtype = pieces.own[0].log_weights.dtype
    log_weights = (whole.log_weights + np.log(len(whole.log_weights))).astype(dtype)
    return jax.device_put(whole._replace(log_weights=log_weights))


def _widened(posterior: Posterior, num_particles: int) -> Posterior:
    """As many particles in each island: copies of the last one, without weight."""
    missing = num_particles - posterior.log_weights.shape[1]

    def widened(leaf: np.ndarray) -> np.ndarray:
        return np.pad(leaf, [(0, 0), (0, missing)] + [(0, 0)] * (leaf.ndim - 2), mode="edge")

    log_weights = np.pad(posterior.log_weights, [(0, 0), (0, missing)], constant_values=-np.inf)
    return posterior._replace(theta=jax.tree.map(widened, posterior.theta), log_weights=log_weights)


@partial(jax.jit, static_argnames=("model",))
def _shifted(model: Model, pieces: _Pieces, shift: Array) -> _Pieces:
    def shifted(piece: Posterior) -> Posterior:
        return shift_noise(model, piece, jnp.asarray(shift, piece.log_weights.dtype))

    return _Pieces([shifted(piece) for piece in pieces.own], None if pieces.other is None else shifted(pieces.other))


def _clear_shift(log_prob: np.ndarray, weight: np.ndarray) -> float:
    """Of the shifts within two standard errors of the best one, that nearest to none."""
    share = weight / np.sum(weight)
    means = log_prob @ share
    if not np.isfinite(means).any():
        return 0.0
    behind = log_prob[np.nanargmax(means)] - log_prob
    mean = behind @ share
    error = np.sqrt(np.square(behind - mean[:, None]) @ share / np.sum(weight))  # a weight counts rows
    close = np.flatnonzero(mean <= STANDARD_ERRORS * error)  # nan is not close
    return float(SHIFTS[close[np.argmin(np.abs(SHIFTS[close]))]])
