"""PTX text as a tree: what the grammar in ``ptx.lark`` makes of it.

Every class is the rule of its name, its fields are what the rule lists. What names mean is the front end's business.
"""

import re
import sys
from functools import cache
from typing import Any

from lark import Lark, Token
from lark.ast_utils import AsList

from sim.toolchain.grammar import (
    Leaf,
    Node,
    Number,
    Placed,
    SourceError,
    make_parser,
    parse_text,
    whole_number,
)

__all__ = [
    "Address",
    "AddressSize",
    "Alias",
    "Align",
    "Block",
    "Braces",
    "Cast",
    "Choice",
    "Declarator",
    "Element",
    "Expression",
    "Function",
    "Generic",
    "Group",
    "Guard",
    "Initial",
    "Instruction",
    "Item",
    "Label",
    "Masked",
    "Name",
    "OperandNode",
    "Parameter",
    "Property",
    "Prototype",
    "Resident",
    "Signed",
    "Statement",
    "Table",
    "Target",
    "Term",
    "Variable",
    "Vector",
    "Version",
    "lone_name",
    "parse",
]


class Version(Node):
    """``.version``."""

    number: Token


class Target(Node):
    """``.target``."""

    names: list[Token]


class AddressSize(Node):
    """``.address_size``."""

    bits: Number


class Name(Node):
    """A name, with ``.x`` behind it where it is an element of a vector."""

    token: Token
    component: Token | None


class Element(Node):
    """``name[expression]``."""

    token: Token
    index: "Expression"


class Group(Node):
    """``(a, b)``."""

    token: Token
    operands: "list[OperandNode]"


class Generic(Node):
    """``generic(name)``."""

    token: Token
    group: Group


class Signed(Node):
    """An operator before its one operand."""

    token: Token
    operand: "Term"


class Masked(Node):
    """``0xff00(name)``: a byte of an address."""

    mask: Number
    group: Group

    @property
    def token(self) -> Token:
        """Where it stands."""
        return self.mask.token


class Cast(Node):
    """``(.s64)`` before an operand."""

    token: Token
    type: Token
    operand: "Term"


class Choice(Node):
    """``? first : second``, behind the terms of a condition."""

    first: "Expression"
    second: "Expression"


Term = Token | Number | Name | Element | Group | Generic | Masked | Signed | Cast


class Expression(Placed, AsList):
    """Terms with an operator between each two, and perhaps a choice behind them. A name alone is one, too."""

    items: list[Term]

    @property
    def token(self) -> Any:
        """Where it stands."""
        first = self.items[0]
        return first if isinstance(first, Leaf) else first.token

    @property
    def terms(self) -> list[Term]:
        """All without the choice."""
        return [item for item in self.items if not isinstance(item, Choice)]

    @property
    def choice(self) -> Choice | None:
        """What is chosen from by the value of the terms; None where that is the value."""
        last = self.items[-1]
        return last if isinstance(last, Choice) else None


class Address(Placed):
    """``[expression]``; in instructions on textures, coordinates follow behind a comma."""

    inner: Expression
    coordinates: "list[OperandNode]"


class Vector(Placed, AsList):
    """``{a, b}``."""

    items: "list[OperandNode]"


class Resident(Placed):
    """``{a, b}|p``: a vector, and a predicate that tells whether its texels are resident."""

    vector: Vector
    operator: Token
    predicate: Token


OperandNode = Expression | Address | Vector | Resident


class Align(Node):
    """``.align``."""

    bytes: Number


class Braces(Node, AsList):
    """``{a, {b, c}}``: initial values; of a sampler, its properties."""

    items: "list[Initial | Property]"


Initial = Expression | Braces


class Property(Node):
    """``name = value``."""

    token: Token
    value: Initial


class Declarator(Node):
    """One name that a declaration declares."""

    name: Token
    range: Number | None
    dimensions: list[Expression | None]
    initial: Initial | None = None


class Variable(Node):
    """A declaration of registers or variables."""

    linkage: Token | None
    attribute: Token | None
    space: Token
    traits: list[Token | Align]
    declarators: list[Declarator]


class Parameter(Node):
    """A parameter or result."""

    space: Token
    traits: list[Token | Align]
    name: Token
    dimensions: list[Expression | None]


class Label(Node):
    """``name:``."""

    name: Token


class Table(Node):
    """``name: .branchtargets`` or ``.calltargets``, and the names."""

    name: Token
    kind: Token
    members: list[Token]


