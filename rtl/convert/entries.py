"""The instructions in the conversion unit, in order: a ring of four entries."""

from typing import Any

from amaranth.hdl import Assert, Module, Signal, unsigned
from amaranth.lib import data, memory, stream
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.layouts import Event
from rtl.params import SmParams

from .instruction import ENTRY_BITS, conversion_entry

__all__ = ["EntryTable", "allocated_entry", "pending_entry"]

_ENTRIES = 1 << ENTRY_BITS


def allocated_entry(params: SmParams) -> data.StructLayout:
    """An instruction that gets an entry.

    Fields
    ------
    instruction : conversion_entry
    writes_nothing : 1
        It only completes, with an error or without.
    needs_gather : 1
        It cannot be computed before registers were gathered for it.
    """
    return data.StructLayout({
        "instruction": conversion_entry(params),
        "writes_nothing": 1,
        "needs_gather": 1,
    })


def pending_entry(params: SmParams) -> data.StructLayout:
    """An instruction that is next in one of the steps, and the number of its entry."""
    return data.StructLayout({
        "number": ENTRY_BITS,
        "instruction": conversion_entry(params),
        "writes_nothing": 1,
    })


class EntryTable(Component):
    """Holds instructions from gather to write. Every step serves them in order, with a pointer of
    its own::

        oldest          next to write    next to compute       next to allocate
          v                  v                  v                     v
          | results are read | results are made | sources are gathered | free ...

    An entry has sources when the first beat of them has come, or at once if it needs none: the
    compute step reads no beat before it is there. It has results when so many of them are in the
    result buffer that a write may begin.

    Members
    -------
    has_room : Out(1)
    next_number : Out(ENTRY_BITS)
        Number of the entry that is allocated next.
    allocate : In(Event(allocated_entry))
        Only if there is room.
    has_sources, has_results : In(Event(ENTRY_BITS)), In(Event(ENTRY_BITS))
        From now on that entry does.
    compute : Out(stream of pending_entry)
        The next instruction to compute. One that writes nothing has results as soon as it is taken.
    write : Out(stream of pending_entry)
        The next instruction whose results are to be written.
    oldest : Out(ENTRY_BITS)
        The oldest entry in use.
    release : In(1)
        It is free again: the last of its results is being read, or it has none.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        entry = stream.Signature(pending_entry(params))
        super().__init__({
            "has_room": Out(1),
            "next_number": Out(ENTRY_BITS),
            "allocate": In(Event(allocated_entry(params))),
            "has_sources": In(Event(ENTRY_BITS)),
            "has_results": In(Event(ENTRY_BITS)),
            "compute": Out(entry),
            "write": Out(entry),
            "oldest": Out(ENTRY_BITS),
            "release": In(1),
        })
        # Instructions that have entered each step, modulo twice the number of entries.
        self._allocated = Signal(ENTRY_BITS + 1, name="allocated")
        self._computed = Signal(ENTRY_BITS + 1, name="computed")
        self._written = Signal(ENTRY_BITS + 1, name="written")
        self._released = Signal(ENTRY_BITS + 1, name="released")
        flags = data.ArrayLayout(unsigned(1), _ENTRIES)
        self._writes_nothing = Signal(flags, name="writes_nothing")
        self._sources_ready = Signal(flags, name="sources_ready")
        self._results_ready = Signal(flags, name="results_ready")

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.instructions = instructions = memory.Memory(
            shape=conversion_entry(self._params), depth=_ENTRIES, init=[])
        self._allocate(m, instructions.write_port())
        self._offer(m, self.compute, self._computed, self._sources_ready,
                    instructions.read_port(domain="comb"))
        self._offer(m, self.write, self._written, self._results_ready,
                    instructions.read_port(domain="comb"))
        self._advance(m)
        return m

    def _allocate(self, m: Module, port: Any) -> None:
        """Writes an instruction to the next entry."""
        number = self.next_number
        arriving = self.allocate.payload
        m.d.comb += number.eq(self._allocated[:ENTRY_BITS])
        m.d.comb += self.has_room.eq(self._in_use() != _ENTRIES)
        m.d.comb += port.en.eq(self.allocate.valid)
        m.d.comb += port.addr.eq(number)
        m.d.comb += port.data.eq(arriving.instruction)
        with m.If(self.allocate.valid):
            m.d.sync += self._allocated.eq(self._allocated + 1)
            m.d.sync += self._writes_nothing[number].eq(arriving.writes_nothing)
        m.d.sync += Assert(~self.allocate.valid | self.has_room, "no entry is free")

    def _in_use(self) -> Any:
        """How many entries are in use."""
        return (self._allocated - self._released)[:ENTRY_BITS + 1]

    def _offer(self, m: Module, offered: Any, pointer: Signal, ready: Any, port: Any) -> None:
        """Offers the next instruction to a step, if the step before it has made it ready."""
        number = offered.payload.number
        m.d.comb += number.eq(pointer[:ENTRY_BITS])
        m.d.comb += port.addr.eq(number)
        m.d.comb += offered.valid.eq((pointer != self._allocated) & ready[number])
        m.d.comb += offered.payload.instruction.eq(port.data)
        m.d.comb += offered.payload.writes_nothing.eq(self._writes_nothing[number])
        with m.If(offered.valid & offered.ready):
            m.d.sync += pointer.eq(pointer + 1)

    def _advance(self, m: Module) -> None:
        """What is ready for the next step. The flags of an entry are set anew when it is allocated;
        what makes it ready in the same cycle counts."""
        with m.If(self.allocate.valid):
            needs_gather = self.allocate.payload.needs_gather
            m.d.sync += self._sources_ready[self.next_number].eq(~needs_gather)
            m.d.sync += self._results_ready[self.next_number].eq(0)
        with m.If(self.has_sources.valid):
            m.d.sync += self._sources_ready[self.has_sources.payload].eq(1)
        compute = self.compute
        with m.If(compute.valid & compute.ready & compute.payload.writes_nothing):
            m.d.sync += self._results_ready[compute.payload.number].eq(1)
        with m.If(self.has_results.valid):
            m.d.sync += self._results_ready[self.has_results.payload].eq(1)
        m.d.comb += self.oldest.eq(self._released[:ENTRY_BITS])
        m.d.sync += self._released.eq(self._released + self.release)
        m.d.sync += Assert(~self.release | (self._in_use() != 0), "no entry is in use")
