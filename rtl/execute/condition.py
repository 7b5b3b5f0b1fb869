"""Which threads' condition codes pass a test."""

from itertools import product

from amaranth.hdl import Array, Cat, Const, Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.isa.condition import TRUTH, Flags
from rtl.params import WARP_THREADS

__all__ = ["ConditionTest"]


class ConditionTest(wiring.Component):
    """The test's truth table is looked up once and applied to each thread's flags; combinational.

    No test reads both the sign and the carry, so that a table of the zero flag, the overflow flag and one of
    those two is enough.

    Members
    -------
    test : In(5)
    flags : In(array of 32 Flags)
    passed : Out(32)
    of_none : Out(1)
        What it would be for a thread whose flags are 0.
    """

    test: In(5)
    flags: In(data.ArrayLayout(Flags, WARP_THREADS))
    passed: Out(WARP_THREADS)
    of_none: Out(1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        tables = [_table(truth) for truth in TRUTH]
        reads_carry, table = Signal(), Signal(8)
        m.d.comb += [
            reads_carry.eq(Array(Const(carry, 1) for carry, _ in tables)[self.test]),
            table.eq(Array(Const(bits, 8) for _, bits in tables)[self.test]), self.of_none.eq(table[0])]
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
