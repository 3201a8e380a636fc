"""The Gaussian near-optimal L-kernel: its fit, its price, its gain, its bias, and its second pass."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from partbayes import smc
from partbayes.errors import PartbayesError
from partbayes.smc import step
from partbayes.smc.lkernels.near_optimal import fit, log_density

# Compiled, because run step by step these take seconds.
move, move_with_gradient = (jax.jit(f, static_argnums=(2, 4)) for f in (step.move, step.move_with_gradient))


def gaussian(theta, shared=None):
    return -0.5 * (jnp.sum(theta["a"] ** 2) + jnp.sum(theta["b"] ** 2))


def population(key, num, scale=1.0, shift=0.0):
    key_a, key_b = jax.random.split(key)
    theta = {"a": shift + scale * jax.random.normal(key_a, (num, 2)), "b": scale * jax.random.normal(key_b, (num, 1))}
    return smc.ParticleState(theta, jnp.full(num, -jnp.log(num)), jax.vmap(gaussian)(theta))


def test_fit_is_the_conditional_of_the_joint_gaussian(x64):
    """Against numpy's joint covariance, block by block."""
    rng = np.random.default_rng(0)
    joint = rng.normal(size=(500, 4)) @ rng.normal(size=(4, 4)) + [1.0, 2.0, 3.0, 4.0]
    noise, ends = joint[:, :2], joint[:, 2:]
    found = fit(jnp.asarray(noise), jnp.asarray(ends), jnp.ones(500, bool))
    cov = np.cov(joint.T, bias=True)
    slope = np.linalg.solve(cov[2:, 2:], cov[2:, :2])
    conditional = cov[:2, :2] - cov[:2, 2:] @ slope
    deviation = noise - joint[:, :2].mean(0) - (ends - ends.mean(0)) @ slope
    expected = -0.5 * np.linalg.slogdet(conditional)[1] - 0.5 * np.einsum(
        "ji,ik,jk->j", deviation, np.linalg.inv(conditional), deviation
    )
    # The ridge shifts the result by about its own size.
    assert np.allclose(log_density(found, jnp.asarray(noise), jnp.asarray(ends)), expected, atol=1e-3)


def test_unusable_particles_do_not_enter_the_fit(x64):
    rng = np.random.default_rng(0)
    noise, ends = rng.normal(size=(2, 30, 2))
    expected = fit(jnp.asarray(noise), jnp.asarray(ends), jnp.ones(30, bool))
    noise[-1], ends[-2] = np.nan, np.inf
    kept = fit(jnp.asarray(noise[:28]), jnp.asarray(ends[:28]), jnp.ones(28, bool))
    found = fit(jnp.asarray(noise), jnp.asarray(ends), jnp.arange(30) < 28)
    assert all(np.allclose(a, b) for a, b in zip(found, kept, strict=True))
    assert not np.allclose(found.slope, expected.slope)


def test_too_few_particles_are_refused():
    """Three parameters need more than six particles."""
    kernel = smc.Kernel(smc.hmc(2), smc.near_optimal())
    tuning = smc.Tuning(jnp.asarray(0.1))
    with pytest.raises(PartbayesError, match=r"6 particles of 3 stochastic parameters.*needs more than 6"):
        move(jax.random.key(0), population(jax.random.key(1), 6), gaussian, None, kernel, tuning)
    _, info = move(jax.random.key(0), population(jax.random.key(1), 7), gaussian, None, kernel, tuning)
    assert jnp.all(jnp.isfinite(info.log_increments))


def test_a_proposal_without_reverse_noise_is_refused():
    kernel = smc.Kernel(smc.nuts_adjusted(2), smc.near_optimal())
    with pytest.raises(PartbayesError, match="without reverse noise"):
        move(jax.random.key(0), population(jax.random.key(1), 50), gaussian, None, kernel, smc.Tuning(jnp.asarray(0.1)))


