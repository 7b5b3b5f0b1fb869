"""Assembly text as statements: what the grammar in ``sass.lark`` makes of it.

Every class is the rule of its name, its fields are what the rule lists. What a statement means is the
assembler's business.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from lark import Lark, Token, Transformer
from lark.ast_utils import AsList, Ast, create_transformer

from .grammar import SourceError, parse_text, whole_number

__all__ = [
    "Absolute",
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
    "Mark",
    "NamedSection",
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
    "number",
    "parse",
]


@dataclass(frozen=True)
class Minus(Ast):
    """A term that is subtracted."""

    term: Token


@dataclass(frozen=True)
class Sum(Ast, AsList):
    """Numbers and names, added and subtracted."""

    items: list[Token | Minus]

    @property
    def terms(self) -> Iterator[tuple[int, Token]]:
        """The terms, with 1 or -1 before each."""
        for item in self.items:
            yield (-1, item.term) if isinstance(item, Minus) else (1, item)

    @property
    def token(self) -> Token:
        """Where it stands."""
        return next(self.terms)[1]


@dataclass(frozen=True)
class Brackets(Ast):
    """``[sum]``."""

    inner: Sum

    @property
    def token(self) -> Token:
        """Where it stands."""
        return self.inner.token


@dataclass(frozen=True)
class ConstantPlace(Ast):
    """``c[bank][offset]``."""

    bank: Sum
    offset: Sum

    @property
    def token(self) -> Token:
        """Where it stands."""
        return self.bank.token


@dataclass(frozen=True)
class Set(Ast, AsList):
    """``{5,0}``."""

    members: list[Token]

    @property
    def token(self) -> Token:
        """Where it stands."""
        return self.members[0]


@dataclass(frozen=True)
class Half(Ast):
    """``32@lo(name)``: half of an address."""

    token: Token
    inner: Sum


@dataclass(frozen=True)
class Real(Ast):
    """A floating-point number."""

    token: Token


@dataclass(frozen=True)
class Absolute(Ast):
    """``|operand|``."""

    inner: "Operand"

    @property
    def token(self) -> Token:
        """Where it stands."""
        return self.inner.token


@dataclass(frozen=True)
class Signs(Ast, AsList):
    """What stands before an operand: ``!``, ``~``, ``-``."""

    items: list[Token]


@dataclass(frozen=True)
class Operand(Ast):
    """What stands between two commas."""

    signs: Signs
    core: Sum | Brackets | ConstantPlace | Absolute | Set | Half | Real
    suffix: Token | None = None

    @property
    def token(self) -> Token:
        """Where it stands."""
        return self.signs.items[0] if self.signs.items else self.core.token


@dataclass(frozen=True)
class Operands(Ast, AsList):
    """All operands of an instruction."""

    items: list[Operand]


@dataclass(frozen=True)
class Guard(Ast):
    """``@!P0``."""

    negated: Token | None
    predicate: Token


@dataclass(frozen=True)
class Places(Ast, AsList):
    """Labels and offsets."""

    items: list[Token]


@dataclass(frozen=True)
class Targets(Ast):
    """``-> L1, L2``: where an instruction may go, when it does not say so itself."""

    call: Token | None
    places: Places | None


@dataclass(frozen=True)
class Instruction(Ast):
    """An instruction."""

    control: Token | None
    guard: Guard | None
    mnemonic: Token
    operands: Operands | None
    targets: Targets | None

    @property
    def token(self) -> Token:
        """Where it stands."""
        return self.mnemonic


@dataclass(frozen=True)
class Raw(Ast):
    """``.raw``: an instruction word as a number."""

    control: Token | None
    word: Token

    @property
    def token(self) -> Token:
        """Where it stands."""
        return self.word


@dataclass(frozen=True)
class Label(Ast):
    """``name:``."""

    name: Token


@dataclass(frozen=True)
class Kernel(Ast):
    """``.kernel``."""

    name: Token
    binding: Token | None


@dataclass(frozen=True)
class Function(Ast):
    """``.function``."""

    name: Token
    binding: Token | None


@dataclass(frozen=True)
class End(Ast):
    """``.end``."""


@dataclass(frozen=True)
class Amount(Ast):
    """``.registers`` and its like."""

    kind: Token
    number: Token


@dataclass(frozen=True)
class Param(Ast):
    """``.param``."""

    name: Token
    size: Token
    at: Token | None


@dataclass(frozen=True)
class Shared(Ast):
    """``.shared``."""

    name: Token | None
    size: Token
    align: Token | None


@dataclass(frozen=True)
class Bank(Ast):
    """``.const``: constants of a bank, or one named object among them."""

    token: Token
    number: Token | None
    name: Token | None
    align: Token | None
    at: Token | None
    binding: Token | None


@dataclass(frozen=True)
class Variable(Ast):
    """``.global``."""

    name: Token
    size: Token | None
    align: Token | None
    at: Token | None
    binding: Token | None


@dataclass(frozen=True)
class Values(Ast, AsList):
    """Numbers and names between commas."""

    items: list[Sum]


@dataclass(frozen=True)
class Generic(Ast):
    """``generic(name)``: a generic address."""

    token: Token
    inner: Sum


@dataclass(frozen=True)
class DataValues(Ast, AsList):
    """Numbers, names and generic addresses between commas."""

    items: list[Sum | Generic]


@dataclass(frozen=True)
class Data(Ast):
    """``.word`` and its like."""

    kind: Token
    values: DataValues


@dataclass(frozen=True)
class Info(Ast):
    """``.info``: a record for the loader."""

    attribute: Token
    format: Token | None
    values: Values | None


@dataclass(frozen=True)
class Mark(Ast):
    """``.coop_group``, ``.warp_wide``: what is to be known of the next instruction."""

    kind: Token


@dataclass(frozen=True)
class NamedSection(Ast):
    """``.section``: a section that is carried as it is."""

    name: Token
    kind: Token
    align: Token | None
    entry: Token | None


@dataclass(frozen=True)
class Names(Ast, AsList):
    """Names between commas."""

    items: list[Token]


@dataclass(frozen=True)
class Symbols(Ast):
    """``.symbols``: the order of the symbol table."""

    names: Names


Statement = (Instruction | Raw | Label | Kernel | Function | End | Amount | Param | Shared | Bank | Variable | Data
             | Info | Mark | NamedSection | Symbols)


class _Start(Transformer):
    """The whole text is its statements."""

    def start(self, statements: list[Statement]) -> list[Statement]:
        """All statements in order."""
        return statements


@cache
def _parser() -> Lark:
    grammar = (files("sim.toolchain") / "sass.lark").read_text()
    return Lark(grammar, parser="lalr", maybe_placeholders=True,
                transformer=create_transformer(sys.modules[__name__], _Start()))


def number(token: Token, largest: int | None = None) -> int:
    """The value of a number; SourceError when it is larger than that."""
    value = whole_number(token, token)
    if largest is not None and value > largest:
        raise SourceError(token, f"{token} is too large: {largest:#x} at most")
    return value


def parse(text: str) -> list[Statement]:
    """The statements of assembly text; SourceError where it is none."""
    return parse_text(_parser(), text + "\n", _PHRASES, dict.fromkeys(("_END", "$END"), "the line ends here"))


_PHRASES = {
    "AMOUNT": "a directive",
    "BINDING": "local, visible or weak",
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
