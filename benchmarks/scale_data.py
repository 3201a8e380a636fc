"""Large data: time per step against the number of rows, and a table of 4 GiB trained from disk.

python -m benchmarks.scale_data -o results/bench/scale.jsonl --folder /tmp

GOHSMC with Langevin moves, first layer sampled; the sizes are `CONFIG` (8 inputs, in memory) and `DISK` (the large
table). Each measurement is a process of its own. The large table is written under `--folder` and removed afterwards.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

ROWS = (1_000, 10_000, 100_000, 1_000_000)
CONFIG = {"width": 50, "second_layer": 20, "particles": 10, "batch_size": 100}
# float32: 4 GiB. The network is small, so that most of the time is reading.
DISK = {"rows": 2**22, "inputs": 256, "width": 10, "second_layer": 5, "particles": 2, "batch_size": 4096}
SEED = 0


def write_table(folder: Path, num_data: int, inputs: int) -> None:
    """Standard normal inputs and a smooth target, written piece by piece."""
    x = np.lib.format.open_memmap(folder / "x.npy", mode="w+", dtype=np.float32, shape=(num_data, inputs))
    y = np.lib.format.open_memmap(folder / "y.npy", mode="w+", dtype=np.float32, shape=(num_data, 1))
    rng = np.random.default_rng(SEED)
    for begin in range(0, num_data, 2**16):
        rows = rng.standard_normal((min(2**16, num_data - begin), inputs), dtype=np.float32)
        x[begin : begin + len(rows)] = rows
        y[begin : begin + len(rows)] = np.sin(rows[:, :1]) + 0.1 * rng.standard_normal((len(rows), 1), dtype=np.float32)
        if begin % 2**20 == 0:
            x.flush()


def problem(inputs: int, num_data: int, config: dict[str, int]) -> tuple[Any, Any]:
    from partbayes import model, training

    likelihood = model.gaussian("learned")
    network = model.mlp(inputs, (config["width"], config["second_layer"]), likelihood.num_outputs)
    bnn = model.partial_bnn(network, likelihood, stochastic="first")
    return bnn, training.gohsmc(bnn, num_data, num_particles=config["particles"], step_size=1e-3, block_size=50)


def steps_in_memory(num_data: int, steps: int) -> dict[str, Any]:
    """Seconds per step of `fit`; epochs of a short table are many, those of a long one few."""
    import jax
    import jax.numpy as jnp

    from partbayes import runtime
    from partbayes.data.batching import steps_per_epoch
    from partbayes.types import Batch

    rng = np.random.default_rng(SEED)
    x = rng.standard_normal((num_data, 8), dtype=np.float32)
    train = Batch(jnp.asarray(x), jnp.asarray(np.sin(x[:, :1])), jnp.ones(num_data))
    bnn, algorithm = problem(8, num_data, CONFIG)
    length = steps_per_epoch(num_data, CONFIG["batch_size"])
    epochs = max(1, steps // length)
    ends: list[tuple[float, float]] = []
    runtime.fit(
        jax.random.key(SEED),
        algorithm,
        bnn,
        train,
        num_epochs=1 + epochs,
        batch_size=CONFIG["batch_size"],
        on_epoch=lambda run, record: ends.append((time.perf_counter(), time.process_time())),
    )
    clock, busy = ((ends[-1][i] - ends[0][i]) / (epochs * length) for i in (0, 1))
    return {"seconds_per_step": clock, "processor_seconds_per_step": busy, "steps": epochs * length}


def train_from_disk(folder: Path) -> dict[str, Any]:
    """One epoch from files: seconds per step after the first half, and peak memory in GiB."""
    import jax

    from partbayes import runtime
    from partbayes.data import open_rows
    from partbayes.data.stream import HostRows, RowSource

    source = open_rows(folder / "x.npy", folder / "y.npy")
    reads: list[tuple[float, float]] = []

    def read(block: int) -> HostRows:
        reads.append((time.perf_counter(), time.process_time()))
        return source.read(block)

    batch_size = DISK["batch_size"]
    bnn, algorithm = problem(DISK["inputs"], source.num_data, DISK)
    done = runtime.fit_stream(
        jax.random.key(SEED),
        algorithm,
        bnn,
        RowSource(source.offsets, read, source.row_bytes),
        num_epochs=1,
        batch_size=batch_size,
    )
    half = len(reads) // 2
    rows = source.num_data * (len(reads) - half) / len(reads)
    end = (time.perf_counter(), time.process_time())
    clock, busy = ((end[i] - reads[half][i]) / (rows / batch_size) for i in (0, 1))
    return {
        "seconds_per_step": clock,
        "processor_seconds_per_step": busy,
        "steps": int(done.run.step),
        "table_gib": sum((folder / name).stat().st_size for name in ("x.npy", "y.npy")) / 2**30,
        "peak_gib": peak_gib(),
        "loss": done.history[-1]["loss"],
    }


def peak_gib() -> float:
    """The largest resident memory of this program, mapped files included (`ru_maxrss` would begin at its parent's)."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 2**20


def worker(kind: str, *values: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.scale_data", "--worker", kind, *values]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    print(kind, *values, found, flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", default="results/bench/scale.jsonl")
    parser.add_argument("--folder", default=None)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=1000, help="steps timed for each number of rows")
    parser.add_argument("--only", choices=["rows", "disk"])
    parser.add_argument("--worker", nargs="+")
    options = parser.parse_args()
    if options.worker:
        kind, *values = options.worker
        if kind == "memory":
            print(json.dumps(steps_in_memory(int(values[0]), int(values[1]))))
        else:
            print(json.dumps(train_from_disk(Path(values[0]))))
        return

    from partbayes.benchmark.lines import append_line
    from partbayes.benchmark.paper import versions

    common = {"preset": "scale", "seed": SEED, "versions": versions()}
    command = "python -m benchmarks.scale_data"
    if options.only != "disk":
        found: dict[int, list[dict[str, Any]]] = {n: [] for n in ROWS}
        for _ in range(options.rounds):
            for n in ROWS:
                found[n].append(worker("memory", str(n), str(options.steps)))
        medians = {
            name: {str(n): statistics.median(line[name] for line in lines) for n, lines in found.items()}
            for name in ("seconds_per_step", "processor_seconds_per_step")
        }
        config = {**CONFIG, "inputs": 8, "rounds": options.rounds, "steps": options.steps}
        append_line(options.output, {**common, "what": "rows", "command": command, "config": config, **medians})
    if options.only != "rows":
        with tempfile.TemporaryDirectory(dir=options.folder) as name:
            write_table(Path(name), DISK["rows"], DISK["inputs"])
            line = worker("disk", name)
        append_line(options.output, {**common, "what": "disk", "command": command, "config": DISK, **line})


if __name__ == "__main__":
    main()
