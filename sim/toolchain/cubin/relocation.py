"""Kinds of relocations: the part of a symbol's value that is filled in, and its place.

A place is in data or an instruction. In an instruction the value is stored through the field of its
form that is a target, an immediate, an address or a constant, so no bit position is repeated here.

Numbers and names are those of NVIDIA's files (NVIDIA's disassembler lists them): R_CUDA_32 is
DATA_32 here, R_CUDA_G64 GENERIC_64; the other names only lack R_CUDA.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType

from rtl.isa.syntax import Address, Constant, Field, Form, Immediate, Target
from rtl.isa.table import find
from sim.toolchain.module import PatchKind

__all__ = [
    "CLEARED",
    "GENERIC",
    "GENERIC_BYTES",
    "NO_ADDRESS",
    "PATCHES",
    "REFUSED",
    "Filling",
    "RelocationKind",
    "fit",
    "held_number",
    "place_bytes",
    "with_constant",
    "with_number",
]


class RelocationKind(IntEnum):
    """The kinds in code for sm_50."""

    NONE = 0x00
    DATA_32 = 0x01
    DATA_64 = 0x02
    GENERIC_32 = 0x03
    GENERIC_64 = 0x04
    TEX_HEADER_INDEX = 0x06
    SAMP_HEADER_INDEX = 0x07
    SURF_HW_DESC = 0x08
    SURF_HW_SW_DESC = 0x09
    FUNC_DESC_32 = 0x22
    FUNC_DESC_64 = 0x23
    ABS32_20 = 0x2A
    ABS32_LO_20 = 0x2B
    ABS32_HI_20 = 0x2C
    ABS24_20 = 0x2D
    ABS16_20 = 0x2E
    FUNC_DESC32_20 = 0x2F
    FUNC_DESC32_LO_20 = 0x30
    FUNC_DESC32_HI_20 = 0x31
    CONST_FIELD19_20 = 0x32
    BINDLESSOFF13_36 = 0x33
    SURF_HEADER_INDEX = 0x34
    CONST_FIELD21_20 = 0x36
    DATA_32_LO = 0x46
    DATA_32_HI = 0x47
    UNUSED_CLEAR32 = 0x48
    UNUSED_CLEAR64 = 0x49
    DATA_8_0 = 0x4C
    DATA_8_8 = 0x4D
    DATA_8_16 = 0x4E
    DATA_8_24 = 0x4F
    DATA_8_32 = 0x50
    DATA_8_40 = 0x51
    DATA_8_48 = 0x52
    DATA_8_56 = 0x53
    GENERIC_8_0 = 0x54
    GENERIC_8_8 = 0x55
    GENERIC_8_16 = 0x56
    GENERIC_8_24 = 0x57
    GENERIC_8_32 = 0x58
    GENERIC_8_40 = 0x59
    GENERIC_8_48 = 0x5A
    GENERIC_8_56 = 0x5B
    FUNC_DESC_8_0 = 0x5C
    FUNC_DESC_8_8 = 0x5D
    FUNC_DESC_8_16 = 0x5E
    FUNC_DESC_8_24 = 0x5F
    FUNC_DESC_8_32 = 0x60
    FUNC_DESC_8_40 = 0x61
    FUNC_DESC_8_48 = 0x62
    FUNC_DESC_8_56 = 0x63
    SAMP_HEADER_INDEX_0 = 0x65


@dataclass(frozen=True)
class Filling:
    """How a relocation fills in its value: ``kind`` is the place, which takes the value shifted
    right by ``shift``.
    """

    kind: PatchKind
    shift: int = 0


_BYTES = range(0, 64, 8)
"""The first bits of the bytes of an address."""
_DATA_BYTES = [RelocationKind[f"DATA_8_{shift}"] for shift in _BYTES]
_FUNCTION_BYTES = [RelocationKind[f"FUNC_DESC_8_{shift}"] for shift in _BYTES]
GENERIC_BYTES: Mapping[int, RelocationKind] = MappingProxyType(
    {shift: RelocationKind[f"GENERIC_8_{shift}"] for shift in _BYTES}
)
"""Relocations of single bytes of generic addresses, by the lowest bit of the byte."""

GENERIC = frozenset({RelocationKind.GENERIC_32, RelocationKind.GENERIC_64, *GENERIC_BYTES.values()})
"""Relocations to generic addresses: for a constant, its address in global memory instead of its
offset in the bank.
"""

PATCHES: Mapping[int, Filling] = MappingProxyType(
    {
        RelocationKind.DATA_32: Filling(PatchKind.WORD),
        RelocationKind.DATA_64: Filling(PatchKind.DOUBLE_WORD),
        RelocationKind.GENERIC_32: Filling(PatchKind.WORD),
        RelocationKind.GENERIC_64: Filling(PatchKind.DOUBLE_WORD),
        RelocationKind.ABS32_20: Filling(PatchKind.IMMEDIATE_LOW),
        RelocationKind.ABS32_LO_20: Filling(PatchKind.IMMEDIATE_LOW),
        RelocationKind.ABS32_HI_20: Filling(PatchKind.IMMEDIATE_HIGH),
        RelocationKind.DATA_32_LO: Filling(PatchKind.WORD),
        RelocationKind.DATA_32_HI: Filling(PatchKind.WORD, 32),
        **{
            kind: Filling(PatchKind.BYTE, shift)
            for shift, kind in zip(_BYTES, _DATA_BYTES, strict=True)
        },
        **{kind: Filling(PatchKind.BYTE, shift) for shift, kind in GENERIC_BYTES.items()},
        RelocationKind.FUNC_DESC_32: Filling(PatchKind.WORD),
        RelocationKind.FUNC_DESC_64: Filling(PatchKind.DOUBLE_WORD),
        RelocationKind.FUNC_DESC32_20: Filling(PatchKind.IMMEDIATE_LOW),
        RelocationKind.FUNC_DESC32_LO_20: Filling(PatchKind.IMMEDIATE_LOW),
        RelocationKind.FUNC_DESC32_HI_20: Filling(PatchKind.IMMEDIATE_HIGH),
        **{
            kind: Filling(PatchKind.BYTE, shift)
            for shift, kind in zip(_BYTES, _FUNCTION_BYTES, strict=True)
        },
    }
)
"""Relocations whose value is an address, known when the program is placed in memory. A function
descriptor is the address of the function's code (ours): CUDA 12's device runtime has tables of
function pointers of this kind.
"""

CLEARED = frozenset({RelocationKind.UNUSED_CLEAR32, RelocationKind.UNUSED_CLEAR64})
"""Relocations of unused places, which become zeros."""
NO_ADDRESS = frozenset({RelocationKind.NONE, *CLEARED})
"""Relocations that need no address."""

_BYTES_OF = {PatchKind.BYTE: 1, PatchKind.WORD: 4}
_PLACES: Mapping[int, int] = {
    RelocationKind.NONE: 0,
    RelocationKind.TEX_HEADER_INDEX: 4,
    RelocationKind.SAMP_HEADER_INDEX: 4,
    RelocationKind.SURF_HW_DESC: 4,
    RelocationKind.SURF_HW_SW_DESC: 4,
    RelocationKind.SURF_HEADER_INDEX: 4,
    RelocationKind.SAMP_HEADER_INDEX_0: 4,
    RelocationKind.UNUSED_CLEAR32: 4,
}
"""The sizes of places without an address in bytes, if not 8."""

_OF_OTHER_MACHINES = "for instructions of another machine than sm_50"
_TEXTURES = "for textures, which there are not"
_UNIFIED = "for a table of functions that code for sm_50 does not have"
REFUSED: Mapping[int, str] = MappingProxyType(
    {
        0x05: f"ABS32_26, {_OF_OTHER_MACHINES}",
        0x0A: f"ABS32_LO_26, {_OF_OTHER_MACHINES}",
        0x0B: f"ABS32_HI_26, {_OF_OTHER_MACHINES}",
        0x0C: f"ABS32_23, {_OF_OTHER_MACHINES}",
        0x0D: f"ABS32_LO_23, {_OF_OTHER_MACHINES}",
        0x0E: f"ABS32_HI_23, {_OF_OTHER_MACHINES}",
        0x0F: f"ABS24_26, {_OF_OTHER_MACHINES}",
        0x10: f"ABS24_23, {_OF_OTHER_MACHINES}",
        0x11: f"ABS16_26, {_OF_OTHER_MACHINES}",
        0x12: f"ABS16_23, {_OF_OTHER_MACHINES}",
        0x13: f"TEX_SLOT, {_TEXTURES}",
        0x14: f"SAMP_SLOT, {_TEXTURES}",
        0x15: f"SURF_SLOT, {_TEXTURES}",
        0x16: f"TEX_BINDLESSOFF13_32, {_TEXTURES}",
        0x17: f"TEX_BINDLESSOFF13_47, {_TEXTURES}",
        0x18: f"CONST_FIELD19_28, {_OF_OTHER_MACHINES}",
        0x19: f"CONST_FIELD19_23, {_OF_OTHER_MACHINES}",
        0x1A: f"TEX_SLOT9_49, {_TEXTURES}",
        0x1B: f"6_31, {_OF_OTHER_MACHINES}",
        0x1C: f"2_47, {_OF_OTHER_MACHINES}",
        0x1D: f"TEX_BINDLESSOFF13_41, {_TEXTURES}",
        0x1E: f"TEX_BINDLESSOFF13_45, {_TEXTURES}",
        0x1F: f"FUNC_DESC32_23, {_OF_OTHER_MACHINES}",
        0x20: f"FUNC_DESC32_LO_23, {_OF_OTHER_MACHINES}",
        0x21: f"FUNC_DESC32_HI_23, {_OF_OTHER_MACHINES}",
        0x24: f"CONST_FIELD21_26, {_OF_OTHER_MACHINES}",
        0x25: f"QUERY_DESC21_37, {_OF_OTHER_MACHINES}",
        0x26: f"CONST_FIELD19_26, {_OF_OTHER_MACHINES}",
        0x27: f"CONST_FIELD21_23, {_OF_OTHER_MACHINES}",
        0x28: f"PCREL_IMM24_26, {_OF_OTHER_MACHINES}",
        0x29: f"PCREL_IMM24_23, {_OF_OTHER_MACHINES}",
        0x35: "INSTRUCTION64, an instruction that NVIDIA's driver has",
        0x37: f"ABS32_32, {_OF_OTHER_MACHINES}",
        0x38: f"ABS32_LO_32, {_OF_OTHER_MACHINES}",
        0x39: f"ABS32_HI_32, {_OF_OTHER_MACHINES}",
        0x3A: f"ABS47_34, {_OF_OTHER_MACHINES}",
        0x3B: f"ABS16_32, {_OF_OTHER_MACHINES}",
        0x3C: f"ABS24_32, {_OF_OTHER_MACHINES}",
        0x3D: f"FUNC_DESC32_32, {_OF_OTHER_MACHINES}",
        0x3E: f"FUNC_DESC32_LO_32, {_OF_OTHER_MACHINES}",
        0x3F: f"FUNC_DESC32_HI_32, {_OF_OTHER_MACHINES}",
        0x40: f"CONST_FIELD19_40, {_OF_OTHER_MACHINES}",
        0x41: f"BINDLESSOFF14_40, {_TEXTURES}",
        0x42: f"CONST_FIELD21_38, {_OF_OTHER_MACHINES}",
        0x43: f"INSTRUCTION128, {_OF_OTHER_MACHINES}",
        0x44: f"YIELD_OPCODE9_0, {_OF_OTHER_MACHINES}",
        0x45: f"YIELD_CLEAR_PRED4_87, {_OF_OTHER_MACHINES}",
        0x4A: f"ABS24_40, {_OF_OTHER_MACHINES}",
        0x4B: f"ABS55_16_34, {_OF_OTHER_MACHINES}",
        0x64: f"ABS20_44, {_OF_OTHER_MACHINES}",
        0x66: f"UNIFIED, {_UNIFIED}",
        0x67: f"UNIFIED_32, {_UNIFIED}",
        **{0x68 + place: f"UNIFIED_8_{shift}, {_UNIFIED}" for place, shift in enumerate(_BYTES)},
        0x70: f"UNIFIED32_LO_32, {_UNIFIED}",
        0x71: f"UNIFIED32_HI_32, {_UNIFIED}",
        0x72: f"ABS56_16_34, {_OF_OTHER_MACHINES}",
        0x73: f"CONST_FIELD22_37, {_OF_OTHER_MACHINES}",
    }
)
"""Names of the kinds that no file for sm_50 has, with the reasons for refusing them."""


def place_bytes(kind: int) -> int:
    """Returns the number of bytes that a relocation of this kind changes; 1 for kinds that are
    refused before.
    """
    filling = PATCHES.get(kind)
    if filling is not None:
        return _BYTES_OF.get(filling.kind, 8)
    return 1 if kind in REFUSED else _PLACES.get(kind, 8)


def fit(field: Field, value: int) -> int:
    """Returns ``value`` as the field stores it. An unsigned number may use the sign bit of a signed
    field.

    Raises:
        ValueError: The value does not fit.
    """
    span = field.scale << field.width
    if not -span // 2 <= value < span or value % field.scale:
        unit = f" in steps of {field.scale}" if field.scale > 1 else ""
        raise ValueError(f"{value:#x} does not fit {field.width} bits{unit}")
    if value in field.bounds:
        return value
    return value - span if value > 0 else value + span


def _number_field(form: Form) -> Field:
    """Returns the field for an address or a number."""
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
    """Returns the number in an instruction's field. ValueError if it has none."""
    return _number_field(_form(word)).get(word)


def with_number(word: int, value: int) -> int:
    """Returns the instruction with a number in its field. ValueError if it has none, or the number
    does not fit.
    """
    field = _number_field(_form(word))
    return field.put(word, fit(field, value))


def with_constant(word: int, bank: int, offset: int) -> int:
    """Returns the instruction with an offset in a constant bank: in its constant operand if it has
    one, else in its number field. ValueError if it has neither, or the offset does not fit.
    """
    form = _form(word)
    for operand in form.operands.values():
        if isinstance(operand, Constant):
            field = form.fields[operand.offset]
            return form.fields[operand.bank].put(field.put(word, fit(field, offset)), bank)
    return with_number(word, offset)
