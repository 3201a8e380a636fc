"""CategoricalMixture against scipy, information theory and its own draws."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from partbayes.errors import PartbayesError
from partbayes.predict import CategoricalMixture


def build(components=4, rows=6, classes=3, dtype=np.float32):
    rng = np.random.default_rng(0)
    weights, logits = rng.dirichlet(np.ones(components)), 2 * rng.normal(size=(components, rows, classes))
    return CategoricalMixture(jnp.asarray(np.log(weights), dtype), jnp.asarray(logits, dtype))


def test_probabilities_and_their_logarithm(dtype):
    mixture = build(dtype=dtype)
    log_weights, logits = (np.asarray(x, np.float64) for x in mixture)
    expected = np.einsum("c,cnk->nk", special.softmax(log_weights), special.softmax(logits, axis=-1))
    y = np.array([0, 2, 1, 1, 0, 2])
    rtol = 32 * np.finfo(dtype).eps
    np.testing.assert_allclose(mixture.probs(), expected, rtol=rtol)
    np.testing.assert_allclose(mixture.log_prob(y), np.log(expected[np.arange(6), y]), rtol=rtol, atol=rtol)
    np.testing.assert_array_equal(mixture.predict(), expected.argmax(axis=-1))
    assert mixture.probs().dtype == mixture.log_prob(y).dtype == dtype


def test_log_prob_of_the_improbable_stays_finite(dtype):
    mixture = CategoricalMixture(jnp.log(jnp.full(2, 0.5, dtype)), jnp.asarray([[[0.0, 2000.0]]] * 2, dtype))
    np.testing.assert_allclose(mixture.log_prob(np.array([0])), [-2000.0], rtol=4 * np.finfo(dtype).eps)


def test_entropies_add_up(dtype):
    mixture = build(dtype=dtype)
    log_weights, logits = (np.asarray(x, np.float64) for x in mixture)
    weights, parts = special.softmax(log_weights), special.softmax(logits, axis=-1)
    total = special.entr(np.einsum("c,cnk->nk", weights, parts)).sum(-1)
    aleatoric = weights @ special.entr(parts).sum(-1)
    atol = 32 * np.finfo(dtype).eps * np.log(3)
    np.testing.assert_allclose(mixture.total_entropy(), total, atol=atol)
    np.testing.assert_allclose(mixture.aleatoric_entropy(), aleatoric, atol=atol)
    np.testing.assert_allclose(mixture.epistemic_entropy(), total - aleatoric, atol=2 * atol)


def test_agreement_is_aleatoric_and_disagreement_epistemic(dtype):
    log_weights = jnp.log(jnp.full(2, 0.5, dtype))
    ambiguous = CategoricalMixture(log_weights, jnp.zeros((2, 1, 2), dtype))
    # Certain, and contradicting each other; the logits of what cannot happen are -inf.
    quarrel = CategoricalMixture(log_weights, jnp.asarray([[[0.0, -np.inf]], [[-np.inf, 0.0]]], dtype))
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(ambiguous.aleatoric_entropy(), [np.log(2)], rtol=8 * eps)
    np.testing.assert_allclose(ambiguous.epistemic_entropy(), [0.0], atol=8 * eps)
    np.testing.assert_array_equal(quarrel.aleatoric_entropy(), [0.0])
    np.testing.assert_allclose(quarrel.epistemic_entropy(), [np.log(2)], rtol=8 * eps)


def test_mutual_information_is_never_negative():
    # Equal components: rounding alone decides the sign of total − aleatoric, and in some of 2000 rows it is negative.
    logits = jnp.broadcast_to(jax.random.normal(jax.random.key(0), (1, 2000, 5)), (7, 2000, 5))
    mixture = CategoricalMixture(jax.nn.log_softmax(jnp.arange(7.0)), logits)
    assert jnp.min(mixture.total_entropy() - mixture.aleatoric_entropy()) < 0
    assert jnp.min(mixture.epistemic_entropy()) == 0


def test_a_dead_component_changes_nothing():
    mixture = build()
    dead = CategoricalMixture(
        jnp.append(mixture.log_weights, -jnp.inf), jnp.concatenate([mixture.logits, jnp.full((1, 6, 3), jnp.nan)])
    )
    y = np.array([0, 2, 1, 1, 0, 2])
    np.testing.assert_allclose(dead.probs(), mixture.probs(), rtol=1e-6)
    np.testing.assert_allclose(dead.log_prob(y), mixture.log_prob(y), rtol=1e-6)
    np.testing.assert_allclose(dead.epistemic_entropy(), mixture.epistemic_entropy(), atol=1e-6)


def test_draws_have_the_right_frequencies():
    mixture = build()
    num = 20_000
    draws = np.asarray(mixture.sample(jax.random.key(0), num))
    probs = np.asarray(mixture.probs())
    frequency = (draws[..., None] == np.arange(3)).mean(axis=0)
    assert draws.shape == (num, 6)
    assert np.all(np.abs(frequency - probs) < 4 * np.sqrt(probs * (1 - probs) / num))


def test_draws_are_coherent_functions():
    # Each component is certain: of class 0 everywhere, or of class 1 everywhere.
    logits = jnp.broadcast_to(jnp.array([[50.0, -50.0], [-50.0, 50.0]])[:, None], (2, 5, 2))
    draws = np.asarray(CategoricalMixture(jnp.log(jnp.array([0.3, 0.7])), logits).sample(jax.random.key(1), 2000))
    assert np.all(draws == draws[:, :1])
    assert abs(draws[:, 0].mean() - 0.7) < 4 * np.sqrt(0.3 * 0.7 / 2000)


def test_rows_and_jit():
    mixture = build()
    np.testing.assert_allclose(mixture.rows(slice(2, 5)).probs(), mixture.probs()[2:5], rtol=1e-6)
    compiled = jax.jit(lambda m, y: (m.log_prob(y), m.epistemic_entropy()))(mixture, jnp.zeros(6, int))
    np.testing.assert_allclose(compiled[0], mixture.log_prob(np.zeros(6, int)), rtol=1e-6)
    np.testing.assert_allclose(compiled[1], mixture.epistemic_entropy(), atol=1e-6)


@pytest.mark.parametrize("y", [np.zeros(5, int), np.zeros((6, 1), int), np.zeros(6)])
def test_labels_of_another_shape_or_kind_are_refused(y):
    with pytest.raises(PartbayesError, match="integers of shape"):
        build().log_prob(y)
