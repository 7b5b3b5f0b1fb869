"""PTX text as a tree: what :mod:`.parser` makes of it by the grammar in ``ptx.lark``.

Every class is the rule of its name without Node, its fields are what the rule lists. What names mean is the front
end's business: what it makes of them is in :mod:`.module`.
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
    """A name, with ``.x`` behind it where it is an element of a vector."""

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
    """An operator before its one operand."""

    token: Token
    operand: "TermNode"


class MaskedNode(Node):
    """``0xff00(name)``: a byte of an address."""

    mask: Number
    group: GroupNode

    @property
    def token(self) -> Token:
        """Where it stands."""
        return self.mask.token


class CastNode(Node):
    """``(.s64)`` before an operand."""

    token: Token
    type: Token
    operand: "TermNode"


class ChoiceNode(Node):
    """``? first : second``, behind the terms of a condition."""

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
    """Terms with an operator between each two, and perhaps a choice behind them. A name alone is one, too."""

    items: list[TermNode]

    @property
    def token(self) -> Any:
        """Where it stands."""
        first = self.items[0]
        return first if isinstance(first, Leaf) else first.token

    @property
    def terms(self) -> list[TermNode]:
        """All without the choice."""
        return [item for item in self.items if not isinstance(item, ChoiceNode)]

    @property
    def choice(self) -> ChoiceNode | None:
        """What is chosen from by the value of the terms; None where that is the value."""
        last = self.items[-1]
        return last if isinstance(last, ChoiceNode) else None


class AddressNode(Placed):
    """``[expression]``; in instructions on textures, coordinates follow behind a comma."""

    inner: ExpressionNode
    coordinates: "list[OperandNode]"


class VectorNode(Placed, AsList):
    """``{a, b}``."""

    items: "list[OperandNode]"


class ResidentNode(Placed):
    """``{a, b}|p``: a vector, and a predicate that tells whether its texels are resident."""

    vector: VectorNode
    operator: Token
    predicate: Token


OperandNode = ExpressionNode | AddressNode | VectorNode | ResidentNode


class AlignNode(Node):
    """``.align``."""

    bytes: Number


class BracesNode(Node, AsList):
    """``{a, {b, c}}``: initial values; of a sampler, its properties."""

    items: "list[InitialNode | PropertyNode]"


InitialNode = ExpressionNode | BracesNode


class PropertyNode(Node):
    """``name = value``."""

    token: Token
    value: InitialNode


class DeclaratorNode(Node):
    """One name that a declaration declares."""

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
    """``name: .branchtargets`` or ``.calltargets``, and the names."""

    name: Token
    kind: Token
    members: list[Token]


class PrototypeNode(Node):
    """``name: .callprototype``. The name in its middle means nothing."""

    name: Token
    results: list[ParameterNode] | None
    function: Token
    parameters: list[ParameterNode] | None


class GuardNode(Node):
    """``@p`` or ``@!p``."""

    negated: Token | None
    predicate: Token


class InstructionNode(Node):
    """An instruction. ``words`` are its opcode with the modifiers that stand behind it without a
    space, and those that have a space before them, which hardly any have.
    """

    guard: GuardNode | None
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


class BlockNode(Node):
    """A scope in a body, and the guard of all that is in it."""

    guard: GuardNode | None
    body: "list[StatementNode]"


StatementNode = VariableNode | LabelNode | TableNode | PrototypeNode | InstructionNode | BlockNode


class BoundNode(Node):
    """``.maxntid`` or ``.reqntid``: threads of a block in one to three dimensions."""

    kind: Token
    x: Number
    y: Number | None
    z: Number | None


class FunctionNode(Node):
    """A function or entry; without a body it is declared only."""

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
    """An opcode and its modifiers, of their text without spaces, and where each begins."""
    return tuple((match[0], match.start()) for match in _WORD.finditer(spelled))


def lone_name(node: OperandNode) -> NameNode | None:
    """The name that an operand consists of; None where it is something else."""
    if (
        isinstance(node, ExpressionNode)
        and len(node.items) == 1
        and isinstance(node.items[0], NameNode)
    ):
        return node.items[0]
    return None
