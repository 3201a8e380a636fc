"""Islands side by side or in turns: the gradient of twenty islands on all rows of a table.

    python -m benchmarks.islands [-o results/bench/islands.jsonl]

One JSON line per number of rows is appended. Times are milliseconds, medians of interleaved rounds.
"""

from __future__ import annotations

import argparse
import json
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp

from benchmarks.timing import interleaved, summarise, warm_up
from partbayes.algorithm import Posterior
from partbayes.model import gaussian, log_target, mlp, partial_bnn
from partbayes.runtime.sharding import each_island
from partbayes.runtime.validation import islands_together
from partbayes.types import Batch

ISLANDS, INPUTS, ROWS, ROUNDS = 20, 8, (184, 618, 2939, 12384), 15


def main() -> None:
    """Measure, print and append."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.islands", description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=Path("results/bench/islands.jsonl"))
    output = parser.parse_args().output
    for rows in ROWS:
        line = measure(rows)
        print(line, flush=True)
        with open(output, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def measure(num_rows: int) -> dict[str, float]:
    """Both ways for one number of rows."""
    likelihood = gaussian("heteroscedastic")
    model = partial_bnn(mlp(INPUTS, (50, 20), likelihood.num_outputs), likelihood, sample_noise=True)
    x = jax.random.normal(jax.random.key(0), (num_rows, INPUTS))
    batch = Batch(x, jnp.sin(x[:, :1]), jnp.ones(num_rows))
    target = log_target(model, num_rows)
    theta, psi = jax.vmap(model.init)(jax.random.split(jax.random.key(1), ISLANDS))
    together = islands_together(
        model, Posterior(jax.tree.map(lambda leaf: leaf[:, None], theta), jnp.zeros((ISLANDS, 1)), psi), batch
    )

    def gradient(theta, psi):
        return jax.value_and_grad(lambda t: target(t, psi, batch))(theta)

    ways = {"side by side": None, "in turns": together}
    calls = {name: partial(jax.jit(each_island(gradient, None, count)), theta, psi) for name, count in ways.items()}
    warm_up(calls, lambda name: None)
    times = {name: summarise(pairs).median for name, pairs in interleaved(calls, ROUNDS).items()}
    return {"rows": num_rows, "islands": ISLANDS, "together": together, **times, "jax": jax.__version__}


if __name__ == "__main__":
    main()
