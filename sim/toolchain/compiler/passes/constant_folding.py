"""Constant folding and algebraic simplification: operations on numbers only, or with a neutral
number.
"""

from collections.abc import Callable, Mapping

from rtl.isa.kinds import Boolean, Logic
from sim.toolchain.compiler.ir import (
    ADD,
    COPY_PREDICATE,
    MOVE,
    PT,
    RZ,
    WORD,
    Function,
    Op,
    Source,
    Terminator,
    number,
)
from sim.toolchain.compiler.opcodes import RELATIONS, Opcode, opcode

from .simplify_cfg import drop_unreachable

__all__ = ["fold_constants"]

_LOGIC = {logic: opcode("LOP", (("operation", logic),)) for logic in Logic}
_SHIFT_LEFT, _SHIFT_RIGHT = opcode("SHL"), opcode("SHR")
_SHIFT_RIGHT_UNSIGNED = opcode("SHR", (("signed", False),))
_FOLDS: Mapping[Opcode, Callable[[int, int], int]] = {
    _LOGIC[Logic.AND]: lambda x, y: x & y,
    _LOGIC[Logic.OR]: lambda x, y: x | y,
    _LOGIC[Logic.XOR]: lambda x, y: x ^ y,
    _SHIFT_LEFT: lambda x, y: x << min(y, 32),
    _SHIFT_RIGHT_UNSIGNED: lambda x, y: x >> y,
    _SHIFT_RIGHT: lambda x, y: (x - ((x >> 31) << 32)) >> y,
    ADD: lambda x, y: x + y,
    _LOGIC[Logic.PASS_B]: lambda x, y: y,
}


def fold_constants(function: Function) -> bool:
    """Folds operations on numbers and simplifies operations with neutral numbers. Returns whether
    anything changed.
    """
    changed = _settle_guards(function)
    for op in function.ops():
        if op.sets_carry or op.takes_carry:
            continue
        if op.name == "ISETP":
            changed |= _decide(op)
            continue
        new = _folded(op)
        if new is not None:
            op.opcode, op.sources = MOVE, [new]
            changed = True
    return changed


def _settle_guards(function: Function) -> bool:
    """Removes guards and branches with constant conditions. Returns whether anything changed."""
    changed = False
    for block in function.blocks:
        kept = [
            op
            for op in block.ops
            if op.guard is None or op.guard.value is not None or _true(op.guard)
        ]
        changed |= len(kept) != len(block.ops)
        block.ops = kept
        for op in kept:
            if op.guard is not None and op.guard.value is None:
                op.guard = None
                changed = True
        if (
            block.terminator is Terminator.BRANCH
            and block.condition is not None
            and block.condition.value is None
        ):
            block.successors = [block.successors[0 if _true(block.condition) else 1]]
            block.terminator, block.condition = Terminator.GOTO, None
            changed = True
    if changed:
        drop_unreachable(function)
    return changed


def _true(source: Source) -> bool:
    return bool(source.operand) != source.inverted


def _decide(op: Op) -> bool:
    """Folds a comparison of two numbers. Returns whether it was folded."""
    x, y = (source.number for source in op.sources[:2])
    if (
        x is None
        or y is None
        or op.results[1] is not None
        or op.fields["combine"] is not Boolean.AND
    ):
        return False
    signed = bool(op.fields["signed"])
    x, y = (value - (value >> 31 << 32) if signed else value for value in (x, y))
    holds = RELATIONS[op.fields["compare"]](x, y)
    op.opcode, op.sources = COPY_PREDICATE, [op.sources[2] if holds else Source(0), PT, PT]
    return True


def _folded(op: Op) -> Source | None:
    fold = _FOLDS.get(op.opcode) if len(op.results) == 1 else None
    if fold is not None:
        x, y = (source.number for source in op.sources)
        if x is not None and y is not None:
            return number(fold(x, y))
        return _simplified(op.opcode, op.sources, x, y)
    if op.name == "SEL" and op.sources[2].value is None:
        chosen = op.sources[0 if _true(op.sources[2]) else 1]
        return chosen if chosen.plain else None
    if (
        op.name == "MAD"
        and (op.sources[0].number == 0 or op.sources[1].number == 0)
        and op.sources[2].plain
    ):
        return op.sources[2]
    return None


def _simplified(code: Opcode, sources: list[Source], x: int | None, y: int | None) -> Source | None:
    """Returns the operand that equals the result because the other one is a neutral number, or
    None.
    """
    for own, other in ((x, sources[1]), (y, sources[0])):
        if own == 0 and code in (ADD, _LOGIC[Logic.OR], _LOGIC[Logic.XOR]) and other.plain:
            return other
        if own == WORD and code is _LOGIC[Logic.AND] and other.plain:
            return other
        if own == 0 and code is _LOGIC[Logic.AND]:
            return RZ
    if code in (_SHIFT_LEFT, _SHIFT_RIGHT, _SHIFT_RIGHT_UNSIGNED) and y == 0 and sources[0].plain:
        return sources[0]
    if code in (_SHIFT_LEFT, _SHIFT_RIGHT_UNSIGNED) and x == 0:
        return RZ
    return None
