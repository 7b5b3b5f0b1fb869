"""The syntax tree that :mod:`.parser` builds from PTX text by the grammar in ``ptx.lark``.

Every class is named after its grammar rule, plus Node, and its fields are the elements of the rule.
The tree has no resolved names; the front end resolves them for :mod:`.module`.
"""

import re
from functools import cache
from typing import Any

from lark import Token
from lark.ast_utils import AsList

from sim.toolchain.grammar import Leaf, Node, Number, Placed, part_of

__all__ = [
    "AddressNode",
    "AddressSizeNode",
    "AliasNode",
    "AlignNode",
    "BlockNode",
    "BracesNode",
    "CastNode",
    "ChoiceNode",
    "DeclaratorNode",
    "ElementNode",
    "ExpressionNode",
    "FunctionNode",
    "GenericNode",
    "GroupNode",
    "GuardNode",
    "InitialNode",
    "InstructionNode",
    "ItemNode",
    "LabelNode",
    "MaskedNode",
    "NameNode",
    "OperandNode",
    "ParameterNode",
    "PropertyNode",
    "PrototypeNode",
    "ResidentNode",
    "SignedNode",
    "StatementNode",
    "TableNode",
    "TargetNode",
    "TermNode",
    "VariableNode",
    "VectorNode",
    "VersionNode",
    "lone_name",
    "words_of",
]


class VersionNode(Node):
    """``.version``."""

    number: Token


class TargetNode(Node):
    """``.target``."""

    names: list[Token]


class AddressSizeNode(Node):
    """``.address_size``."""

    bits: Number


class NameNode(Node):
    """A name, optionally followed by ``.x`` for an element of a vector."""

    token: Token
    component: Token | None


class ElementNode(Node):
    """``name[expression]``."""

    token: Token
    index: "ExpressionNode"


class GroupNode(Node):
    """``(a, b)``."""

    token: Token
    operands: "list[OperandNode]"


class GenericNode(Node):
    """``generic(name)``."""

    token: Token
    group: GroupNode


class SignedNode(Node):
    """A unary operator and its operand."""

    token: Token
    operand: "TermNode"


class MaskedNode(Node):
    """``0xff00(name)``: a byte of an address."""

    mask: Number
    group: GroupNode

    @property
    def token(self) -> Token:
        """The token for its place in messages."""
        return self.mask.token


class CastNode(Node):
    """``(.s64)`` before an operand."""

    token: Token
    type: Token
    operand: "TermNode"


class ChoiceNode(Node):
    """``? first : second``, after the terms of a condition."""

    first: "ExpressionNode"
    second: "ExpressionNode"


TermNode = (
    Token
    | Number
    | NameNode
    | ElementNode
    | GroupNode
    | GenericNode
    | MaskedNode
    | SignedNode
    | CastNode
)


class ExpressionNode(Placed, AsList):
    """Terms with binary operators between them, and optionally a choice after them. A single name
    is also an expression.
    """

    items: list[TermNode]

    @property
    def token(self) -> Any:
        """The token for its place in messages."""
        first = self.items[0]
        return first if isinstance(first, Leaf) else first.token

    @property
    def terms(self) -> list[TermNode]:
        """The terms without the choice."""
        return [item for item in self.items if not isinstance(item, ChoiceNode)]

    @property
    def choice(self) -> ChoiceNode | None:
        """The choice that the value of the terms decides, or None."""
        last = self.items[-1]
        return last if isinstance(last, ChoiceNode) else None


class AddressNode(Placed):
    """``[expression]``; in texture instructions, coordinates follow after a comma."""

    inner: ExpressionNode
    coordinates: "list[OperandNode]"


class VectorNode(Placed, AsList):
    """``{a, b}``."""

    items: "list[OperandNode]"


class ResidentNode(Placed):
    """``{a, b}|p``: a vector, and a predicate that is true if its texels are resident."""

    vector: VectorNode
    operator: Token
    predicate: Token


OperandNode = ExpressionNode | AddressNode | VectorNode | ResidentNode


