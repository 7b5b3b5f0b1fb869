"""What the parts of the serial conversion unit share."""

from amaranth.hdl import signed, unsigned
from amaranth.lib import data, enum

from rtl.convert.instruction import SHIFT_BITS

__all__ = [
    "BYTE",
    "EXPONENT",
    "FILL_LAST",
    "HEAD_BYTES",
    "INDEX",
    "OUTPUT_FIRST",
    "OUTPUT_LAST",
    "SCAN_FIRST",
    "SCAN_LAST",
    "STEP",
    "UNSHIFTED",
    "Phase",
    "ResultExponent",
    "ScannedSource",
    "SerialConversion",
]

BYTE = 8
"""Bits of a byte."""
STEP = signed(5)
"""Shape of a step: the number of the result's byte in the cycle. Steps below 0 are those of bytes
that are shifted out."""
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
HEAD_BYTES = 4
"""Bytes of a source that are kept: the highest ones."""


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
    """The source's bytes are read again; those of the result are written."""
    FILL = 5
    """All bytes of the result are written again: it saturates, or is a constant."""


class SerialConversion(data.Struct):
    """A decoded instruction. What does not apply to its operation may have any value.

    One of the six operations is set. They are six bits since each is decoded by itself, from as few
    bits of the word as tell it from the others.
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


class ScannedSource(data.Struct):
    """What is known of a source after the scan."""

    is_negative: unsigned(1)
    """It is a negative integer."""
    sign: unsigned(1)
    """The sign of its magnitude, after the modifiers."""
    has_leading_bit: unsigned(1)
    """The integer has a bit that differs from its sign."""
    position: unsigned(SHIFT_BITS)
    """The complement of that bit's number; that of -1 without one. Of POPC how many bits are 1."""


class ResultExponent(data.Struct):
    """The exponent of a result, and sources and results without one."""

    exponent: EXPONENT
    """One less than the stored exponent of the result: the leading bit is added to it. Of F2I: it
    is negative if the source is 2**64 or more."""
    is_nan: unsigned(1)
    """The source is not a number."""
    is_too_large: unsigned(1)
    """Of F2I: the source is 2**64 or more."""
    gives_infinity: unsigned(1)
    """Of MUFU.RCP, like the next two: the result is an infinity."""
    gives_zero: unsigned(1)
    gives_one: unsigned(1)
    """It is 1, since it saturates."""
