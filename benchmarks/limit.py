r"""What a step would take if it did nothing but its arithmetic, each part at the best rate measured in the same run.

For an MLP D → W → H → 1 with its first layer stochastic, J particles and M rows, one pass is made of these products:

| pass | products |
|---|---|
| forward A | (M×D)(D×JW), (JM×W)(W×H), (JM×H)(H×1) |
| backward to θ, B | (JM×1)(1×H), (JM×H)(H×W), (D×M)(M×JW) |
| backward to ψ, P | (H×JM)(JM×1), (W×JM)(JM×H) |

$$\text{limit} = \sum_{\text{products}} t_{\text{product}} + t_{\text{GELU}} + t_{\text{normals}}$$

- Langevin is 2 A + 2 B + P: two gradients, the ψ-gradient from the second's forward pass and cotangents. HMC(S) is
  (S + 1)(A + B) + P. A random walk is A + P and the backward product of the last layer, since the ψ-gradient of the
  first layer's side is not needed.
- Each product is timed at its own size: as one product, in blocks of particles through `lax.map`, as the product of one
  block over and over (operands and result stay in cache), and by numpy's BLAS; the one to ψ also transposed. The
  fastest counts. Those with a dimension of one are left out: they are no matrix products, and cost little.
- GELU on J M (W + H) numbers per A, its derivative on as many per B (J M H for a random walk): all at once, and over
  and over on a block that stays in cache. The faster counts.
- J (D + 1) W normals: as one array by `jax.random.normal`, and as the step draws them. The faster counts.

Nothing is counted for memory traffic between the parts, optimiser, resampling, weights, momenta, biases or dispatch.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import ours
from benchmarks.problem import Call, Problem, Shape
from partbayes import tree as tm

BLOCKS = (10, 20)
"""How many blocks the population is cut into, where a part is tried in blocks."""

FORWARD, TO_THETA, TO_PSI = ("x·W1", "h1·W2"), ("d2·W2ᵀ", "xᵀ·d1"), ("h1ᵀ·d2",)


def parts(problem: Problem) -> dict[str, Call]:
    """Timed calls named `limit/<part>/<way>`; `total` takes the fastest way of each part."""
    shape = problem.shape
    d, w, h, j, m = shape
    key = jax.random.key(0)
    draw = partial(jax.random.normal, key)
    x, w2 = draw((m, d)), draw((w, h))
    theta, hidden, cotangent = draw((d, j * w)), draw((j * m, w)), draw((j * m, h))
    hidden_rows = draw((m, j * w))
    # Each product as a function of its small operand and the one with the particles, which may be cut along `axis`.
    calls: dict[str, Call] = {}
    calls |= _ways("x·W1", lambda small, block: small @ block, x, theta, 1)
    calls |= _ways("h1·W2", lambda small, block: block @ small, w2, hidden, 0)
    calls |= _ways("d2·W2ᵀ", lambda small, block: block @ small.T, w2, cotangent, 0)
    calls |= _ways("xᵀ·d1", lambda small, block: small.T @ block, x, hidden_rows, 1)
    calls |= _sums("h1ᵀ·d2", "", lambda small, large: large.T @ small, cotangent, hidden)
    calls |= _sums("h1ᵀ·d2", " transposed", lambda small, large: small.T @ large, cotangent, hidden)
    xn, w2n, tn, hn, cn, rn = (np.asarray(a) for a in (x, w2, theta, hidden, cotangent, hidden_rows))
    for name, function in {
        "x·W1": lambda: xn @ tn,
        "h1·W2": lambda: hn @ w2n,
        "d2·W2ᵀ": lambda: cn @ w2n.T,
        "xᵀ·d1": lambda: xn.T @ rn,
        "h1ᵀ·d2": lambda: hn.T @ cn,
    }.items():
        calls[f"limit/{name}/numpy"] = function
    calls |= _elementwise("GELU", jax.nn.gelu, hidden)
    calls |= _elementwise("GELU derivative", lambda a: jax.vjp(jax.nn.gelu, a)[1](a)[0], hidden)
    like = {"weight": jnp.zeros((d, w)), "bias": jnp.zeros(w)}
    keys = jax.random.split(key, j)
    whole = jax.jit(lambda key: jax.random.normal(key, (j * (d + 1) * w,)))
    as_drawn = jax.jit(jax.vmap(lambda key: tm.normal_like(key, like)))
    calls["limit/normals/one array"] = lambda: whole(key)
    calls["limit/normals/as drawn"] = lambda: as_drawn(keys)
    return calls


def total(row: str, shape: Shape, milliseconds: dict[str, float]) -> dict[str, float] | None:
    """The limit of a row in its three parts, in milliseconds; None for rows without one."""
    gradients, forwards = {ours.LANGEVIN: (2, 0), ours.HMC: (ours.LEAPFROG_STEPS + 1, 0), ours.RANDOM_WALK: (0, 1)}.get(
        row, (0, 0)
    )
    passes = gradients + forwards
    if passes == 0:
        return None
    _, w, h, _, _ = shape
    best = fastest(milliseconds)
    products = passes * sum(best[p] for p in FORWARD) + sum(best[p] for p in TO_PSI)
    products += gradients * sum(best[p] for p in TO_THETA)
    activations = passes * best["GELU"] * (w + h) / w
    activations += best["GELU derivative"] * (gradients * (w + h) if gradients else h) / w
    return {"products": products, "activations": activations, "normals": best["normals"]}


def fastest(milliseconds: dict[str, float]) -> dict[str, float]:
    """Each part's time by its fastest way."""
    best: dict[str, float] = {}
    for name, value in milliseconds.items():
        if name.startswith("limit/"):
            part = name.split("/")[1]
            best[part] = min(value, best.get(part, np.inf))
    return best


