"""32-bit arithmetic on Python integers: wrapping, signs, and CC, one number laid out as
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
"""All bits of a register."""
HALF = 0xFFFF
"""All bits of half a register."""
TOP = 0x8000_0000
"""A register's sign bit."""


def _flag(name: str) -> int:
    return 1 << Layout.cast(Flags)[name].offset


ZERO, SIGN, CARRY, OVERFLOW = (_flag(name) for name in ("zero", "sign", "carry", "overflow"))
FLAGS = ZERO | SIGN | CARRY | OVERFLOW
"""All four flags."""


def signed(value: int, bits: int = 32) -> int:
    """The two's complement number in the low ``bits`` bits of ``value``."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value


def flags_of_result(result: int) -> int:
    """CC of an instruction that does not add: zero and sign of its 32-bit result, no carry, no overflow."""
    return (0 if result else ZERO) | (SIGN if result & TOP else 0)


def flags_of_sum(x: int, y: int, total: int, result: int) -> int:
    """CC of ``total`` = x + y + carry in, all unsigned; ``result`` is what is written (the same unless saturated).

    A subtraction is x + ~y + 1 here, and so its carry means that nothing was borrowed.
    """
    return (
        flags_of_result(result)
        | (CARRY if total >> 32 else 0)
        | (OVERFLOW if (x ^ total) & (y ^ total) & TOP else 0)
    )


def carry_in(condition: int) -> int:
    """What an extended (.X) instruction adds: CC's carry."""
    return 1 if condition & CARRY else 0
