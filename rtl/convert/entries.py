"""The instructions in the conversion unit, in order: a ring of four entries."""

from typing import Any

from amaranth.hdl import Assert, Module, Signal, unsigned
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.layouts import Event
from rtl.params import SmParams
from rtl.structs import struct_value

from .buffers import source_beat
from .instruction import ENTRY_BITS, conversion_entry

__all__ = ["Allocation", "EntryTable", "Release", "allocated_entry", "pending_entry"]

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


class Allocation(wiring.Signature):
    """Gather to the table: an instruction gets an entry.

    Members
    -------
    request : Out(stream of allocated_entry)
        Taken while an entry is free.
    number : In(ENTRY_BITS)
        The entry that it gets.
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "request": Out(stream.Signature(allocated_entry(params))),
            "number": In(ENTRY_BITS),
        })


class Release(wiring.Signature):
    """Write to the table: the oldest entry is freed.

    Members
    -------
    oldest : In(ENTRY_BITS)
        The oldest entry in use.
    frees : Out(1)
        It is free again: the last of its results is being read, or it has none.
    """

    def __init__(self) -> None:
        super().__init__({"oldest": In(ENTRY_BITS), "frees": Out(1)})


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
    allocate : In(Allocation)
    sources : In(Event(source_beat))
        A beat of sources, whose entry has sources from now on.
    has_results : In(Event(ENTRY_BITS))
        From now on that entry does.
    compute : Out(stream of pending_entry)
        The next instruction to compute. One that writes nothing has results as soon as it is taken.
    write : Out(stream of pending_entry)
        The next instruction whose results are to be written.
    release : In(Release)
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        entry = stream.Signature(pending_entry(params))
        super().__init__({
            "allocate": In(Allocation(params)),
            "sources": In(Event(source_beat(params))),
            "has_results": In(Event(ENTRY_BITS)),
            "compute": Out(entry),
            "write": Out(entry),
            "release": In(Release()),
        })
        self._is_allocated = Signal(name="is_allocated")
        """An instruction gets an entry in this cycle."""
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
        request = self.allocate.request
        number = self.allocate.number
        m.d.comb += number.eq(self._allocated[:ENTRY_BITS])
        m.d.comb += request.ready.eq(self._in_use() != _ENTRIES)
        m.d.comb += self._is_allocated.eq(request.valid & request.ready)
        m.d.comb += port.en.eq(self._is_allocated)
        m.d.comb += port.addr.eq(number)
        m.d.comb += port.data.eq(request.payload.instruction)
        with m.If(self._is_allocated):
            m.d.sync += self._allocated.eq(self._allocated + 1)
            m.d.sync += self._writes_nothing[number].eq(request.payload.writes_nothing)

    def _in_use(self) -> Any:
        """How many entries are in use."""
        return (self._allocated - self._released)[:ENTRY_BITS + 1]

    def _offer(self, m: Module, offered: Any, pointer: Signal, ready: Any, port: Any) -> None:
        """Offers the next instruction to a step, if the step before it has made it ready."""
        number = pointer[:ENTRY_BITS]
        m.d.comb += port.addr.eq(number)
        m.d.comb += offered.valid.eq((pointer != self._allocated) & ready[number])
        m.d.comb += offered.payload.eq(struct_value(
            pending_entry(self._params),
            number=number,
            instruction=port.data,
            writes_nothing=self._writes_nothing[number]))
        with m.If(offered.valid & offered.ready):
            m.d.sync += pointer.eq(pointer + 1)

    def _advance(self, m: Module) -> None:
        """What is ready for the next step. The flags of an entry are set anew when it is allocated;
        what makes it ready in the same cycle counts."""
        allocate = self.allocate
        with m.If(self._is_allocated):
            needs_gather = allocate.request.payload.needs_gather
            m.d.sync += self._sources_ready[allocate.number].eq(~needs_gather)
            m.d.sync += self._results_ready[allocate.number].eq(0)
        with m.If(self.sources.valid):
            m.d.sync += self._sources_ready[self.sources.payload.entry].eq(1)
        compute = self.compute
        with m.If(compute.valid & compute.ready & compute.payload.writes_nothing):
            m.d.sync += self._results_ready[compute.payload.number].eq(1)
        with m.If(self.has_results.valid):
            m.d.sync += self._results_ready[self.has_results.payload].eq(1)
        release = self.release
        m.d.comb += release.oldest.eq(self._released[:ENTRY_BITS])
        m.d.sync += self._released.eq(self._released + release.frees)
        m.d.sync += Assert(~release.frees | (self._in_use() != 0), "no entry is in use")
