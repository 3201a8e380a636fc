"""Climbing a log density with optax: how parameters move in the training algorithms and in the baselines alike."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import optax

from partbayes import tree as tm
from partbayes.types import Array, Tree


def ascend(
    optimiser: optax.GradientTransformation, gradient: Tree, psi: Tree, optimiser_state: optax.OptState
) -> tuple[Tree, optax.OptState, Array]:
    """ψ after one optimiser step up the log-likelihood (Algorithm 1: update parameter), and whether it was skipped.

    A non-finite gradient moves neither ψ nor the optimiser's moments. Any tree of parameters may stand for ψ.
    """
    updates, new_state = optimiser.update(jax.tree.map(jnp.negative, gradient), optimiser_state, psi)
    new = (optax.apply_updates(psi, updates), new_state)
    usable = tm.all_finite(gradient)
    psi, optimiser_state = jax.tree.map(lambda a, b: jnp.where(usable, a, b), new, (psi, optimiser_state))
    return psi, optimiser_state, ~usable