def flops(shape: Shape) -> dict[str, float]:
    """Multiplications and additions of each product, to tell rates."""
    d, w, h, j, m = shape
    first, second = 2.0 * j * m * d * w, 2.0 * j * m * w * h
    return {"x·W1": first, "h1·W2": second, "d2·W2ᵀ": second, "xᵀ·d1": first, "h1ᵀ·d2": second}


def _ways(name: str, product: Callable, small, operand, axis: int) -> dict[str, Call]:
    """All at once, in blocks, and one block over and over."""
    whole = jax.jit(product)
    calls: dict[str, Call] = {f"limit/{name}/whole": lambda: whole(small, operand)}
    for count in BLOCKS:
        blocks = jnp.stack(jnp.split(operand, count, axis=axis))
        in_blocks = jax.jit(lambda blocks: jax.lax.map(lambda block: product(small, block), blocks))
        calls[f"limit/{name}/{count} blocks"] = partial(in_blocks, blocks)
        calls[f"limit/{name}/{count} times"] = partial(jax.jit(partial(_again, product, count)), small, blocks[0])
    return calls


def _sums(name: str, form: str, product: Callable, small, large) -> dict[str, Call]:
    """The same for a product whose inner dimension has the particles."""
    whole = jax.jit(product)
    calls: dict[str, Call] = {f"limit/{name}/whole{form}": lambda: whole(small, large)}
    for count in BLOCKS:
        first, second = (a[: a.shape[0] // count] for a in (small, large))
        calls[f"limit/{name}/{count} times{form}"] = partial(jax.jit(partial(_again, product, count)), first, second)
    return calls


def _again(product: Callable, count: int, small, block):
    """A block's product so many times, each waiting for the one before: else the compiler would make a single one."""

    def body(_, last):
        return product(small + 1e-9 * last[0, 0], block)

    return jax.lax.fori_loop(0, count, body, product(small, block))


def _elementwise(name: str, function: Callable, operand) -> dict[str, Call]:
    whole = jax.jit(function)
    calls: dict[str, Call] = {f"limit/{name}/whole": lambda: whole(operand)}
    for count in BLOCKS:
        block = operand[: operand.shape[0] // count]
        again = jax.jit(lambda block, n=count: jax.lax.fori_loop(0, n, lambda i, a: function(a + 1e-3 * i), block))
        calls[f"limit/{name}/{count} times"] = partial(again, block)
    return calls