@pytest.mark.parametrize("num", [50, 200])
def test_a_fit_to_the_particles_it_weighs_flatters_them(num):
    r"""E[w] = 1 + k/J.

    To first order the fitted parameters are off by I⁻¹ Σᵢ sᵢ / J, s the scores of L and I their covariance. That
    changes log wⱼ by sⱼᵀ I⁻¹ Σᵢ sᵢ / J, of which only the term i = j has a mean: tr(I⁻¹ I) / J = k / J. With weights
    close to one, as here, the next order is smaller by k / J again.
    """
    dim, repeats = 1, 20_000
    k = dim * (dim + 1) + dim * (dim + 1) // 2
    kernel = smc.Kernel(smc.hmc(5), smc.near_optimal(), "same_batch")

    def density(theta, shared):
        return -0.5 * jnp.sum(theta**2)

    def mean_weight(index):
        key_draw, key_move = jax.random.split(jax.random.fold_in(jax.random.key(0), index))
        theta = jax.random.normal(key_draw, (num, dim))
        state = smc.ParticleState(theta, jnp.zeros(num), jax.vmap(density, (0, None))(theta, None))
        _, info = move(key_move, state, density, None, kernel, smc.Tuning(jnp.asarray(0.2)))
        return jnp.mean(jnp.exp(info.log_increments))

    means = np.asarray(jax.jit(jax.vmap(mean_weight))(jnp.arange(repeats)), np.float64)
    error = np.std(means) / np.sqrt(repeats)
    assert abs(np.mean(means) - 1 - k / num) < 4 * error + 4 * (k / num) ** 2
    assert np.mean(means) - 1 > 8 * error  # so this is a bias, and not noise


def test_it_takes_out_the_variance_of_the_proposal_far_from_the_target():
    """Particles from afar, moved by long flights: their weights vary less than with the forward proposal."""
    state, tuning = population(jax.random.key(1), 5000, scale=1.5, shift=1.0), smc.Tuning(jnp.asarray(0.15))

    def log_variance(lkernel):
        kernel = smc.Kernel(smc.hmc(5), lkernel, "cached")
        # The particles' own law, up to a constant, stands below the line: perfect weights would be those of the ends.
        own = -0.5 * (jnp.sum((state.theta["a"] - 1.0) ** 2, axis=1) + state.theta["b"][:, 0] ** 2) / 1.5**2
        _, info = move(jax.random.key(2), state._replace(log_target=own), gaussian, None, kernel, tuning)
        return jnp.var(info.log_increments)

    assert log_variance(smc.near_optimal()) < 0.5 * log_variance(smc.forward_proposal())


@pytest.mark.parametrize("block_size", [None, 7, 64])
def test_second_pass_gives_the_gradient_and_blocks_do_not_matter(block_size):
    """The ψ-gradient under the new weights, whatever the block size."""

    def density(theta, shared):
        return gaussian(theta) + shared * jnp.sum(theta["a"]) - jnp.exp(shared)

    state, shared, tuning = population(jax.random.key(1), 64), jnp.asarray(0.3), smc.Tuning(jnp.asarray(0.3))
    kernel = smc.Kernel(smc.hmc(3), smc.near_optimal(), "cached", block_size)
    new, info, gradient = move_with_gradient(jax.random.key(2), state, density, shared, kernel, tuning)
    weights = jnp.exp(new.log_weights)
    expected = jnp.sum(weights * (jnp.sum(new.theta["a"], axis=1) - jnp.exp(shared)))
    assert gradient == pytest.approx(float(expected), rel=1e-5)
    whole, whole_info = move(jax.random.key(2), state, density, shared, kernel._replace(block_size=None), tuning)
    assert jnp.allclose(whole.log_weights, new.log_weights, atol=1e-4)
    assert info.num_gradients == whole_info.num_gradients == 4


def test_a_particle_that_runs_off_is_lost_and_spoils_nothing():
    state = population(jax.random.key(1), 40)
    state = state._replace(theta=state.theta | {"b": state.theta["b"].at[3].set(1e30)})
    kernel = smc.Kernel(smc.hmc(5), smc.near_optimal(), "cached")

    def quartic(theta, shared):
        return gaussian(theta) - jnp.sum(theta["b"] ** 4)

    new, info = move(jax.random.key(2), state, quartic, None, kernel, smc.Tuning(jnp.asarray(0.1)))
    assert new.log_weights[3] == -jnp.inf
    assert jnp.sum(jnp.isfinite(new.log_weights)) == 39
    assert info.dead == pytest.approx(1 / 40)
