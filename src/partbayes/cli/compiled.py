"""Compiled programs are kept between commands, so that the second `partbayes fit` of a kind starts at once.

They are JAX's persistent compilation cache, in `$XDG_CACHE_HOME/partbayes` (by default `~/.cache/partbayes`). Code for
one processor may not run on another, so each kind of processor has its own folder. A folder that cannot be written is
no reason to fail: programs are then compiled anew, as without the cache.
"""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from pathlib import Path

VARIABLE = "PARTBAYES_COMPILE_CACHE"
MAX_BYTES = 2**29
"""When there is more than half a gigabyte, the oldest programs go."""


def keep_compiled_programs() -> Path | None:
    """Turn the cache on for this process and say where it is; None if it stays off.

    It stays off where JAX already runs, whose settings are then somebody else's, and `JAX_COMPILATION_CACHE_DIR`, if it
    is set, is obeyed.
    """
    if "jax" in sys.modules or "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return None
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK | os.X_OK):
            return None
        _drop_oldest(folder, MAX_BYTES)
    except OSError:
        return None
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(folder)
    # JAX keeps only what took a second to compile; a fit is made of many programs that take less.
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")
    return folder


def cache_folder() -> Path:
    """The folder for this kind of processor."""
    home = os.environ.get("XDG_CACHE_HOME", "")
    # By the XDG specification a relative path counts as none; expanduser never fails, unlike Path.home.
    base = Path(home) if os.path.isabs(home) else Path(os.path.expanduser("~/.cache"))
    return base / "partbayes" / "compiled" / hashlib.sha256(_processor().encode()).hexdigest()[:12]


def _processor() -> str:
    """What the processor is and can do."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        told = sorted({line for line in lines if line.startswith(("model name", "flags", "Features", "CPU part"))})
    except OSError:
        told = []
    return "\n".join([platform.machine(), platform.processor(), *told])


def _drop_oldest(folder: Path, max_bytes: int) -> None:
    files = [(entry.stat(), entry.path) for entry in os.scandir(folder) if entry.is_file()]
    total = sum(status.st_size for status, _ in files)
    for status, path in sorted(files, key=lambda file: file[0].st_mtime):
        if total <= max_bytes:
            break
        Path(path).unlink(missing_ok=True)
        total -= status.st_size
