"""What the parts of the serial conversion unit share."""

from amaranth.hdl import signed, unsigned
from amaranth.lib import data

__all__ = ["BYTE", "EXPONENT", "HEAD_BYTES", "INDEX", "OUTPUT_FIRST", "SCAN_FIRST", "STEP", "UNSHIFTED",
           "SerialConversion"]

BYTE = 8
STEP = signed(5)
"""Shape of a step: the number of the result's byte that is there in the cycle; below 0 are bytes that are cut off."""
_LEAD = 3
"""By how many steps a byte of the source is asked for before that of the result with the same number."""
SCAN_FIRST, OUTPUT_FIRST = -_LEAD, -11
"""Where steps begin: when sources are only looked at, and when there are results."""
UNSHIFTED = _LEAD * BYTE
"""The shift of what is not shifted: with it, a byte of the source is asked for as many steps ahead."""
INDEX = signed(5)
"""Shape of the number of a source's byte: below 0 there are zeros, above its size there is its sign."""
EXPONENT = signed(12)
"""Shape of an exponent on its way."""
HEAD_BYTES = 4
"""Bytes of a source that are kept: the highest ones."""


class SerialConversion(data.Struct):
    """What a word says. What does not apply to its operation may be anything."""

    counts: unsigned(1)
    """POPC."""
    finds: unsigned(1)
    """FLO."""
    converts: unsigned(1)
    """I2I; and F2F of the zero in RZ, which is one as an integer, too."""
    to_float: unsigned(1)
    """I2F."""
    to_integer: unsigned(1)
    """F2I."""
    calculates: unsigned(1)
    """MUFU.RCP."""
    gathers: unsigned(1)
    """The source is in registers."""
    constant: unsigned(1)
    """It is in a constant bank. Otherwise it is an immediate one."""
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
