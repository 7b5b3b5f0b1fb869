"""Common parts of the parsers: reading text, numbers, errors with places, and messages about
expected symbols.
"""

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
"""The most characters of a number that are parsed (ours): more have over 64 bits in any base."""


class Place(Protocol):
    """An object with a place in a text."""

    @property
    def line(self) -> int | None:
        """The line, from 1."""
        ...

    @property
    def column(self) -> int | None:
        """The column, from 1."""
        ...


def line_and_column(place: Place) -> tuple[int, int]:
    """Returns the line and column of a place, from 1. The beginning of the text is the default."""
    return place.line or 1, place.column or 1


class SourceError(ProgramError):
    """An error in a text at ``line`` and ``column``, both from 1."""

    def __init__(self, place: Place, message: str) -> None:
        super().__init__(message)
        self.line, self.column = line_and_column(place)


def part_of(token: Token, kind: str, text: str, at: int) -> Token:
    """Returns a part of a token as a token of its own. It begins at index ``at``, in the same
    line.
    """
    return Token(kind, text, None, token.line, (token.column or 1) + at)


class Number(int):
    """An integer in a text, with its place. Its string is the original spelling."""

    token: Token

    def __new__(cls, token: Token, value: int | None = None) -> "Number":
        """Creates a number with a value, by default that of the text.

        Raises:
            SourceError: The text has too many digits.
        """
        number = super().__new__(cls, whole_number(token, token) if value is None else value)
        number.token = token
        return number

    def __str__(self) -> str:
        return str(self.token)

    @property
    def line(self) -> int | None:
        """The line, from 1."""
        return self.token.line

    @property
    def column(self) -> int | None:
        """The column, from 1."""
        return self.token.column


Leaf = Token | Number
"""A leaf of a syntax tree."""


@dataclass_transform(frozen_default=True)
class Node(Ast):
    """A node of a syntax tree. The class is named after its grammar rule, and its fields, which are
    immutable by convention, are the elements of the rule.
    """

    def __init_subclass__(cls) -> None:
        # Frozen objects take three times as long to create; type checkers refuse assignments
        # instead.
        dataclass(unsafe_hash=True)(cls)


class Placed(Node):
    """A node whose place is that of its first element."""

    @property
    def token(self) -> Any:
        """The first token of the node."""
        return _first(self)


def _first(part: Any) -> Leaf | None:
    """Returns the first token of a part of the tree, or None if it is empty."""
    if not isinstance(part, Placed | list):
        return part if part is None or isinstance(part, Leaf) else part.token
    parts = part if isinstance(part, list) else vars(part).values()
    return next((found for inner in parts if (found := _first(inner)) is not None), None)


class _Rules(Transformer):
    """Transforms the whole text and some rules to lists, and some terminals and rules by
    functions.
    """

    def __init__(self, lists: Iterable[str], made: Mapping[str, Callable[[Any], Any]]) -> None:
        super().__init__()
        vars(self).update(dict.fromkeys(("start", *lists), list), **made)


def read_text(path: str | Path) -> str:
    """Returns the text of a file.

    Raises:
        ProgramError: The file cannot be read as text.
    """
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
    """Returns a parser that builds syntax trees.

    Args:
        package: The package that contains the grammar.
        grammar: The file name of the grammar.
        rules: The module with the classes of the rules.
        affix: A prefix or suffix of the class names: InstructionNode is the class of
            ``instruction``.
        lists: Rules that become lists instead.
        made: Functions of tokens and lists, by the terminal or rule that they transform. By default
            a NUMBER becomes a :class:`Number`.
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
        # Lark accepts any namespace of classes.
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
    """Parses a text.

    Args:
        parser: The parser.
        text: The text.
        phrases: Descriptions of terminals for messages, if they have more than one text.
        ends: Messages that something ends too early, by the terminal found there.
        statements: Terminals that are whole statements; messages quote only the first word.

    Raises:
        SourceError: The text has a syntax error.
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
    """Returns the value of a token's digits.

    Raises:
        SourceError: There are too many digits, or digits that the base does not have.
    """
    if len(text) > _LONGEST:
        raise SourceError(token, f"a number of {len(text)} characters is too large")
    try:
        return int(text, base)
    except ValueError as error:
        raise SourceError(
            token, f"{text} is no number: a decimal one does not start with 0"
        ) from error


def _phrase(parser: Lark, terminal: str, phrases: Mapping[str, str]) -> str:
    """Returns the description of a terminal for messages."""
    if terminal in phrases:
        return phrases[terminal]
    text = parser.get_terminal(terminal).pattern.value
    return "a directive" if text.startswith((".", r"\.")) else f"'{text}'"


def _listed(phrases: set[str]) -> str:
    """Joins alternatives for a sentence."""
    *most, last = sorted(phrases)
    return f"{', '.join(most)} or {last}" if most else last
