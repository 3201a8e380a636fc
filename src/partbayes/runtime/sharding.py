"""Islands and particles on several devices: a mesh, what lies where, and islands mapped over it.

    mesh = device_mesh()                    # every device takes a share of the islands
    mesh = device_mesh(particles=4)         # groups of four devices divide each island's particles
    fit(key, algorithm, model, train, islands=16, mesh=mesh, ...)

Islands are independent: they exchange nothing but, once an epoch, the rows' log scores of a joint validation. Particles
of one island exchange what the population has in common (docs/scaling.md counts it). A particle's random numbers depend
on its index alone, so the numbers drawn are those of one device, and results agree up to the order of sums.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from partbayes import hosts
from partbayes.algorithm import Posterior
from partbayes.errors import PartbayesError
from partbayes.smc.blocks import even_block
from partbayes.smc.shards import PARTICLES
from partbayes.smc.step import ParticleState
from partbayes.types import Tree

ISLANDS = "islands"
"""The mesh axis that islands are divided along."""


def device_mesh(*, particles: int = 1, devices: Sequence[Any] | None = None) -> Mesh:
    """A mesh of `devices` (default: all there are, those of other hosts too) with `particles` of them to an island."""
    found = list(jax.devices() if devices is None else devices)
    if particles < 1 or not found or len(found) % particles:
        raise PartbayesError(
            f"{len(found)} devices cannot be grouped by {particles}: choose a divisor of the number of devices."
        )
    grid = np.asarray(found, dtype=object).reshape(-1, particles)
    return Mesh(grid, (ISLANDS, PARTICLES), axis_types=(AxisType.Auto, AxisType.Auto))


def every_device(islands: int | None = None) -> Mesh | None:
    """A mesh of all devices for the islands, or None where there is but one; of one host, no more than `islands`."""
    devices = jax.devices() if hosts.several() else jax.devices()[:islands]
    return device_mesh(devices=devices) if len(devices) > 1 else None


def check_mesh(mesh: Mesh | None) -> Mesh | None:
    """Complain early about a mesh with other axes. Several processes without a mesh share the islands."""
    if mesh is None:
        return every_device() if hosts.several() else None
    if mesh.axis_names != (ISLANDS, PARTICLES):
        raise PartbayesError(
            f"The mesh has the axes {mesh.axis_names}, but {(ISLANDS, PARTICLES)} are expected: use `device_mesh`."
        )
    return mesh


def each_island(function: Callable[..., Tree], mesh: Mesh | None, together: int | None = None) -> Callable[..., Tree]:
    """`jax.vmap(function)`, every device with its share of the islands, `together` at a time (None: all at once).

    Where they cannot be shared evenly, copies fill the last share and are dropped afterwards: it takes as long as the
    largest share would anyway.
    """
    in_turns = partial(_in_turns, function, together)
    if mesh is None:
        return in_turns
    num_shares = mesh.shape[ISLANDS]
    divided = PartitionSpec(ISLANDS)
    spread = jax.shard_map(
        in_turns, mesh=mesh, in_specs=divided, out_specs=divided, axis_names={ISLANDS}, check_vma=False
    )

    def mapped(*args: Tree) -> Tree:
        num_islands = jax.tree.leaves(args)[0].shape[0]
        if num_islands % num_shares == 0:
            return spread(*args)
        filled = jnp.arange(num_islands + -num_islands % num_shares) % num_islands
        results = spread(*jax.tree.map(lambda leaf: leaf[filled], args))
        return jax.tree.map(lambda leaf: leaf[:num_islands], results)

    return mapped


def _in_turns(function: Callable[..., Tree], together: int | None, *args: Tree) -> Tree:
    """Islands are independent, so it does not matter which of them share a turn."""
    num_islands = jax.tree.leaves(args)[0].shape[0]
    if together is None or together >= num_islands:
        return jax.vmap(function)(*args)
    return jax.lax.map(lambda one: function(*one), args, batch_size=even_block(num_islands, together))


def spread_run(run: Any, mesh: Mesh | None) -> Any:
    """Inside a compiled program: the run with every part where it belongs."""
    if mesh is None:
        return run
    return jax.tree.map(jax.lax.with_sharding_constraint, run, _shardings(run, mesh))


def place_run(run: Any, mesh: Mesh | None) -> Any:
    """Outside one: a run from anywhere (another mesh, a checkpoint) laid out on the mesh."""
    return run if mesh is None else jax.tree.map(_put, run, _shardings(run, mesh))


def on_all(tree: Tree, mesh: Mesh | None) -> Tree:
    """A copy on every device: data, and whatever else all of them read."""
    return tree if mesh is None else jax.tree.map(lambda leaf: _put(leaf, NamedSharding(mesh, PartitionSpec())), tree)


def outline_run(run: Any, mesh: Mesh | None) -> Any:
    """The shapes of a run that `place_run` would give."""
    if mesh is None:
        return jax.tree.map(_outline, run)
    return jax.tree.map(_outline, run, _shardings(run, mesh))


def outline_on_all(tree: Tree, mesh: Mesh | None, weak: bool = True) -> Tree:
    """The shapes of what `on_all` would give; without `weak`, all types are strong."""
    everywhere = None if mesh is None else NamedSharding(mesh, PartitionSpec())
    return jax.tree.map(lambda leaf: _outline(leaf, everywhere, weak), tree)


def _outline(leaf: Any, sharding: NamedSharding | None = None, weak: bool = True) -> jax.ShapeDtypeStruct:
    weak = weak and getattr(leaf, "weak_type", False)
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding, weak_type=weak)


def _put(leaf: Any, sharding: NamedSharding) -> jax.Array:
    if isinstance(leaf, jax.Array) and not leaf.is_fully_addressable:
        there = leaf.sharding.is_equivalent_to(sharding, leaf.ndim)
        return leaf if there else jax.jit(lambda array: array, out_shardings=sharding)(leaf)
    if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(_put(jax.random.key_data(leaf), sharding))
    if sharding.is_fully_addressable:
        return jax.device_put(leaf, sharding)
    # Every process has the whole, and gives its own devices their part.
    whole = np.asarray(leaf)
    return jax.make_array_from_callback(whole.shape, sharding, lambda index: whole[index])


def _shardings(run: Any, mesh: Mesh) -> Any:
    """A run's tree of shardings. Numbers per island that the host looks at are everywhere."""
    num_islands, num_particles = run.best.log_weights.shape
    if num_particles % mesh.shape[PARTICLES]:
        raise PartbayesError(
            f"{num_particles} particles cannot be divided evenly among {mesh.shape[PARTICLES]} devices: use a multiple,"
            " or fewer devices to an island."
        )
    # An axis of one device is left out, as the compiler does: a layout that only looks different is compiled anew.
    island = ISLANDS if mesh.shape[ISLANDS] > 1 and num_islands % mesh.shape[ISLANDS] == 0 else None
    particle = PARTICLES if mesh.shape[PARTICLES] > 1 else None

    def layout(*axes: str | None) -> NamedSharding:
        used = len(axes) if axes and axes[-1] else len(axes) - 1
        return NamedSharding(mesh, PartitionSpec(*axes[:used])) if any(axes) else everywhere

    everywhere = NamedSharding(mesh, PartitionSpec())
    by_island, by_particle = layout(island), layout(island, particle)

    def of(node: Any) -> Any:
        if isinstance(node, ParticleState):
            return jax.tree.map(lambda leaf: by_particle, node)
        if isinstance(node, Posterior):
            theta, log_weights = jax.tree.map(lambda leaf: by_particle, (node.theta, node.log_weights))
            return Posterior(theta, log_weights, jax.tree.map(lambda leaf: by_island, node.psi))
        return by_island

    state, best = jax.tree.map(of, (run.state, run.best), is_leaf=lambda n: isinstance(n, ParticleState | Posterior))
    per_island = {name: everywhere for name in ("step", "key", "best_loss", "best_epoch", "alive")}
    return run._replace(state=state, best=best, **per_island)
