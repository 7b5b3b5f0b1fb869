"""The crossbar: words on their way between threads and banks, one word of every bank a cycle."""

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Assert, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.component import Component
from rtl.layouts import Event
from rtl.one_hot import chosen_of, one_hot
from rtl.params import SmParams
from rtl.pick import pick
from rtl.wires import KEEP

from .instruction import (
    OFFSET_BITS,
    WORDS,
    BeatKind,
    BeatOwner,
    bank_read,
    bank_write,
    beat_job,
    memory_tag_bits,
    row_bits,
    slot_bits,
)
from .operands import inner_layout

__all__ = ["Crossbar", "WordSwitch", "passed_layout", "result_write", "source_layout"]



def source_layout(params: SmParams) -> data.ArrayLayout:
    """For each lane the number of the bank whose word it wants."""
    return data.ArrayLayout(ceil_log2(params.lanes), params.lanes)


def passed_layout(params: SmParams) -> data.StructLayout:
    """The last of some beats has passed."""
    return data.StructLayout({"owner": BeatOwner, "slot": slot_bits(params), "tag": memory_tag_bits(params)})


def result_write(params: SmParams) -> data.StructLayout:
    """Words that are loaded, for some ``lanes`` of a beat, each of which has its own word of the thread's four."""
    return data.StructLayout({
        "lanes": params.lanes, "slot": slot_bits(params), "beat": range(params.beats),
        "words": data.ArrayLayout(range(WORDS), params.lanes), "values": data.ArrayLayout(32, params.lanes)})


