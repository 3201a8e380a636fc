"""What every test runs under: CPU, key-reuse checking, fixed hypothesis examples; and the shared fixtures.

Key-reuse checking raises `KeyReuseError` when a random key is used twice. It also objects to some code that is right,
because it does not follow keys element by element (jax 0.10.2):

- `scan` or `lax.map` over an array of keys, under `vmap`, and any transpose of keys. Loop over indices instead and
  make the key inside the body: `jax.random.fold_in(key, index)`, then `split` if a block of keys is needed.
- a key that enters `cond` with a predicate that is batched by `vmap`. Draw outside the `cond`.
- `where` or `stack` over keys, and two dynamic indices into one array of keys. Split and unpack instead.
- samplers of other libraries: numpyro's, and blackjax's NUTS under `vmap`. Use the fixture `unchecked_keys`.

It does not see a key that is closed over inside `vmap` (every element gets the same draw), nor raw uint32 keys, and
`fold_in` does not count as a use.
"""

from __future__ import annotations

import atexit
import gc
import os
import tempfile

# Before jax is imported: it reads the platform once.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("MPLBACKEND", "Agg")
# Hundreds of small programs are compiled here, most for a few steps: cheap code from the compiler (see also
# `jax_disable_most_optimizations` below) takes a fraction of the time. Commands that tests start inherit this.
os.environ["XLA_FLAGS"] = f"--xla_cpu_use_fusion_emitters=false {os.environ.get('XLA_FLAGS', '')}"

from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path

import hypothesis
import jax
import pytest

jax.config.update("jax_debug_key_reuse", True)
jax.config.update("jax_disable_most_optimizations", True)

# Workers and modules compile many of the same programs: what one has compiled, the others read. The folder is this
# run's alone and goes with it, so that nothing depends on what an earlier run left behind.
if "PARTBAYES_TESTS_COMPILED" not in os.environ:  # the first process; workers inherit it
    _folder = tempfile.TemporaryDirectory(prefix="partbayes-tests-")
    atexit.register(_folder.cleanup)
    os.environ["PARTBAYES_TESTS_COMPILED"] = _folder.name
jax.config.update("jax_compilation_cache_dir", os.environ["PARTBAYES_TESTS_COMPILED"])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.3)

# Tracing makes many objects and little garbage: looking for it less often saves time.
gc.set_threshold(100_000, 50, 50)

# No deadline: the first example compiles. Derandomised: a test gives the same answer every time.
hypothesis.settings.register_profile("partbayes", deadline=None, derandomize=True)
hypothesis.settings.load_profile("partbayes")


@pytest.fixture(autouse=True, scope="module")
def _compiled_code_goes_with_its_module() -> Iterator[None]:
    """Each program holds memory maps, of which a process may have some 65,000: keeping all of them ends in a crash."""
    yield
    jax.clear_caches()


@pytest.fixture
def x64() -> Iterator[None]:
    """float64 for one test."""
    with jax.enable_x64(True):
        yield


@pytest.fixture
def unchecked_keys() -> Iterator[None]:
    """No key-reuse checking for one test: for samplers of other libraries that it misjudges."""
    with jax.debug_key_reuse(False):
        yield


@pytest.fixture
def needs_dataset() -> Callable[[str], Path]:
    """`needs_dataset("california")`: path of the file in `PARTBAYES_DATA` or the package, or the test is skipped."""

    def find(name: str) -> Path:
        folders = [Path(str(files("partbayes"))) / "data" / "files"]
        if "PARTBAYES_DATA" in os.environ:
            folders.insert(0, Path(os.environ["PARTBAYES_DATA"]))
        for folder in folders:
            if (path := folder / f"{name}.csv").is_file():
                return path
        pytest.skip(f"{name}.csv is not here; set PARTBAYES_DATA to the folder that holds it.")

    return find
