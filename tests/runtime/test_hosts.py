"""Two processes on loopback: the result of one, an end without hanging when the other is gone, and going on."""

from __future__ import annotations

import os
import signal
import subprocess
import time

import jax
import numpy as np
import pytest
import several_processes

from partbayes import hosts
from partbayes.errors import PartbayesError

PATIENCE = 240
"""Seconds until a process that should have ended is taken to hang; it is compiling most of the time."""


def same_as_one_process(folder, epochs):
    alone = jax.tree.leaves(several_processes.train(epochs).posterior)
    with np.load(folder / "posterior.npz") as found:
        for name, leaf in zip(found.files, alone, strict=True):
            # float32, summed in another order.
            np.testing.assert_allclose(found[name], leaf, rtol=1e-4, atol=1e-5)


def end(processes):
    """What each said last, and its exit code. Nobody is left behind."""
    try:
        said = [process.communicate(timeout=PATIENCE)[1] for process in processes]
        return said, [process.returncode for process in processes]
    finally:
        for process in processes:
            process.kill()


def saved_steps(folder):
    return [int(path.name) for path in folder.glob("run/train/*") if path.name.isdigit()]


@pytest.mark.parametrize("killed", [pytest.param(0, marks=pytest.mark.slow), 1])
def test_the_other_process_ends_when_one_is_killed_and_both_go_on_to_the_same_result(tmp_path, killed):
    processes = several_processes.start(tmp_path, epochs=100_000)
    deadline = time.monotonic() + PATIENCE
    while not saved_steps(tmp_path):
        if any(process.poll() is not None for process in processes) or time.monotonic() > deadline:
            pytest.fail(f"no checkpoint came: {end(processes)}")
        time.sleep(0.1)
    os.kill(processes[killed].pid, signal.SIGKILL)
    said, codes = end(processes)
    assert codes[killed] == -signal.SIGKILL
    assert codes[1 - killed] not in (0, None)
    assert "another process of this training ended" in said[1 - killed] or "another task died" in said[1 - killed]
    epochs = max(saved_steps(tmp_path)) // 3 + 2
    said, codes = end(several_processes.start(tmp_path, epochs))
    assert codes == [0, 0], said
    same_as_one_process(tmp_path, epochs)


def test_an_address_that_is_none_is_refused():
    with pytest.raises(PartbayesError, match="HOST:PORT"):
        hosts.connect("nowhere", 2, 0)


def test_one_process_agrees_with_itself():
    assert hosts.is_first() and not hosts.several()
    assert hosts.agreed(True) and not hosts.agreed(False)
    hosts.check_same("00" * 32, "data")


def test_the_command_needs_to_know_the_others(tmp_path):
    """In a process of its own, which has not touched a device yet."""
    (tmp_path / "data.csv").write_text("a,b\n1,2\n3,4\n")
    hidden = {"SLURM", "OMPI", "JAX_", "PMI", "KUBERNETES"}
    environment = {k: v for k, v in os.environ.items() if not any(k.startswith(prefix) for prefix in hidden)}
    program = "from partbayes.cli import main; main()"
    command = ["fit", str(tmp_path / "data.csv"), "--target", "b", "-o", str(tmp_path / "m"), "--distributed"]
    done = subprocess.run(
        [several_processes.sys.executable, "-c", program, *command],
        env={**environment, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 1 and "could not find each other" in done.stderr and done.stdout == ""
    assert done.stderr.startswith("partbayes: ") and done.stderr.count("\n") == 1
