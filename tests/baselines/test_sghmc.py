r"""SGHMC on a Gaussian target, where its discretised stationary law is known exactly, and its ring of draws.

On a full batch with precision A about the mean m, the update is $x_{t+1} = (2 - \alpha - \eta A) x_t - (1 - \alpha)
x_{t-1} + \sqrt{2 (\alpha - \beta) \eta}\, z$ with η = ε²: an AR(2) process, whose stationary covariance and lag-one
autocovariance are

$$\Sigma = \frac{\alpha - \beta}{\alpha} A^{-1} \Big(I - \frac{\eta A}{2 (2 - \alpha)}\Big)^{-1}, \qquad
\Gamma_1 = \Big(I - \frac{\eta A}{2 - \alpha}\Big) \Sigma.$$

The second tells carried momentum from momentum drawn anew (there, $I - \eta A$).
"""

from __future__ import annotations

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from problems import linear_problem, small_network, trees_close

from partbayes.baselines import sghmc

CHAINS, BURN_IN, STEPS, FRICTION = 400, 300, 600, 0.3
TOLERANCE = 4.0  # standard errors, from the spread over independent chains
CAUGHT = 8.0


@cache
def chain_moments(step_size, noise_estimate=0.0, keep=1.0):
    """Each chain's time-averaged mean, covariance and lag-one autocovariance about the exact mean.

    `keep` multiplies the velocity between steps: one for SGHMC, zero for a sampler that forgets its momentum.
    """
    model, data, exact = linear_problem()
    algorithm = sghmc(
        model,
        8,
        num_particles=CHAINS,
        num_chains=CHAINS,
        step_size=step_size,
        friction=FRICTION,
        noise_estimate=noise_estimate,
        optimiser=optax.sgd(0.0),
    )

    @jax.jit
    def run(key):
        key_params, key_init, key_steps = jax.random.split(key, 3)
        state = algorithm.init(key_init, model.init(key_params), data)

        def step(state, i):
            state = state._replace(velocity=jax.tree.map(lambda v: keep * v, state.velocity))
            state, _ = algorithm.step(jax.random.fold_in(key_steps, i), state, data)
            return state, state.theta["network"]["w"]

        return jax.lax.scan(step, state, jnp.arange(BURN_IN + STEPS))[1]

    path = np.asarray(run(jax.random.key(0)), np.float64)[BURN_IN:] - exact.mean
    covariance = np.einsum("tci,tcj->cij", path, path) / STEPS
    lagged = np.einsum("tci,tcj->cij", path[1:], path[:-1]) / (STEPS - 1)
    return np.linalg.inv(exact.cov), path.mean(axis=0), covariance, lagged


def stationary(precision, step_size, noise_estimate=0.0):
    eta = step_size**2
    identity = np.eye(len(precision))
    widening = np.linalg.inv(identity - eta * precision / (2 * (2 - FRICTION)))
    covariance = (1 - noise_estimate / FRICTION) * np.linalg.inv(precision) @ widening
    return covariance, (identity - eta * precision / (2 - FRICTION)) @ covariance


def standard_errors(samples, exact):
    return np.max(np.abs(samples.mean(axis=0) - exact) / (samples.std(axis=0, ddof=1) / np.sqrt(len(samples))))


@pytest.mark.parametrize(("step_size", "noise_estimate"), [(0.08, 0.0), (0.2, 0.0), (0.2, 0.15)])
def test_stationary_moments_are_those_of_the_discretised_chain(step_size, noise_estimate):
    precision, mean, covariance, lagged = chain_moments(step_size, noise_estimate)
    exact_covariance, exact_lagged = stationary(precision, step_size, noise_estimate)
    assert standard_errors(mean, 0.0) < TOLERANCE
    assert standard_errors(covariance, exact_covariance) < TOLERANCE
    assert standard_errors(lagged, exact_lagged) < TOLERANCE
    # Precise enough to mean something: two per cent of the variances.
    assert np.all(np.diag(covariance.std(axis=0)) / np.sqrt(CHAINS) < 0.02 * np.diag(exact_covariance))


