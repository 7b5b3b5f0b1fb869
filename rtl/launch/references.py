"""The reference counters that throttle CTAs."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.qmd import QMD
from rtl.isa.registers import REFERENCE_COUNTERS
from rtl.layouts import REFERENCE_BITS, ReferenceAccess
from rtl.params import SmParams
from rtl.sweep import Sweep
from rtl.wires import IN_BLOCKS
from rtl.words import Words

__all__ = ["ReferenceCounters", "SlowReferenceCounters"]

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


class SlowReferenceCounters(Component):
    """The same in block RAM, which is read for the grid whenever the host does not read it. What CTAs add and take is
    owed until then.

    Members
    -------
    number .. host
        As of ReferenceCounters. A CTA that takes is owed for as long as others that did so before.
    """

    def __init__(self, params: SmParams) -> None:
        delta = QMD["CWD_REFERENCE_COUNT_DELTA_MINUS_ONE"].width + 1
        self._warps = params.warps
        super().__init__({
            "number": In(range(REFERENCE_COUNTERS)), "delta": In(delta), "allows": Out(1), "add": In(1), "take": In(1),
            "host": In(ReferenceAccess())})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        access = self.host
        m.submodules.sweep = sweep = Sweep(REFERENCE_COUNTERS)
        m.submodules.counts = counts = Words(REFERENCE_BITS, REFERENCE_COUNTERS, sweep, **IN_BLOCKS)
        read, writes = counts.read_port(), Signal()
        adds, takes, known, changes = Signal(), Signal(range(self._warps + 1)), Signal(), Signal()
        place, value, sets = Signal.like(access.number), Signal.like(access.value), Signal()
        # Adds, or takes if that is all that is owed: adds the complement, so that a carry means that enough was there.
        less = takes.any() & ~adds
        sum_ = Signal(REFERENCE_BITS + 1)
        counts.write(m, writes, Mux(changes, self.number, place),
                     Mux(changes, Mux(less & ~sum_[-1], 0, sum_[:-1]), value))
        m.d.comb += [
            writes.eq((changes | sets) & ~sweep.active),
            read.addr.eq(Mux(access.read, access.number, self.number)),
            access.count.eq(Mux(sweep.active, 0, read.data)),
            sum_.eq(read.data + (self.delta ^ less.replicate(REFERENCE_BITS)) + less),
            changes.eq(known & (adds | less)), self.allows.eq(known & ~adds & ~less & ~sum_[-1])]
        m.d.sync += [
            known.eq(~access.read & ~writes & ~access.set & ~sweep.active), adds.eq(self.add | adds & ~changes),
            takes.eq(takes + self.take - (changes & less))]
        with m.If(~changes & ~sweep.active):
            m.d.sync += sets.eq(0)
        with m.If(access.set):
            m.d.sync += [sets.eq(1), place.eq(access.number), value.eq(access.value)]
        return m
