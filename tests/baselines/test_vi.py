"""VI against the closed form of a Gaussian posterior, and against numpyro's SVI with AutoNormal where there is none.

Optimisers end with a learning rate of zero, so a run ends close to the optimum; what is left is noise that differs
between seeds. So seeds are averaged, their spread gives the standard error, and four of them are allowed.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import optax
from jax.scipy import stats
from numpyro.infer import SVI, Trace_ELBO
from numpyro.infer.autoguide import AutoNormal
from problems import linear_problem, small_network

from partbayes.baselines import vi
from partbayes.baselines.vi import MeanField, elbo, entropy
from partbayes.model import Prior, from_function, gaussian, log_target, partial_bnn
from partbayes.types import Batch

SEEDS, STEPS, SAMPLES = 24, 800, 32
TOLERANCE = 4.0  # standard errors


def optimiser():
    return optax.adam(optax.cosine_decay_schedule(0.05, STEPS))


def solutions(model, data):
    """q and ψ after training, for every seed."""
    num_data = data.x.shape[0]
    algorithm = vi(model, num_data, num_samples=SAMPLES, optimiser=optimiser())

    def train(seed):
        key_params, key_init, key_steps = jax.random.split(jax.random.key(seed), 3)
        state = algorithm.init(key_init, model.init(key_params), data)

        def step(state, i):
            return algorithm.step(jax.random.fold_in(key_steps, i), state, data)

        state, _ = jax.lax.scan(step, state, jnp.arange(STEPS))
        return state.approximation, state.psi

    return jax.jit(jax.vmap(train))(jnp.arange(SEEDS))


def elbo_estimates(model, q, psi, data):
    """Independent estimates at one q and ψ, a thousand draws each."""
    target = log_target(model, data.x.shape[0])

    def estimate(seed):
        return elbo(jax.random.key(seed), q, psi, data, target=target, num_samples=1000)[0]

    return np.asarray(jax.jit(jax.vmap(estimate))(jnp.arange(SEEDS)))


def standard_error(samples):
    return samples.std(axis=0, ddof=1) / np.sqrt(len(samples))


def test_gaussian_posterior_in_closed_form(x64):
    """With precision A the best q has the posterior's mean and variances 1 / A_ii, and a known ELBO."""
    model, data, exact = linear_problem()
    precision = np.linalg.inv(exact.cov)
    approximation, _ = solutions(model, data)
    mean = np.asarray(approximation.mean["network"]["w"])
    log_scale = np.asarray(approximation.log_scale["network"]["w"])
    best = -0.5 * np.log(np.diag(precision))
    assert np.max(np.abs(mean.mean(axis=0) - exact.mean) / standard_error(mean)) < TOLERANCE
    assert np.max(np.abs(log_scale.mean(axis=0) - best) / standard_error(log_scale)) < TOLERANCE
    # Precise enough to mean something: one per cent of a posterior standard deviation.
    assert np.all(standard_error(mean) < 0.01 * np.sqrt(np.diag(exact.cov)))
    assert np.all(standard_error(log_scale) < 0.01)
    # A mean-field q that ignores correlation must be narrower than the posterior, or the problem tests nothing.
    assert np.all(np.exp(2 * best) < 0.999 * np.diag(exact.cov))


def test_elbo_is_the_evidence_minus_the_divergence(x64):
    """At any q: E_q log π + H(q) = log p(y) − KL(q ‖ posterior), up to Monte Carlo error."""
    model, data, exact = linear_problem()
    mean, scale = exact.mean + np.array([0.2, -0.1]), np.array([0.1, 0.05])
    q = MeanField(*({"network": {"w": jnp.asarray(v)}, "likelihood": {}} for v in (mean, np.log(scale))))
    psi = model.init(jax.random.key(0))[1]
    precision = np.linalg.inv(exact.cov)
    shift = mean - exact.mean
    divergence = 0.5 * (
        np.sum(np.diag(precision) * scale**2)
        + shift @ precision @ shift
        - 2
        - np.linalg.slogdet(precision)[1]
        - 2 * np.sum(np.log(scale))
    )
    values = elbo_estimates(model, q, psi, data)
    assert abs(values.mean() - (exact.log_evidence - divergence)) < TOLERANCE * standard_error(values)
    assert TOLERANCE * standard_error(values) < 0.1 * divergence  # a forgotten divergence would be seen
    assert np.isclose(entropy(q), np.sum(np.log(scale) + 0.5 * np.log(2 * np.pi * np.e)), rtol=1e-12)


