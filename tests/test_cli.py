"""The command line's edges: version, and errors as one line with an exit code."""

from __future__ import annotations

import re

import pytest

from partbayes import __version__, cli
from partbayes.errors import PartbayesError


@pytest.fixture
def failing_command(monkeypatch):
    """Add a command that raises a given exception, for one test."""

    def add(error: BaseException) -> None:
        monkeypatch.setattr(cli.app, "registered_commands", list(cli.app.registered_commands))

        @cli.app.command("fail")
        def fail() -> None:
            raise error

    return add


def exit_code(*args: str) -> int:
    with pytest.raises(SystemExit) as stopped:
        cli.main(args)
    return int(stopped.value.code or 0)


def test_version(capsys):
    assert exit_code("--version") == 0
    assert capsys.readouterr().out == f"partbayes {__version__}\n"
    assert re.fullmatch(r"\d+\.\d+\.\d+\w*", __version__)


def test_error_is_one_line_on_stderr(capsys, failing_command):
    failing_command(PartbayesError("x has 3 rows\nand y has 4."))
    assert exit_code("fail") == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "partbayes: x has 3 rows and y has 4.\n"


def test_interrupt_exits_with_130(failing_command):
    failing_command(KeyboardInterrupt())
    assert exit_code("fail") == 130


def test_unknown_option_is_a_usage_error():
    assert exit_code("--no-such-option") == 2


def test_a_bug_keeps_its_traceback(failing_command):
    failing_command(ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        cli.main(["fail"])
