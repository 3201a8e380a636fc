"""The compilation cache of the command line: on by default, off when told, silent where it cannot work."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from command_line import run

from partbayes.cli import compiled, root

PROGRAM = """
from partbayes.cli.compiled import keep_compiled_programs
print(keep_compiled_programs())
import jax
jax.jit(lambda x: x * 3)(2.0)
"""


@pytest.fixture
def without_jax(monkeypatch):
    """As at the start of a command: JAX not imported, and no setting of the user's."""
    monkeypatch.delitem(sys.modules, "jax")
    for name in ("JAX_COMPILATION_CACHE_DIR", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"):
        monkeypatch.setenv(name, "")  # so that it is taken away again afterwards
        monkeypatch.delenv(name)


@pytest.mark.parametrize(
    ("args", "setting", "expected"),
    [((), None, 1), (("--no-compile-cache",), None, 0), ((), "0", 0), (("--compile-cache",), "0", 1), ((), "1", 1)],
)
def test_on_by_default_and_off_when_told(monkeypatch, tmp_path, args, setting, expected):
    calls = []
    monkeypatch.setattr(root, "keep_compiled_programs", lambda: calls.append(1))
    monkeypatch.delenv(compiled.VARIABLE, raising=False)
    if setting is not None:
        monkeypatch.setenv(compiled.VARIABLE, setting)
    assert run(*args, "table", tmp_path / "none.jsonl").code == 1  # any command will do: this one finds no file
    assert len(calls) == expected


def test_programs_are_written_and_found_again(tmp_path):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("JAX_COMPILATION_CACHE")}
    environment |= {"XDG_CACHE_HOME": str(tmp_path), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    listings = []
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        (folder,) = tmp_path.glob("partbayes/compiled/*")
        assert done.stdout.strip() == str(folder)
        listings.append(sorted(path.name for path in folder.glob("*-cache")))
    assert listings[0] and listings[0] == listings[1]


def test_the_folder_is_in_the_users_cache(monkeypatch, tmp_path, without_jax):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert compiled.keep_compiled_programs() == compiled.cache_folder()
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == str(compiled.cache_folder())
    assert tmp_path in compiled.cache_folder().parents
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert tmp_path / "home" / ".cache" / "partbayes" in compiled.cache_folder().parents


def test_a_folder_that_cannot_be_written_is_passed_over(monkeypatch, tmp_path, without_jax):
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert compiled.keep_compiled_programs() is None
    assert "JAX_COMPILATION_CACHE_DIR" not in os.environ
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(os, "access", lambda *_: False)  # a read-only folder; root may write to any
    assert compiled.keep_compiled_programs() is None


def test_the_users_own_setting_and_a_running_jax_are_left_alone(monkeypatch, tmp_path, without_jax):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "mine")
    assert compiled.keep_compiled_programs() is None
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == "mine"
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR")
    monkeypatch.setitem(sys.modules, "jax", os)
    assert compiled.keep_compiled_programs() is None


def test_the_oldest_programs_go_first(tmp_path):
    for age, name in enumerate(["new", "middle", "old"]):
        (tmp_path / name).write_bytes(b"x" * 100)
        os.utime(tmp_path / name, (1000 - age, 1000 - age))
    compiled._drop_oldest(tmp_path, 250)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["middle", "new"]
