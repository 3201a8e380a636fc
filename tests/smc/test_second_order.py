"""Second order: exact where curvature varies, and the reused −r* is not."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from logistic_target import LogisticTarget

from partbayes import smc
from partbayes.errors import PartbayesError
from partbayes.smc.proposals import Move, propose
from partbayes.smc.step import move

NUM_DRAWS = 200_000
TARGET = LogisticTarget(dim=1, a=2.0, b=5.0)
FLOOR = 1.2  # Λ between 1.2 and √(1.75² + 1.2²) = 2.1: 2 Λ(θ') > Λ(θ) for all pairs, so the weights' variance is finite


def scores(proposal, step_size, target=TARGET, num=NUM_DRAWS):
    theta = target.draw(jax.random.key(0), num)
    state = smc.ParticleState(theta, jnp.zeros(num), jax.vmap(target.log_density)(theta))
    kernel = smc.Kernel(proposal, smc.forward_proposal(), "same_batch")
    tuning = smc.Tuning(jnp.asarray(step_size))
    new, info = jax.jit(lambda k, s: move(k, s, target.log_density, None, kernel, tuning))(jax.random.key(1), state)
    return target.scores(new.theta, info.log_increments)


def reusing_the_momentum(proposal):
    """The shortcut: one leapfrog step with mass Λ(θ), and −r* as reverse momentum under the mass Λ(θ') of the end."""

    def land(flight, value, gradient, density, tuning):
        exact: Move = proposal.land(flight, value, gradient, density, tuning)
        eps = tuning.step_size
        start_precision, end_precision = _precision(flight.start, density), _precision(flight.end, density)
        momentum = jnp.sqrt(start_precision) * flight.carried.noise
        half = momentum + 0.5 * eps * jax.grad(density)(flight.start)["w"]
        last = half + 0.5 * eps * gradient["w"]
        return exact._replace(
            log_forward=0.5 * jnp.sum(-(momentum**2) / start_precision - jnp.log(start_precision)),
            log_reverse=0.5 * jnp.sum(-(last**2) / end_precision - jnp.log(end_precision)),
        )

    return proposal._replace(land=land)


def _precision(theta, density):
    return jnp.hypot(jnp.diagonal(jax.hessian(lambda w: density({"w": w}))(theta["w"])), FLOOR)


@pytest.mark.parametrize("curvature", ["diagonal", "full"])
@pytest.mark.parametrize("step_size", [0.2, 0.5])
def test_moments_are_unbiased_where_curvature_varies(curvature, step_size):
    found = scores(smc.second_order(curvature, floor=FLOOR), step_size)
    assert max(map(abs, found.values())) < 4, found


@pytest.mark.parametrize("step_size", [0.2, 0.5])
def test_reusing_the_momentum_is_biased(step_size):
    found = scores(reusing_the_momentum(smc.second_order("diagonal", floor=FLOOR)), step_size)
    assert max(map(abs, found.values())) > 8, found


def test_probed_curvature_is_exact_too():
    """Two probes for ten coordinates: the precision is not the diagonal's, but the weights know which one it is."""
    found = scores(smc.second_order(floor=2.0, num_probes=2), 0.5, TARGET._replace(dim=10), 50_000)
    assert max(map(abs, found.values())) < 4, found


def quartic(theta):
    """A density over a tree, with a curvature that changes its sign and couples the leaves."""
    x = jnp.concatenate([theta["a"].ravel(), theta["b"][None]])
    return -0.25 * jnp.sum((x**2 - 1.0) ** 2) - 0.3 * jnp.sum(x[:-1] * x[1:])


THETA = {"a": jnp.array([[0.1, -0.4], [0.8, 0.2]]), "b": jnp.array(-0.3)}


@pytest.mark.parametrize(
    "options", [{"curvature": "full"}, {}, {"num_probes": 5}, {"num_probes": 2}], ids=["full", "exact", "5", "2"]
)
def test_both_densities_are_the_gaussians_of_the_definition(options, x64):
    theta = jax.tree.map(lambda a: jnp.asarray(a, jnp.float64), THETA)
    eps, floor = 0.3, 0.7
    found = propose(smc.second_order(floor=floor, **options), jax.random.key(0), theta, quartic, smc.Tuning(eps))
    _, unravel = jax.flatten_util.ravel_pytree(theta)

    def log_q(to, at):
        return log_gaussian(to, at, lambda x: quartic(unravel(x)), eps, floor, options)

    start, end = (np.asarray(jax.flatten_util.ravel_pytree(t)[0]) for t in (found.start, found.end))
    assert found.log_reverse - found.log_forward == pytest.approx(log_q(start, end) - log_q(end, start), rel=1e-9)


def log_gaussian(to, at, density, eps, floor, options):
    """log q(to | at) by numpy, without the constant."""
    gradient = np.asarray(jax.grad(density)(jnp.asarray(at)))
    hessian = np.asarray(jax.hessian(density)(jnp.asarray(at)))
    if options.get("curvature") == "full":
        values, vectors = np.linalg.eigh(hessian)
        precision = vectors @ np.diag(np.hypot(values, floor)) @ vectors.T
    else:
        num = options.get("num_probes", at.size)
        signs = np.random.default_rng(0).choice([-1.0, 1.0], at.size)
        same_class = np.arange(at.size)[:, None] % num == np.arange(at.size) % num
        precision = np.diag(np.hypot((hessian * same_class * np.outer(signs, signs)).sum(axis=1), floor))
    deviation = to - at - 0.5 * eps**2 * np.linalg.solve(precision, gradient)
    return 0.5 * np.linalg.slogdet(precision)[1] - 0.5 * deviation @ precision @ deviation / eps**2


def test_constant_curvature_is_langevin_with_that_mass(x64):
    """In a Gaussian the proposal is Langevin with Mass = Λ, noise for noise."""
    curvature = jnp.array([0.5, 2.0, 8.0])

    def density(theta):
        return -0.5 * jnp.sum(curvature * theta["w"] ** 2)

    theta = {"w": jnp.array([1.0, -0.5, 0.2])}
    precision = jnp.hypot(curvature, 1.0)
    ours = propose(smc.second_order(), jax.random.key(0), theta, density, smc.Tuning(0.4))
    langevin = propose(smc.langevin(), jax.random.key(0), theta, density, smc.Tuning(0.4, {"w": 1.0 / precision}))
    assert jnp.allclose(ours.end["w"], langevin.end["w"], rtol=1e-12)
    assert jnp.allclose(ours.log_reverse - ours.log_forward, langevin.log_reverse - langevin.log_forward, rtol=1e-10)


def test_gradients_are_counted():
    """Two gradients, and two per Hessian-vector product at each end."""
    for proposal, products in [(smc.second_order("full"), 5), (smc.second_order(num_probes=2), 2)]:
        found = propose(proposal, jax.random.key(0), THETA, quartic, smc.Tuning(jnp.asarray(0.1)))
        assert found.num_gradients == 2 + 4 * products


def test_refusals():
    with pytest.raises(PartbayesError, match="'blocks'"):
        smc.second_order("blocks")  # pyright: ignore[reportArgumentType]
    with pytest.raises(PartbayesError, match="floor is 0"):
        smc.second_order(floor=0.0)
    with pytest.raises(PartbayesError, match="only the diagonal takes probes"):
        smc.second_order("full", num_probes=3)

    def density(theta):
        return -0.5 * jnp.sum(theta**2)

    for curvature in ["diagonal", "full"]:
        with pytest.raises(PartbayesError, match="201 stochastic parameters"):
            propose(smc.second_order(curvature), jax.random.key(0), jnp.zeros(201), density, smc.Tuning(0.1))
    propose(smc.second_order(num_probes=1), jax.random.key(0), jnp.zeros(201), density, smc.Tuning(0.1))
