"""The statements of assembly text, as parsed by the grammar in ``sass.lark``.

Every class is named after its grammar rule, with the prefix Sass, and its fields are the elements
of the rule. The assembler interprets the statements.
"""

import sys
from collections.abc import Iterator
from functools import cache

from lark import Lark, Token
from lark.ast_utils import AsList

from sim.toolchain.grammar import Leaf, Node, Number, Placed, SourceError, make_parser, parse_text

__all__ = [
    "Leaf",
    "Number",
    "SassAbsolute",
    "SassAddressByte",
    "SassAmount",
    "SassBank",
    "SassBrackets",
    "SassConstantPlace",
    "SassData",
    "SassEnd",
    "SassFunction",
    "SassGeneric",
    "SassGuard",
    "SassHalf",
    "SassInfo",
    "SassInstruction",
    "SassKernel",
    "SassLabel",
    "SassMark",
    "SassNamedSection",
    "SassOperand",
    "SassParam",
    "SassRaw",
    "SassReal",
    "SassSet",
    "SassShared",
    "SassSum",
    "SassSymbols",
    "SassTargets",
    "SassVariable",
    "SourceError",
    "Statement",
    "at_most",
    "parse",
]


class SassMinus(Placed):
    """A term that is subtracted."""

    term: Leaf

    def __str__(self) -> str:
        return f"-{self.term}"


class SassSum(Placed, AsList):
    """A sum of numbers and names, some of them subtracted."""

    items: list[Leaf | SassMinus]

    @property
    def terms(self) -> Iterator[tuple[int, Leaf]]:
        """Yields the terms with their signs, 1 or -1."""
        for item in self.items:
            yield (-1, item.term) if isinstance(item, SassMinus) else (1, item)

    def __str__(self) -> str:
        first, *rest = self.items
        return f"{first}{''.join(str(item) if isinstance(item, SassMinus) else f'+{item}' for item in rest)}"


class SassBrackets(Placed):
    """``[sum]``."""

    inner: SassSum

    def __str__(self) -> str:
        return f"[{self.inner}]"


class SassConstantPlace(Placed):
    """``c[bank][offset]``."""

    bank: SassSum
    offset: SassSum

    def __str__(self) -> str:
        return f"c[{self.bank}][{self.offset}]"


class SassSet(Placed, AsList):
    """``{5,0}``."""

    members: list[Number]

    def __str__(self) -> str:
        return f"{{{','.join(map(str, self.members))}}}"


class SassHalf(Node):
    """``32@lo(name)``: half of an address."""

    token: Token
    inner: SassSum

    def __str__(self) -> str:
        return f"{self.token}({self.inner})"


class SassReal(Node):
    """A floating-point number."""

    token: Token

    def __str__(self) -> str:
        return str(self.token)


class SassAbsolute(Placed):
    """``|operand|``."""

    inner: "SassOperand"

    def __str__(self) -> str:
        return f"|{self.inner}|"


class SassSigns(Placed, AsList):
    """The modifiers before an operand: ``!``, ``~``, ``-``."""

    items: list[Token]

    def __str__(self) -> str:
        return "".join(self.items)


class SassOperand(Placed):
    """An operand: the text between two commas."""

    signs: SassSigns
    core: SassSum | SassBrackets | SassConstantPlace | SassAbsolute | SassSet | SassHalf | SassReal
    suffix: Token | None = None

    def __str__(self) -> str:
        return f"{self.signs}{self.core}{self.suffix or ''}"


class SassGuard(Node):
    """``@!P0``."""

    negated: Token | None
    predicate: Token

    def __str__(self) -> str:
        return f"@{self.negated or ''}{self.predicate}"


class SassTargets(Node):
    """``-> L1, L2``: the possible targets of an instruction that does not contain them."""

    call: Token | None
    places: list[Leaf] | None

    def __str__(self) -> str:
        return " ".join(
            ["->", *([self.call] if self.call else []), ", ".join(map(str, self.places or ()))]
        ).rstrip()


class SassInstruction(Node):
    """An instruction."""

    control: Token | None
    guard: SassGuard | None
    mnemonic: Token
    operands: list[SassOperand] | None
    targets: SassTargets | None

    @property
    def token(self) -> Token:
        """The token for its place in messages."""
        return self.mnemonic

    def __str__(self) -> str:
        parts = (
            self.control,
            self.guard,
            self.mnemonic,
            ", ".join(map(str, self.operands or ())),
            self.targets,
        )
        return " ".join(str(part) for part in parts if part)


class SassRaw(Node):
    """``.raw``: an instruction word as a number."""

    control: Token | None
    word: Number

    @property
    def token(self) -> Number:
        """The token for its place in messages."""
        return self.word

    def __str__(self) -> str:
        return f"{f'{self.control} ' if self.control else ''}.raw {self.word}"


class SassLabel(Node):
    """``name:``."""

    name: Token

    def __str__(self) -> str:
        return f"{self.name}:"


class SassKernel(Node):
    """``.kernel``."""

    name: Token
    binding: Token | None

    def __str__(self) -> str:
        return _spaced(".kernel", self.name, self.binding)


class SassFunction(Node):
    """``.function``."""

    name: Token
    binding: Token | None

    def __str__(self) -> str:
        return _spaced(".function", self.name, self.binding)


