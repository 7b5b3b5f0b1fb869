"""The instruction cache."""

from typing import Any

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import data, memory, stream
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.arbiter import lowest
from rtl.component import Component
from rtl.isa.control_code import GROUP_INSTRUCTIONS
from rtl.isa.errors import WarpError
from rtl.isa.syntax import WORD_BITS
from rtl.layouts import Event, InstructionKind, delayed
from rtl.one_hot import number_of
from rtl.params import LINE_ADDRESS_BITS, SmParams
from rtl.structs import struct_value
from rtl.wires import IN_BLOCKS

from .predecode import Predecoder
from .records import (
    GROUP_BITS,
    LINE_BITS,
    LINE_GROUPS,
    LINE_WORDS,
    LINES_IN_FLIGHT,
    LineLoaderPort,
    PrefetchedLine,
    StoredGroup,
    StoredInstruction,
    cache_line,
    line_of,
)

__all__ = ["InstructionCache"]

_GROUP_IN_LINE_BITS = ceil_log2(LINE_GROUPS)
_GROUP_WORDS = 1 + GROUP_INSTRUCTIONS
"""A control word and its instructions."""
_POSITION_BITS = ceil_log2(_GROUP_WORDS)

_ARRIVING_WORD = data.StructLayout({
    "port": range(LINES_IN_FLIGHT),
    "number": range(LINE_WORDS),
    "word": WORD_BITS,
    "error": 1,
})
"""A word of a line from memory: the port of the loader that requested its line, and the fields of
LinePart."""


