"""The automatic block size: a function of shapes, within its bound, and without effect on results but rounding."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from problems import small_network, trees_close

from partbayes.errors import PartbayesError
from partbayes.smc import blocks
from partbayes.training import gohsmc

ROWS, WIDTH = 100, 450


def wide(theta, batch):
    return jnp.sum(jnp.tanh(batch @ theta["w"]))


def population(count, dim=8):
    return {"w": jax.ShapeDtypeStruct((count, dim, WIDTH), jnp.float32)}


def test_the_largest_array_of_a_block_fits():
    size = blocks.resolve_block_size("auto", wide, population(100), jnp.zeros((ROWS, 8)))
    assert size == 5  # of 180,000 bytes each, 5 fit into 900 KiB
    assert size * ROWS * WIDTH * 4 <= blocks.CACHE_BYTES


def test_arrays_inside_loops_and_compiled_functions_count():
    def looped(theta, batch):
        return jax.lax.fori_loop(0, 3, lambda _, total: total + jax.jit(wide)(theta, batch), 0.0)

    assert blocks.resolve_block_size("auto", looped, population(100), jnp.zeros((ROWS, 8))) == 5


def test_more_rows_make_smaller_blocks_down_to_one_particle():
    sizes = [blocks.resolve_block_size("auto", wide, population(100), jnp.zeros((m, 8))) for m in (1, 100, 150, 10**5)]
    assert sizes == [100, 5, 2, 1]


@pytest.mark.parametrize(
    ("total", "at_most", "expected"), [(100, 11, 10), (100, 200, 100), (97, 11, 11), (7, 3, 3), (12, 5, 4), (1, 1, 1)]
)
def test_blocks_are_even_where_that_costs_little(total, at_most, expected):
    assert blocks.even_block(total, at_most) == expected


def test_a_setting_is_taken_as_it_is_and_nonsense_refused():
    assert blocks.resolve_block_size(7, wide, population(100), jnp.zeros((ROWS, 8))) == 7
    assert blocks.resolve_block_size(None, wide, population(100), jnp.zeros((ROWS, 8))) is None
    with pytest.raises(PartbayesError, match="block size is 'large'"):
        gohsmc(small_network()[0], 24, block_size="large")  # pyright: ignore[reportArgumentType]


def test_automatic_blocks_change_results_by_rounding_only(x64, monkeypatch):
    model, data = small_network()
    monkeypatch.setattr(blocks, "CACHE_BYTES", 24 * 5 * 8 * 3)  # three particles' activations: 7 = 3 + 3 + 1
    states = []
    for size in ("auto", None):
        algorithm = gohsmc(model, 24, num_particles=7, step_size=0.02, block_size=size)
        state = jax.jit(algorithm.init)(jax.random.key(1), model.init(jax.random.key(0)), data)
        lowered = jax.jit(algorithm.step).lower(jax.random.key(2), state, data).as_text()
        states.append(jax.jit(algorithm.step)(jax.random.key(2), state, data)[0])
        assert ("tensor<2x3x" in lowered) == (size == "auto")
    assert trees_close(*states, rtol=1e-7, atol=1e-9)