class AlignNode(Node):
    """``.align``."""

    bytes: Number


class BracesNode(Node, AsList):
    """``{a, {b, c}}``: initial values, or the properties of a sampler."""

    items: "list[InitialNode | PropertyNode]"


InitialNode = ExpressionNode | BracesNode


class PropertyNode(Node):
    """``name = value``."""

    token: Token
    value: InitialNode


class DeclaratorNode(Node):
    """One name of a declaration."""

    name: Token
    range: Number | None
    dimensions: list[ExpressionNode | None]
    initial: InitialNode | None = None


class VariableNode(Node):
    """A declaration of registers or variables."""

    linkage: Token | None
    attribute: Token | None
    space: Token
    traits: list[Token | AlignNode]
    declarators: list[DeclaratorNode]


class ParameterNode(Node):
    """A parameter or result."""

    space: Token
    traits: list[Token | AlignNode]
    name: Token
    dimensions: list[ExpressionNode | None]


class LabelNode(Node):
    """``name:``."""

    name: Token


class TableNode(Node):
    """``name: .branchtargets`` or ``.calltargets``, and the listed names."""

    name: Token
    kind: Token
    members: list[Token]


class PrototypeNode(Node):
    """``name: .callprototype``. The name inside it has no meaning."""

    name: Token
    results: list[ParameterNode] | None
    function: Token
    parameters: list[ParameterNode] | None


class GuardNode(Node):
    """``@p`` or ``@!p``."""

    negated: Token | None
    predicate: Token


class InstructionNode(Node):
    """An instruction. ``words`` are the opcode with the modifiers directly after it, and the
    modifiers after a space, which are rare.
    """

    guard: GuardNode | None
    words: list[Token]
    operands: list[OperandNode]

    @property
    def spelled(self) -> str:
        """The opcode and its modifiers."""
        return "".join(self.words)

    @property
    def opcode(self) -> Token:
        """The opcode."""
        return self._tokens[0]

    @property
    def modifiers(self) -> list[Token]:
        """The modifiers with their dots."""
        return self._tokens[1:]

    @property
    def _tokens(self) -> list[Token]:
        """Returns a token for each word, for messages only: creating a token takes longer than
        parsing it.
        """
        return [
            part_of(word, "MODIFIER" if text.startswith(".") else "WORD", text, at)
            for word in self.words
            for text, at in words_of(word.value)
        ]


class BlockNode(Node):
    """A block in a body, and the guard of the block."""

    guard: GuardNode | None
    body: "list[StatementNode]"


StatementNode = VariableNode | LabelNode | TableNode | PrototypeNode | InstructionNode | BlockNode


class BoundNode(Node):
    """``.maxntid`` or ``.reqntid``: the threads of a block in one to three dimensions."""

    kind: Token
    x: Number
    y: Number | None
    z: Number | None


class FunctionNode(Node):
    """A function or entry; a declaration if it has no body."""

    linkage: Token | None
    kind: Token
    attribute: Token | None
    results: list[ParameterNode] | None
    name: Token
    parameters: list[ParameterNode] | None
    bounds: list[BoundNode]
    body: list[StatementNode] | None = None


class AliasNode(Node):
    """``.alias``: another name of a function."""

    name: Token
    function: Token


ItemNode = VersionNode | TargetNode | AddressSizeNode | FunctionNode | VariableNode | AliasNode


_WORD = re.compile(r"\.const\[[0-9]+\]|\.?[^.]+")


@cache
def words_of(spelled: str) -> tuple[tuple[str, int], ...]:
    """Splits the spelling of an opcode and its modifiers into words, each with its offset."""
    return tuple((match[0], match.start()) for match in _WORD.finditer(spelled))


def lone_name(node: OperandNode) -> NameNode | None:
    """Returns the name if the operand is a single name, else None."""
    if (
        isinstance(node, ExpressionNode)
        and len(node.items) == 1
        and isinstance(node.items[0], NameNode)
    ):
        return node.items[0]
    return None