class SassEnd(Node):
    """``.end``."""

    def __str__(self) -> str:
        return ".end"


class SassAmount(Node):
    """``.registers`` and other directives with one number."""

    kind: Token
    number: Number

    def __str__(self) -> str:
        return _spaced(self.kind, self.number)


class SassParam(Node):
    """``.param``."""

    name: Token
    size: Number
    at: Number | None

    def __str__(self) -> str:
        return _spaced(".param", self.name, self.size, *_with("at", self.at))


class SassShared(Node):
    """``.shared``."""

    name: Token | None
    size: Number
    align: Number | None

    def __str__(self) -> str:
        return _spaced(".shared", self.name, self.size, *_with("align", self.align))


class SassBank(Node):
    """``.const``: constants of a bank, or one named object among them."""

    token: Token
    number: Number | None
    name: Token | None
    align: Number | None
    at: Number | None
    binding: Token | None

    def __str__(self) -> str:
        return _spaced(
            self.token,
            self.number,
            self.name,
            *_with("align", self.align),
            *_with("at", self.at),
            self.binding,
        )


class SassVariable(Node):
    """``.global``."""

    name: Token
    size: Number | None
    align: Number | None
    at: Number | None
    binding: Token | None

    def __str__(self) -> str:
        return _spaced(
            ".global",
            self.name,
            self.size,
            *_with("align", self.align),
            *_with("at", self.at),
            self.binding,
        )


class SassGeneric(Placed):
    """``generic(name)``: a generic address."""

    operator: Token
    inner: SassSum

    def __str__(self) -> str:
        return f"{self.operator}({self.inner})"


class SassAddressByte(Placed):
    """``8@16(name)``: the byte of an address that begins at bit 16."""

    byte: Token
    inner: SassSum | SassGeneric

    @property
    def shift(self) -> int:
        """The lowest bit of the byte."""
        return int(self.byte.split("@")[1])

    def __str__(self) -> str:
        return f"{self.byte}({self.inner})"


class SassData(Node):
    """``.word`` and other data directives."""

    kind: Token
    values: list[SassSum | SassGeneric | SassAddressByte]

    def __str__(self) -> str:
        return f"    {self.kind} {', '.join(map(str, self.values))}"


class SassInfo(Node):
    """``.info``: a record for the loader."""

    attribute: Leaf
    format: Token | None
    values: list[SassSum] | None

    def __str__(self) -> str:
        return _spaced(
            ".info", self.attribute, self.format, ", ".join(map(str, self.values or ())) or None
        )


class SassMark(Node):
    """``.coop_group``, ``.warp_wide``: a property of the next instruction."""

    kind: Token


class SassNamedSection(Node):
    """``.section``: a section that is copied unchanged."""

    name: Token
    kind: Number
    align: Number | None
    entry: Number | None


class SassSymbols(Node):
    """``.symbols``: the order of the symbol table."""

    names: list[Token]


Statement = (
    SassInstruction
    | SassRaw
    | SassLabel
    | SassKernel
    | SassFunction
    | SassEnd
    | SassAmount
    | SassParam
    | SassShared
    | SassBank
    | SassVariable
    | SassData
    | SassInfo
    | SassMark
    | SassNamedSection
    | SassSymbols
)


def _spaced(*parts: Leaf | str | None) -> str:
    """Joins the parts that are not None with spaces."""
    return " ".join(str(part) for part in parts if part is not None)


def _with(word: str, number: Number | None) -> tuple[str, Number] | tuple[()]:
    """Returns a word with the number after it, or an empty tuple without a number."""
    return () if number is None else (word, number)


@cache
def _parser() -> Lark:
    return make_parser("sim.toolchain.assembly", "sass.lark", sys.modules[__name__], "Sass", _LISTS)


def at_most(number: Number, largest: int) -> int:
    """Returns a number after a check of its range.

    Raises:
        SourceError: It is larger than ``largest``.
    """
    if number > largest:
        raise SourceError(number, f"{number} is too large: {largest:#x} at most")
    return int(number)


def parse(text: str) -> list[Statement]:
    """Returns the statements of an assembly text.

    Raises:
        SourceError: The text has a syntax error.
    """
    return parse_text(
        _parser(), text + "\n", _PHRASES, dict.fromkeys(("_END", "$END"), "the line ends here")
    )


_LISTS = ("data_values", "names", "operands", "places", "values")
_PHRASES = {
    "AMOUNT": "a directive",
    "BINDING": "local, visible or weak",
    "BYTE": "'8@0' to '8@56'",
    "CALL": "'call'",
    "CONTROL": "control codes",
    "DATA": "a directive",
    "FORMAT": "half or byte",
    "GENERIC": "'generic'",
    "HALF": "'32@lo' or '32@hi'",
    "MARK": "a directive",
    "NUMBER": "a number",
    "REAL": "a number",
    "SIGN": "a sign",
    "SUFFIX": "a suffix",
    "WORD": "a name",
    "_CONSTANT": "'c['",
    "_END": "the end of the line",
    "$END": "the end of the line",
}
"""Descriptions of the grammar's terminals for messages, if they have more than one text."""
