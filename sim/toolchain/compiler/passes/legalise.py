"""Legalisation: moves constants and numbers that an instruction cannot encode into registers."""

from collections.abc import Mapping
from dataclasses import replace

from rtl.isa.kinds import Compare, FloatCompare
from sim.toolchain.compiler.ir import MOVE, Function, Op, Source, Value, number, real
from sim.toolchain.compiler.opcodes import FieldValue
from sim.toolchain.compiler.operands import needs_slot, slot_takes

__all__ = ["legalise"]

_MIRRORED: Mapping[FieldValue, FieldValue] = {
    kind[one]: kind[other]
    for kind in (Compare, FloatCompare)
    for one, other in (
        ("LT", "GT"),
        ("GT", "LT"),
        ("LE", "GE"),
        ("GE", "LE"),
        ("EQ", "EQ"),
        ("NE", "NE"),
    )
}
"""The relation that holds if its operands are exchanged."""


def legalise(function: Function) -> None:
    """Makes all operations of a function encodable."""
    for block in function.blocks:
        ops: list[Op] = []
        for op in block.ops:
            if op.name == "IADD" and op.takes_carry:
                op.sources = [_complement(source) for source in op.sources]
            _exchange(op)
            if op.name in ("FMUL", "FFMA"):
                _sign_product(op)
            _load_sources(op, ops)
            ops.append(op)
        block.ops = ops


def _complement(source: Source) -> Source:
    """Replaces a negated number by its complement, for a subtraction with a carry."""
    if isinstance(source.operand, int) and source.negated:
        return number(~source.operand)
    return source


def _sign_product(op: Op) -> None:
    """Moves the sign of a product to its second factor."""
    first, second, *rest = op.sources
    if first.negated:
        op.sources = [first.negate(), real(second.negate()), *rest]


def _exchange(op: Op) -> None:
    """Exchanges sources so that a constant or number is at a position that can encode it."""
    if (
        len(op.sources) < 2
        or not needs_slot(op, 0, op.sources[0])
        or needs_slot(op, 1, op.sources[1])
    ):
        return
    first, second, *rest = op.sources
    if op.opcode.commutes:
        op.sources = [second, first, *rest]
    elif (
        op.name in ("ISETP", "ISET", "FSETP", "FSET")
        and not op.takes_carry
        and (mirrored := _MIRRORED.get(op.fields["compare"])) is not None
    ):
        op.sources = [second, first, *rest]
        op.opcode = op.opcode.with_fields(compare=mirrored)
    elif op.name == "SEL":
        op.sources = [second, first, rest[0].invert()]


def _load_sources(op: Op, before: list[Op]) -> None:
    together = op.shape.source_groups
    free = True
    for index, source in enumerate(op.sources):
        if source.value is not None or op.name == "MOV":
            continue
        group = next((group for group in together if index in group), None)
        if group is not None:
            if any(op.sources[at].operand != 0 for at in group):
                _load(op, index, before)
        elif not slot_takes(op, index, source):
            _load(op, index, before)
        elif needs_slot(op, index, source) and not op.opcode.several_numbers:
            if free:
                free = False
            else:
                _load(op, index, before)


def _load(op: Op, index: int, before: list[Op]) -> None:
    value = Value("n")
    source = op.sources[index]
    whole = None if op.opcode.exact else source.number
    before.append(
        Op(
            MOVE,
            [value],
            [Source(whole if whole is not None else source.operand)],
            line=op.line,
            column=op.column,
        )
    )
    op.sources[index] = Source(value) if whole is not None else replace(source, operand=value)