def test_step_size_bias_is_bounded():
    """Relative to the posterior the covariance is at most a factor 1 / (1 − ε² a / (2 (2 − α))) too wide: O(ε²)."""
    precision, _, covariance, _ = chain_moments(0.08)
    excess = np.linalg.eigvals(precision @ covariance.mean(axis=0)).real - 1
    bound = 0.08**2 * np.linalg.eigvalsh(precision).max() / (2 * (2 - FRICTION))
    noise = TOLERANCE * np.max(np.diag(covariance.std(axis=0)) / np.diag(covariance.mean(axis=0))) / np.sqrt(CHAINS)
    assert bound / (1 - bound) < 0.05
    assert np.all(np.abs(excess) < bound / (1 - bound) + 2 * noise)


def test_forgotten_momentum_is_caught():
    precision, _, _, lagged = chain_moments(0.2, keep=0.0)
    assert standard_errors(lagged, stationary(precision, 0.2)[1]) > CAUGHT


def recorded(num_steps, **settings):
    """A short run on the small network: the algorithm, and the states after every step."""
    model, data = small_network()
    algorithm = sghmc(model, 24, **settings)
    key_params, key_init = jax.random.split(jax.random.key(1))
    states = [jax.jit(algorithm.init)(key_init, model.init(key_params), data)]
    step = jax.jit(algorithm.step)
    for i in range(num_steps):
        state, _ = step(jax.random.key(2 + i), states[-1], data)
        states.append(state)
    return algorithm, states


def test_ring_holds_the_last_thinned_draws():
    """Four rows of two chains that span eight epochs (of one step here), after three of burn-in: steps 5, 7, 9, ..."""
    algorithm, states = recorded(14, num_particles=8, num_chains=2, burn_in_epochs=3, window_epochs=8)
    for steps, drawn in [(4, [4]), (5, [5]), (8, [5, 7]), (12, [5, 7, 9, 11]), (14, [13, 7, 9, 11])]:
        posterior = algorithm.posterior(states[steps])
        if steps == 4:  # nothing drawn yet: where the chains are
            assert states[steps].num_drawn == 0
        expected = jax.tree.map(lambda *rows: jnp.concatenate(rows), *(states[t].theta for t in drawn))
        num_held = 2 * len(drawn)
        held = jax.tree.map(lambda leaf, n=num_held: leaf[:n], posterior.theta)
        assert trees_close(held, expected, rtol=0.0)
        assert np.allclose(posterior.log_weights[:num_held], -np.log(num_held), rtol=1e-6)
        assert np.all(posterior.log_weights[num_held:] == -np.inf)


def test_lost_chain_goes_on_from_a_living_one():
    model, data = small_network()
    algorithm = sghmc(model, 24, num_particles=3, num_chains=3)
    key_params, key_init = jax.random.split(jax.random.key(1))
    state = jax.jit(algorithm.init)(key_init, model.init(key_params), data)
    lost = jax.tree.map(lambda leaf: leaf.at[1].set(1e30), state.theta)  # its square is not a float32
    moved, info = jax.jit(algorithm.step)(jax.random.key(2), state._replace(theta=lost), data)
    assert np.isclose(info.dead, 1 / 3) and info.finite and info.skipped
    assert all(np.array_equal(leaf[1], leaf[0]) for leaf in jax.tree.leaves(moved.theta))
    _, info = jax.jit(algorithm.step)(jax.random.key(3), moved, data)
    assert info.dead == 0 and not info.skipped


def test_number_of_chains_divides_the_particles():
    model, data = small_network()
    for num_particles, expected in [(100, 10), (12, 6), (7, 7), (11, 1)]:
        algorithm = sghmc(model, 24, num_particles=num_particles)
        shapes = jax.eval_shape(
            lambda key, algorithm=algorithm: algorithm.init(key, model.init(jax.random.key(0)), data), jax.random.key(1)
        )
        assert jax.tree.leaves(shapes.theta)[0].shape[0] == expected
