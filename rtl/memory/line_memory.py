"""The words of lines under way, and of memory's last answer."""

from typing import Any

from amaranth.hdl import Assert, Cat, Const, Module, Mux, Signal, unsigned
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.component import Component
from rtl.isa.tokens import LINE_BYTES
from rtl.layouts import Event
from rtl.params import SmParams
from rtl.pick import pick
from rtl.words import Words

from .instruction import LINE_WORDS, BeatKind, bank_read, bank_write, memory_tag_bits

__all__ = ["LineContent", "LineMemory", "LinePort", "copied_row", "row_count"]


def _bank_count(params: SmParams) -> int:
    """Banks of lines: as many as lanes, but at most the words of a line."""
    return min(params.lanes, LINE_WORDS)


def row_count(params: SmParams) -> int:
    """Rows of a line."""
    return LINE_WORDS // _bank_count(params)


def copied_row(params: SmParams) -> data.StructLayout:
    """A row of the answer that becomes the same row of a tag's line."""
    return data.StructLayout({"row": range(row_count(params)), "tag": memory_tag_bits(params)})


class LineContent(data.Struct):
    """The bytes of a line to be written to memory; its fields are those of a
    :func:`~rtl.layouts.memory_request`."""

    data: unsigned(8 * LINE_BYTES)
    mask: unsigned(LINE_BYTES)
    """A bit for each byte that is written."""


class LinePort(wiring.Signature):
    """Words of lines; directions are those of the side that reads and writes them.

    Members
    -------
    read : Out(bank_read)
    values, words : In(a word for each bank), In(the same)
        What was read of the answer a cycle ago, 0 if it was something else, and any row if nothing
        was read; and in the same cycle, what is in the line of a tag.
    write : Out(bank_write)
    copied : In(1)
        A row of the answer is written to a line: the row is in ``values``, and must be in
        ``write``, in which no byte is enabled.
    """

    def __init__(self, params: SmParams) -> None:
        words = data.ArrayLayout(32, params.lanes)
        super().__init__({
            "read": Out(bank_read(params)),
            "values": In(words),
            "words": In(words),
            "write": Out(bank_write(params)),
            "copied": In(1),
        })


class LineMemory(Component):
    """The lines that are filled or modified, one for each tag; which of their bytes were written
    since the last ``finish``; and the line that memory has answered last.

    A line is accessed like shared memory: word w is in bank w modulo the number of banks, which is
    the number of lanes, at most 16. A *row* is a word of each bank.

    Members
    -------
    take : In(Event(line))
        The answer.
    copy : In(Event(copied_row))
        The row is written in the next cycle, in which ``lines.copied`` is 1. Nothing may be read in
        this cycle, and nothing else written in the next one.
    lines : In(LinePort)
    finish : In(Event(tag))
        All bytes of the line of that tag have been written.
    tag, content : In(tag), Out(LineContent)
        The line of that tag, and its bytes that were written.

    Attributes
    ----------
    answer : Signal(line)
        What memory has answered last.
    written_so_far : Signal(a bit for each byte)
        Bytes written since the last ``finish``; they are all of one line.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        self._tags = 1 << memory_tag_bits(params)
        self._bank_count = _bank_count(params)
        self._rows = row_count(params)
        self.answer = Signal(8 * LINE_BYTES)
        self.written_so_far = Signal(LINE_BYTES)
        tag = memory_tag_bits(params)
        super().__init__({
            "take": In(Event(8 * LINE_BYTES)),
            "copy": In(Event(copied_row(params))),
            "lines": In(LinePort(params)),
            "finish": In(Event(tag)),
            "tag": In(tag),
            "content": Out(LineContent),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._copied: Any = Signal(copied_row(self._params))
        self._written_now = Signal(LINE_BYTES)
        with m.If(self.take.valid):
            m.d.sync += self.answer.eq(self.take.payload)
        m.d.sync += self.lines.copied.eq(self.copy.valid)
        m.d.sync += self._copied.eq(self.copy.payload)
        for bank in range(self._bank_count):
            storage = memory.Memory(shape=32, depth=self._tags * self._rows, init=[])
            m.submodules[f"bank_{bank}"] = storage
            self._write_bank(m, bank, storage)
            self._read_bank(m, bank, storage)
            self._send_bank(m, bank, storage)
        self._record_written(m)
        stores = Cat(bank.bytes for bank in self.lines.write.banks).any()
        m.d.sync += Assert(
            ~(self.copy.valid & self.lines.read.used), "a row is copied while words are read")
        m.d.sync += Assert(
            ~(self.lines.copied & stores), "a row is copied while words are written")
        return m

    def _row(self, row: Any) -> Any:
        """A row of shared memory as one of a line, which has fewer."""
        return row[:ceil_log2(self._rows)]

    def _write_bank(self, m: Module, bank: int, storage: memory.Memory) -> None:
        """A word is stored, or copied from the answer."""
        access = self.lines.write.banks[bank]
        port = storage.write_port(granularity=8)
        m.d.comb += port.data.eq(access.value.as_value())
        with m.If(self.lines.copied):
            m.d.comb += port.addr.eq(Cat(self._copied.row, self._copied.tag))
            m.d.comb += port.en.eq(~0)
        with m.Else():
            m.d.comb += port.addr.eq(Cat(self._row(access.row), self.lines.write.tag))
            m.d.comb += port.en.eq(Mux(self.lines.write.line, access.bytes, 0))

    def _read_bank(self, m: Module, bank: int, storage: memory.Memory) -> None:
        """A word of a tag's line is read at once, one of the answer in the next cycle. A row that
        may be copied is read whenever nothing else is: whether it is copied is known late."""
        row = self._row(self.lines.read.rows[bank])
        port = storage.read_port(domain="comb")
        m.d.comb += port.addr.eq(Cat(row, self.lines.read.tag))
        m.d.comb += self.lines.words[bank].eq(port.data)

        words = [self.answer.word_select(word, 32) for word in self._words_of(bank)]
        found = Signal(32)
        read = self.lines.read
        m.d.comb += found.eq(pick(words, Mux(read.used, row, self.copy.payload.row)))
        is_something_else = read.used & (read.kind != BeatKind.ANSWER)
        m.d.sync += self.lines.values[bank].eq(Mux(is_something_else, 0, found))

    def _send_bank(self, m: Module, bank: int, storage: memory.Memory) -> None:
        """All words of the line that memory is to write, and which bytes are written now."""
        access = self.lines.write.banks[bank]
        for row, word in enumerate(self._words_of(bank)):
            port = storage.read_port(domain="comb")
            m.d.comb += port.addr.eq(Cat(Const(row, ceil_log2(self._rows)), self.tag))
            m.d.comb += self.content.data.word_select(word, 32).eq(port.data)
            is_stored = self.lines.write.line & (self._row(access.row) == row)
            m.d.comb += self._written_now.word_select(word, 4).eq(Mux(is_stored, access.bytes, 0))

    def _words_of(self, bank: int) -> range:
        """Numbers of the words that are in a bank."""
        return range(bank, LINE_WORDS, self._bank_count)

    def _record_written(self, m: Module) -> None:
        """Which bytes were written, kept by tag when a line is finished."""
        earlier = Mux(self.finish.valid, 0, self.written_so_far)
        m.d.sync += self.written_so_far.eq(earlier | self._written_now)
        m.submodules.masks = masks = Words(LINE_BYTES, self._tags)
        masks.write(m, self.finish.valid, self.finish.payload, self.written_so_far)
        m.d.comb += self.content.mask.eq(masks.read(m, self.tag))
