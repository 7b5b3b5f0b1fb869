"""How every command refuses what it was given, so that its tests say only what the line is."""

from collections.abc import Callable, Sequence

import pytest


def refused(
    capsys: pytest.CaptureFixture[str],
    command: Callable[[Sequence[str]], object],
    arguments: Sequence[str],
    *,
    silent: bool = True,
) -> str:
    """
    The one line, without its end, that a command writes to stderr when it ends with exit code 2; nothing goes to stdout
    before, unless the command is not silent.
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
