"""Programs that need several devices, run in a process of their own: a process chooses its devices once.

As a program it prints JSON: `compare` trains on one device and on eight, `collectives` counts what devices exchange,
`prepared` counts how often a model is traced ahead of training, and then by training itself.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

COMPILED_SOON = "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
"""Slow code will do: what devices exchange does not depend on it."""


def run(*args: object, devices: int = 8) -> Any:
    """The JSON that `python several_devices.py args` prints."""
    flags = {"XLA_FLAGS": f"--xla_force_host_platform_device_count={devices} {COMPILED_SOON}", "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, __file__, *map(str, args)]
    done = subprocess.run(command, env={**os.environ, **flags}, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def compare(islands: int, particles: int, block: int) -> dict[str, Any]:
    """The largest relative difference between one device and eight, and where the particles lay."""
    import jax
    import numpy as np
    from problems import small_network

    from partbayes.runtime import device_mesh, fit
    from partbayes.training import gohsmc

    model, data = small_network()
    algorithm = gohsmc(model, 24, num_particles=16, step_size=0.01, block_size=block or None)
    options: dict[str, Any] = {"batch_size": 8, "validation": data, "islands": islands, "select": "joint"}

    def train(epochs: int, **more: Any):
        return fit(jax.random.key(0), algorithm, model, data, num_epochs=epochs, **options, **more)

    mesh = device_mesh(particles=particles)
    single, sharded = train(4), train(4, mesh=mesh)
    moved = train(4, resume=train(2, mesh=mesh).run)  # begun on eight devices, ended on one

    def difference(a: Any, b: Any) -> float:
        pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
        return max(float(np.max(np.abs(np.asarray(x) - np.asarray(y)) / (1 + np.abs(np.asarray(x))))) for x, y in pairs)

    first = jax.tree.leaves(sharded.run.state.particles.theta)[0]
    return {
        "posterior": difference(single.posterior, sharded.posterior),
        "state": difference(single.run.state, sharded.run.state),
        "moved": difference(single.posterior, moved.posterior),
        "resampled": single.history[0]["resampled"],
        "share": first.addressable_shards[0].data.shape[:2],
        "devices": len(first.sharding.device_set),
    }


def collectives(islands: int, particles: int) -> dict[str, dict[str, int]]:
    """Kinds of exchange inside the loop over steps, and outside it; `bytes` are those of the loop's, by kind."""
    import jax
    from problems import small_network

    from partbayes.runtime import device_mesh
    from partbayes.runtime.loop import _run_epoch, start
    from partbayes.runtime.sharding import on_all
    from partbayes.training import gohsmc

    model, data = small_network()
    algorithm = gohsmc(model, 24, num_particles=16, step_size=0.01, block_size=1)
    mesh = device_mesh(particles=particles)
    run = start(jax.random.key(0), algorithm, model, data, batch_size=8, islands=islands, mesh=mesh)
    train = on_all(data, mesh)
    lowered = _run_epoch.compiled.lower(
        run, train, train, algorithm=algorithm, model=model, batch_size=8, select="joint", mesh=mesh
    )
    found: dict[str, Counter[str]] = {"step": Counter(), "epoch": Counter(), "bytes": Counter()}
    kinds = "all-reduce|all-gather|all-to-all|reduce-scatter|collective-permute|collective-broadcast"
    for shapes, kind, rest in re.findall(rf"= (.*?) ({kinds})(?:-start)?\((.*)", lowered.compile().as_text()):
        where = "step" if "/while/body/" in rest else "epoch"
        found[where][kind] += 1
        if where == "step":
            found["bytes"][kind] += sum(
                4 * _size(shape) for shape in re.findall(r"(?:f32|s32|u32)\[([\d,]*)\]", shapes)
            )
    return {name: dict(counts) for name, counts in found.items()}


def prepared(islands: int) -> list[int]:
    import jax
    from problems import small_network, watched

    from partbayes.runtime import device_mesh, fit, prepare
    from partbayes.training import gohsmc

    network, data = small_network()
    model, traced = watched(network)
    algorithm = gohsmc(model, 24, num_particles=4, step_size=0.01)
    options: dict[str, Any] = {"batch_size": 8, "validation": data, "islands": islands, "mesh": device_mesh()}
    prepare(jax.random.key(0), algorithm, model, data, **options)
    ahead = len(traced)
    fit(jax.random.key(0), algorithm, model, data, num_epochs=2, **options)
    return [ahead, len(traced) - ahead]


def _size(shape: str) -> int:
    size = 1
    for length in filter(None, shape.split(",")):
        size *= int(length)
    return size


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    import jax

    what, *numbers = sys.argv[1:]
    if what == "compare":  # in 64 bits, so that a wrong sum stands out; key reuse is checked as in all tests
        jax.config.update("jax_enable_x64", True)
        jax.config.update("jax_debug_key_reuse", True)
        jax.config.update("jax_disable_most_optimizations", True)
    print(json.dumps({"compare": compare, "collectives": collectives, "prepared": prepared}[what](*map(int, numbers))))
