r"""ChEES-HMC (Hoffman, Radul & Sountsov, 2021): one trajectory length T for the whole population.

$$S = \lceil u_t T / \epsilon \rceil, \qquad u_t = \tfrac12, \tfrac14, \tfrac34, \tfrac18, \dots
\quad \text{(van der Corput, base 2)}$$

All particles of a move share S: none waits for another, and S does not look at the state, so the weight is that of HMC
(`proposals.hmc`). The sequence spreads the lengths evenly over (0, T], which breaks resonances with the target's own
periods. `smc.adaptation.chees` finds T.
"""

from __future__ import annotations

from functools import partial

import jax.numpy as jnp
from blackjax.mcmc.dynamic_hmc import halton_sequence

from partbayes.errors import PartbayesError
from partbayes.smc.proposals.base import Density, Flight, Proposal, Tuning
from partbayes.smc.proposals.hmc import land, launch
from partbayes.types import Array, Key, Tree

MAX_BITS = 31  # of a 32-bit counter: with fewer, every 2**bits-th point of the sequence would be zero


def chees(max_steps: int = 1000) -> Proposal:
    """HMC over u T, with S + 1 gradients where S = ⌈u T / ε⌉ ≤ `max_steps`: half of T / ε on average.

    It reads `Tuning.trajectory_length`, and `Tuning.counter`, which `advance` moves on after each step.
    """
    if max_steps < 1:
        raise PartbayesError(f"ChEES came with at most {max_steps} leapfrog steps, but at least one is needed.")
    return Proposal(partial(_launch, max_steps=max_steps), land, num_gradients=None, needs_length=True)


def duration(tuning: Tuning) -> Array:
    """u T, the time that this move's trajectory lasts (before it is rounded up to whole steps)."""
    if tuning.trajectory_length is None or tuning.counter is None:
        raise PartbayesError(
            "ChEES got a Tuning without trajectory_length or counter, but it reads both: set them, the counter to 0."
        )
    return halton_sequence(jnp.asarray(tuning.counter, jnp.int32), MAX_BITS) * tuning.trajectory_length


def advance(tuning: Tuning) -> Tuning:
    """The tuning for the next move: a Tuning with a counter counts on, any other stays as it is."""
    return tuning if tuning.counter is None else tuning._replace(counter=tuning.counter + 1)


def _launch(key: Key, theta: Tree, density: Density, tuning: Tuning, *, max_steps: int) -> Flight:
    num_steps = jnp.clip(jnp.ceil(duration(tuning) / tuning.step_size), 1, max_steps).astype(jnp.int32)
    return launch(key, theta, density, tuning, num_steps=num_steps)
