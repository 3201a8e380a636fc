"""One of several processes that train together; as a program: `several_processes.py PORT NUMBER FOLDER EPOCHS`.

`start` starts two on loopback. The first writes the posterior to FOLDER/posterior.npz; both save after every epoch.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from several_devices import COMPILED_SOON


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(folder: Path, epochs: int) -> list[subprocess.Popen[str]]:
    """Two processes with a device each."""
    port = free_port()
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": COMPILED_SOON}
    return [
        subprocess.Popen(
            [sys.executable, __file__, str(port), str(number), str(folder), str(epochs)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in (0, 1)
    ]


def train(epochs: int, checkpoint: Any = None) -> Any:
    """The training that is compared: three islands, so that the two processes cannot share them evenly."""
    import jax
    from problems import small_network

    from partbayes.runtime.resumable import fit_resumable
    from partbayes.training import gohsmc

    model, data = small_network()
    algorithm = gohsmc(model, 24, num_particles=4, step_size=0.01)
    options: dict[str, Any] = {"batch_size": 8, "validation": data, "islands": 3, "select": "joint"}
    return fit_resumable(checkpoint, jax.random.key(0), algorithm, model, data, num_epochs=epochs, **options)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    port, number, folder, epochs = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4])
    import jax
    import numpy as np

    from partbayes.cli.processes import together

    jax.config.update("jax_disable_most_optimizations", True)
    with together(True, f"127.0.0.1:{port}", 2, number) as speaks:
        from partbayes.runtime.resumable import Checkpoint

        posterior = train(epochs, Checkpoint(folder / "run", resume=True, every_seconds=0.0)).posterior
        if speaks:
            np.savez(folder / "posterior.npz", *jax.tree.leaves(posterior))
