"""How a training's programs are compiled: on a processor, with less effort than XLA would take by default.

A small network's training is a few programs of some hundred short loops each, and a first fit spends much of its time
in the compiler. LLVM's first level of optimisation makes code as fast as its highest here, sooner. For a training that
is short itself (`lightly`) XLA's older way to make loops saves more than its slower code costs, and what runs only once
is not optimised at all. docs/speed.md has the times.

What has been asked for otherwise, by `XLA_FLAGS` or by `jax_disable_most_optimizations`, and other kinds of devices are
left alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, update_wrapper
from typing import Any, Literal

import jax

Options = dict[str, bool | int]

Way = Literal["usual", "light", "once"]

_WAYS: dict[Way, Options] = {
    "usual": {"xla_backend_optimization_level": 1},
    "light": {"xla_backend_optimization_level": 1, "xla_cpu_use_fusion_emitters": False},
    "once": {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False},
}

_light: ContextVar[bool] = ContextVar("light", default=False)


@contextmanager
def lightly(light: bool = True) -> Iterator[None]:
    """Programs that are first called inside compile soonest, and run a little slower."""
    token = _light.set(light)
    try:
        yield
    finally:
        _light.reset(token)


class Program:
    """`jax.jit` with the compiler's options chosen at the call, when the devices are known."""

    def __init__(self, function: Callable[..., Any], static_argnames: tuple[str, ...], once: bool):
        update_wrapper(self, function)
        self._function, self._static, self._once = function, static_argnames, once
        self._compiled = cache(self._compile)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.compiled(*args, **kwargs)

    @property
    def compiled(self) -> Any:
        """What `jax.jit` makes of the function, as this process would call it now."""
        return self._compiled("once" if self._once else "light" if _light.get() else "usual")

    def _compile(self, way: Way) -> Any:
        options = compiler_options(way)
        return jax.jit(self._function, static_argnames=self._static, compiler_options=options or None)


def program(*, static_argnames: tuple[str, ...], once: bool = False) -> Callable[[Callable[..., Any]], Program]:
    """Decorator for a training's programs, which cannot be called inside another compiled function. Those that run
    `once` need not run fast."""
    return lambda function: Program(function, static_argnames, once)


@cache
def compiler_options(way: Way) -> Options:
    """The options for this process's devices; none where there is nothing for us to choose."""
    if jax.default_backend() != "cpu" or jax.config.read("jax_disable_most_optimizations"):
        return {}
    asked_for = os.environ.get("XLA_FLAGS", "")
    options = {name: value for name, value in _WAYS[way].items() if name not in asked_for}
    return {name: value for name, value in options.items() if _known(name, value)}


def _known(name: str, value: bool | int) -> bool:
    """Whether this XLA has the option: it owes us none of them."""
    try:
        jax.jit(lambda: 0, compiler_options={name: value})()
    except jax.errors.JaxRuntimeError:
        return False
    return True
