"""Which threads' condition codes pass a test."""

from itertools import product
from typing import Any

from amaranth.hdl import Array, Cat, Const, Module, Value, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.isa.condition import TRUTH, Flags
from rtl.params import WARP_THREADS

__all__ = ["CONDITION_TABLES", "ConditionTable", "ConditionTest", "condition_table"]


class ConditionTable(data.Struct):
    """A test of CC. None reads both the sign and the carry, so that a table of the zero flag, the overflow flag and one
    of those two is enough."""

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
        What it would be for a thread whose flags are 0.
    """

    test: In(ConditionTable)
    flags: In(data.ArrayLayout(Flags, WARP_THREADS))
    passed: Out(WARP_THREADS)
    of_none: Out(1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        table, reads_carry = self.test.outcomes, self.test.reads_carry
        m.d.comb += self.of_none.eq(table[0])
        for thread, flags in enumerate(self.flags):
            third = (flags.carry & reads_carry) | (flags.sign & ~reads_carry)
            m.d.comb += self.passed[thread].eq(table.bit_select(Cat(flags.zero, third, flags.overflow), 1))
        return m


def _table(truth: int) -> tuple[bool, int]:
    """Whether a test reads the carry rather than the sign, and its outcome for {overflow, carry or sign, zero}."""
    def outcome(zero: int, sign: int, carry: int, overflow: int) -> int:
        return truth >> (zero | sign << 1 | carry << 2 | overflow << 3) & 1

    flags = list(product((0, 1), repeat=4))
    reads_carry = any(outcome(z, s, 0, o) != outcome(z, s, 1, o) for z, s, _, o in flags)
    reads_sign = any(outcome(z, 0, c, o) != outcome(z, 1, c, o) for z, _, c, o in flags)
    assert not (reads_carry and reads_sign), "a test reads both sign and carry"
    bits = sum(outcome(index & 1, index >> 1 & 1 & ~reads_carry, index >> 1 & 1 & reads_carry, index >> 2) << index
               for index in range(8))
    return reads_carry, bits


CONDITION_TABLES: tuple[int, ...] = tuple(reads_carry | bits << 1 for reads_carry, bits in map(_table, TRUTH))
"""The ConditionTable of each test, as a number."""


def condition_table(test: Any) -> Value:
    """That of a test whose code is a value of 5 bits."""
    return Array(Const(table, ConditionTable.as_shape().size) for table in CONDITION_TABLES)[test]
