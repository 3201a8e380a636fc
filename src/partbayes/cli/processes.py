"""A command that several processes run together: the first one speaks, and none waits for one that is gone."""

from __future__ import annotations

import contextlib
import hashlib
import json
import traceback
from collections.abc import Iterator
from typing import Any

import typer

from partbayes.errors import PartbayesError


@contextlib.contextmanager
def together(
    distributed: bool, coordinator: str | None, num_processes: int | None, process_id: int | None
) -> Iterator[bool]:
    """Join the other processes, if there are to be any; yields whether this one writes and prints.

    Whatever ends one process ends it at once, with one sentence: the others notice, and end too.
    """
    if not distributed:
        yield True
        return
    from jax.errors import JaxRuntimeError

    from partbayes import hosts

    hosts.connect(coordinator, num_processes, process_id)
    try:
        yield hosts.is_first()
    except PartbayesError as error:
        _end(1, " ".join(str(error).split()))
    except JaxRuntimeError as error:
        reason = (str(error).splitlines() or [""])[0]
        if "RESOURCE_EXHAUSTED" in reason:
            _end(1, f"this process ran out of memory: use a smaller batch or fewer islands ({reason[:200]}).")
        _end(
            1,
            "another process of this training ended or cannot be reached; start all of them again, with --resume if "
            f"there is a --checkpoint-dir ({reason[:200]}).",
        )
    except typer.Exit as stopped:
        hosts.leave(stopped.exit_code)
    except KeyboardInterrupt:
        _end(130, "interrupted.")
    except Exception:
        traceback.print_exc()
        _end(1, "this process failed.")


def check_same_request(**request: Any) -> None:
    """Complain if another process was given other data or options: their results would not fit together."""
    from partbayes import hosts

    text = json.dumps(request, sort_keys=True, default=str)
    hosts.check_same(hashlib.sha256(text.encode()).hexdigest(), "data or options")


def _end(code: int, sentence: str) -> None:
    from partbayes import hosts

    name = "" if hosts.is_first() else f"process {hosts.own_number()}: "
    typer.echo(f"partbayes: {name}{sentence}", err=True)
    hosts.leave(code)
