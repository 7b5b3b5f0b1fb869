"""What the parsers share: errors with their places, and what a grammar expected as a sentence has it."""

from collections.abc import Mapping
from typing import Any, Protocol

from lark import Lark, Token
from lark.exceptions import UnexpectedCharacters, UnexpectedToken

from .module import ProgramError

__all__ = ["Place", "SourceError", "parse_text", "whole_number"]

_LONGEST = 256
"""Characters of the longest number that is looked at (ours): more than 64 bits have in any base."""


class Place(Protocol):
    """What stands somewhere in a text."""

    @property
    def line(self) -> int | None:
        """From 1 on."""
        ...

    @property
    def column(self) -> int | None:
        """From 1 on."""
        ...


class SourceError(ProgramError):
    """Something wrong in the text, at ``line`` and ``column``, both from 1 on."""

    def __init__(self, place: Place, message: str) -> None:
        super().__init__(message)
        self.line, self.column = place.line or 1, place.column or 1


def parse_text(parser: Lark, text: str, phrases: Mapping[str, str], ends: Mapping[str, str]) -> Any:
    """What the parser makes of a text; SourceError where it can't be parsed.

    ``phrases`` are what terminals are called in messages, where they are more than one text; ``ends`` says that
    something ends, by the terminal that is there instead of what was expected.
    """
    try:
        return parser.parse(text)
    except UnexpectedToken as error:
        expected = _listed({_phrase(parser, name, phrases) for name in error.accepts or error.expected})
        found = ends.get(error.token.type, f"unexpected {str(error.token)!r}")
        raise SourceError(error, f"{found}: expected {expected}") from error
    except UnexpectedCharacters as error:
        raise SourceError(error, f"unexpected {error.char!r}") from error


def whole_number(token: Token, text: str, base: int = 0) -> int:
    """The value of a token's digits; SourceError for more of them than a number has."""
    if len(text) > _LONGEST:
        raise SourceError(token, f"a number of {len(text)} characters is too large")
    return int(text, base)


def _phrase(parser: Lark, terminal: str, phrases: Mapping[str, str]) -> str:
    """A terminal in a message."""
    if terminal in phrases:
        return phrases[terminal]
    text = parser.get_terminal(terminal).pattern.value
    return "a directive" if text.startswith((".", r"\.")) else f"'{text}'"


def _listed(phrases: set[str]) -> str:
    """Alternatives as a sentence has them."""
    *most, last = sorted(phrases)
    return f"{', '.join(most)} or {last}" if most else last
