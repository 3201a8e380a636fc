"""What a first fit takes, compilation and all: each in a new process, without a cache of compiled programs.

    python -m benchmarks.first_fit [--dataset concrete] [--repeats 3] [-o results/bench/first_fit.jsonl]

Twice in turn, so that whatever else the machine does meets both alike: compiled as the library chooses, and as XLA does
by default (its own values in `XLA_FLAGS`). One line per fit.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median

from partbayes.benchmark.lines import append_line, read_lines

COMPILED = {
    "chosen": "",
    "as XLA does": "--xla_backend_optimization_level=3 --xla_cpu_use_fusion_emitters=true",
}
"""What `runtime.compiling` chooses, and what it leaves alone because it is asked for."""


def main() -> None:
    """Measure, print and append."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.first_fit", description=__doc__)
    parser.add_argument("--dataset", default="concrete")
    parser.add_argument("--efforts", default="quick,standard")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("-o", "--output", type=Path, default=Path("results/bench/first_fit.jsonl"))
    parser.add_argument("--one", nargs=2, metavar=("EFFORT", "COMPILED"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one(options.dataset, *options.one), sort_keys=True))
        return
    for effort in options.efforts.split(","):
        for _ in range(options.repeats):
            for compiled, flags in COMPILED.items():
                environment = {
                    "JAX_NUM_CPU_DEVICES": str(len(os.sched_getaffinity(0))),  # as the command line has it
                    "JAX_ENABLE_COMPILATION_CACHE": "false",
                    "XLA_FLAGS": flags,
                }
                command = [sys.executable, "-m", "benchmarks.first_fit", "--dataset", options.dataset]
                done = subprocess.run(
                    [*command, "--one", effort, compiled],
                    env=os.environ | environment,
                    check=True,
                    stdout=subprocess.PIPE,
                    text=True,
                )
                line = json.loads(done.stdout.splitlines()[-1])
                print(effort, compiled, line["seconds"], flush=True)
                append_line(options.output, line)
    print(table(read_lines(options.output)))


def table(lines: list[dict]) -> str:
    """Seconds of each fit, and of the processor's time the median."""
    rows = ["| effort | compiled | seconds | processor's seconds |", "|---|---|---|---|"]
    for effort, compiled in dict.fromkeys((line["effort"], line["compiled"]) for line in lines):
        members = [line for line in lines if (line["effort"], line["compiled"]) == (effort, compiled)]
        seconds = ", ".join(f"{value:.1f}" for value in sorted(line["seconds"] for line in members))
        spent = median(line["cpu_seconds"] for line in members)
        rows.append(f"| {effort} | {compiled} | {seconds} | {spent:.0f} |")
    return "\n".join(rows)


def one(dataset: str, effort: str, compiled: str) -> dict:
    """In a new process: fit, and say what each stage took."""
    import time

    from partbayes import PartialBNNRegressor
    from partbayes.benchmark.paper import versions
    from partbayes.benchmark.tables import practice_table
    from partbayes.data import split

    train = split(practice_table(dataset), 0).train
    started, spent = time.perf_counter(), time.process_time()
    model = PartialBNNRegressor(effort=effort, random_state=0, verbose=False).fit(train.x, train.y[:, 0])
    return {
        "preset": "first_fit",
        "dataset": dataset,
        "num_data": train.num_data,
        "seed": 0,
        "effort": effort,
        "compiled": compiled,
        "cores": len(os.sched_getaffinity(0)),
        "seconds": round(time.perf_counter() - started, 2),
        "cpu_seconds": round(time.process_time() - spent, 2),
        "stages": {stage.name: round(stage.seconds, 2) for stage in model.stages_},
        "versions": versions(),
    }


if __name__ == "__main__":
    main()