class WordSwitch(Component):
    """Each lane gets one of as many words as there are banks; combinational. It is large, and there is only one.

    Members
    -------
    words : In(a word for each bank)
    sources : In(source_layout)
    values : Out(a word for each lane)
    """

    def __init__(self, params: SmParams) -> None:
        words = data.ArrayLayout(32, params.lanes)
        super().__init__({"words": In(words), "sources": In(source_layout(params)), "values": Out(words)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for value, source in zip(self.values, self.sources, strict=True):
            m.d.comb += value.eq(pick(self.words, source))
        return m


class Crossbar(Component):
    """Serves a beat in as many cycles as a bank has different words to give; the next beat follows without a gap.

    Three stages: the beat's places and words are read; each bank serves the word of the lowest lane that waits, and
    all lanes that want the same one; what was read is extended and written. Threads that write the same word write it
    together: the highest one's bytes stay.

    Members
    -------
    job : In(stream of beat_job)
    slot, beat, inner : Out, Out, In(inner_layout)
        Places of a beat's threads.
    data_slot, data_beats, data_words, values : Out, Out, Out, In
        Their words; or words of other beats, as a shuffle needs them.
    read, write : Out(bank_read), Out(bank_write)
        Rows that nobody wants, values that nobody writes and results that nobody gets are 0: others' are joined to them
        by OR.
    sources, found : Out(source_layout), In
        Which banks' words the lanes want a cycle after a read, and these words.
    result : Out(result_write)
    passed : Out(Event of passed_layout)
        In the second stage.
    busy : Out(1)
        Something is in the second or third stage.
    shared : Out(1)
        Shared memory serves some threads.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        lanes, slot, beat = params.lanes, slot_bits(params), range(params.beats)
        words = data.ArrayLayout(32, lanes)
        super().__init__({
            "job": In(stream.Signature(beat_job(params))), "slot": Out(slot), "beat": Out(beat),
            "inner": In(inner_layout(params)), "data_slot": Out(slot),
            "data_beats": Out(data.ArrayLayout(max(1, ceil_log2(params.beats)), lanes)),
            "data_words": Out(data.ArrayLayout(range(WORDS), lanes)), "values": In(words),
            "read": Out(bank_read(params)), "write": Out(bank_write(params)), "sources": Out(source_layout(params)),
            "found": In(words), "result": Out(result_write(params)), "passed": Out(Event(passed_layout(params))),
            "busy": Out(1), "shared": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        params, given = self._params, self.job.payload
        lanes, bank_bits = params.lanes, ceil_log2(params.lanes)
        pending, served, here = Signal(lanes), Signal(lanes), Signal(beat_job(params))
        fetched: Any = Signal(data.ArrayLayout(data.StructLayout({
            "byte": 2, "bytes": 4, "bank": bank_bits, "row": row_bits(params), "word": range(WORDS), "value": 32}),
            lanes))

        # The next beat, when all threads of the last one are served. A shuffle reads words where a store wants its own.
        left, shuffles, takes = Signal(lanes), Signal(), Signal()
        m.d.comb += [
            left.eq(pending & ~served), shuffles.eq(pending.any() & (here.kind == BeatKind.LANES)),
            self.job.ready.eq(~left.any() & ~(shuffles & given.write)), takes.eq(self.job.valid & self.job.ready),
            self.slot.eq(given.slot), self.beat.eq(given.beat), self.data_slot.eq(Mux(shuffles, here.slot, given.slot))]
        m.d.sync += pending.eq(Mux(takes, given.lanes, left))
        with m.If(takes):
            m.d.sync += [here.eq(given), Assert(given.lanes.any(), "a beat without threads")]
            for lane, kept in enumerate(fetched):
                place, quarter = self.inner[lane], Const(lane * WORDS // lanes, 2)
                word = given.word ^ Mux(given.spread[1], quarter, given.spread[0] & quarter[1])
                inner = Mux(given.kind == BeatKind.LINE, place[2:OFFSET_BITS], place[2:])
                m.d.sync += [
                    kept.byte.eq(place[:2]), kept.bytes.eq(Mux(given.write, byte_mask(place[:2], given.size), 0)),
                    kept.word.eq(word),
                    kept.value.eq(repeated(self.values[lane], given.size)),
                    Cat(kept.bank, kept.row).eq(inner | Mux(given.local, 0, word))]

        # In each bank the word of its lowest lane: that lane leads, and those with the same word are served with it. Of
        # these the highest one writes a byte.
        read, write = self.read, self.write
        leads, writes = Signal(lanes, attrs=KEEP), Signal(data.ArrayLayout(4, lanes), attrs=KEEP)
        meets: dict[tuple[int, int], Value] = {}
        for lane, kept in enumerate(fetched):
            same_bank, same = Signal(lane, name=f"same_bank_{lane}"), Signal(lane, name=f"same_{lane}", attrs=KEEP)
            m.d.comb += [
                same_bank.eq(Cat(other.bank == kept.bank for other in list(fetched)[:lane])),
                same.eq(Cat(other.row == kept.row for other in list(fetched)[:lane]) & same_bank),
                leads[lane].eq(pending[lane] & ~(pending[:lane] & same_bank).any()),
                served[lane].eq(pending[lane] & (leads[lane] | (leads[:lane] & same).any()))]
            meets.update({(lower, lane): same[lower] & pending[lane] for lower in range(lane)})
        for lane, kept in enumerate(fetched):
            over = [meets[lane, higher].replicate(4) & fetched[higher].bytes for higher in range(lane + 1, lanes)]
            m.d.comb += writes[lane].eq(
                kept.bytes & served[lane].replicate(4) & ~reduce(or_, over, Const(0, 4)))
        m.d.comb += [
            read.used.eq(pending.any() & ~here.write), read.kind.eq(here.kind), read.tag.eq(here.tag),
            read.slot.eq(here.slot), write.line.eq(here.kind == BeatKind.LINE), write.tag.eq(here.tag),
            self.shared.eq(pending.any() & (here.kind == BeatKind.SHARED))]
        for bank, access in enumerate(write.banks):
            of_bank, row = Signal(lanes, name=f"of_bank_{bank}"), Signal(row_bits(params), name=f"row_{bank}")
            leader = Signal(lanes, name=f"leader_{bank}", attrs=KEEP)
            m.d.comb += [
                of_bank.eq(Cat(kept.bank == bank for kept in fetched)), leader.eq(leads & of_bank),
                row.eq(chosen_of(leader, [kept.row for kept in fetched])), access.row.eq(row),
                read.rows[bank].eq(row),
                self.data_beats[bank].eq(Mux(shuffles, row, given.beat)),
                self.data_words[bank].eq(Mux(shuffles, 0, given.word))]
            for byte in range(4):
                chosen = Signal(lanes, name=f"chosen_{bank}_{byte}", attrs=KEEP)
                m.d.comb += [
                    chosen.eq(of_bank & Cat(mine[byte] for mine in writes)), access.bytes[byte].eq(chosen.any()),
                    access.value[byte].eq(chosen_of(chosen, [kept.value.word_select(byte, 8) for kept in fetched]))]
        m.d.comb += [
            self.passed.valid.eq(pending.any() & ~left.any() & here.last), self.passed.payload.owner.eq(here.owner),
            self.passed.payload.slot.eq(here.slot), self.passed.payload.tag.eq(here.tag)]

        # What was read, a cycle later.
        result, begins, size, extends = self.result, Signal(data.ArrayLayout(2, lanes)), Signal(3), Signal()
        m.d.sync += [
            result.lanes.eq(Mux(here.write, 0, served)), result.slot.eq(here.slot), result.beat.eq(here.beat),
            size.eq(here.size), extends.eq(here.signed)]
        m.d.comb += self.busy.eq(pending.any() | result.lanes.any())
        for lane, kept in enumerate(fetched):
            m.d.sync += [
                begins[lane].eq(kept.byte), self.sources[lane].eq(kept.bank),
                result.words[lane].eq(Mux(here.local, here.word, kept.word))]
            m.d.comb += result.values[lane].eq(
                extended(self.found[lane], begins[lane], size, extends, result.lanes[lane]))
        return m


def extended(word: Value, byte: Value, size: Value, signed: Value, when: Value) -> Value:
    """What a load of ``1 << size`` bytes from ``byte`` on, a multiple of their number, makes of a word, the whole word
    for four bytes or more; 0 unless ``when``."""
    octet, half, whole = when & (size == 0), when & (size != 0), when & (size >= 2)
    low = chosen_of(one_hot(byte, 4, when), [word.word_select(number, 8) for number in range(4)])
    middle = chosen_of(Cat(half & ~byte[1], half & byte[1]), [word[8:16], word[24:]])
    sign = signed & Mux(size == 0, low[-1], middle[-1])
    return Cat(low, middle | (octet & sign).replicate(8), Mux(whole, word[16:], 0) | (~whole & sign).replicate(16))


def repeated(word: Value, size: Value) -> Value:
    """A word in which every place that a number of ``1 << size`` bytes can have holds the number."""
    low = Cat(word[:8], Mux(size == 0, word[:8], word[8:16]))
    return Cat(low, Mux(size >= 2, word[16:], low))


def byte_mask(byte: Value, size: Value) -> Value:
    """The bytes of its word that a number of ``1 << size`` bytes at ``byte`` takes, as four bits."""
    return (Mux(size >= 2, 15, Mux(size == 1, 3, 1)) << byte)[:4]
