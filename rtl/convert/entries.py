"""The table of instructions in the conversion unit: a ring of four entries, in order."""

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
    """An instruction that an entry is allocated for.

    Fields
    ------
    instruction : conversion_entry
    writes_nothing : 1
        The instruction only completes, with an error or without.
    needs_gather : 1
        Compute has to wait for its gather.
    """
    return data.StructLayout({
        "instruction": conversion_entry(params),
        "writes_nothing": 1,
        "needs_gather": 1,
    })


def pending_entry(params: SmParams) -> data.StructLayout:
    """The instruction that a step takes next, and the number of its entry."""
    return data.StructLayout({
        "number": ENTRY_BITS,
        "instruction": conversion_entry(params),
        "writes_nothing": 1,
    })


class Allocation(wiring.Signature):
    """Gather to the table: allocates an entry for an instruction.

    Members
    -------
    request : Out(stream of allocated_entry)
        Accepted while an entry is free.
    number : In(ENTRY_BITS)
        The entry that is allocated if the request is accepted in this cycle.
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "request": Out(stream.Signature(allocated_entry(params))),
            "number": In(ENTRY_BITS),
        })


class Release(wiring.Signature):
    """Write to the table: frees the oldest entry.

    Members
    -------
    oldest : In(ENTRY_BITS)
        The oldest entry in use.
    frees : Out(1)
        That entry is freed: its last results are read in this cycle, or it has none. It can be
        allocated from the next cycle on.
    """

    def __init__(self) -> None:
        super().__init__({"oldest": In(ENTRY_BITS), "frees": Out(1)})


class EntryTable(Component):
    """Holds instructions from allocation to release. Each step takes them in order; a pointer for
    each step is the number of the entry that it takes next::

        oldest              next to write        next to compute           next to allocate
          v                      v                      v                         v
          | results being read   | results being or     | sources being or        | free ...
          | by the lanes         | already computed     | already gathered        |

    Compute may take an entry from the first beat of its sources on, or at once if it needs no
    gather: it reads no beat before the lanes have delivered it. Write may take an entry as soon as
    compute reports ``has_results``.

    Members
    -------
    allocate : In(Allocation)
    sources : In(Event(source_beat))
        A beat of sources is written to the source buffer; compute may take that entry from the
        next cycle on.
    has_results : In(Event(ENTRY_BITS))
        Write may take that entry from the next cycle on.
    compute : Out(stream of pending_entry)
        The next instruction to compute. For one that writes nothing this handshake does what
        ``has_results`` does for others.
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
        """An entry is allocated in this cycle."""
        # How many instructions were allocated, taken by compute, taken by write, and released,
        # modulo twice the number of entries. The low bits are an entry.
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
        """Writes an instruction to the next free entry."""
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
        """The number of entries in use."""
        return (self._allocated - self._released)[:ENTRY_BITS + 1]

    def _offer(self, m: Module, offered: Any, pointer: Signal, ready: Any, port: Any) -> None:
        """Offers a step its next instruction, if there is one and its flag in ``ready`` is 1."""
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
        """The flags that make an entry ready for compute and for write. Allocation initializes the
        flags of its entry; the other events set those of entries allocated before."""
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
