"""Islands of several widths: what has no weight is not predicted, and changes nothing."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from problems import small_network

from partbayes.algorithm import Posterior
from partbayes.predict import predictive, without_idle


def ragged(model, used: list[int]) -> Posterior:
    """Islands with so many particles of weight, the rest idle."""
    theta, psi = jax.vmap(jax.vmap(model.init))(jax.random.split(jax.random.key(3), (len(used), max(used))))
    weight = np.arange(max(used)) < np.array(used)[:, None]
    with np.errstate(divide="ignore"):
        log_weights = jnp.asarray(np.log(weight / weight.sum(axis=1, keepdims=True)))
    return Posterior(theta, log_weights, jax.tree.map(lambda leaf: leaf[:, 0], psi))


def test_idle_particles_are_left_out_and_the_mixture_stays():
    model, data = small_network(sigma="learned")
    posterior = ragged(model, [4, 4, 1, 1, 1])
    pieces = without_idle(posterior)
    assert [piece.log_weights.shape for piece in pieces] == [(2, 4), (3, 1)]
    whole, cut = predictive(model, posterior, data.x), predictive(model, pieces, data.x)
    assert cut.loc.shape[0] == 2 * 4 + 3
    kept = np.isfinite(np.asarray(whole.log_weights))
    for name in ("log_weights", "loc", "scale"):
        np.testing.assert_allclose(getattr(cut, name), getattr(whole, name)[kept], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(cut.log_prob(data.y), whole.log_prob(data.y), rtol=1e-5)


def test_only_what_is_idle_at_the_end_is_cut():
    model, _ = small_network(sigma="learned")
    even = ragged(model, [3, 3])
    assert [piece.log_weights.shape for piece in without_idle(even)] == [(2, 3)]
    dead = even._replace(log_weights=even.log_weights.at[0, 1].set(-jnp.inf).at[1].set(-jnp.inf))
    assert [piece.log_weights.shape for piece in without_idle(dead)] == [(2, 3)]
    assert len(without_idle(ragged(model, [1, 2, 1, 2, 1]))) == 1, "each width would be a program of its own"
