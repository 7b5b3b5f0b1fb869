"""Which threads' condition codes pass a test."""

from itertools import product
from typing import Any, NamedTuple

from amaranth.hdl import Array, Cat, Const, Module, Value, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.isa.condition import TRUTH, Flags
from rtl.params import WARP_THREADS

__all__ = ["CONDITION_TABLES", "ConditionTable", "ConditionTest", "condition_table"]


class ConditionTable(data.Struct):
    """A test of CC. No test depends on both sign and carry, so that a table with three inputs is
    enough: zero, overflow, and one of these two."""

    reads_carry: unsigned(1)
    outcomes: unsigned(8)
    """By {overflow, carry or sign, zero}."""


class ConditionTest(wiring.Component):
    """Applies a test to each thread's flags; combinational.

    Members
    -------
    test : In(ConditionTable)
    flags : In(array of 32 Flags)
    passed : Out(32)
    of_none : Out(1)
        The outcome for a thread whose flags are 0.
    """

    test: In(ConditionTable)
    flags: In(data.ArrayLayout(Flags, WARP_THREADS))
    passed: Out(WARP_THREADS)
    of_none: Out(1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        outcomes = self.test.outcomes
        reads_carry = self.test.reads_carry
        m.d.comb += self.of_none.eq(outcomes[0])
        for thread, flags in enumerate(self.flags):
            carry_or_sign = (flags.carry & reads_carry) | (flags.sign & ~reads_carry)
            index = Cat(flags.zero, carry_or_sign, flags.overflow)
            m.d.comb += self.passed[thread].eq(outcomes.bit_select(index, 1))
        return m


class _Flags(NamedTuple):
    """A value of CC."""

    zero: int
    sign: int
    carry: int
    overflow: int


def _outcome(truth: int, flags: _Flags) -> int:
    """A test's outcome, by its truth table of all four flags."""
    index = flags.zero | flags.sign << 1 | flags.carry << 2 | flags.overflow << 3
    return truth >> index & 1


def _reads(truth: int, name: str) -> bool:
    """Whether a test's outcome depends on a flag."""
    values = [_Flags(*bits) for bits in product((0, 1), repeat=4)]
    return any(
        _outcome(truth, flags._replace(**{name: 0})) != _outcome(truth, flags._replace(**{name: 1}))
        for flags in values)


def _table(truth: int) -> int:
    """The ConditionTable of a test, as a number."""
    reads_carry = _reads(truth, "carry")
    assert not (reads_carry and _reads(truth, "sign")), "a test reads both sign and carry"
    outcomes = 0
    for overflow, third, zero in product((0, 1), repeat=3):
        if reads_carry:
            flags = _Flags(zero, 0, third, overflow)
        else:
            flags = _Flags(zero, third, 0, overflow)
        outcomes |= _outcome(truth, flags) << (zero | third << 1 | overflow << 2)
    return ConditionTable.const({"reads_carry": reads_carry, "outcomes": outcomes}).as_bits()


CONDITION_TABLES: tuple[int, ...] = tuple(_table(truth) for truth in TRUTH)
"""The ConditionTable of each test, as a number."""


def condition_table(test: Any) -> Value:
    """The ConditionTable of a test whose code is a hardware value of 5 bits."""
    width = ConditionTable.as_shape().size
    return Array(Const(table, width) for table in CONDITION_TABLES)[test]
