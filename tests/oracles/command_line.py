"""The command line as tests see it: exit code and what it printed."""

from __future__ import annotations

import contextlib
import io
from typing import NamedTuple

from partbayes import cli


class Result(NamedTuple):
    code: int
    out: str
    err: str


def run(*args: object) -> Result:
    """Run the command line in this process."""
    out, err = io.StringIO(), io.StringIO()
    code = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            cli.main([str(arg) for arg in args])
        except SystemExit as stopped:
            code = int(stopped.code or 0)
    return Result(code, out.getvalue(), err.getvalue())


def refused(result: Result, *words: str) -> None:
    """One sentence on standard error, exit code 1."""
    assert result.code == 1, result
    assert result.out == "" and result.err.startswith("partbayes: ") and result.err.count("\n") == 1, result
    assert "Traceback" not in result.err
    for word in words:
        assert word in result.err, result.err
