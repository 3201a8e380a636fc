"""Large populations: time per step against J, and peak memory at J = 3,000 with blocks of particles.

python -m benchmarks.scale_population -o results/bench/scale.jsonl

Each J runs in a process of its own, so that its peak memory is its own. The network has 17 inputs, 900 and 20 hidden
units and one output, the first layer is sampled (16,200 numbers a particle), a batch has 50 rows: GOHSMC with Langevin
moves through `runtime.fit`, particles in blocks of 10.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import statistics
import subprocess
import sys
import time
from itertools import pairwise
from typing import Any

SHAPE = {"inputs": 17, "width": 900, "second_layer": 20, "batch_size": 50, "block_size": 10}
POPULATIONS = (10, 30, 100, 300, 1000, 3000)
SEED = 0


def measure(num_particles: int, repeats: int, steps: int) -> dict[str, Any]:
    """Median seconds per step over `repeats` epochs of `steps`, and the process's peak memory in GiB.

    Beside the clock's time stands the processor time of all cores, which other programs on the machine do not change.
    """
    import jax
    import jax.numpy as jnp

    from partbayes import model, runtime, training
    from partbayes.types import Batch

    num_data = SHAPE["batch_size"] * steps
    key_x, key_y, key_fit = jax.random.split(jax.random.key(SEED), 3)
    x = jax.random.normal(key_x, (num_data, SHAPE["inputs"]))
    train = Batch(x, jax.random.normal(key_y, (num_data, 1)), jnp.ones(num_data))
    likelihood = model.gaussian(1.0)
    hidden = (SHAPE["width"], SHAPE["second_layer"])
    bnn = model.partial_bnn(model.mlp(SHAPE["inputs"], hidden, 1), likelihood, stochastic="first")
    algorithm = training.gohsmc(
        bnn, num_data, num_particles=num_particles, step_size=1e-3, block_size=SHAPE["block_size"]
    )
    ends: list[tuple[float, float]] = []
    runtime.fit(
        key_fit,
        algorithm,
        bnn,
        train,
        num_epochs=repeats + 1,
        batch_size=SHAPE["batch_size"],
        on_epoch=lambda run, record: ends.append((time.perf_counter(), time.process_time())),
    )
    seconds, busy = ([(b[i] - a[i]) / steps for a, b in pairwise(ends)] for i in (0, 1))
    return {
        "seconds_per_step": statistics.median(seconds),
        "spread": [min(seconds), max(seconds)],
        "processor_seconds_per_step": statistics.median(busy),
        "peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


def exponent(found: dict[int, float]) -> float:
    """Slope of log time against log J, by least squares."""
    points = [(math.log(j), math.log(seconds)) for j, seconds in found.items()]
    mean_j, mean_t = (statistics.fmean(values) for values in zip(*points, strict=True))
    return sum((j - mean_j) * (t - mean_t) for j, t in points) / sum((j - mean_j) ** 2 for j, _ in points)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", default="results/bench/scale.jsonl")
    parser.add_argument("--rounds", type=int, default=3, help="interleaved rounds over all J")
    parser.add_argument("--worker", nargs=3, type=int, metavar=("J", "REPEATS", "STEPS"))
    options = parser.parse_args()
    if options.worker:
        print(json.dumps(measure(*options.worker)))
        return
    found: dict[int, list[dict[str, Any]]] = {}
    for _ in range(options.rounds):
        for j in POPULATIONS:
            steps = max(2, 1000 // j)
            command = [sys.executable, "-m", "benchmarks.scale_population", "--worker", str(j), "4", str(steps)]
            line = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            found.setdefault(j, []).append(line)
            print(j, line, flush=True)
    seconds, busy = (
        {j: statistics.median(line[name] for line in lines) for j, lines in found.items()}
        for name in ("seconds_per_step", "processor_seconds_per_step")
    )

    from partbayes.benchmark.lines import append_line
    from partbayes.benchmark.paper import versions

    append_line(
        options.output,
        {
            "preset": "scale",
            "what": "population",
            "command": "python -m benchmarks.scale_population",
            "config": {**SHAPE, "method": "gohsmc", "proposal": "langevin", "rounds": options.rounds},
            "seed": SEED,
            "seconds_per_step": {str(j): s for j, s in seconds.items()},
            "spread": {
                str(j): [min(low["spread"][0] for low in lines), max(high["spread"][1] for high in lines)]
                for j, lines in found.items()
            },
            "exponent_from_100": exponent({j: s for j, s in seconds.items() if j >= 100}),
            "processor_seconds_per_step": {str(j): s for j, s in busy.items()},
            "processor_exponent_from_100": exponent({j: s for j, s in busy.items() if j >= 100}),
            "peak_gib": {str(j): max(line["peak_gib"] for line in lines) for j, lines in found.items()},
            "versions": versions(),
        },
    )


if __name__ == "__main__":
    main()
