"""The watchdog: expires when no warp has issued an instruction for long."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.layouts import TIMEOUT_BITS

__all__ = ["Watchdog"]


class Watchdog(wiring.Component):
    """Counts cycles in which nothing happens, up to ``1 << interval``, repeatedly.

    The count has 64 bits, as many as an interval can select, but only one of them is used, so it is
    not incremented in one cycle. The lowest six bits are a plain counter, ``low``. The others are
    incremented bit by bit, from the lowest one on, in the 64 cycles that ``low`` takes to wrap
    around: they are in a ring that rotates by one bit a cycle, so that in the cycle in which
    ``low`` is n the bit number n of the count leaves the ring, and re-enters it with its value for
    the next round.

    Members
    -------
    is_idle : In(1)
        Nothing happens in this cycle.
    interval : In(6)
        0: the watchdog is off (ours).
    expires : Out(1)
        For one cycle: after ``1 << interval`` idle cycles in a row; then it counts as many again.
    """

    is_idle: In(1)
    interval: In(TIMEOUT_BITS)
    expires: Out(1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        low = Signal(TIMEOUT_BITS)
        ring = Signal(1 << TIMEOUT_BITS)
        carry = Signal()
        chosen_bit = Signal()       # of the interval, with its value at the end of the round

        # The bit that leaves the ring, with 1 added to the bits above `low` in each round.
        is_lowest_of_ring = low == TIMEOUT_BITS
        carry_in = Mux(is_lowest_of_ring, 1, carry)
        next_bit = Mux(low < TIMEOUT_BITS, 0, ring[0] ^ carry_in)
        is_chosen = low == self.interval

        has_expired = Signal()
        with m.If(self.interval == 0):
            m.d.comb += has_expired.eq(0)
        with m.Elif(self.interval < TIMEOUT_BITS):
            m.d.comb += has_expired.eq(low.bit_select(self.interval[:3], 1))
        with m.Else():
            m.d.comb += has_expired.eq(chosen_bit & (low == 0))
        m.d.comb += self.expires.eq(has_expired & self.is_idle)

        with m.If(self.is_idle & ~has_expired):
            m.d.sync += low.eq(low + 1)
            m.d.sync += ring.eq(Cat(ring[1:], next_bit))
            m.d.sync += carry.eq(ring[0] & carry_in)
            with m.If(is_chosen):
                m.d.sync += chosen_bit.eq(next_bit)
            with m.Elif(low == 0):
                m.d.sync += chosen_bit.eq(0)
        with m.Else():
            m.d.sync += low.eq(0)
            m.d.sync += ring.eq(0)
            m.d.sync += carry.eq(0)
            m.d.sync += chosen_bit.eq(0)
        return m
