"""Several processes, on one host or many: finding each other, agreeing, and one of them that writes and speaks.

Every process runs the same program on the same data; `jax.distributed` makes their devices one mesh. What depends on a
clock or a disk is decided by the first process and told to the others: processes that went different ways would wait
for each other for ever. In a single process the functions here do nothing.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from partbayes.errors import PartbayesError
from partbayes.types import Tree

HEARTBEAT_SECONDS = 30
"""A process that has been silent for so long is taken for dead, and the others end."""
LOOPBACK = ("127.0.0.1", "localhost")


def connect(coordinator: str | None = None, num_processes: int | None = None, process_id: int | None = None) -> None:
    """Join the other processes; call it before the rest of the package is imported, which already touches devices.

    `coordinator` is `host:port` of the first process. What is None comes from the environment, where JAX knows it
    (Slurm, Open MPI, Kubernetes).
    """
    if coordinator is not None and not coordinator.rpartition(":")[2].isdigit():
        raise PartbayesError(f"The coordinator is {coordinator!r}, but the first process's HOST:PORT is expected.")
    # Between processes the CPU has no collectives of its own; on other platforms this changes nothing.
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    host = (coordinator or "").rpartition(":")[0]
    try:
        jax.distributed.initialize(
            coordinator,
            num_processes,
            process_id,
            heartbeat_timeout_seconds=HEARTBEAT_SECONDS,
            # Processes of one host need no port that others can reach.
            coordinator_bind_address=coordinator if host in LOOPBACK else None,
        )
    except (ValueError, TypeError, RuntimeError) as error:
        first_line = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise PartbayesError(
            f"The processes could not find each other ({first_line}): give every one the coordinator's HOST:PORT, the "
            "number of processes and its own number, or start them under Slurm or MPI."
        ) from error
    with _stdout_as_stderr():
        agreed(True)  # the first exchange opens the connections, and says so where results are printed


@contextlib.contextmanager
def _stdout_as_stderr() -> Iterator[None]:
    """For what compiled code prints: the file descriptor itself is turned round."""
    sys.stdout.flush()
    saved = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(saved, 1)
        os.close(saved)


def several() -> bool:
    """Whether other processes take part."""
    return jax.process_count() > 1


def is_first() -> bool:
    """Whether this is the process that writes files and speaks."""
    return jax.process_index() == 0


def own_number() -> int:
    """This process's number, from 0."""
    return jax.process_index()


def agreed(value: bool) -> bool:
    """The first process's answer, in all of them."""
    if not several():
        return value
    by_device, first = _exchange()
    answers = jax.make_array_from_callback((jax.device_count(),), by_device, lambda index: np.full(1, value))
    return bool(first(answers))


@lru_cache(maxsize=1)
def _exchange() -> tuple[NamedSharding, Callable[[jax.Array], jax.Array]]:
    """One number of every device, and the program that tells all of them the first. Compiled once."""
    mesh = Mesh(np.asarray(jax.devices()), ("all",))
    told = jax.jit(lambda numbers: numbers[0], out_shardings=NamedSharding(mesh, PartitionSpec()))
    return NamedSharding(mesh, PartitionSpec("all")), told


def from_first(tree: Tree) -> Tree:
    """The first process's arrays, in all of them; the others give arrays of the same shapes."""
    from jax.experimental import multihost_utils

    return multihost_utils.broadcast_one_to_all(tree) if several() else tree


def check_same(fingerprint: str, what: str) -> None:
    """Complain if another process has a different one (of 64 hexadecimal digits)."""
    if not several():
        return
    from jax.experimental import multihost_utils

    found = multihost_utils.process_allgather(np.frombuffer(bytes.fromhex(fingerprint), np.uint8))
    if not (found == found[0]).all():
        raise PartbayesError(f"The processes have different {what}: give every one the same file and options.")


def on_this_host(tree: Tree) -> Tree:
    """Arrays that are spread over processes, whole and in every process."""
    if not several():
        return tree

    def local(leaf: Any) -> Any:
        if not isinstance(leaf, jax.Array) or leaf.is_fully_addressable:
            return leaf
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return jax.random.wrap_key_data(local(jax.random.key_data(leaf)))
        if not leaf.is_fully_replicated:
            assert isinstance(leaf.sharding, NamedSharding)
            whole = NamedSharding(leaf.sharding.mesh, PartitionSpec())
            leaf = jax.jit(lambda array: array, out_shardings=whole)(leaf)
        return jnp.asarray(np.asarray(leaf.addressable_data(0)))

    return jax.tree.map(local, tree)


def leave(code: int) -> NoReturn:
    """End this process at once: an orderly end would wait for processes that are gone."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
