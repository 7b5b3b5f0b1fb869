"""The reference counters, which limit how many CTAs run at a time."""

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

_LARGEST_COUNT = (1 << REFERENCE_BITS) - 1
_Write = data.StructLayout({"number": range(REFERENCE_COUNTERS), "value": REFERENCE_BITS})
"""The number of a counter, and the value that is written to it."""
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
    """Counters in LUT memory. The grid adds to one of them and subtracts from it; the host reads
    and sets all of them.

    The sweep after a reset writes 0 to all counters. During the sweep every counter reads as 0,
    ``allows`` is 0, and a value that the host sets is pending.

    Simultaneous requests: ``add`` and ``take`` in one cycle cancel each other, since both have the
    same delta. A value that the host sets is pending in a register, and is written in the first
    cycle after that without a change by the grid. If the host sets another value before that cycle,
    the pending one is lost, whichever counter it was for.

    Members
    -------
    number, delta : In, In
        The grid's counter, and how much a CTA adds or subtracts.
    allows : Out(1)
        The sum of counter and delta is at most 65,535; otherwise no CTA may start.
    add, take : In(1), In(1)
        A CTA starts: the counter is increased. A CTA is finished: the counter is decreased, to 0
        at least. The new value is read from the next cycle on.
    host : In(ReferenceAccess)
        ``count`` is valid in the cycle of ``number``.
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
        m.d.comb += self.allows.eq((increased <= _LARGEST_COUNT) & ~sweep.active)
        with m.If(~sweep.active):
            m.d.comb += host.count.eq(host_count)

        host_write_is_pending = Signal()
        """The value in ``host_write`` is not written yet."""
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
    """Counters in block RAM, with one read port for the grid and the host. The host has priority:
    the grid's counter is read in every cycle in which ``host.read`` is 0. ``add`` and ``take`` are
    pending until the counter was read; then they are performed one at a time, ``add`` first.

    ``allows`` is 1 only in a cycle in which the grid's counter was just read and nothing is
    pending; it can become 0 and 1 again while the counter does not change.

    The sweep and the host's values are handled as in ReferenceCounters, but no change by the grid
    is performed in the cycle after ``host.set``: after the sweep no value of the host is lost.
    ``add`` and ``take`` in one cycle do not cancel each other.

    Members
    -------
    number .. allows
        See ReferenceCounters.
    add, take : In(1), In(1)
        See ReferenceCounters. No ``add`` while another one is pending; as many as there are warps
        of ``take`` can be pending.
    host : In(ReferenceAccess)
        ``count`` is valid in the cycle after ``read``.
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
        """The read port has the grid's counter, and no write was made since its address."""
        add_is_pending = Signal()
        pending_takes = Signal(range(self._warps + 1))
        takes = pending_takes.any() & ~add_is_pending
        changes = Signal()
        m.d.comb += changes.eq(is_known & (add_is_pending | takes))
        m.d.sync += add_is_pending.eq(self.add | (add_is_pending & ~changes))
        m.d.sync += pending_takes.eq(pending_takes + self.take - (changes & takes))
        add_is_lost = add_is_pending & self.add & ~changes
        m.d.sync += Assert(~add_is_lost, "a CTA starts while the add of another one is pending")

        # One adder. To subtract, it adds the complement of the delta plus 1; a carry then means
        # that the result is not below 0.
        sum_ = Signal(REFERENCE_BITS + 1)
        m.d.comb += sum_.eq(port.data + (self.delta ^ takes.replicate(REFERENCE_BITS)) + takes)
        has_carry = sum_[-1]
        m.d.comb += self.allows.eq(is_known & ~add_is_pending & ~takes & ~has_carry)

        # The read port: the host has priority.
        with m.If(host.read):
            m.d.comb += port.addr.eq(host.number)
        with m.Else():
            m.d.comb += port.addr.eq(self.number)
        m.d.sync += is_known.eq(~host.read & ~writes & ~host.set & ~sweep.active)
        with m.If(~sweep.active):
            m.d.comb += host.count.eq(port.data)

        host_write_is_pending = Signal()
        """The value in ``host_write`` is not written yet."""
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
