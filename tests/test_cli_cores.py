"""Commands that train divide the processor into devices, one for each core, unless somebody else has decided."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from partbayes.cli import cores
from partbayes.errors import PartbayesError


@pytest.fixture
def without_jax(monkeypatch):
    """As at the start of a command: JAX not imported, and no setting of the user's."""
    monkeypatch.delitem(sys.modules, "jax")
    for name in (cores.VARIABLE, "XLA_FLAGS"):
        monkeypatch.setenv(name, "")  # so that it is taken away again afterwards
        monkeypatch.delenv(name)


def test_every_core_is_a_device(monkeypatch, without_jax):
    monkeypatch.setattr(cores, "_available", lambda: 3)
    assert cores.use_cores() == 3 and os.environ[cores.VARIABLE] == "3"


def test_many_cores_are_not_all_taken(monkeypatch, without_jax):
    monkeypatch.setattr(cores, "_available", lambda: 100)
    assert cores.use_cores() == cores.MOST


@pytest.mark.parametrize(
    ("name", "value"), [(cores.VARIABLE, "5"), ("XLA_FLAGS", "--xla_force_host_platform_device_count=5")]
)
def test_settings_of_the_user_stand_unless_the_option_says_otherwise(monkeypatch, without_jax, name, value):
    monkeypatch.setenv(name, value)
    assert cores.use_cores() is None and os.environ[name] == value
    assert cores.use_cores(2) == 2 and os.environ[cores.VARIABLE] == "2"


def test_a_running_jax_is_left_alone():
    assert "jax" in sys.modules and cores.use_cores(2) is None


def test_no_cores_are_refused():
    with pytest.raises(PartbayesError, match="--cores is 0"):
        cores.use_cores(0)


def test_jax_sees_the_devices():
    program = "from partbayes.cli.cores import use_cores; use_cores(3); import jax; print(jax.device_count())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.strip() == "3", done.stderr
