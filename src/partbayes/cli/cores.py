"""Training on all cores: one JAX device for each, so that islands run side by side.

JAX sees a processor as one device, whose threads share out single operations; those of small networks are too short for
that, and one core does most of the work. The runtime shares islands among devices, and so among cores.
"""

from __future__ import annotations

import os
import sys

from partbayes.errors import PartbayesError

VARIABLE = "JAX_NUM_CPU_DEVICES"
MOST = 8
"""Every device has its own copy of the data, and few islands are more than some dozens."""


def use_cores(cores: int | None = None) -> int | None:
    """Divide the processor into `cores` devices (default: all cores that this process may use, up to `MOST`).

    Returns how many, or None where it is not for us to say: JAX already runs, or its own settings name a number and
    the user none.
    """
    if cores is not None and cores < 1:
        raise PartbayesError(f"--cores is {cores}, but at least one is needed.")
    if "jax" in sys.modules:
        return None
    if cores is None:
        if VARIABLE in os.environ or "device_count" in os.environ.get("XLA_FLAGS", ""):
            return None
        cores = min(MOST, _available())
    os.environ[VARIABLE] = str(cores)
    return cores


def _available() -> int:
    """Cores that this process may run on: a batch system may have given it fewer than there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
