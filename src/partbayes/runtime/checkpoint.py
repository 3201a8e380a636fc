"""Save a `Run` and go on from it, with orbax. Arrays and JSON only: opening a checkpoint executes nothing.

Orbax writes each step into a folder of its own and renames it when complete, so a process killed half-way leaves the
previous checkpoint in place. Of several processes the first one reads and writes; all of them call these functions.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from partbayes import hosts
from partbayes._version import __version__
from partbayes.errors import PartbayesError
from partbayes.runtime.epochs import Run

KEPT = 2
"""Checkpoints kept: the newest, and one before it in case the newest is damaged."""


def save_checkpoint(folder: str | os.PathLike[str], run: Run, description: dict[str, Any] | None = None) -> None:
    """Write the run under `folder`; `description` (JSON) is compared on restoring, so that runs are not mixed up."""
    import orbax.checkpoint as ocp

    run = hosts.on_this_host(run)
    if not hosts.is_first():
        return
    step = int(run.step)
    content = ocp.args.Composite(
        run=ocp.args.StandardSave(_plain(run)), description=ocp.args.JsonSave(_described(description))
    )
    try:
        with _manager(folder, create=True) as manager:
            if manager.latest_step() != step:  # the same step of the same run is the same: it is written once
                manager.save(step, args=content, force=True)
                manager.wait_until_finished()
    except OSError as error:
        raise PartbayesError(
            f"The checkpoint could not be written to {str(folder)!r} ({error.strerror or error}): make room there, or "
            "choose another folder; what was saved before is still there."
        ) from error


def restore_checkpoint(folder: str | os.PathLike[str], like: Run, description: dict[str, Any] | None = None) -> Run:
    """The newest run under `folder`. `like` is a fresh run of the same configuration: its shapes are the schema."""
    if not hosts.several():
        return _restore(folder, like, description)
    run, failure = like, None
    if hosts.is_first():
        try:
            run = _restore(folder, like, description)
        except PartbayesError as error:
            failure = error
    if hosts.agreed(failure is not None):
        raise failure or PartbayesError("The first process could not restore the checkpoint: see what it says.")
    return _typed(hosts.from_first(_plain(run)), like)


def _restore(folder: str | os.PathLike[str], like: Run, description: dict[str, Any] | None) -> Run:
    import orbax.checkpoint as ocp

    if not _has(folder):
        raise PartbayesError(f"There is no checkpoint in {str(folder)!r}: check the folder, or start anew.")
    with _manager(folder, create=False) as manager:
        step = manager.latest_step()
        try:
            found = manager.restore(step, args=ocp.args.Composite(description=ocp.args.JsonRestore())).description
        except (ValueError, KeyError, TypeError, OSError) as error:
            raise PartbayesError(
                f"The checkpoint {step} in {str(folder)!r} cannot be read: remove its folder to go on from the one "
                "before it, or start anew."
            ) from error
        wanted = _described(description)
        changed = sorted(name for name in {*found, *wanted} if found.get(name) != wanted.get(name))
        if changed:
            raise PartbayesError(
                f"The checkpoint in {str(folder)!r} was made with other settings ({', '.join(changed)}): resume with "
                "the same ones, or use another folder."
            )
        schema = jax.tree.map(ocp.utils.to_shape_dtype_struct, _plain(like))
        try:
            plain = manager.restore(step, args=ocp.args.Composite(run=ocp.args.StandardRestore(schema))).run
        except (ValueError, KeyError, TypeError, OSError) as error:
            raise PartbayesError(
                f"The checkpoint {step} in {str(folder)!r} does not fit this network or algorithm, or is damaged: "
                "resume with the settings it was made with, or remove its folder to go on from the one before it."
            ) from error
    return _typed(plain, like)


def has_checkpoint(folder: str | os.PathLike[str]) -> bool:
    """Whether `folder` holds a complete checkpoint."""
    return hosts.agreed(hosts.is_first() and _has(folder))


def _has(folder: str | os.PathLike[str]) -> bool:
    path = Path(folder)
    if not path.is_dir():
        return False
    with _manager(path, create=False) as manager:
        return manager.latest_step() is not None


def _described(description: dict[str, Any] | None) -> dict[str, Any]:
    """The package's version is part of a run: another one may draw or compute differently."""
    return {**(description or {}), "partbayes version": __version__}


def _manager(folder: str | os.PathLike[str], *, create: bool) -> Any:
    import orbax.checkpoint as ocp

    settings: dict[str, Any] = {"max_to_keep": KEPT, "create": create}
    if hosts.several():  # Orbax would wait for the other processes, and does not make folders when told not to
        settings["multiprocessing_options"] = ocp.options.MultiprocessingOptions(
            primary_host=0, active_processes={0}, barrier_sync_key_prefix="first"
        )
        settings["create"] = False
        if create:
            Path(folder).mkdir(parents=True, exist_ok=True)
    options = ocp.CheckpointManagerOptions(**settings)
    return ocp.CheckpointManager(Path(folder).absolute(), options=options)


def _plain(run: Run) -> Run:
    """Typed keys as plain numbers, which file formats know. Of several processes one writes: arrays of the host's."""
    as_array = np.asarray if hosts.several() else jnp.asarray
    return jax.tree.map(lambda a: as_array(jax.random.key_data(a) if _is_key(a) else a), run)


def _typed(plain: Run, like: Run) -> Run:
    wrap = lambda a, b: jax.random.wrap_key_data(jnp.asarray(a)) if _is_key(b) else jnp.asarray(a)  # noqa: E731
    return jax.tree.map(wrap, plain, like)


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(jnp.asarray(leaf).dtype if not hasattr(leaf, "dtype") else leaf.dtype, jax.dtypes.prng_key)
