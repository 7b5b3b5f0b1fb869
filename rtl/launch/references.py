"""The reference counters that throttle CTAs."""

from typing import Any

from amaranth.hdl import Assert, Module, Mux, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.qmd import QMD
from rtl.isa.registers import REFERENCE_COUNTERS
from rtl.layouts import REFERENCE_BITS, ReferenceAccess
from rtl.params import SmParams
from rtl.structs import struct_value
from rtl.sweep import Sweep
from rtl.wires import IN_BLOCKS
from rtl.words import Words

__all__ = ["ReferenceCounters", "SlowReferenceCounters"]

_MOST = (1 << REFERENCE_BITS) - 1
_Write = data.StructLayout({"number": range(REFERENCE_COUNTERS), "value": REFERENCE_BITS})
"""A counter, and what is written to it."""
_DELTA_BITS = QMD["CWD_REFERENCE_COUNT_DELTA_MINUS_ONE"].width + 1
_PORTS = {
    "number": In(range(REFERENCE_COUNTERS)),
    "delta": In(_DELTA_BITS),
    "allows": Out(1),
    "add": In(1),
    "take": In(1),
    "host": In(ReferenceAccess()),
}


class ReferenceCounters(Component):
    """One grid adds to a counter and takes from it; the host reads and sets all of them. After a
    reset they become 0, one after the other; until that is over they read as 0, none allows
    anything, and what the host sets waits.

    Two that come at once: a CTA that starts and one that is over cancel each other, since both
    count the same delta. What the host sets waits in a register for a cycle without a change by the
    grid.

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
        super().__init__(_PORTS)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.sweep = sweep = Sweep(REFERENCE_COUNTERS)
        m.submodules.counts = counts = Words(REFERENCE_BITS, REFERENCE_COUNTERS, sweep)
        host = self.host
        grid_count = counts.read(m, self.number)
        host_count = counts.read(m, host.number)
        increased = Signal(REFERENCE_BITS + 1)
        decreased = Signal(REFERENCE_BITS + 1)
        m.d.comb += increased.eq(grid_count + self.delta)
        with m.If(grid_count > self.delta):
            m.d.comb += decreased.eq(grid_count - self.delta)
        m.d.comb += self.allows.eq((increased <= _MOST) & ~sweep.active)
        with m.If(~sweep.active):
            m.d.comb += host.count.eq(host_count)

        host_write_is_pending = Signal()
        """What the host sets is not written yet."""
        host_write = Signal(_Write)
        changes = self.add ^ self.take
        with m.If(host.set):
            m.d.sync += host_write_is_pending.eq(1)
            m.d.sync += host_write.eq(
                struct_value(_Write, number=host.number, value=host.value))
        with m.Elif(~changes & ~sweep.active):
            m.d.sync += host_write_is_pending.eq(0)

        written: Any = Signal(_Write)
        grid_value = Mux(self.add, increased, decreased)
        with m.If(changes):
            m.d.comb += written.eq(struct_value(_Write, number=self.number, value=grid_value))
        with m.Else():
            m.d.comb += written.eq(host_write)
        is_written = (changes | host_write_is_pending) & ~sweep.active
        counts.write(m, is_written, written.number, written.value)
        return m


class SlowReferenceCounters(Component):
    """The same in block RAM, which is read for the grid whenever the host does not read it. What
    CTAs add and take is pending until then.

    Members
    -------
    number .. host
        As of ReferenceCounters. What a CTA takes waits for what others have taken before.
    """

    def __init__(self, params: SmParams) -> None:
        self._warps = params.warps
        super().__init__(_PORTS)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.sweep = sweep = Sweep(REFERENCE_COUNTERS)
        m.submodules.counts = counts = Words(
            REFERENCE_BITS, REFERENCE_COUNTERS, sweep, **IN_BLOCKS)
        host = self.host
        port = counts.read_port()
        writes = Signal()
        is_known = Signal()
        """What was read is the grid's counter."""
        add_is_pending = Signal()
        pending_takes = Signal(range(self._warps + 1))
        takes = pending_takes.any() & ~add_is_pending
        changes = Signal()
        m.d.comb += changes.eq(is_known & (add_is_pending | takes))
        m.d.sync += add_is_pending.eq(self.add | (add_is_pending & ~changes))
        m.d.sync += pending_takes.eq(pending_takes + self.take - (changes & takes))
        add_is_lost = add_is_pending & self.add & ~changes
        m.d.sync += Assert(~add_is_lost, "a CTA starts while the add of another one is pending")

        # Adds; to take it adds the complement, so that a carry means that enough was there.
        sum_ = Signal(REFERENCE_BITS + 1)
        m.d.comb += sum_.eq(port.data + (self.delta ^ takes.replicate(REFERENCE_BITS)) + takes)
        has_carry = sum_[-1]
        m.d.comb += self.allows.eq(is_known & ~add_is_pending & ~takes & ~has_carry)

        # Reading: the host goes first.
        with m.If(host.read):
            m.d.comb += port.addr.eq(host.number)
        with m.Else():
            m.d.comb += port.addr.eq(self.number)
        m.d.sync += is_known.eq(~host.read & ~writes & ~host.set & ~sweep.active)
        with m.If(~sweep.active):
            m.d.comb += host.count.eq(port.data)

        host_write_is_pending = Signal()
        """What the host sets is not written yet."""
        host_write = Signal(_Write)
        with m.If(host.set):
            m.d.sync += host_write_is_pending.eq(1)
            m.d.sync += host_write.eq(
                struct_value(_Write, number=host.number, value=host.value))
        with m.Elif(~changes & ~sweep.active):
            m.d.sync += host_write_is_pending.eq(0)

        written: Any = Signal(_Write)
        grid_value = Mux(~takes | has_carry, sum_, 0)
        with m.If(changes):
            m.d.comb += written.eq(struct_value(_Write, number=self.number, value=grid_value))
        with m.Else():
            m.d.comb += written.eq(host_write)
        m.d.comb += writes.eq((changes | host_write_is_pending) & ~sweep.active)
        counts.write(m, writes, written.number, written.value)
        return m
