"""The reference counters that throttle CTAs."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.qmd import QMD
from rtl.isa.registers import REFERENCE_COUNTERS
from rtl.layouts import REFERENCE_BITS, ReferenceAccess
from rtl.sweep import Sweep
from rtl.words import Words

__all__ = ["ReferenceCounters"]

_MOST = (1 << REFERENCE_BITS) - 1


class ReferenceCounters(Component):
    """One grid adds to a counter and takes from it; the host reads and sets all of them. After a reset they become 0,
    one after the other; until that is over they read as 0, none allows anything, and what the host sets waits.

    Members
    -------
    number, delta : In, In
        The grid's counter, and how much a CTA counts.
    allows : Out(1)
        The counter can take the delta; else a CTA has to wait.
    add, take : In(1), In(1)
        A CTA starts, or is over. What would be below 0 is 0.
    host : In(ReferenceAccess)
    """

    def __init__(self) -> None:
        delta = QMD["CWD_REFERENCE_COUNT_DELTA_MINUS_ONE"].width + 1
        super().__init__({
            "number": In(range(REFERENCE_COUNTERS)), "delta": In(delta), "allows": Out(1), "add": In(1), "take": In(1),
            "host": In(ReferenceAccess())})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.sweep = sweep = Sweep(REFERENCE_COUNTERS)
        m.submodules.counts = counts = Words(REFERENCE_BITS, REFERENCE_COUNTERS, sweep)
        access = self.host
        own, held = counts.read(m, self.number), counts.read(m, access.number)
        pending, place, value = Signal(), Signal.like(access.number), Signal.like(access.value)
        more, less = Signal(REFERENCE_BITS + 1), Signal(REFERENCE_BITS + 1)
        changes = self.add ^ self.take
        counts.write(m, (changes | pending) & ~sweep.active, Mux(changes, self.number, place),
                     Mux(changes, Mux(self.add, more, less), value))
        m.d.comb += [
            access.count.eq(Mux(sweep.active, 0, held)), more.eq(own + self.delta),
            self.allows.eq((more <= _MOST) & ~sweep.active), less.eq(Mux(own > self.delta, own - self.delta, 0))]
        with m.If(~changes & ~sweep.active):
            m.d.sync += pending.eq(0)
        with m.If(access.set):
            m.d.sync += [pending.eq(1), place.eq(access.number), value.eq(access.value)]
        return m
