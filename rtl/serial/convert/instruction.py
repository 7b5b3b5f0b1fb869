"""What the parts of the serial conversion unit share."""

from typing import Any

from amaranth.hdl import Value, signed, unsigned
from amaranth.lib import data, enum, wiring
from amaranth.lib.wiring import Out

from rtl.convert.instruction import DOUBLE_BITS, SHIFT_BITS, THREAD_BITS, WORD_BITS, size_code
from rtl.isa.fields import FIELDS

__all__ = [
    "BYTE",
    "EXPONENT",
    "FILL_LAST",
    "INDEX",
    "OUTPUT_FIRST",
    "OUTPUT_LAST",
    "SCAN_FIRST",
    "SCAN_LAST",
    "STEP",
    "UNSHIFTED",
    "BytePair",
    "ConversionState",
    "Phase",
    "Scaling",
    "ScannedSource",
    "SerialConversion",
    "SourceByte",
    "SourceWord",
    "computes_parabola",
]

BYTE = 8
"""Bits of a byte."""
STEP = signed(5)
"""Shape of a step: the number of the result's byte in the cycle. Steps below 0 are for bytes that
are shifted out."""
_LEAD = 3
"""By how many steps a byte of the source is requested before the result's byte of that number."""
SCAN_FIRST = -_LEAD
SCAN_LAST = 7
OUTPUT_FIRST = -8 - _LEAD
"""All eight bytes of a source may be shifted out."""
OUTPUT_LAST = 9
"""Two steps behind the last byte of 64 bits: bits above it decide whether the result saturates."""
FILL_LAST = 7
UNSHIFTED = _LEAD * BYTE
"""The shift of what is not shifted: a byte of the source is requested _LEAD steps ahead."""
INDEX = signed(5)
"""Shape of the number of a source's byte: below 0 there are zeros, above its size there is its
sign."""
EXPONENT = signed(12)
"""Shape of an exponent in a calculation."""
_HEAD_BITS = 4 * BYTE
"""Bits of a source that are kept: its highest bytes."""
_SHIFT = signed(8)
"""Shape of a shift."""
_REGISTER_BITS = 8
_IMMEDIATE_BITS = sum(width for _, width in FIELDS["imm"].pieces)


class Phase(enum.Enum, shape=3):
    """What the byte datapath does for a thread, in this order."""

    IDLE = 0
    SCAN = 1
    """The source's bytes are inspected: its head, its leading bit, of POPC how many bits are 1."""
    SHIFT = 2
    """The shift is calculated."""
    EXPONENT = 3
    """The exponent of the result is calculated."""
    OUTPUT = 4
    """The source's bytes are read again; the result's are written."""
    FILL = 5
    """All bytes of the result are written again: it saturates, or is a constant."""


class SerialConversion(data.Struct):
    """A decoded instruction. What does not apply to its operation may have any value.

    One of the six operations is set. They are six bits since each is decoded by itself, from as few
    bits of the word as distinguish it from the others.
    """

    is_popc: unsigned(1)
    is_flo: unsigned(1)
    is_i2i: unsigned(1)
    """I2I; and F2F of the zero in RZ, which is a zero as an integer, too."""
    is_i2f: unsigned(1)
    is_f2i: unsigned(1)
    is_rcp: unsigned(1)
    """MUFU.RCP."""
    reads_register: unsigned(1)
    reads_constant: unsigned(1)
    """The source is in a constant bank. If neither is set, it is an immediate operand."""
    register: unsigned(_REGISTER_BITS)
    """The first register of the source, if it is in registers."""
    immediate: unsigned(_IMMEDIATE_BITS)
    """The immediate operand, as encoded."""
    size: unsigned(2)
    """Of the source, as a code."""
    signed: unsigned(1)
    """The source is a signed integer."""
    part: unsigned(2)
    """The byte of the register at which the source begins."""
    absolute: unsigned(1)
    negate: unsigned(1)
    """After ``absolute``."""
    invert: unsigned(1)
    flush: unsigned(1)
    """Subnormal numbers in single precision are zeros."""
    round: unsigned(2)
    """A code of Rounding."""
    to_size: unsigned(2)
    """Of the result, as a code."""
    to_signed: unsigned(1)
    saturate: unsigned(1)
    from_top: unsigned(1)
    """FLO counts from the top."""
    conditional: unsigned(1)
    """CC is written."""
    destination: unsigned(_REGISTER_BITS)
    """The first register of the result."""

    @property
    def is_immediate(self) -> Value:
        return ~self.reads_register & ~self.reads_constant

    @property
    def source_is_double(self) -> Value:
        return self.size == size_code(DOUBLE_BITS)

    @property
    def result_is_double(self) -> Value:
        return self.to_size == size_code(DOUBLE_BITS)