class InstructionCache(Component):
    """The instruction cache, direct mapped by pc. A row is a group; a line is two groups. Words are
    predecoded when their line arrives, and stored with the result. ::

        group --> LOOK UP --> hit, stored

        part --> DECODE --> GATHER --> row --> filled

    LOOK UP reads tag and row into registers; the tags are compared in the next cycle. DECODE
    predecodes one of a line's eight words a cycle. GATHER collects four of them, a control word and
    three instructions, and writes the group with its last word.

    While a line arrives, each of its groups is invalid until the group's last word is written. The
    first group can therefore be looked up before the second one has arrived. A tag that is read in
    the cycle of a write to it counts as a miss.

    Two lines in flight never have the same index. A line is requested only when no line in flight
    has its index. A line that a warp waits for is therefore not evicted before it has arrived.

    Prefetch: a proposed line is requested if it is not in the cache, no warp needs the loader, and
    another port of the loader remains free for a miss. A second read port of the tags finds out
    whether it is in the cache. If memory has an error for a prefetched line, the line is stored
    like any other; its instructions are refused if a warp reaches them.

    Members
    -------
    program : In(LINE_ADDRESS_BITS)
        The line of pc 0.
    registers : In(9)
        Registers of a thread; an instruction that names another one is refused.
    enable, group : In(1), In(GROUP_BITS)
        A group to look up, by its number.
    hit, stored : Out(1), Out(StoredGroup)
        From the cycle after ``enable`` until the cycle after the next one: the group is in the
        cache; the group.
    wanted : In(1)
        Requests ``missed_line``, if ``can_request``. The line's warp was in the fetch unit's LOOK
        UP in the previous cycle, and is in MISS now.
    missed_line : Out(LINE_BITS)
        The line that was looked up, one cycle after its ``hit``.
    can_request : Out(1)
        No line in flight has the index of ``missed_line``, and the loader is free.
    must_wait : Out(1)
        ``missed_line`` cannot be requested until another line has arrived: a line in flight has its
        index, or is this line itself; or all ports of the loader have a line in flight.
    prefetch : In(stream of PrefetchedLine)
        A line to prefetch. It is accepted when it is requested, and also when it is discarded: it
        is in the cache or in flight, or its index is occupied and it must not evict.
    may_prefetch : In(1)
        No warp needs the loader.
    may_evict : In(1)
        Prefetched lines that are allowed to evict another line may do so now; otherwise they wait.
    loader : Out(array of LineLoaderPort)
    filled : Out(1)
        A group of a line is written. Lookups from the next cycle on find it.
    in_flight : Out(1)
        A line is outstanding.
    clear : In(Event(cache_line))
        This line of the cache becomes empty.
    """

    def __init__(self, params: SmParams) -> None:
        self._rows = params.instruction_groups
        self._floats = params.floats
        self._doubles = params.doubles
        self._lines = params.instruction_groups // LINE_GROUPS
        self._index_bits = ceil_log2(self._lines)
        self._tag = data.StructLayout({
            "valid": LINE_GROUPS,
            "line": LINE_BITS - self._index_bits,
        })
        """``valid``: a bit for each group of the line."""
        super().__init__({
            "program": In(LINE_ADDRESS_BITS),
            "registers": In(9),
            "enable": In(1),
            "group": In(GROUP_BITS),
            "hit": Out(1),
            "stored": Out(StoredGroup),
            "wanted": In(1),
            "missed_line": Out(LINE_BITS),
            "can_request": Out(1),
            "must_wait": Out(1),
            "prefetch": In(stream.Signature(PrefetchedLine)),
            "may_prefetch": In(1),
            "may_evict": In(1),
            "loader": Out(LineLoaderPort()).array(LINES_IN_FLIGHT),
            "filled": Out(1),
            "in_flight": Out(1),
            "clear": In(Event(cache_line(params))),
        })
        self._requested_lines = Signal(data.ArrayLayout(LINE_BITS, LINES_IN_FLIGHT))
        """The line that was requested last, for each port of the loader."""
        self._requests_missed = Signal()
        """The missed line is requested in this cycle."""
        self._prefetches = Signal()
        """A line to prefetch is requested in this cycle."""
        self._filled_line = Signal(LINE_BITS)
        """The line of the word in GATHER."""
        self._instruction: Any = Signal(StoredInstruction)
        """The word in GATHER, if it is an instruction."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.tags = tags = memory.Memory(
            shape=self._tag, depth=self._lines, init=[], attrs=IN_BLOCKS)
        m.submodules.rows = rows = memory.Memory(
            shape=StoredGroup, depth=self._rows, init=[], attrs=IN_BLOCKS)
        tag_write = tags.write_port()
        self._look_up(m, tags.read_port(domain="comb"), rows.read_port(domain="comb"), tag_write)
        self._request(m)
        self._prefetch(m, tags.read_port(), tag_write)
        decoded = self._decode(m)
        self._gather(m, decoded, rows.write_port())
        self._write_tag(m, decoded, tag_write)
        return m

    def _look_up(self, m: Module, tag_read: Any, row_read: Any, tag_write: Any) -> None:
        """LOOK UP: reads tag and row. Synthesis merges the registers after the memories into the
        block RAM."""
        group = Signal(GROUP_BITS)
        tag: Any = Signal(self._tag)
        tag_is_written = Signal()
        m.d.comb += tag_read.addr.eq(line_of(self.group))
        m.d.comb += row_read.addr.eq(self.group)
        with m.If(self.enable):
            m.d.sync += group.eq(self.group)
            m.d.sync += tag.eq(tag_read.data)
            m.d.sync += tag_is_written.eq(tag_write.en & (tag_write.addr == tag_read.addr))
            m.d.sync += self.stored.eq(row_read.data)
        line = line_of(group)
        has_tag = tag.line == line[self._index_bits:]
        is_valid = tag.valid.bit_select(group[:_GROUP_IN_LINE_BITS], 1)
        m.d.comb += self.hit.eq(is_valid & ~tag_is_written & has_tag)
        m.d.sync += self.missed_line.eq(line)

    def _index_is_in_flight(self, line: Value) -> Value:
        """Whether a line in flight has the index of this one."""
        index = line[:self._index_bits]
        return Cat(
            port.in_flight & (self._requested_lines[number][:self._index_bits] == index)
            for number, port in enumerate(self.loader)).any()

    def _request(self, m: Module) -> None:
        """Requests the missed line, or else a line to prefetch, on the lowest free port."""
        missed = self.missed_line
        in_flight = Cat(port.in_flight for port in self.loader)
        free = Cat(port.free for port in self.loader)
        number = Signal(range(LINES_IN_FLIGHT))
        line = Signal(LINE_BITS)
        index_is_in_flight = Signal()
        m.d.comb += index_is_in_flight.eq(self._index_is_in_flight(missed))
        m.d.comb += self.can_request.eq(~index_is_in_flight & free.any())
        m.d.comb += self.must_wait.eq(index_is_in_flight | in_flight.all())
        m.d.comb += self.in_flight.eq(in_flight.any())
        m.d.comb += self._requests_missed.eq(self.wanted & self.can_request)

        m.d.comb += number.eq(lowest(free))
        with m.If(self._requests_missed):
            m.d.comb += line.eq(missed)
        with m.Else():
            m.d.comb += line.eq(self.prefetch.payload.line)
        requests = self._requests_missed | self._prefetches
        for tag, port in enumerate(self.loader):
            m.d.comb += port.miss.valid.eq(requests & (number == tag))
            m.d.comb += port.miss.payload.eq(self.program + line)
        with m.If(requests):
            m.d.sync += self._requested_lines[number].eq(line)

    def _prefetch(self, m: Module, tag_read: Any, tag_write: Any) -> None:
        """Accepts a line to prefetch. Its tag is read in the first cycle in which the line is
        proposed, and in each cycle in which it waits. The line is requested only if another port of
        the loader remains free, so that a miss need not wait."""
        prefetch = self.prefetch
        line = prefetch.payload.line
        index = line[:self._index_bits]
        tag = tag_read.data
        is_read = Signal()
        is_needless = Signal()
        free = Cat(port.free for port in self.loader)
        others_are_free = (free & (free - 1)).any()
        tag_is_written = tag_write.en & (tag_write.addr == index)
        m.d.comb += tag_read.addr.eq(index)
        m.d.sync += is_read.eq(prefetch.valid & ~prefetch.ready & ~tag_is_written)
        is_occupied = tag.valid.any()
        is_cached = is_occupied & (tag.line == line[self._index_bits:])
        may_never_evict = is_occupied & ~prefetch.payload.may_evict
        m.d.comb += is_needless.eq(
            is_cached | may_never_evict | self._index_is_in_flight(line))
        has_room = ~is_occupied | self.may_evict
        m.d.comb += self._prefetches.eq(
            prefetch.valid & is_read & ~is_needless & has_room
            & self.may_prefetch & ~self.wanted & others_are_free)
        m.d.comb += prefetch.ready.eq(is_read & (is_needless | self._prefetches))

    def _decode(self, m: Module) -> Any:
        """DECODE: predecodes a word, which takes a cycle. A word for which memory has an error is
        refused. Returns the word in GATHER."""
        m.submodules.predecoder = predecoder = Predecoder(self._floats, self._doubles)
        arriving: Any = Event(_ARRIVING_WORD).create(path=("arriving",))
        part = self.loader[0].part.payload      # the same on all ports
        arrives = Cat(port.part.valid for port in self.loader)
        m.d.comb += arriving.valid.eq(arrives.any())
        m.d.comb += arriving.payload.eq(struct_value(
            _ARRIVING_WORD,
            port=number_of(arrives), number=part.number, word=part.word, error=part.error))
        arrived = delayed(m, arriving)
        decoded = delayed(m, arrived)
        m.d.comb += self._filled_line.eq(self._requested_lines[decoded.payload.port])
        instruction = self._instruction
        m.d.comb += predecoder.word.eq(arrived.payload.word)
        m.d.comb += predecoder.registers.eq(self.registers)
        m.d.comb += instruction.eq(struct_value(
            StoredInstruction, word=decoded.payload.word, predecoded=predecoder.predecoded))
        with m.If(decoded.payload.error):
            m.d.comb += instruction.predecoded.kind.eq(InstructionKind.REFUSED)
            m.d.comb += instruction.predecoded.error.eq(WarpError.MMU_FAULT.value)
            m.d.comb += instruction.predecoded.constant.eq(0)
        return decoded

    def _gather(self, m: Module, decoded: Any, row_write: Any) -> None:
        """GATHER: collects the words of a group. The last instruction is written to the row
        directly."""
        part = decoded.payload
        group: Any = Signal(StoredGroup)
        position = part.number[:_POSITION_BITS]
        group_in_line = part.number[_POSITION_BITS:]
        last = GROUP_INSTRUCTIONS - 1
        with m.If(decoded.valid), m.Switch(position):
            with m.Case(0):
                m.d.sync += group.codes.eq(part.word[:len(group.codes)])
            for slot in range(last):
                with m.Case(1 + slot):
                    m.d.sync += group.instructions[slot].eq(self._instruction)
        m.d.comb += row_write.en.eq(decoded.valid & (position == 1 + last))
        m.d.comb += row_write.addr.eq(Cat(group_in_line, self._filled_line))
        m.d.comb += row_write.data.eq(group)
        m.d.comb += row_write.data.instructions[last].eq(self._instruction)

    def _write_tag(self, m: Module, decoded: Any, tag_write: Any) -> None:
        """Writes the tag of the arriving line, or of a line that is cleared."""
        number = decoded.payload.number
        is_first = number == 0
        is_complete = Cat(number >= _GROUP_WORDS * (group + 1) - 1 for group in range(LINE_GROUPS))
        ends_group = number[:_POSITION_BITS].all()
        m.d.comb += tag_write.data.line.eq(self._filled_line[self._index_bits:])
        with m.If(self.clear.valid):
            m.d.comb += tag_write.en.eq(1)
            m.d.comb += tag_write.addr.eq(self.clear.payload)
        with m.Else():
            m.d.comb += tag_write.en.eq(decoded.valid & (is_first | ends_group))
            m.d.comb += tag_write.addr.eq(self._filled_line)
            m.d.comb += tag_write.data.valid.eq(is_complete)
        m.d.comb += self.filled.eq(decoded.valid & ends_group)
        is_last = decoded.valid & (number == LINE_WORDS - 1)
        for port, loader in enumerate(self.loader):
            m.d.comb += loader.filled.eq(is_last & (decoded.payload.port == port))


assert _GROUP_WORDS == 1 << _POSITION_BITS
