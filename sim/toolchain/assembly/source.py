"""Assembly text as statements: what the grammar in ``sass.lark`` makes of it.

Every class is the rule of its name, its fields are what the rule lists. What a statement means is the
assembler's business.
"""

import sys
from collections.abc import Iterator
from functools import cache

from lark import Lark, Token
from lark.ast_utils import AsList

from sim.toolchain.grammar import Leaf, Node, Number, Placed, SourceError, make_parser, parse_text

__all__ = [
    "Absolute",
    "AddressByte",
    "Amount",
    "Bank",
    "Brackets",
    "ConstantPlace",
    "Data",
    "End",
    "Function",
    "Generic",
    "Guard",
    "Half",
    "Info",
    "Instruction",
    "Kernel",
    "Label",
    "Leaf",
    "Mark",
    "NamedSection",
    "Number",
    "Operand",
    "Param",
    "Raw",
    "Real",
    "Set",
    "Shared",
    "SourceError",
    "Statement",
    "Sum",
    "Symbols",
    "Targets",
    "Variable",
    "at_most",
    "parse",
]


class Minus(Placed):
    """A term that is subtracted."""

    term: Leaf

    def __str__(self) -> str:
        return f"-{self.term}"


class Sum(Placed, AsList):
    """Numbers and names, added and subtracted."""

    items: list[Leaf | Minus]

    @property
    def terms(self) -> Iterator[tuple[int, Leaf]]:
        """The terms, with 1 or -1 before each."""
        for item in self.items:
            yield (-1, item.term) if isinstance(item, Minus) else (1, item)

    def __str__(self) -> str:
        first, *rest = self.items
        return f"{first}{''.join(str(item) if isinstance(item, Minus) else f'+{item}' for item in rest)}"


class Brackets(Placed):
    """``[sum]``."""

    inner: Sum

    def __str__(self) -> str:
        return f"[{self.inner}]"


class ConstantPlace(Placed):
    """``c[bank][offset]``."""

    bank: Sum
    offset: Sum

    def __str__(self) -> str:
        return f"c[{self.bank}][{self.offset}]"


class Set(Placed, AsList):
    """``{5,0}``."""

    members: list[Number]

    def __str__(self) -> str:
        return f"{{{','.join(map(str, self.members))}}}"


class Half(Node):
    """``32@lo(name)``: half of an address."""

    token: Token
    inner: Sum

    def __str__(self) -> str:
        return f"{self.token}({self.inner})"


class Real(Node):
    """A floating-point number."""

    token: Token

    def __str__(self) -> str:
        return str(self.token)


class Absolute(Placed):
    """``|operand|``."""

    inner: "Operand"

    def __str__(self) -> str:
        return f"|{self.inner}|"


class Signs(Placed, AsList):
    """What stands before an operand: ``!``, ``~``, ``-``."""

    items: list[Token]

    def __str__(self) -> str:
        return "".join(self.items)


class Operand(Placed):
    """What stands between two commas."""

    signs: Signs
    core: Sum | Brackets | ConstantPlace | Absolute | Set | Half | Real
    suffix: Token | None = None

    def __str__(self) -> str:
        return f"{self.signs}{self.core}{self.suffix or ''}"


class Guard(Node):
    """``@!P0``."""

    negated: Token | None
    predicate: Token

    def __str__(self) -> str:
        return f"@{self.negated or ''}{self.predicate}"


class Targets(Node):
    """``-> L1, L2``: where an instruction may go, when it does not say so itself."""

    call: Token | None
    places: list[Leaf] | None

    def __str__(self) -> str:
        return " ".join(
            ["->", *([self.call] if self.call else []), ", ".join(map(str, self.places or ()))]
        ).rstrip()


class Instruction(Node):
    """An instruction."""

    control: Token | None
    guard: Guard | None
    mnemonic: Token
    operands: list[Operand] | None
    targets: Targets | None

    @property
    def token(self) -> Token:
        """Where it stands."""
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


