"""What the conversion unit does with an instruction: the decoded form that its parts share."""

from typing import Any

from amaranth.hdl import ShapeLike, unsigned
from amaranth.lib import data, enum
from amaranth.utils import ceil_log2

from rtl.isa.errors import WarpError
from rtl.isa.kinds import MultiFunction
from rtl.isa.syntax import RZ
from rtl.layouts import SEQUENCE_BITS
from rtl.params import WARP_THREADS, SmParams

__all__ = [
    "CONSTANT_ADDRESS_BITS",
    "DOUBLE_BITS",
    "ENTRY_BITS",
    "EXPONENT_BITS",
    "SEGMENTS",
    "SHIFT_BITS",
    "SIZES",
    "THREAD_BITS",
    "WORD_BITS",
    "ConversionInstruction",
    "ConversionOperation",
    "DecodedConversion",
    "Rounding",
    "UniformSource",
    "conversion_entry",
    "goes_down",
    "goes_up",
    "queued_conversion",
    "size_code",
]

DOUBLE_BITS = 64
"""Width of the widest source and result."""
WORD_BITS = 32
CONSTANT_ADDRESS_BITS = 17
"""Width of the address of a constant's upper word, in bytes: an operand's has 16 bits."""
ENTRY_BITS = 2
"""Width of the number of an instruction in the unit, see :class:`~rtl.convert.entries.EntryTable`.
"""
THREAD_BITS = ceil_log2(WARP_THREADS)
SHIFT_BITS = ceil_log2(DOUBLE_BITS)
"""Width of how far something that wide is shifted."""
SIZES = (8, 16, 32, 64)
"""Bits of a type, by the code of its size. Floating-point formats have the codes of integers of
their size."""
EXPONENT_BITS = 13
"""Width of an exponent on its way, with its sign."""
SEGMENTS = tuple(zip((0, *SIZES), SIZES, strict=False))
"""First bit, and the bit behind the last, of what each size has beyond the next smaller one."""


class ConversionOperation(enum.Enum, shape=3):
    """What is computed, from one source."""

    COUNT = 0
    """POPC: how many bits are 1."""
    FIND = 1
    """FLO: where the highest bit is."""
    INTEGER_TO_INTEGER = 2
    """Of 32 bits, or less."""
    INTEGER_TO_FLOAT = 3
    FLOAT_TO_INTEGER = 4
    FUNCTION = 5
    """MUFU."""
    FLOAT_TO_FLOAT = 6
    """F2F."""


class Rounding(enum.Enum, shape=2):
    """How conversions round."""

    NEAREST = 0
    """Ties to even."""
    DOWN = 1
    UP = 2
    ZERO = 3


class ConversionInstruction(data.Struct):
    """A decoded instruction; what does not apply to its operation is 0."""

    operation: ConversionOperation
    function: MultiFunction
    size: unsigned(2)
    """Of the source, as a code."""
    signed: unsigned(1)
    """The source is a signed integer."""
    part: unsigned(2)
    """The byte of the register at which a source begins that is narrower than it."""
    absolute: unsigned(1)
    negate: unsigned(1)
    """After ``absolute``."""
    invert: unsigned(1)
    flush: unsigned(1)
    """Subnormal numbers in single precision are zeros."""
    round: Rounding
    whole: unsigned(1)
    """F2F rounds to an integer, in the format of the source."""
    to_size: unsigned(2)
    """Of the result, as a code."""
    to_signed: unsigned(1)
    saturate: unsigned(1)
    from_top: unsigned(1)
    """FLO counts from the top."""
    conditional: unsigned(1)
    """CC is written."""


class DecodedConversion(data.Struct):
    """What the word of an instruction says, but for a source that is the same in all threads."""

    instruction: ConversionInstruction
    gathers: unsigned(1)
    """The source is in registers."""
    registers: data.ArrayLayout(8, 2) = [RZ, RZ]
    """Which; RZ where there is none."""
    destination: unsigned(8)
    """The first register of the result."""


class UniformSource(data.Struct):
    """A source that is the same in all threads, a constant or a number in the instruction, before
    it is complete. Without meaning if the source is in registers."""

    word: unsigned(WORD_BITS)
    """A word of it, which is extended with its sign, unless one of the next two fields is 1."""
    is_upper: unsigned(1)
    """It is the upper word, and the lower one is 0."""
    needs_upper_word: unsigned(1)
    """It is the lower word, and the upper one is in the constant bank."""
    bank: unsigned(5)
    """Where that is."""
    address: unsigned(CONSTANT_ADDRESS_BITS)
    """In bytes."""


def _instruction_fields(params: SmParams) -> dict[str, ShapeLike]:
    return {
        "warp": params.warp_bits,
        "sequence": SEQUENCE_BITS,
        "pc": 32,
        "threads": WARP_THREADS,
        "error": WarpError,
        "decoded": DecodedConversion,
        "write_barrier": 3,
        "read_barrier": 3,
    }


def conversion_entry(params: SmParams) -> data.StructLayout:
    """An instruction that waits for the unit.

    Fields
    ------
    warp, sequence, pc, write_barrier, read_barrier
        As they were dispatched.
    threads : 32 threads
        They execute it.
    error : WarpError
        Other than NONE: it is reported, and nothing else happens.
    decoded : DecodedConversion
    operand : 64
        The source, if it is not in registers.
    """
    return data.StructLayout(_instruction_fields(params) | {"operand": DOUBLE_BITS})


def queued_conversion(params: SmParams) -> data.StructLayout:
    """A conversion_entry before its operand is complete: ``uniform`` is its UniformSource."""
    return data.StructLayout(_instruction_fields(params) | {"uniform": UniformSource})


def size_code(size: int) -> int:
    """The code of a size in bits."""
    return SIZES.index(size)


def goes_up(instruction: Any) -> Any:
    """Whether a ConversionInstruction shifts a magnitude up until its highest bit is on top."""
    operation = instruction.operation
    finds = operation == ConversionOperation.FIND
    makes_float = operation == ConversionOperation.INTEGER_TO_FLOAT
    calculates = operation == ConversionOperation.FUNCTION
    widens = ((operation == ConversionOperation.FLOAT_TO_FLOAT)
              & (instruction.to_size > instruction.size))
    return finds | makes_float | calculates | widens


def goes_down(instruction: Any) -> Any:
    """Whether it shifts a magnitude down, so that bits of it may get lost."""
    operation = instruction.operation
    makes_integer = operation == ConversionOperation.FLOAT_TO_INTEGER
    narrows = ((operation == ConversionOperation.FLOAT_TO_FLOAT)
               & (instruction.to_size < instruction.size))
    return makes_integer | narrows
