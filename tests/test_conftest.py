"""The conditions that every other test relies on."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest


def test_reusing_a_key_raises():
    key = jax.random.key(0)
    jax.random.normal(key)
    with pytest.raises(jax.errors.KeyReuseError):
        jax.random.normal(key)


def test_unchecked_keys_allows_reuse(unchecked_keys):
    key = jax.random.key(0)
    assert jax.random.normal(key) == jax.random.normal(key)


def test_block_of_keys_inside_scan_under_vmap_passes():
    """The form that the docstring of conftest recommends for particle blocks of several islands."""

    @jax.jit
    @jax.vmap
    def island(key):
        def block(index):
            return jax.vmap(jax.random.normal)(jax.random.split(jax.random.fold_in(key, index), 4))

        return jax.lax.map(block, jnp.arange(3)).ravel()

    draws = island(jax.random.split(jax.random.key(0), 2))
    assert len(set(draws.ravel().tolist())) == 2 * 3 * 4


def test_float32_unless_x64():
    assert jnp.ones(1).dtype == jnp.float32


def test_x64_gives_float64(x64):
    assert jnp.ones(1).dtype == jnp.float64


def test_needs_dataset_finds_files_of_the_folder(needs_dataset, monkeypatch, tmp_path):
    monkeypatch.setenv("PARTBAYES_DATA", str(tmp_path))
    (tmp_path / "mine.csv").write_text("x,y\n")
    assert needs_dataset("mine") == tmp_path / "mine.csv"
    with pytest.raises(pytest.skip.Exception):
        needs_dataset("nobody_has_this")
