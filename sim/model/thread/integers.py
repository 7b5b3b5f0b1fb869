"""32-bit arithmetic on Python integers: wrapping, signs, and CC as one number in the layout of
:class:`rtl.isa.condition.Flags`.
"""

from amaranth.lib.data import Layout

from rtl.isa.condition import Flags

__all__ = [
    "CARRY",
    "FLAGS",
    "HALF",
    "OVERFLOW",
    "SIGN",
    "TOP",
    "WORD",
    "ZERO",
    "carry_in",
    "flags_of_result",
    "flags_of_sum",
    "signed",
]

WORD = 0xFFFF_FFFF
"""Mask of a register's bits."""
HALF = 0xFFFF
"""Mask of a half register's bits."""
TOP = 0x8000_0000
"""A register's sign bit."""


def _flag(name: str) -> int:
    return 1 << Layout.cast(Flags)[name].offset


ZERO, SIGN, CARRY, OVERFLOW = (_flag(name) for name in ("zero", "sign", "carry", "overflow"))
FLAGS = ZERO | SIGN | CARRY | OVERFLOW
"""All four flags."""


def signed(value: int, bits: int = 32) -> int:
    """Interprets the low ``bits`` bits of ``value`` as a two's complement number."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value


def flags_of_result(result: int) -> int:
    """Returns CC of an instruction that does not add: zero and sign of its 32-bit result."""
    return (0 if result else ZERO) | (SIGN if result & TOP else 0)


def flags_of_sum(x: int, y: int, total: int, result: int) -> int:
    """Returns CC of ``total`` = x + y + carry in, all unsigned.

    ``result`` is the written word, which differs from ``total`` if saturated. A subtraction is x +
    ~y + 1 here, so that carry means no borrow.
    """
    return (
        flags_of_result(result)
        | (CARRY if total >> 32 else 0)
        | (OVERFLOW if (x ^ total) & (y ^ total) & TOP else 0)
    )


def carry_in(condition: int) -> int:
    """Returns CC's carry, which an extended (.X) instruction adds."""
    return 1 if condition & CARRY else 0
