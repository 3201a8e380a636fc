"""How programs are compiled: options that the compiler has, unless somebody asked for others."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

from partbayes.runtime import compiling

choose = compiling.compiler_options.__wrapped__


@pytest.fixture
def usual_jax(monkeypatch):
    """Without what the tests' own JAX is told."""
    monkeypatch.setenv("XLA_FLAGS", "")
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", True)


def test_a_processor_gets_less_effort_and_what_runs_once_least(usual_jax):
    assert choose("usual") == {"xla_backend_optimization_level": 1}
    assert choose("light") == {"xla_backend_optimization_level": 1, "xla_cpu_use_fusion_emitters": False}
    assert choose("once") == {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False}


def test_what_is_asked_for_otherwise_stands(usual_jax, monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--xla_backend_optimization_level=3")
    assert choose("light") == {"xla_cpu_use_fusion_emitters": False}
    jax.config.update("jax_disable_most_optimizations", True)
    assert choose("light") == {}


def test_other_devices_are_left_alone(usual_jax, monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert choose("light") == {}


def test_an_option_that_the_compiler_does_not_know_is_left_out(usual_jax, monkeypatch):
    monkeypatch.setitem(compiling._WAYS["usual"], "xla_no_such_option", 1)
    assert choose("usual") == {"xla_backend_optimization_level": 1}


def test_a_program_is_compiled_once_for_each_way(usual_jax, monkeypatch):
    monkeypatch.setattr(compiling, "compiler_options", choose)
    traced = []

    def double(x, *, plus):
        traced.append(plus)
        return 2 * x + plus

    usual = compiling.program(static_argnames=("plus",))(double)
    assert usual(jnp.ones(3), plus=1).tolist() == [3, 3, 3] == usual(jnp.ones(3), plus=1).tolist()
    assert traced == [1]
    with compiling.lightly():
        assert usual(jnp.ones(3), plus=1).tolist() == [3, 3, 3]
        light = usual.compiled
    assert light is not usual.compiled
    asked = []
    monkeypatch.setattr(compiling, "compiler_options", lambda way: asked.append(way) or choose(way))
    once = compiling.program(static_argnames=("plus",), once=True)(double)
    first = once.compiled
    with compiling.lightly():
        assert once.compiled is first
    assert asked == ["once"]
