"""What the parsers share: texts of files, numbers and errors with their places, and what a grammar expected, in
words."""

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Protocol, cast, dataclass_transform

from lark import Lark, Token, Transformer
from lark.ast_utils import Ast, create_transformer
from lark.exceptions import UnexpectedCharacters, UnexpectedToken

from sim.support.reading import why_unreadable

from .module import ProgramError

__all__ = [
    "Leaf",
    "Node",
    "Number",
    "Place",
    "Placed",
    "SourceError",
    "line_and_column",
    "make_parser",
    "parse_text",
    "part_of",
    "read_text",
    "whole_number",
]

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


def line_and_column(place: Place) -> tuple[int, int]:
    """Where something stands, both from 1 on; at the beginning where that is not known."""
    return place.line or 1, place.column or 1


class SourceError(ProgramError):
    """Something wrong in the text, at ``line`` and ``column``, both from 1 on."""

    def __init__(self, place: Place, message: str) -> None:
        super().__init__(message)
        self.line, self.column = line_and_column(place)


def part_of(token: Token, kind: str, text: str, at: int) -> Token:
    """A part of a token as a token of its own; ``at`` is where it begins, in the same line."""
    return Token(kind, text, None, token.line, (token.column or 1) + at)


class Number(int):
    """A whole number of a text: it knows where it stands, and is printed as it is written there."""

    token: Token

    def __new__(cls, token: Token, value: int | None = None) -> "Number":
        """The number of this value; without one, that of the text. SourceError for too many digits."""
        number = super().__new__(cls, whole_number(token, token) if value is None else value)
        number.token = token
        return number

    def __str__(self) -> str:
        return str(self.token)

    @property
    def line(self) -> int | None:
        """From 1 on."""
        return self.token.line

    @property
    def column(self) -> int | None:
        """From 1 on."""
        return self.token.column


Leaf = Token | Number
"""What a tree ends in."""


@dataclass_transform(frozen_default=True)
class Node(Ast):
    """A rule of a grammar: a class is that of its name, and its fields, which stay as they are, are what it lists."""

    def __init_subclass__(cls) -> None:
        # Not frozen, since frozen objects take three times as long to make; type checkers see to it.
        dataclass(unsafe_hash=True)(cls)


class Placed(Node):
    """A rule that stands where the first of its parts does."""

    @property
    def token(self) -> Any:
        """Where it stands."""
        return _first(self)


def _first(part: Any) -> Leaf | None:
    """Where a part of the text stands; None where there is nothing in it."""
    if not isinstance(part, Placed | list):
        return part if part is None or isinstance(part, Leaf) else part.token
    parts = part if isinstance(part, list) else vars(part).values()
    return next((found for inner in parts if (found := _first(inner)) is not None), None)


class _Rules(Transformer):
    """The whole text is a list, as other rules are; some terminals and rules become what functions make of them."""

    def __init__(self, lists: Iterable[str], made: Mapping[str, Callable[[Any], Any]]) -> None:
        super().__init__()
        vars(self).update(dict.fromkeys(("start", *lists), list), **made)


def read_text(path: str | Path) -> str:
    """The text in a file; ProgramError when there is none."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ProgramError(why_unreadable(path, error)) from error
    except UnicodeDecodeError as error:
        raise ProgramError(
            f"{path}: not a text: {error.reason} at byte {error.start:#x}"
        ) from error


def make_parser(
    package: str,
    grammar: str,
    rules: ModuleType,
    affix: str,
    lists: Iterable[str],
    made: Mapping[str, Callable[[Any], Any]] | None = None,
) -> Lark:
    """The parser of the grammar in a file of a package, whose rules are the classes of a module, or ``lists``.

    A class has the name of its rule with an ``affix`` before or behind it: InstructionNode is that of ``instruction``.
    ``made`` has functions of tokens and of lists, which make of some terminals and rules what stands for them in the
    tree; a NUMBER becomes a :class:`Number` unless there is one for it.
    """
    classes = SimpleNamespace(
        **{
            name.removeprefix(affix).removesuffix(affix): value
            for name, value in vars(rules).items()
            if isinstance(value, type) and value.__module__ == rules.__name__
        }
    )
    return Lark(
        (files(package) / grammar).read_text(),
        parser="lalr",
        maybe_placeholders=True,
        # Any namespace of classes will do.
        transformer=create_transformer(
            cast(ModuleType, classes), _Rules(lists, {"NUMBER": Number, **(made or {})})
        ),
    )


def parse_text(
    parser: Lark,
    text: str,
    phrases: Mapping[str, str],
    ends: Mapping[str, str],
    statements: Container[str] = (),
) -> Any:
    """What the parser makes of a text; SourceError where it can't be parsed.

    ``phrases`` are what terminals are called in messages, where they are more than one text; ``ends`` says that
    something ends, by the terminal that is there instead of what was expected. ``statements`` are terminals that are
    whole statements, of which messages have the first word.
    """
    try:
        return parser.parse(text)
    except UnexpectedToken as error:
        expected = _listed(
            {_phrase(parser, name, phrases) for name in error.accepts or error.expected}
        )
        token = error.token
        unexpected = token.split()[0] if token.type in statements else str(token)
        found = ends.get(token.type, f"unexpected {unexpected!r}")
        raise SourceError(error, f"{found}: expected {expected}") from error
    except UnexpectedCharacters as error:
        raise SourceError(error, f"unexpected {error.char!r}") from error


def whole_number(token: Token, text: str, base: int = 0) -> int:
    """The value of a token's digits; SourceError for more of them than a number has, or none of their base."""
    if len(text) > _LONGEST:
        raise SourceError(token, f"a number of {len(text)} characters is too large")
    try:
        return int(text, base)
    except ValueError as error:
        raise SourceError(
            token, f"{text} is no number: a decimal one does not start with 0"
        ) from error


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