def test_batches_average_to_the_whole(x64):
    """With the same draws, ELBOs of disjoint equal batches have the full data's ELBO as their mean: N/M is right."""
    model, data = small_network()
    theta, psi = model.init(jax.random.key(0))
    q = MeanField(theta, jax.tree.map(lambda leaf: jnp.full_like(leaf, -1.0), theta))
    target = log_target(model, 24)

    def value(batch):
        return jax.jit(lambda seed: elbo(jax.random.key(seed), q, psi, batch, target=target, num_samples=4)[0])(1)

    parts = [value(jax.tree.map(lambda rows, i=i: rows[8 * i : 8 * i + 8], data)) for i in range(3)]
    assert np.isclose(np.mean(parts), value(data), rtol=1e-12)
    assert np.std(parts) > 1e-3


# -- A prior with heavy tails and a learned noise: no closed form, so numpyro is the oracle. ------------------------


def student_prior() -> Prior:
    def log_density(theta):
        return sum(jnp.sum(stats.t.logpdf(leaf, 3.0)) for leaf in jax.tree.leaves(theta))

    def sample(key, like):
        return jax.tree.map(lambda leaf: jax.random.t(key, 3.0, leaf.shape), like)

    return Prior(log_density, sample)


def student_problem():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(20, 2)) @ np.array([[1.0, 0.6], [0.0, 0.8]])
    y = x @ np.array([1.5, -0.7]) + 0.5 * rng.normal(size=20)
    network = from_function(lambda params, x: (x @ params["w"])[:, None], {"w": jnp.zeros(2)})
    model = partial_bnn(network, gaussian("learned"), stochastic=["network"], prior=student_prior())
    return model, Batch(jnp.asarray(x), jnp.asarray(y)[:, None], jnp.ones(20))


def numpyro_svi(data, num_samples):
    def model():
        w = numpyro.sample("w", dist.StudentT(3.0, 0.0, 1.0).expand([2]).to_event(1))
        log_sigma = numpyro.param("log_sigma", jnp.zeros(()))
        numpyro.sample("y", dist.Normal(data.x @ w, 1e-3 + jnp.exp(log_sigma)), obs=data.y[:, 0])

    guide = AutoNormal(model)
    return SVI(model, guide, optimiser(), Trace_ELBO(num_particles=num_samples))


def test_agrees_with_numpyro(x64, unchecked_keys):
    """Means, scales and ψ after convergence, and the ELBO at one and the same point."""
    model, data = student_problem()
    approximation, psi = solutions(model, data)
    svi = numpyro_svi(data, SAMPLES)
    peer = jax.jit(jax.vmap(lambda seed: svi.run(jax.random.key(seed), STEPS, progress_bar=False).params))(
        jnp.arange(SEEDS)
    )
    pairs = {
        "mean": (approximation.mean["network"]["w"], peer["w_auto_loc"]),
        "log scale": (approximation.log_scale["network"]["w"], jnp.log(peer["w_auto_scale"])),
        "log sigma": (psi["likelihood"]["log_sigma"], peer["log_sigma"][:, None]),
    }
    for name, (ours, theirs) in pairs.items():
        ours, theirs = np.asarray(ours), np.asarray(theirs)
        error = np.hypot(standard_error(ours), standard_error(theirs))
        assert np.all(np.abs(ours.mean(axis=0) - theirs.mean(axis=0)) < TOLERANCE * error), name
        assert np.all(error < 0.01), name

    params = jax.tree.map(lambda leaf: leaf[0], peer)
    moments = (params["w_auto_loc"], jnp.log(params["w_auto_scale"]))
    q = MeanField(*({"network": {"w": moment}, "likelihood": {"log_sigma": None}} for moment in moments))
    psi = {"network": {"w": None}, "likelihood": {"log_sigma": params["log_sigma"][None]}}
    ours = elbo_estimates(model, q, psi, data)
    many = numpyro_svi(data, 1000)

    def their_estimate(seed):
        return -many.evaluate(many.init(jax.random.key(seed), init_params=params))

    theirs = np.asarray(jax.jit(jax.vmap(their_estimate))(jnp.arange(SEEDS)))
    error = np.hypot(standard_error(ours), standard_error(theirs))
    assert abs(ours.mean() - theirs.mean()) < TOLERANCE * error
    assert TOLERANCE * error < 0.1  # nats
