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
"""A word of a line from memory: the port of the loader by which its line was requested, and the
fields of LinePart."""


class InstructionCache(Component):
    """Direct mapped by pc; a row is a group, a line two of them. Words are predecoded when their
    line comes from memory, and stored with what they are. ::

        group --> LOOK UP --> hit, stored

        part --> DECODE --> GATHER --> row --> filled

    LOOK UP reads tag and row, and keeps both: the comparison of tags follows in the next cycle. Of
    a line's eight words DECODE takes one a cycle; GATHER puts four of them together, a control word
    and three instructions, and writes the group with its last word.

    While a line arrives, a group of it is invalid until the group's last word is
    written: its first group can be looked up before its second one has come. What is read of a tag
    in the cycle of a write to it does not count.

    Lines in flight never share a place: a line is requested when the one before it in its place has
    come. So a line that a warp waits for is not evicted on its way.

    Prefetch: a line that may be needed soon is requested if it is not in the cache, no warp waits
    for the loader, and a port of the loader remains free for a miss. Whether it is in the cache is
    read by a second port of the tags. A prefetched line for which memory has an error is kept like
    any other: its instructions are refused if a warp reaches them.

    Members
    -------
    program : In(LINE_ADDRESS_BITS)
        The line of pc 0.
    registers : In(9)
        Of a thread.
    enable, group : In(1), In(GROUP_BITS)
        A group to look up, by its number.
    hit, stored : Out(1), Out(StoredGroup)
        A cycle after ``enable``, until the next one: whether it is in the cache, and the group.
    wanted : In(1)
        ``missed_line`` is requested, if that ``can_request``: its warp was in the fetch unit's
        LOOK UP a cycle ago, and is in MISS now.
    missed_line : Out(LINE_BITS)
        The line that ``hit`` was about a cycle ago.
    can_request : Out(1)
        No line is in flight that has the same place, and the loader is free.
    must_wait : Out(1)
        That line cannot be requested before another one has come: one in flight has the same place,
        or is this line itself; or all ports of the loader have one.
    prefetch : In(stream of PrefetchedLine)
        A line to prefetch. It is taken when it is requested, or when it need not or may not be.
    may_prefetch : In(1)
        No warp needs the loader.
    may_evict : In(1)
        A prefetched line may take the place of another one, if it may at all; else it waits.
    loader : Out(array of LineLoaderPort)
    filled : Out(1)
        A group of a line is written. What is looked up from the next cycle on finds it.
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
        self._prefetches = Signal()
        """What is requested in this cycle."""
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
        """LOOK UP: tag and row. The registers behind the memories become those of the block RAM."""
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

    def _place_is_in_flight(self, line: Value) -> Value:
        """Whether a line in flight has the place of this one."""
        place = line[:self._index_bits]
        return Cat(
            port.in_flight & (self._requested_lines[number][:self._index_bits] == place)
            for number, port in enumerate(self.loader)).any()

    def _request(self, m: Module) -> None:
        """A miss, or else a line to prefetch, by the lowest port that is free."""
        missed = self.missed_line
        in_flight = Cat(port.in_flight for port in self.loader)
        free = Cat(port.free for port in self.loader)
        number = Signal(range(LINES_IN_FLIGHT))
        line = Signal(LINE_BITS)
        place_is_in_flight = Signal()
        m.d.comb += place_is_in_flight.eq(self._place_is_in_flight(missed))
        m.d.comb += self.can_request.eq(~place_is_in_flight & free.any())
        m.d.comb += self.must_wait.eq(place_is_in_flight | in_flight.all())
        m.d.comb += self.in_flight.eq(in_flight.any())
        m.d.comb += self._requests_missed.eq(self.wanted & self.can_request)

        m.d.comb += number.eq(lowest(free))
        with m.If(self._requests_missed):
            m.d.comb += line.eq(missed)
        with m.Else():
            m.d.comb += line.eq(self.prefetch.payload.line)
        requests = self._requests_missed | self._prefetches
        for place, port in enumerate(self.loader):
            m.d.comb += port.miss.valid.eq(requests & (number == place))
            m.d.comb += port.miss.payload.eq(self.program + line)
        with m.If(requests):
            m.d.sync += self._requested_lines[number].eq(line)

    def _prefetch(self, m: Module, tag_read: Any, tag_write: Any) -> None:
        """A line to prefetch: its tag is read in the first cycle in which it is there, and again in
        each that it waits. A port of the loader remains free, so that a miss need not wait."""
        prefetch = self.prefetch
        line = prefetch.payload.line
        place = line[:self._index_bits]
        tag = tag_read.data
        is_read = Signal()
        is_needless = Signal()
        free = Cat(port.free for port in self.loader)
        others_are_free = (free & (free - 1)).any()
        tag_is_written = tag_write.en & (tag_write.addr == place)
        m.d.comb += tag_read.addr.eq(place)
        m.d.sync += is_read.eq(prefetch.valid & ~prefetch.ready & ~tag_is_written)
        is_occupied = tag.valid.any()
        is_cached = is_occupied & (tag.line == line[self._index_bits:])
        may_never_evict = is_occupied & ~prefetch.payload.may_evict
        m.d.comb += is_needless.eq(
            is_cached | may_never_evict | self._place_is_in_flight(line))
        has_place = ~is_occupied | self.may_evict
        m.d.comb += self._prefetches.eq(
            prefetch.valid & is_read & ~is_needless & has_place
            & self.may_prefetch & ~self.wanted & others_are_free)
        m.d.comb += prefetch.ready.eq(is_read & (is_needless | self._prefetches))

    def _decode(self, m: Module) -> Any:
        """DECODE: what a word is. The predecoder takes a cycle. A word that memory does not have is
        refused. Returns the word in GATHER."""
        m.submodules.predecoder = predecoder = Predecoder(self._floats, self._doubles)
        arriving: Any = Event(_ARRIVING_WORD).create(path=("arriving",))
        part = self.loader[0].part.payload      # of all ports the same
        comes = Cat(port.part.valid for port in self.loader)
        m.d.comb += arriving.valid.eq(comes.any())
        m.d.comb += arriving.payload.eq(struct_value(
            _ARRIVING_WORD,
            port=number_of(comes), number=part.number, word=part.word, error=part.error))
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
        """GATHER: the words of a group; its last instruction goes into the row by itself."""
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
        """The tag of the line that comes, or of one that is cleared."""
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
