"""Control codes as text: ``[B0-2---:R1:W3:Y:S13]``.

``B`` lists the scoreboards that must be zero before the instruction, ``R`` and ``W`` name those
that signal that its sources are read and its result is written, ``Y`` is a hint that another warp
may issue first, ``S`` the cycles until the next instruction. Omitted parts mean no wait, no
scoreboard, no hint, 1 cycle. ``U`` gives the reuse bits as a number if no operand can have a
``.reuse``.
"""

import re

from lark import Token

from rtl.isa.control_code import NO_BARRIER, SCOREBOARDS, ControlCode

from .source import SourceError

__all__ = ["control_text", "read_control"]

_NONE = "-"
_DEFAULT_STALL = 1
_STALLS = range(16)
_REUSES = range(16)
_PARTS = {
    "B": re.compile(rf"B([0-{SCOREBOARDS - 1}-]+)"),
    "R": re.compile(rf"R([0-{SCOREBOARDS - 1}]|-)"),
    "W": re.compile(rf"W([0-{SCOREBOARDS - 1}]|-)"),
    "Y": re.compile("(Y)"),
    "S": re.compile(r"S(\d+)"),
    "U": re.compile(r"U(\d+)"),
}


def control_text(code: ControlCode, reuse: bool = False) -> str:
    """Returns the text of a control code in fixed columns. ``reuse`` adds the reuse bits."""
    waits = "".join(
        str(number) if code.wait >> number & 1 else _NONE for number in range(SCOREBOARDS)
    )
    return (
        f"[B{waits}:R{_scoreboard(code.read_barrier)}:W{_scoreboard(code.write_barrier)}:"
        f"{_NONE if code.no_yield else 'Y'}:S{code.stall:02}{f':U{code.reuse}' * reuse}]"
    )


def _scoreboard(number: int) -> str:
    return _NONE if number == NO_BARRIER else str(number)


def read_control(token: Token, reuse: int) -> ControlCode:
    """Returns the control code of a text, with these reuse bits.

    Raises:
        SourceError: The text is no control code.
    """
    found: dict[str, str] = {}
    for part in token[1:-1].split(":"):
        match = _PARTS[part[0]].fullmatch(part) if part[:1] in _PARTS else None
        if part != _NONE and (match is None or part[0] in found):
            raise SourceError(
                token,
                f"control codes {token}: {part or 'nothing'} is no part of them, "
                "or stands twice: expected B, R, W, Y and S, such as [B01:R2:W3:Y:S5]",
            )
        if match is not None:
            found[part[0]] = match[1]
    stall = int(found.get("S", _DEFAULT_STALL))
    if stall not in _STALLS:
        raise SourceError(
            token,
            f"control codes {token}: a stall of {stall} cycles is not in "
            f"{_STALLS[0]}..{_STALLS[-1]}",
        )
    reuse |= int(found.get("U", 0))
    if reuse not in _REUSES:
        raise SourceError(
            token,
            f"control codes {token}: reuse bits {reuse} are not in {_REUSES[0]}..{_REUSES[-1]}",
        )
    wait = sum(1 << int(number) for number in set(found.get("B", "")) - {_NONE})
    return ControlCode(
        stall, int("Y" not in found), _number(found.get("W")), _number(found.get("R")), wait, reuse
    )


def _number(text: str | None) -> int:
    return NO_BARRIER if text in (None, _NONE) else int(text)  # type: ignore[arg-type]
