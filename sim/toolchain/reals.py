"""Single-precision numbers as text, the way NVIDIA's disassembler prints them."""

import math
import struct

__all__ = ["real_bits", "real_text"]

_DIGITS = 20
_LONG = 1e9
"""From here on numbers are printed with an exponent and all digits."""
_WORD = 0xFFFF_FFFF
_SIGN = 0x8000_0000
_SPECIAL = {"INF": 0x7F80_0000, "QNAN": 0x7FC0_0000}


def real_text(bits: int) -> str:
    """The number with these 32 bits; a negative ``bits`` is those in two's complement. NVIDIA's disassembler has a
    space behind -0, infinities and NaNs, whatever follows.
    """
    value, = struct.unpack("<f", struct.pack("<I", bits & _WORD))
    sign = "-" if bits & _SIGN else "+"
    if math.isnan(value):
        return f"{sign}QNAN "
    if math.isinf(value):
        return f"{sign}INF "
    if value == 0 and bits & _SIGN:
        return "-0.0 "
    return f"{value:.{_DIGITS}e}" if abs(value) >= _LONG else f"{value:.{_DIGITS}g}"


def real_bits(text: str) -> int:
    """The 32 bits, as a signed number, of a number in base 10, rounded to the nearest; of INF or QNAN; or those that a
    number in base 16 or 2 is. ValueError where it is none of these, or too large.
    """
    negative, digits = text.startswith("-"), text.removeprefix("-").removeprefix("+")
    if digits in _SPECIAL:
        bits = _SPECIAL[digits]
    elif digits[:2].lower() in ("0x", "0b"):
        bits = int(digits, 0)
        if bits > _WORD:
            raise ValueError(f"{digits} does not fit 32 bits")
    else:
        try:
            bits, = struct.unpack("<I", struct.pack("<f", float(digits)))
        except OverflowError as error:
            raise ValueError(f"{digits} is too large for single precision") from error
        except ValueError as error:
            raise ValueError(f"{digits} is no floating-point number") from error
    bits ^= _SIGN if negative else 0
    return bits - (1 << 32) if bits & _SIGN else bits
