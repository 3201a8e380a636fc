"""The true predictive of θ | ψ: long Hamiltonian Monte Carlo on all rows, several chains, until R-hat is small.

The step size is found by the library's own steering, on the chains themselves; the draws that count are then made by
blackjax's sampler, so that the truth does not rest on the code that is judged by it. Mass is the identity.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import NamedTuple

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
from blackjax.mcmc import hmc
from jax.flatten_util import ravel_pytree

from partbayes import smc
from partbayes import tree as tm
from partbayes.atomic import replace_file
from partbayes.benchmark.trained import TrainedNetwork
from partbayes.model import log_target
from partbayes.training import gohsmc
from partbayes.types import Key


class TruthSettings(NamedTuple):
    """Draws per chain are made in chunks, `draws` of them at least, until no test row's split R-hat exceeds `rhat`."""

    chains: int = 8
    leapfrog_steps: int = 64
    warmup: int = 100
    draws: int = 600
    chunk: int = 100
    max_draws: int = 2000
    rhat: float = 1.02
    jitter: float = 0.1
    """Standard deviation of the chains' starts around the trained θ."""


class Truth(NamedTuple):
    """At the test rows: mean and standard deviation of f, the noise, R-hat, effective sample size, and the standard
    deviation from the even and from the odd chains alone. Then gradients (of all chains, warm-up and all) and ε."""

    mean: np.ndarray
    sd: np.ndarray
    noise: np.ndarray
    rhat: np.ndarray
    ess: np.ndarray
    half_sds: np.ndarray
    num_gradients: np.ndarray
    step_size: np.ndarray

    @property
    def total_sd(self) -> np.ndarray:
        """Of the predictive: f and noise together."""
        return np.sqrt(self.sd**2 + self.noise**2)


def long_hmc(key: Key, network: TrainedNetwork, settings: TruthSettings) -> Truth:
    """Run the chains."""
    key_warm, key_draws = jax.random.split(key)
    positions, step_size = _warm_up(key_warm, network, settings)
    unit_mass = jnp.ones(ravel_pytree(network.theta)[0].shape[0])
    density = _density(network)
    sampler = blackjax.hmc(density, step_size, unit_mass, settings.leapfrog_steps)

    def one_chain(chain, state, first):
        def draw(state, index):
            key = jax.random.fold_in(jax.random.fold_in(key_draws, chain), index)
            state, _ = sampler.step(key, state)
            return state, network.at_test_rows(state.position, network.psi)[0]  # pyright: ignore[reportAttributeAccessIssue]

        return jax.lax.scan(draw, state, first + jnp.arange(settings.chunk))

    run = jax.jit(jax.vmap(one_chain, (0, 0, None)))
    states, chunks = jax.vmap(lambda position: hmc.init(position, density))(positions), []
    while True:
        states, found = run(jnp.arange(settings.chains), states, settings.chunk * len(chunks))
        chunks.append(np.asarray(found, np.float64))
        draws = np.concatenate(chunks, axis=1)
        enough = draws.shape[1] >= settings.draws and split_rhat(draws).max() < settings.rhat
        if enough or draws.shape[1] + settings.chunk > settings.max_draws:
            break
    # Ours takes both ends' gradients in every move, blackjax's carries the last one along.
    moves = settings.warmup * (settings.leapfrog_steps + 1) + draws.shape[1] * settings.leapfrog_steps
    _, noise = network.at_test_rows(network.theta, network.psi)
    return Truth(
        mean=draws.mean((0, 1)),
        sd=draws.std((0, 1)),
        noise=np.asarray(noise, np.float64),
        rhat=split_rhat(draws),
        ess=np.asarray(blackjax.diagnostics.effective_sample_size(jnp.asarray(draws))),
        half_sds=np.stack([draws[side::2].std((0, 1)) for side in (0, 1)]),
        num_gradients=np.asarray(float(settings.chains * moves)),
        step_size=np.asarray(step_size),
    )


def cached_truth(
    file: Path, key: Key, network: TrainedNetwork, settings: TruthSettings, *, identity: dict[str, object]
) -> Truth:
    """`long_hmc`, or what a file of arrays holds from an earlier run with the same settings and `identity`."""
    described = json.dumps(settings._asdict() | identity, sort_keys=True)
    if file.exists():
        with np.load(file, allow_pickle=False) as arrays:
            if str(arrays["settings"]) == described:
                return Truth(*(arrays[name] for name in Truth._fields))
    truth = long_hmc(key, network, settings)
    content = io.BytesIO()
    np.savez_compressed(content, allow_pickle=False, settings=np.asarray(described), **truth._asdict())
    file.parent.mkdir(parents=True, exist_ok=True)
    replace_file(file, content.getvalue())
    return truth


def split_rhat(draws: np.ndarray) -> np.ndarray:
    """Potential scale reduction (Gelman & Rubin) of `[chains, draws, rows]`, each chain cut into halves: `[rows]`."""
    half = draws.shape[1] // 2
    halves = np.concatenate([draws[:, :half], draws[:, half : 2 * half]])
    within = halves.var(1, ddof=1).mean(0)
    between = halves.mean(1).var(0, ddof=1)
    return np.sqrt((half - 1) / half + between / within)


def _density(network: TrainedNetwork):
    target = log_target(network.model, network.train.x.shape[0])
    return lambda theta: target(theta, network.psi, network.train)


def _warm_up(key: Key, network: TrainedNetwork, settings: TruthSettings):
    """Positions of the chains `[chains, ...]`, and the step size that was found on the way."""
    key_init, key_jitter, key_steps = jax.random.split(key, 3)
    algorithm = gohsmc(
        network.model,
        network.train.x.shape[0],
        num_particles=settings.chains,
        proposal=smc.hmc(settings.leapfrog_steps),
        lkernel=smc.asymptotic(),
        denominator="same_batch",
        hold_psi=True,
        start="given",
        warmup_steps=settings.warmup,
    )
    state = algorithm.init(key_init, (network.theta, network.psi), network.train)
    noise = tm.normal_like(key_jitter, state.particles.theta)
    theta = jax.tree.map(lambda t, z: t + settings.jitter * z, state.particles.theta, noise)
    values = jax.vmap(_density(network))(theta)
    state = state._replace(particles=state.particles._replace(theta=theta, log_target=values))

    def step(state, index):
        state, _ = algorithm.step(jax.random.fold_in(key_steps, index), state, network.train)
        return state, None

    state, _ = jax.jit(lambda state: jax.lax.scan(step, state, jnp.arange(settings.warmup)))(state)
    return state.particles.theta, state.tuning.step_size
