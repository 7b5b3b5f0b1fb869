"""Kinds of relocations: what of a symbol's value goes where.

A place is either data or an instruction. Into an instruction the value goes through the field of its form that
is a target, an immediate, an address or a constant, so no bit position is told here again.
"""

from enum import IntEnum

from rtl.isa.syntax import Address, Constant, Field, Form, Immediate, Target
from rtl.isa.table import find

from .module import PatchKind

__all__ = ["GENERIC", "PATCHES", "RelocationKind", "fit", "held_number", "place_bytes", "with_constant", "with_number"]


class RelocationKind(IntEnum):
    """The kinds that code for sm_50 has, by their names in NVIDIA's files without the prefix."""

    DATA_32 = 0x01
    DATA_64 = 0x02
    GENERIC_32 = 0x03
    GENERIC_64 = 0x04
    ABS32_20 = 0x2A
    ABS32_LO_20 = 0x2B
    ABS32_HI_20 = 0x2C
    ABS24_20 = 0x2D
    ABS16_20 = 0x2E
    CONST_FIELD19_20 = 0x32
    CONST_FIELD21_20 = 0x36


GENERIC = frozenset({RelocationKind.GENERIC_32, RelocationKind.GENERIC_64})
"""Relocations to generic addresses: of a constant they are its address in global memory, not its place in the bank."""

PATCHES: dict[int, PatchKind] = {
    RelocationKind.DATA_32: PatchKind.WORD,
    RelocationKind.DATA_64: PatchKind.DOUBLE_WORD,
    RelocationKind.GENERIC_32: PatchKind.WORD,
    RelocationKind.GENERIC_64: PatchKind.DOUBLE_WORD,
    RelocationKind.ABS32_20: PatchKind.IMMEDIATE_LOW,
    RelocationKind.ABS32_LO_20: PatchKind.IMMEDIATE_LOW,
    RelocationKind.ABS32_HI_20: PatchKind.IMMEDIATE_HIGH,
}
"""Relocations whose value is an address, known when the program is placed in memory."""


def place_bytes(kind: int) -> int:
    """Bytes of the place that a relocation completes."""
    return 4 if PATCHES.get(kind) is PatchKind.WORD else 8


def fit(field: Field, value: int) -> int:
    """``value`` as the field holds it: a number without a sign may use a signed field's sign bit.

    ValueError when it doesn't fit either way.
    """
    span = field.scale << field.width
    if not -span // 2 <= value < span or value % field.scale:
        unit = f" in steps of {field.scale}" if field.scale > 1 else ""
        raise ValueError(f"{value:#x} does not fit {field.width} bits{unit}")
    if value in field.bounds:
        return value
    return value - span if value > 0 else value + span


def _number_field(form: Form) -> Field:
    """The field that takes an address or a number."""
    for operand in form.operands.values():
        match operand:
            case Target(field) | Immediate(field) | Address(_, field):
                return form.fields[field]
    raise ValueError(f"{form.name} has no number")


def _form(word: int) -> Form:
    form = find(word)
    if form is None:
        raise ValueError(f"{word:#018x} is no instruction")
    return form


def held_number(word: int) -> int:
    """The number in an instruction's place; ValueError when it has none."""
    return _number_field(_form(word)).get(word)


def with_number(word: int, value: int) -> int:
    """The instruction with a number in its place; ValueError when it has none or the number doesn't fit."""
    field = _number_field(_form(word))
    return field.put(word, fit(field, value))


def with_constant(word: int, bank: int, offset: int) -> int:
    """The instruction with a place in a constant bank: as its constant operand where it has one, else the offset
    as its number. ValueError when it has neither or the offset doesn't fit.
    """
    form = _form(word)
    for operand in form.operands.values():
        if isinstance(operand, Constant):
            field = form.fields[operand.offset]
            return form.fields[operand.bank].put(field.put(word, fit(field, offset)), bank)
    return with_number(word, offset)
