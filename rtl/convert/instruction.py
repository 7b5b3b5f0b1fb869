"""The decoded form of an instruction, which the parts of the conversion unit share."""

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
"""Width of the byte address of a constant's upper word: one bit more than the 16 of an operand's
address, for the sum with 4."""
ENTRY_BITS = 2
"""Width of the number of an entry, see :class:`~rtl.convert.entries.EntryTable`."""
THREAD_BITS = ceil_log2(WARP_THREADS)
SHIFT_BITS = ceil_log2(DOUBLE_BITS)
"""Width of a shift count for DOUBLE_BITS."""
SIZES = (8, 16, 32, 64)
"""Width of a type, by the code of its size. A floating-point format has the code of the integers of
its width."""
EXPONENT_BITS = 13
"""Width of a signed exponent within the datapath."""
SEGMENTS = tuple(zip((0, *SIZES), SIZES, strict=False))
"""By the code of a size, ``(start, stop)`` of its segment: the bits that it has and the next
smaller size has not, 0 to 7, 8 to 15, 16 to 31 and 32 to 63."""


class ConversionOperation(enum.Enum, shape=3):
    """What is computed, from one source."""

    COUNT = 0
    """POPC: how many bits are 1."""
    FIND = 1
    """FLO: the number of the highest bit that is 1."""
    INTEGER_TO_INTEGER = 2
    """I2I, between types of 32 bits or less."""
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
    """Of the source, as an index of SIZES."""
    signed: unsigned(1)
    """The source is a signed integer."""
    part: unsigned(2)
    """Of a source that is narrower than its register: the byte at which it begins."""
    absolute: unsigned(1)
    negate: unsigned(1)
    """Applied after ``absolute``."""
    invert: unsigned(1)
    """POPC and FLO: all bits of the source are inverted."""
    flush: unsigned(1)
    """Subnormal sources and results in single precision become zeros."""
    round: Rounding
    whole: unsigned(1)
    """F2F: the result is an integral value, in the format of the source."""
    to_size: unsigned(2)
    """Of the result, as an index of SIZES."""
    to_signed: unsigned(1)
    saturate: unsigned(1)
    """An integer result is limited to its type; a floating-point one to 0 to 1, NaN to 0."""
    from_top: unsigned(1)
    """FLO: the result is counted from the top, 31 minus the number of the bit."""
    conditional: unsigned(1)
    """CC is written."""


class DecodedConversion(data.Struct):
    """What is decoded from the word of an instruction, except a uniform source."""

    instruction: ConversionInstruction
    gathers: unsigned(1)
    """The source is in registers."""
    registers: data.ArrayLayout(8, 2) = [RZ, RZ]
    """Those of the source, the low word first; RZ where there is none."""
    destination: unsigned(8)
    """The first register of the result."""


class UniformSource(data.Struct):
    """A source that is the same in all threads: a constant or an immediate. The upper word of a
    64-bit constant has still to be read. Without meaning if the source is in registers."""

    word: unsigned(WORD_BITS)
    """A word of the source. If neither of the next two fields is 1, its sign extension is the
    source."""
    is_upper: unsigned(1)
    """``word`` is the upper word of the source; the lower one is 0."""
    needs_upper_word: unsigned(1)
    """``word`` is the lower word; the upper one is read from a constant bank."""
    bank: unsigned(5)
    """The constant bank of the upper word."""
    address: unsigned(CONSTANT_ADDRESS_BITS)
    """The byte address of the upper word."""


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
        The threads that execute the instruction.
    error : WarpError
        If not NONE, the instruction raises this error and completes, and does nothing else.
    decoded : DecodedConversion
    operand : 64
        The source, if it is uniform.
    """
    return data.StructLayout(_instruction_fields(params) | {"operand": DOUBLE_BITS})


def queued_conversion(params: SmParams) -> data.StructLayout:
    """A conversion_entry in the queue, with a UniformSource ``uniform`` instead of ``operand``."""
    return data.StructLayout(_instruction_fields(params) | {"uniform": UniformSource})


def size_code(size: int) -> int:
    """The code of a size in bits."""
    return SIZES.index(size)


def goes_up(instruction: Any) -> Any:
    """Whether a ConversionInstruction normalizes: it shifts a magnitude left until bit 63 is 1."""
    operation = instruction.operation
    finds = operation == ConversionOperation.FIND
    makes_float = operation == ConversionOperation.INTEGER_TO_FLOAT
    is_function = operation == ConversionOperation.FUNCTION
    widens = ((operation == ConversionOperation.FLOAT_TO_FLOAT)
              & (instruction.to_size > instruction.size))
    return finds | makes_float | is_function | widens


def goes_down(instruction: Any) -> Any:
    """Whether a ConversionInstruction shifts a magnitude right by a count, and may lose bits."""
    operation = instruction.operation
    makes_integer = operation == ConversionOperation.FLOAT_TO_INTEGER
    narrows = ((operation == ConversionOperation.FLOAT_TO_FLOAT)
               & (instruction.to_size < instruction.size))
    return makes_integer | narrows
