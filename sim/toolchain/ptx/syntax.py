"""PTX text as a tree: what :mod:`.parser` makes of it by the grammar in ``ptx.lark``.

Every class is the rule of its name, its fields are what the rule lists. What names mean is the front end's business.
"""

import re
from functools import cache
from typing import Any

from lark import Token
from lark.ast_utils import AsList

from sim.toolchain.grammar import Leaf, Node, Number, Placed, part_of

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
    "words_of",
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
    """An instruction. ``words`` are its opcode with the modifiers that stand behind it without a
    space, and those that have a space before them, which hardly any have.
    """

    guard: Guard | None
    words: list[Token]
    operands: list[OperandNode]

    @property
    def spelled(self) -> str:
        """Its opcode and its modifiers."""
        return "".join(self.words)

    @property
    def opcode(self) -> Token:
        """Its opcode."""
        return self._tokens[0]

    @property
    def modifiers(self) -> list[Token]:
        """Its modifiers, with their dots."""
        return self._tokens[1:]

    @property
    def _tokens(self) -> list[Token]:
        """A token for each word. They are for messages: a token takes longer to make than to read."""
        return [
            part_of(word, "MODIFIER" if text.startswith(".") else "WORD", text, at)
            for word in self.words
            for text, at in words_of(word.value)
        ]


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


_WORD = re.compile(r"\.const\[[0-9]+\]|\.?[^.]+")


@cache
def words_of(spelled: str) -> tuple[tuple[str, int], ...]:
    """An opcode and its modifiers, of their text without spaces, and where each begins."""
    return tuple((match[0], match.start()) for match in _WORD.finditer(spelled))


def lone_name(node: OperandNode) -> Name | None:
    """The name that an operand consists of; None where it is something else."""
    if isinstance(node, Expression) and len(node.items) == 1 and isinstance(node.items[0], Name):
        return node.items[0]
    return None
