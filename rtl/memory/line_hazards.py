"""The hazard rule of the miss queue: which lines of memory may be under way at the same time."""

from typing import Any

from amaranth.hdl import Assert, Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.layouts import Event
from rtl.one_hot import one_hot
from rtl.params import LINE_ADDRESS_BITS, SmParams

from .instruction import memory_tag_bits

__all__ = ["COMPARED_BITS", "LineHazards", "NewLine"]

COMPARED_BITS = 16
"""Lower bits of a line's address that are compared: lines that are 4 MiB apart count as the same
one."""


class NewLine(data.Struct):
    """A line that waits for its tag."""

    line: unsigned(LINE_ADDRESS_BITS)
    """Its address."""
    write: unsigned(1)
    """It is to be written."""
    modify: unsigned(1)
    """It is to be read, modified and written."""


class LineHazards(Component):
    """Decides whether a line may get a tag while others are under way, and which write requests are
    held.

    Memory keeps no order between tags, so the order of two accesses to one line is kept here. The
    rule, for a new line with the address of a line under way:

    ================  ==========  ===================  ============  ================
    new line is to    the other   the other is         the other is  the other is
    be                is read     written, not held    held          modified
    ================  ==========  ===================  ============  ================
    read              tag         no tag               no tag        no tag
    written           no tag      tag, request *held*  no tag        no tag
    modified          no tag      no tag               no tag        no tag
    ================  ==========  ===================  ============  ================

    "No tag": the new line waits until the other one's tag is free. That is when the last word of a
    line that was read has passed the crossbar; else when memory has confirmed the write, or has
    reported a fault.
    "Held": it has its tag and is filled with words, but its write request waits.

    All held requests are released together, when memory has confirmed every write that some held
    line follows (``unconfirmed``). A held request at the head of the miss queue's request queue
    keeps all others back, reads too. Two more rules keep the writes that are followed ahead of all
    held ones, so that none of them waits behind a held request:

    - while any line is held, every new write is held as well, at any address;
    - a line that has the address of a held one gets no tag, even if both are only written.

    Timing: a line is compared in the first cycle in which it waits for a tag, and ``conflicts`` is
    known in the second one. A line that is only read does not need that while no line under way
    changes: it may have a tag in its first cycle.

    Members
    -------
    new : In(NewLine)
    is_waiting : In(1)
        There is one, and it will be there in the next cycle, too.
    used, confirmed : In(tags), In(tags)
        Tags of lines under way; of these, the line that ends in this cycle.
    allocate : In(Event(tag))
        The line gets that tag.
    may_allocate : Out(1)
        The line may have a tag.
    held : Out(tags)
        Lines whose write request has to wait.

    Attributes
    ----------
    lines, is_written, is_changed : list of Signal, Signal(tags), Signal(tags)
        By tag, of the line that had it last: the compared bits of its address; it is written; it is
        written or modified.
    unconfirmed : Signal(tags)
        Writes that held lines follow.
    """

    def __init__(self, params: SmParams) -> None:
        tags = 1 << memory_tag_bits(params)
        self.lines = [Signal(COMPARED_BITS, name=f"line_{tag}") for tag in range(tags)]
        self.is_written = Signal(tags)
        self.is_changed = Signal(tags)
        self.unconfirmed = Signal(tags)
        super().__init__({
            "new": In(NewLine),
            "is_waiting": In(1),
            "used": In(tags),
            "confirmed": In(tags),
            "allocate": In(Event(memory_tag_bits(params))),
            "may_allocate": Out(1),
            "held": Out(tags),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        new: Any = self.new
        tags = len(self.used)
        allocated = one_hot(self.allocate.payload, tags, self.allocate.valid)
        matches = Signal(tags)
        compared = new.line[:COMPARED_BITS]
        has_same_address = Cat(line == compared for line in self.lines)
        m.d.comb += matches.eq(self.used & ~self.confirmed & has_same_address)
        self._allow(m, matches)
        self._hold(m, matches, allocated)
        for tag, line in enumerate(self.lines):
            with m.If(allocated[tag]):
                m.d.sync += line.eq(compared)
                m.d.sync += self.is_written[tag].eq(new.write)
                m.d.sync += self.is_changed[tag].eq(new.write | new.modify)
        return m

    def _allow(self, m: Module, matches: Signal) -> None:
        """Whether the line may have a tag."""
        new: Any = self.new
        excluded = Signal.like(self.used)
        with m.If(new.write):
            m.d.comb += excluded.eq(~(self.is_written & ~self.held))
        with m.Elif(new.modify):
            m.d.comb += excluded.eq(~0)
        with m.Else():
            m.d.comb += excluded.eq(self.is_changed)

        conflicts_now = Signal()
        conflicts = Signal()
        is_compared = Signal()
        m.d.comb += conflicts_now.eq((matches & excluded).any())
        m.d.sync += conflicts.eq(conflicts_now)
        m.d.sync += is_compared.eq(self.is_waiting)

        # Nothing has to be compared while all lines under way, this one included, are only read.
        changes = new.write | new.modify
        others_change = Signal()
        m.d.sync += others_change.eq(
            (self.used & self.is_changed).any() | (self.allocate.valid & changes))
        only_reads = ~(changes | others_change)
        m.d.comb += self.may_allocate.eq(only_reads | (is_compared & ~conflicts))
        m.d.sync += Assert(
            ~(self.allocate.valid & conflicts_now), "a line gets a tag in spite of a hazard")

    def _hold(self, m: Module, matches: Signal, allocated: Value) -> None:
        """Which requests are held. The lines that a new write follows are known in its second
        cycle, the first in which it may get a tag."""
        is_write = self.new.write
        followed = Signal.like(matches)
        m.d.sync += followed.eq(matches)
        is_held = (followed | self.held).any() & is_write
        still_held = Mux(self.unconfirmed.any(), self.held, 0)
        m.d.sync += self.held.eq(still_held | Mux(is_held, allocated, 0))
        gets_tag = self.allocate.valid & is_write
        m.d.sync += self.unconfirmed.eq(
            (self.unconfirmed | Mux(gets_tag, followed, 0)) & ~self.confirmed)