class SourceWord(data.Struct):
    """A word of a thread's source."""

    value: unsigned(WORD_BITS)
    is_upper: unsigned(1)
    """It is the upper word of a source of 64 bits."""


class SourceByte(data.Struct):
    """A byte of a source; of MUFU.RCP's result also one of a parabola's constant."""

    index: INDEX
    byte: unsigned(BYTE)


class BytePair(data.Struct):
    """Two bytes of the integer that a source is converted to."""

    lower: unsigned(BYTE)
    upper: unsigned(BYTE)
    """The byte above it."""


class ScannedSource(data.Struct):
    """What is known of a source after the scan."""

    head: unsigned(_HEAD_BITS)
    """Its highest bytes."""
    is_negative: unsigned(1)
    """It is a negative integer. Known as soon as the head is, like ``sign``."""
    sign: unsigned(1)
    """The sign of its magnitude, after the modifiers."""
    has_leading_bit: unsigned(1)
    """The integer has a bit that differs from its sign."""
    position: unsigned(SHIFT_BITS)
    """The complement of that bit's number; that of -1 without one. Of POPC how many bits are 1."""


class Scaling(data.Struct):
    """The shift count of an integer, the exponent of its result, and flags of special sources and
    results, which have no exponent."""

    shift: _SHIFT
    """By how many bits the integer is shifted right, plus UNSHIFTED. From the phase EXPONENT to the
    output; in all other phases nothing is shifted."""
    exponent: EXPONENT
    """One less than the stored exponent of the result: the leading bit is added to it. Of F2I: it
    is negative if the source is 2**64 or more. In the output."""
    is_normal: unsigned(1)
    """The source is a normal floating-point number."""
    is_flushed: unsigned(1)
    """It is subnormal, and taken for 0."""
    is_nan: unsigned(1)
    """It is NaN."""
    is_too_large: unsigned(1)
    """Of F2I: the source is 2**64 or more."""
    gives_zero: unsigned(1)
    """Of MUFU.RCP: the result is 0."""
    gives_one: unsigned(1)
    """Of MUFU.RCP: it is 1, since it saturates."""

    @property
    def gives_infinity(self) -> Value:
        """Of MUFU.RCP: whether the result is an infinity."""
        return ~self.is_normal

    @property
    def reciprocal_is_special(self) -> Value:
        """Of MUFU.RCP: whether the result is a constant, so that nothing is calculated."""
        is_number = self.gives_zero | self.gives_infinity | self.gives_one
        return is_number | self.is_nan


class ConversionState(wiring.Signature):
    """The state that all parts of the unit read: the instruction, its progress, and the parts'
    results.

    Members
    -------
    instruction : Out(SerialConversion)
        Stable until the next one is dispatched.
    thread : Out(5)
        Whose source is written or converted, and whose result is read.
    phase : Out(Phase)
    step : Out(STEP)
        In the scan the number of the source's byte that is inspected.
    source : Out(ScannedSource)
    scaling : Out(Scaling)
    """

    def __init__(self) -> None:
        super().__init__({
            "instruction": Out(SerialConversion),
            "thread": Out(THREAD_BITS),
            "phase": Out(Phase),
            "step": Out(STEP),
            "source": Out(ScannedSource),
            "scaling": Out(Scaling),
        })


def computes_parabola(state: Any) -> Value:
    """Whether the byte of the source that is read belongs to a parabola's constant."""
    return (state.phase == Phase.OUTPUT) & state.instruction.is_rcp
