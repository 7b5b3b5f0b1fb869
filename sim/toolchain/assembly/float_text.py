"""Floating-point numbers as text, as NVIDIA's disassembler prints them."""

import math
import struct

__all__ = ["real_bits", "real_text"]

_DIGITS = 20
_LONG = 1e9
"""The magnitude from which numbers are printed with an exponent and all digits."""
_SPECIAL = {"INF": math.inf, "QNAN": math.nan}
_CODES = {16: "e", 32: "f", 64: "d"}
"""The :mod:`struct` codes of the formats, by their bits."""
_NAMES = {16: "half", 32: "single", 64: "double"}
_SIGNALLING = 0x7FF4_0000_0000_0000


def _pattern(value: float, size: int) -> int:
    """Returns the bits of a number in a format.

    Raises:
        OverflowError: The number is too large.
    """
    return int.from_bytes(struct.pack(f"<{_CODES[size]}", value), "little")


def real_text(bits: int, size: int) -> str:
    """Returns the text of a number with ``size`` bits: 16, 32 or 64. A negative ``bits`` is in
    two's complement. NVIDIA's disassembler always prints a space after -0, infinities and NaNs.
    """
    bits %= 1 << size
    (value,) = struct.unpack(f"<{_CODES[size]}", bits.to_bytes(size // 8, "little"))
    sign = "-" if bits >> size - 1 else "+"
    if math.isnan(value):
        return f"{sign}{'S' if size == 64 and not bits >> 51 & 1 else 'Q'}NAN "
    if math.isinf(value):
        return f"{sign}INF "
    if value == 0 and sign == "-":
        return "-0.0 "
    return f"{value:.{_DIGITS}e}" if abs(value) >= _LONG else f"{value:.{_DIGITS}g}"


def real_bits(text: str, size: int) -> int:
    """Returns the bits of a number's text, as a signed number.

    The text is a decimal number, rounded to the nearest, or INF, QNAN, SNAN (64 bits only), or the
    bits in base 16 or 2.

    Raises:
        ValueError: The text is none of these, or the number is too large.
    """
    negative, digits = text.startswith("-"), text.removeprefix("-").removeprefix("+")
    if digits in _SPECIAL:
        bits = _pattern(_SPECIAL[digits], size)
    elif digits == "SNAN" and size == 64:
        bits = _SIGNALLING
    elif digits[:2].lower() in ("0x", "0b"):
        bits = int(digits, 0)
        if bits >> size:
            raise ValueError(f"{digits} does not fit {size} bits")
    else:
        try:
            bits = _pattern(float(digits), size)
            if bits == _pattern(math.inf, size):
                raise OverflowError
        except OverflowError as error:
            raise ValueError(f"{digits} is too large for {_NAMES[size]} precision") from error
        except ValueError as error:
            raise ValueError(f"{digits} is no floating-point number") from error
    bits ^= negative << size - 1
    return bits - (1 << size) if bits >> size - 1 else bits
