"""A check of how a command refuses its arguments, shared by the tests of all commands."""

from collections.abc import Callable, Sequence

import pytest


def refused(
    capsys: pytest.CaptureFixture[str],
    command: Callable[[Sequence[str]], object],
    arguments: Sequence[str],
    *,
    silent: bool = True,
) -> str:
    """Returns the line, without its end, that a command writes to stderr when it ends with exit
    code 2.

    The command must not write to stdout before, unless ``silent`` is false.
    """
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        command(arguments)
    captured = capsys.readouterr()
    assert ended.value.code == 2
    assert not silent or captured.out == ""
    line, newline, rest = captured.err.partition("\n")
    assert (newline, rest) == ("\n", "")
    return line
