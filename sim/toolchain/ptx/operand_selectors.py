"""Operands of video instructions: the selected part of a register, and negation."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sim.toolchain.grammar import SourceError

from . import syntax
from .module import PtxInstruction, PtxLanes, PtxSubword
from .operand_kinds import OperandKind, ResultOperand, SourceOperand

__all__ = ["check_selectors", "without_selectors"]

_THIRD = 3
"""The index of the third source among the operands."""
_SUBWORDS = {f".{subword.value}": subword for subword in PtxSubword}


@dataclass(frozen=True)
class _LaneSelectors:
    """The syntax of lane selectors, whose highest lane comes first: patterns for the result and for
    sources, and the defaults for the result and both sources.
    """

    written: str
    source: str
    usual: tuple[str, str, str]


_LANE_SELECTORS = {
    2: _LaneSelectors(r"\.h1?0?", r"\.h[0-3]{2}", (".h10", ".h10", ".h32")),
    4: _LaneSelectors(r"\.b3?2?1?0?", r"\.b[0-7]{4}", (".b3210", ".b3210", ".b7654")),
}
"""The selectors by the number of lanes."""


@dataclass(frozen=True)
class _SelectedOperand:
    """An operand without its selector and its minus sign. ``selector`` includes its dot, or is
    empty.
    """

    operand: syntax.OperandNode
    selector: str = ""
    negated: bool = False


def without_selectors(
    instruction: PtxInstruction, kinds: Sequence[OperandKind], nodes: Sequence[syntax.OperandNode]
) -> tuple[list[syntax.OperandNode], PtxInstruction]:
    """Returns the operands without selectors and minus signs, and the instruction with these as
    attributes.
    """
    parts = [_divided(kind, node) for kind, node in zip(kinds, nodes, strict=False)]
    instruction = instruction.changed(negated=tuple(part.negated for part in parts))
    result = kinds[0]
    if isinstance(result, ResultOperand) and result.lanes:
        instruction = instruction.changed(lanes=_lanes(parts, result.lanes))
    else:
        subwords = tuple(_SUBWORDS.get(part.selector) for part in parts)
        instruction = instruction.changed(subwords=subwords)
    return [*(part.operand for part in parts), *nodes[len(parts) :]], instruction


def check_selectors(instruction: PtxInstruction, node: syntax.InstructionNode) -> None:
    """Checks the combination of selectors. An unused third source is not checked, as in NVIDIA's
    assembler.

    Raises:
        SourceError: The result is part of a register without a source for the other parts, or two
            negations exclude each other.
    """
    opcode = node.opcode
    if instruction.lanes is not None:
        return
    if instruction.opcode == "vmad":
        if instruction.negated[1] != instruction.negated[2] and instruction.negated[3]:
            raise SourceError(opcode, "vmad negates the product or what is added to it, not both")
        return
    written, has_third = instruction.subwords[0], len(instruction.subwords) > _THIRD
    if written is not None and not has_third:
        raise SourceError(
            opcode, f"{opcode} into .{written.value} takes a third number, which has the other bits"
        )


def _divided(kind: OperandKind, node: syntax.OperandNode) -> _SelectedOperand:
    """Splits an operand into register, selector and minus sign."""
    inner = (
        node.items[0] if isinstance(node, syntax.ExpressionNode) and len(node.items) == 1 else None
    )
    negated = (
        isinstance(kind, SourceOperand)
        and kind.minus
        and isinstance(inner, syntax.SignedNode)
        and inner.token == "-"
        and isinstance(inner.operand, syntax.NameNode)
    )
    if negated:
        assert isinstance(inner, syntax.SignedNode)
        inner = inner.operand
    if not isinstance(inner, syntax.NameNode):
        return _SelectedOperand(node)
    component = str(inner.component or "")
    selects = isinstance(kind, ResultOperand | SourceOperand) and (
        kind.lanes > 0 or (kind.subword and component in _SUBWORDS)
    )
    register = syntax.NameNode(inner.token, None if selects else inner.component)
    return _SelectedOperand(
        syntax.ExpressionNode([register]), component if selects else "", negated
    )


def _lanes(parts: Sequence[_SelectedOperand], count: int) -> PtxLanes:
    """Returns the lanes that a SIMD instruction writes and reads, by the selectors of its operands
    or their defaults.
    """
    selectors = _LANE_SELECTORS[count]
    patterns = (selectors.written, selectors.source, selectors.source)
    usual = [_numbers(selector) for selector in selectors.usual]
    named = [
        _numbers(_checked(part, pattern, default))
        for part, pattern, default in zip(parts, patterns, selectors.usual, strict=False)
    ]
    # Missing operands are reported later.
    written, a, b = [*named, *usual[len(named) :]]
    return PtxLanes(count, written, a, b)


def _checked(part: _SelectedOperand, allowed: str, usual: str) -> str:
    """Returns an operand's selector after a check, or the default."""
    if not part.selector:
        return usual
    if len(part.selector) <= len(".b") or not re.fullmatch(allowed, part.selector):
        node = part.operand.items[0] if isinstance(part.operand, syntax.ExpressionNode) else None
        assert isinstance(node, syntax.NameNode)
        raise SourceError(
            node.token, f"{part.selector} is no choice of parts here: the usual one is {usual}"
        )
    return part.selector


def _numbers(selector: str) -> tuple[int, ...]:
    """Returns the numbers in a selector, that of the lowest lane first."""
    return tuple(int(digit) for digit in reversed(selector.removeprefix(".")[1:]))