class Raw(Node):
    """``.raw``: an instruction word as a number."""

    control: Token | None
    word: Number

    @property
    def token(self) -> Number:
        """Where it stands."""
        return self.word

    def __str__(self) -> str:
        return f"{f'{self.control} ' if self.control else ''}.raw {self.word}"


class Label(Node):
    """``name:``."""

    name: Token

    def __str__(self) -> str:
        return f"{self.name}:"


class Kernel(Node):
    """``.kernel``."""

    name: Token
    binding: Token | None

    def __str__(self) -> str:
        return _spaced(".kernel", self.name, self.binding)


class Function(Node):
    """``.function``."""

    name: Token
    binding: Token | None

    def __str__(self) -> str:
        return _spaced(".function", self.name, self.binding)


class End(Node):
    """``.end``."""

    def __str__(self) -> str:
        return ".end"


class Amount(Node):
    """``.registers`` and its like."""

    kind: Token
    number: Number

    def __str__(self) -> str:
        return _spaced(self.kind, self.number)


class Param(Node):
    """``.param``."""

    name: Token
    size: Number
    at: Number | None

    def __str__(self) -> str:
        return _spaced(".param", self.name, self.size, *_with("at", self.at))


class Shared(Node):
    """``.shared``."""

    name: Token | None
    size: Number
    align: Number | None

    def __str__(self) -> str:
        return _spaced(".shared", self.name, self.size, *_with("align", self.align))


class Bank(Node):
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


class Variable(Node):
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


class Generic(Placed):
    """``generic(name)``: a generic address."""

    operator: Token
    inner: Sum

    def __str__(self) -> str:
        return f"{self.operator}({self.inner})"


class AddressByte(Placed):
    """``8@16(name)``: the byte of an address that begins at bit 16."""

    byte: Token
    inner: Sum | Generic

    @property
    def shift(self) -> int:
        """The lowest bit of the byte."""
        return int(self.byte.split("@")[1])

    def __str__(self) -> str:
        return f"{self.byte}({self.inner})"


class Data(Node):
    """``.word`` and its like."""

    kind: Token
    values: list[Sum | Generic | AddressByte]

    def __str__(self) -> str:
        return f"    {self.kind} {', '.join(map(str, self.values))}"


class Info(Node):
    """``.info``: a record for the loader."""

    attribute: Leaf
    format: Token | None
    values: list[Sum] | None

    def __str__(self) -> str:
        return _spaced(
            ".info", self.attribute, self.format, ", ".join(map(str, self.values or ())) or None
        )


class Mark(Node):
    """``.coop_group``, ``.warp_wide``: what is to be known of the next instruction."""

    kind: Token


class NamedSection(Node):
    """``.section``: a section that is carried as it is."""

    name: Token
    kind: Number
    align: Number | None
    entry: Number | None


class Symbols(Node):
    """``.symbols``: the order of the symbol table."""

    names: list[Token]


Statement = (
    Instruction
    | Raw
    | Label
    | Kernel
    | Function
    | End
    | Amount
    | Param
    | Shared
    | Bank
    | Variable
    | Data
    | Info
    | Mark
    | NamedSection
    | Symbols
)


def _spaced(*parts: Leaf | str | None) -> str:
    """What is there of some parts, with spaces between them."""
    return " ".join(str(part) for part in parts if part is not None)


def _with(word: str, number: Number | None) -> tuple[str, Number] | tuple[()]:
    """A word and the number behind it, if there is one."""
    return () if number is None else (word, number)


@cache
def _parser() -> Lark:
    return make_parser("sim.toolchain.assembly", "sass.lark", sys.modules[__name__], _LISTS)


def at_most(number: Number, largest: int) -> int:
    """A number; SourceError when it is larger than that."""
    if number > largest:
        raise SourceError(number, f"{number} is too large: {largest:#x} at most")
    return int(number)


def parse(text: str) -> list[Statement]:
    """The statements of assembly text; SourceError where it is none."""
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
"""What the grammar's terminals are, in messages, where they are more than one text."""
