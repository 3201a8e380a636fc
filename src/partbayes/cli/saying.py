"""What commands print: text for people, notes on standard error, one JSON object for programs."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any

import typer


def say(lines: Iterable[str]) -> None:
    """Plain lines on standard output."""
    for line in lines:
        typer.echo(line)


def note(notes: Iterable[str]) -> None:
    """Lines on standard error, where they do not mix with results."""
    for sentence in notes:
        typer.echo(f"note: {' '.join(sentence.split())}", err=True)


def say_json(content: dict[str, Any]) -> None:
    """One object on one line; numbers that are none become null, which JSON knows."""
    typer.echo(json.dumps(_finite(content), ensure_ascii=False, allow_nan=False))


def _finite(content: Any) -> Any:
    if isinstance(content, dict):
        return {name: _finite(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content
