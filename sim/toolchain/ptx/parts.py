"""Operands of video instructions: which part of a register they are, and whether they are negated."""

import re
from collections.abc import Sequence

from sim.toolchain.grammar import SourceError

from . import syntax
from .module import PtxInstruction

__all__ = ["check_parts", "with_parts"]

_THIRD = 3
"""The place of the third number among the operands."""
_PARTS = frozenset({".b0", ".b1", ".b2", ".b3", ".h0", ".h1"})
_SEVERAL = {
    "2": (r"h1?0?", r"h[0-3]{2}", ("h10", "h10", "h32")),
    "4": (r"b3?2?1?0?", r"b[0-7]{4}", ("b3210", "b3210", "b7654")),
}
"""By how many numbers an instruction works on: patterns of a result's parts and of a source's, and the defaults."""


def with_parts(
    instruction: PtxInstruction, patterns: Sequence[str], nodes: Sequence[syntax.OperandNode]
) -> tuple[tuple[str, ...], list[syntax.OperandNode], PtxInstruction]:
    """The patterns and operands without parts and signs, and the instruction with these."""
    found = [_split(pattern, node) for pattern, node in zip(patterns, nodes, strict=False)]
    if patterns[0].endswith("%"):
        result, source, usual = _SEVERAL[instruction.opcode[-1]]
        found = [
            (
                node,
                _parts(node, part, source if at else result, usual[at]) if at < len(usual) else "",
                negated,
            )
            for at, (node, part, negated) in enumerate(found)
        ]
    plain = [node for node, _, _ in found]
    return (
        tuple(pattern.rstrip(".-%") for pattern in patterns),
        [*plain, *nodes[len(plain) :]],
        instruction.changed(
            parts=tuple(part for _, part, _ in found),
            negated=tuple(negated for _, _, negated in found),
        ),
    )


def check_parts(instruction: PtxInstruction, node: syntax.InstructionNode) -> None:
    """Raises SourceError for a result that is part of a register whose other parts have no source, and for two
    negations that exclude each other. An unused third number is not checked, as in NVIDIA's assembler."""
    opcode, merges, third = node.opcode, bool(instruction.parts[0]), len(instruction.parts) > _THIRD
    if instruction.opcode[-1] in _SEVERAL:
        return
    if instruction.opcode == "vmad":
        if instruction.negated[1] != instruction.negated[2] and instruction.negated[3]:
            raise SourceError(opcode, "vmad negates the product or what is added to it, not both")
    elif merges and not third:
        raise SourceError(
            opcode,
            f"{opcode} into .{instruction.parts[0]} takes a third number, which has the other bits",
        )


def _split(pattern: str, node: syntax.OperandNode) -> tuple[syntax.OperandNode, str, bool]:
    """An operand without its part and its minus, and both."""
    inner = (
        node.items[0] if isinstance(node, syntax.ExpressionNode) and len(node.items) == 1 else None
    )
    negated = (
        "-" in pattern
        and isinstance(inner, syntax.SignedNode)
        and inner.token == "-"
        and isinstance(inner.operand, syntax.NameNode)
    )
    if negated:
        assert isinstance(inner, syntax.SignedNode)
        inner = inner.operand
    if not isinstance(inner, syntax.NameNode):
        return node, "", False
    component = str(inner.component or "")
    takes = (pattern.endswith(".") and component in _PARTS) or pattern.endswith("%")
    part = component[1:] if takes else ""
    return (
        syntax.ExpressionNode([syntax.NameNode(inner.token, None if part else inner.component)]),
        part,
        negated,
    )


def _parts(node: syntax.OperandNode, part: str, allowed: str, usual: str) -> str:
    """Which parts an operand of several has."""
    if part and not (len(part) > 1 and re.fullmatch(allowed, part)):
        inner = node.items[0] if isinstance(node, syntax.ExpressionNode) else None
        assert isinstance(inner, syntax.NameNode)
        raise SourceError(
            inner.token, f".{part} is no choice of parts here: the usual one is .{usual}"
        )
    return part or usual
