"""The condition code CC and its 32 tests.

CC is four flags a thread. A test is a Boolean function of them; it is kept here as a table of 16
bits, one for each value of CC, from which the model computes and the hardware builds its lookup.
"""

from collections.abc import Callable

from amaranth.hdl import unsigned
from amaranth.lib import data, enum

__all__ = ["TEST_TEXTS", "TRUTH", "ConditionCode", "Flags", "holds"]


class Flags(data.Struct):
    """The condition code of one thread."""

    zero: unsigned(1)
    """The result was zero."""
    sign: unsigned(1)
    """The result's most significant bit."""
    carry: unsigned(1)
    """Carry out; of a subtraction, no borrow."""
    overflow: unsigned(1)
    """Signed overflow."""


class ConditionCode(enum.Enum, shape=5):
    """Names of the tests, as the instruction set spells them."""

    F = 0x00
    LT = 0x01
    EQ = 0x02
    LE = 0x03
    GT = 0x04
    NE = 0x05
    GE = 0x06
    NUM = 0x07
    NAN = 0x08
    LTU = 0x09
    EQU = 0x0A
    LEU = 0x0B
    GTU = 0x0C
    NEU = 0x0D
    GEU = 0x0E
    T = 0x0F
    OFF = 0x10
    LO = 0x11
    SFF = 0x12
    LS = 0x13
    HI = 0x14
    SFT = 0x15
    HS = 0x16
    OFT = 0x17
    CSM_TA = 0x18
    CSM_TR = 0x19
    CSM_MX = 0x1A
    FCSM_TA = 0x1B
    FCSM_TR = 0x1C
    FCSM_MX = 0x1D
    RLE = 0x1E
    RGT = 0x1F


_FORMULAS: dict[ConditionCode, Callable[[int, int, int, int], int]] = {
    ConditionCode.F: lambda z, s, c, o: 0,
    ConditionCode.LT: lambda z, s, c, o: (s & ~z) ^ o,
    ConditionCode.EQ: lambda z, s, c, o: z & ~s,
    ConditionCode.LE: lambda z, s, c, o: s ^ (z | o),
    ConditionCode.GT: lambda z, s, c, o: ~z & ~(s ^ o),
    ConditionCode.NE: lambda z, s, c, o: ~z,
    ConditionCode.GE: lambda z, s, c, o: ~(s ^ o),
    ConditionCode.NUM: lambda z, s, c, o: ~z | ~s,
    ConditionCode.NAN: lambda z, s, c, o: z & s,
    ConditionCode.LTU: lambda z, s, c, o: s ^ o,
    ConditionCode.EQU: lambda z, s, c, o: z,
    ConditionCode.LEU: lambda z, s, c, o: z | (s ^ o),
    ConditionCode.GTU: lambda z, s, c, o: ~s ^ (z | o),
    ConditionCode.NEU: lambda z, s, c, o: ~z | s,
    ConditionCode.GEU: lambda z, s, c, o: (~s | z) ^ o,
    ConditionCode.T: lambda z, s, c, o: 1,
    ConditionCode.OFF: lambda z, s, c, o: ~o,
    ConditionCode.LO: lambda z, s, c, o: ~c,
    ConditionCode.SFF: lambda z, s, c, o: ~s,
    ConditionCode.LS: lambda z, s, c, o: z | ~c,
    ConditionCode.HI: lambda z, s, c, o: ~z & c,
    ConditionCode.SFT: lambda z, s, c, o: s,
    ConditionCode.HS: lambda z, s, c, o: c,
    ConditionCode.OFT: lambda z, s, c, o: o,
    # Tests of the graphics clip state, which a compute machine does not have: never true (ours).
    ConditionCode.CSM_TA: lambda z, s, c, o: 0,
    ConditionCode.CSM_TR: lambda z, s, c, o: 0,
    ConditionCode.CSM_MX: lambda z, s, c, o: 0,
    ConditionCode.FCSM_TA: lambda z, s, c, o: 0,
    ConditionCode.FCSM_TR: lambda z, s, c, o: 0,
    ConditionCode.FCSM_MX: lambda z, s, c, o: 0,
    ConditionCode.RLE: lambda z, s, c, o: s | z,
    ConditionCode.RGT: lambda z, s, c, o: ~s & ~z,
}


def _truth(formula: Callable[[int, int, int, int], int]) -> int:
    table = 0
    for cc in range(16):
        zero, sign = cc & 1, cc >> 1 & 1
        carry, overflow = cc >> 2 & 1, cc >> 3 & 1
        holds_here = formula(zero, sign, carry, overflow) & 1
        table |= holds_here << cc
    return table


TRUTH: tuple[int, ...] = tuple(_truth(_FORMULAS[code]) for code in ConditionCode)
"""For each test, by its code: bit ``cc`` is 1 if it holds of the flags ``cc`` (laid out as
Flags)."""

TEST_TEXTS: dict[int, str] = {code.value: code.name for code in ConditionCode}
"""Spelling of the tests, by their code."""


def holds(test: int, cc: int) -> bool:
    """Whether ``test`` holds of the four flags in ``cc``."""
    return bool(TRUTH[test] >> cc & 1)