class Prototype(Node):
    """``name: .callprototype``. The name in its middle means nothing."""

    name: Token
    results: list[Parameter] | None
    function: Token
    parameters: list[Parameter] | None


class Guard(Node):
    """``@p`` or ``@!p``."""

    negated: Token | None
    predicate: Token


class Instruction(Node):
    """An instruction. ``words`` are its opcode and its modifiers."""

    guard: Guard | None
    words: list[Token]
    operands: list[OperandNode]

    @property
    def opcode(self) -> Token:
        """Its opcode."""
        return self.words[0]

    @property
    def modifiers(self) -> list[Token]:
        """Its modifiers, with their dots."""
        return self.words[1:]


class Block(Node):
    """A scope in a body, and the guard of all that is in it."""

    guard: Guard | None
    body: "list[Statement]"


Statement = Variable | Label | Table | Prototype | Instruction | Block


class Bound(Node):
    """``.maxntid`` or ``.reqntid``: threads of a block in one to three dimensions."""

    kind: Token
    x: Number
    y: Number | None
    z: Number | None


class Function(Node):
    """A function or entry; without a body it is declared only."""

    linkage: Token | None
    kind: Token
    attribute: Token | None
    results: list[Parameter] | None
    name: Token
    parameters: list[Parameter] | None
    bounds: list[Bound]
    body: list[Statement] | None = None


class Alias(Node):
    """``.alias``: another name of a function."""

    name: Token
    function: Token


Item = Version | Target | AddressSize | Function | Variable | Alias


@cache
def _parser() -> Lark:
    return make_parser(
        "sim.toolchain.ptx",
        "ptx.lark",
        sys.modules[__name__],
        _LISTS,
        {"NUMBER": _number, "LONE_NAME": _lone_name, "words": _words},
    )


def parse(text: str) -> list[Item]:
    """The items of PTX text; SourceError where it is none."""
    return parse_text(_parser(), text, _PHRASES, {"$END": "the text ends here"})


def _number(token: Token) -> Number:
    """A whole number; SourceError where it has more than 64 bits or is none of its base."""
    text = token.removesuffix("U")
    octal = len(text) > 1 and text.isdigit() and text[0] == "0"
    if octal and not set(text) <= set("01234567"):
        raise SourceError(token, f"{token} is no octal number, which a leading 0 makes it")
    value = whole_number(token, text, 8 if octal else 0)
    if value >= 1 << 64:
        raise SourceError(token, f"{token} does not fit 64 bits")
    return Number(token, value)


_MODIFIERS = re.compile(r"\.const\[[0-9]+\]|\.[^.]+")


@cache
def _split(spelled: str) -> tuple[tuple[str, str, int], ...]:
    """The types and texts of an opcode with its modifiers, and where each begins."""
    opcode = spelled[: spelled.index(".")]
    found = _MODIFIERS.finditer(spelled, len(opcode))
    return ("WORD", opcode, 0), *(("MODIFIER", match[0], match.start()) for match in found)


def _words(tokens: list[Token]) -> list[Token]:
    """An opcode and its modifiers, each as a token."""
    first = tokens[0]
    if first.type == "WORD":
        return tokens
    start, line, column = first.start_pos or 0, first.line, first.column or 1
    found = [
        Token(kind, text, start + at, line, column + at, line, column + at + len(text))
        for kind, text, at in _split(first.value)
    ]
    return found + tokens[1:]


def _lone_name(token: Token) -> "Expression":
    """The expression that a name alone is. Its token is like those of other names, since tokens of two types differ."""
    token.type = "WORD"
    return Expression([Name(token, None)])


def lone_name(node: OperandNode) -> Name | None:
    """The name that an operand consists of; None where it is something else."""
    if isinstance(node, Expression) and len(node.items) == 1 and isinstance(node.items[0], Name):
        return node.items[0]
    return None


_LISTS = (
    "body",
    "bounds",
    "coordinates",
    "declarators",
    "dimensions",
    "names",
    "operands",
    "parameters",
    "traits",
)
_PHRASES = {
    "$END": "the end of the text",
    "BOUND": "a directive",
    "DECIMAL": "a number",
    "LONE_NAME": "a name",
    "MODIFIER": "a modifier",
    "NUMBER": "a number",
    "OPEN": "'('",
    "OPERATOR": "an operator",
    "SPELLED": "a name",
    "WORD": "a name",
}
"""What the grammar's terminals are, in messages, where they are more than one text."""
