"""The same problem in other libraries, used as their documentation shows.

- blackjax SVGD: particles of θ, ψ held (it has no second optimiser), median heuristic in every step as in our SVGD.
- blackjax SGHMC: as many chains as ours, `vmap`ped, ψ held. A call is ten integration steps, its default, and a tenth
  of the time is reported: with one step per call the gradient would never be used.
- numpyro SVGD: θ as a sample site, ψ as `param` sites, RBF kernel. numpyro SVI: mean-field normal guide, ELBO over as
  many draws as there are particles, ψ as `param` sites.

Rows that hold ψ do less work than ours.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import optax

from benchmarks.ours import STEP_SIZE
from benchmarks.problem import LEARNING_RATE, NUM_DATA, Call, Problem

BLACKJAX_SVGD, BLACKJAX_SGHMC = "blackjax SVGD", "blackjax SGHMC"
NUMPYRO_SVGD, NUMPYRO_SVI = "numpyro SVGD", "numpyro SVI"
STEPS_PER_CALL = {BLACKJAX_SGHMC: 10}


def rows(problem: Problem) -> dict[str, Callable[[], Call]]:
    """Builders by name; one that raises ImportError is left out with its reason."""
    return {
        BLACKJAX_SVGD: lambda: _blackjax_svgd(problem),
        BLACKJAX_SGHMC: lambda: _blackjax_sghmc(problem),
        NUMPYRO_SVGD: lambda: _numpyro_svgd(problem),
        NUMPYRO_SVI: lambda: _numpyro_svi(problem),
    }


def _theta(problem: Problem):
    keys = jax.random.split(jax.random.key(2), problem.shape.particles)
    return jax.vmap(problem.model.sample_prior)(keys)


def _log_target(problem: Problem):
    model, batch = problem.model, problem.batch
    _, psi = model.init(jax.random.key(1))

    def log_target(theta):
        likelihood = jnp.sum(model.log_likelihood(theta, psi, batch))
        return NUM_DATA / problem.shape.batch * likelihood + model.log_prior(theta)

    return log_target


def _blackjax_svgd(problem: Problem) -> Call:
    import blackjax
    from blackjax.vi.svgd import rbf_kernel, update_median_heuristic

    algorithm = blackjax.svgd(
        jax.grad(_log_target(problem)), optax.adam(LEARNING_RATE), rbf_kernel, update_median_heuristic
    )
    state = algorithm.init(_theta(problem), {"length_scale": 1.0})
    step = jax.jit(algorithm.step)
    return lambda: step(state)


def _blackjax_sghmc(problem: Problem) -> Call:
    import blackjax

    gradient = jax.grad(_log_target(problem))
    algorithm = blackjax.sghmc(lambda theta, batch: gradient(theta), STEPS_PER_CALL[BLACKJAX_SGHMC])
    keys = jax.random.split(jax.random.key(3), problem.shape.particles)
    theta = _theta(problem)
    step = jax.jit(jax.vmap(lambda key, t: algorithm.step(key, t, problem.batch, STEP_SIZE)))
    return lambda: step(keys, theta)


def _numpyro_model(problem: Problem):
    import numpyro
    import numpyro.distributions as dist

    model = problem.model
    theta, psi = model.init(jax.random.key(1))
    leaves, treedef = jax.tree.flatten(theta)
    psi_leaves, psi_treedef = jax.tree.flatten(psi)

    def numpyro_model(batch):
        theta = [
            numpyro.sample(f"theta{i}", dist.Normal(jnp.zeros(leaf.shape), 1.0).to_event(leaf.ndim))
            for i, leaf in enumerate(leaves)
        ]
        psi = [numpyro.param(f"psi{i}", leaf) for i, leaf in enumerate(psi_leaves)]
        rows = model.log_likelihood(treedef.unflatten(theta), psi_treedef.unflatten(psi), batch)
        numpyro.factor("likelihood", NUM_DATA / problem.shape.batch * jnp.sum(rows))

    return numpyro_model


def _numpyro_svgd(problem: Problem) -> Call:
    import numpyro
    from numpyro.contrib.einstein import SVGD, RBFKernel

    algorithm = SVGD(_numpyro_model(problem), numpyro.optim.Adam(LEARNING_RATE), RBFKernel(), problem.shape.particles)
    state = algorithm.init(jax.random.key(3), problem.batch)
    step = jax.jit(algorithm.update)
    return lambda: step(state, problem.batch)


def _numpyro_svi(problem: Problem) -> Call:
    import numpyro
    from numpyro.infer import SVI, Trace_ELBO
    from numpyro.infer.autoguide import AutoNormal

    model = _numpyro_model(problem)
    algorithm = SVI(model, AutoNormal(model), numpyro.optim.Adam(LEARNING_RATE), Trace_ELBO(problem.shape.particles))
    state = algorithm.init(jax.random.key(3), problem.batch)
    step = jax.jit(algorithm.update)
    return lambda: step(state, problem.batch)
