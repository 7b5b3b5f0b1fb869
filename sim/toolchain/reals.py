"""Floating-point numbers as text, the way NVIDIA's disassembler prints them."""

import math
import struct
from dataclasses import dataclass

__all__ = ["real_bits", "real_text"]

_DIGITS = 20
_LONG = 1e9
"""From here on numbers are printed with an exponent and all digits."""


@dataclass(frozen=True)
class _Format:
    """A format: its name, its codes in :mod:`struct`, as a number and as its bits, and the bits of its fraction."""

    name: str
    number: str
    bits: str
    fraction: int
    signals: bool
    """A NaN whose fraction begins with 0 is printed as one that signals."""


_FORMATS = {32: _Format("single", "<f", "<I", 23, False), 64: _Format("double", "<d", "<Q", 52, True)}
"""By their widths."""


def real_text(bits: int, width: int) -> str:
    """The number with these bits; a negative ``bits`` is those in two's complement. NVIDIA's disassembler has a
    space behind -0 and infinities, and behind a NaN, whatever follows.
    """
    form = _FORMATS[width]
    word = bits & (1 << width) - 1
    value, = struct.unpack(form.number, struct.pack(form.bits, word))
    sign = "-" if word >> width - 1 else "+"
    if math.isnan(value):
        return f"{sign}{'S' if form.signals and not word >> form.fraction - 1 & 1 else 'Q'}NAN "
    if math.isinf(value):
        return f"{sign}INF "
    if value == 0 and sign == "-":
        return "-0.0 "
    return f"{value:.{_DIGITS}e}" if abs(value) >= _LONG else f"{value:.{_DIGITS}g}"


def real_bits(text: str, width: int) -> int:
    """The bits, as a signed number, of a number in base 10, rounded to the nearest; of INF, QNAN or SNAN; or those that
    a number in base 16 or 2 is. ValueError where it is none of these, or too large.
    """
    form, sign = _FORMATS[width], 1 << width - 1
    infinity = sign - (1 << form.fraction)
    special = {"INF": infinity, "QNAN": infinity | 1 << form.fraction - 1,
               "SNAN": infinity | 1 << form.fraction - 8}
    negative, digits = text.startswith("-"), text.removeprefix("-").removeprefix("+")
    if digits in special:
        bits = special[digits]
    elif digits[:2].lower() in ("0x", "0b"):
        bits = int(digits, 0)
        if bits >> width:
            raise ValueError(f"{digits} does not fit {width} bits")
    else:
        try:
            value = float(digits)
            bits, = struct.unpack(form.bits, struct.pack(form.number, value))
        except OverflowError as error:
            raise ValueError(f"{digits} is too large for {form.name} precision") from error
        except ValueError as error:
            raise ValueError(f"{digits} is no floating-point number") from error
        if math.isinf(value):
            raise ValueError(f"{digits} is too large for {form.name} precision")
    bits ^= sign if negative else 0
    return bits - (1 << width) if bits & sign else bits
