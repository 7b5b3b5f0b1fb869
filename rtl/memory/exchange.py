"""Words on their way between threads and banks, of shared memory or of a line: each cycle one word of every bank."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.arbiter import lowest
from rtl.component import Component
from rtl.params import WARP_THREADS, SmParams
from rtl.pick import pick

from .banks import bank_access, row_bits
from .beats import first_beat
from .instruction import WORDS, access_job
from .narrow import byte_mask, extended, repeated
from .places import OFFSET_BITS, inner_place_layout
from .switch import source_layout
from .words import word_write

__all__ = ["WordExchange"]


class WordExchange(Component):
    """Takes a word of each thread of a beat, and serves them in as many cycles as a bank has different words to give.

    Threads that read the same word are served together, and those that write it too: the highest one's bytes stay.

    Members
    -------
    start, threads : In(1), In(32)
        Those whose accesses are served; not none.
    job : In(access_job)
        It is there from ``start`` on, as long as the unit is busy.
    beat, places, word, values : Out, In, Out, In
        The beat that is next, its threads' places, the word that is next and what it is.
    access : Out(bank_access)
        An access to the banks.
    sources, found : Out(source_layout), In
        Which banks' words the lanes want a cycle later, and these words.
    write : Out(word_write)
        Words that were loaded.
    busy : Out(1)
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__({
            "start": In(1), "threads": In(WARP_THREADS), "job": In(access_job()), "beat": Out(range(params.beats)),
            "places": In(inner_place_layout(params)),
            "word": Out(range(WORDS)), "values": In(data.ArrayLayout(32, params.lanes)),
            "access": Out(bank_access(params)), "sources": Out(source_layout(params)),
            "found": In(data.ArrayLayout(32, params.lanes)),
            "write": Out(word_write(params)), "busy": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        params, job = self._params, self.job
        lanes, bank_bits = params.lanes, ceil_log2(params.lanes)
        left, step = Signal(WARP_THREADS), Signal(range(WORDS))
        pending, served = Signal(lanes), Signal(lanes)
        fetched: Any = Signal(data.ArrayLayout(data.StructLayout({
            "byte": 2, "bank": bank_bits, "row": row_bits(params), "value": 32}), lanes))
        mark = Signal(data.StructLayout({"beat": range(params.beats), "word": range(WORDS)}))

        # The next word of the next beat, when all of the last one are served.
        next_pending = Signal(lanes)
        m.d.comb += [
            self.beat.eq(Mux(left.any(), first_beat(left, params), 0)), next_pending.eq(pending & ~served),
            self.word.eq(Mux(job.local, job.word, step))]
        m.d.sync += pending.eq(next_pending)
        with m.If(self.start):
            m.d.sync += [left.eq(self.threads), step.eq(0)]
        with m.Elif(left.any() & ~next_pending.any()):
            m.d.sync += [
                pending.eq(left.word_select(self.beat, lanes)), mark.beat.eq(self.beat), mark.word.eq(self.word),
                step.eq(step + 1)]
            with m.If(job.local | (step == job.words - 1)):
                m.d.sync += [step.eq(0), left.word_select(self.beat, lanes).eq(0)]
            for lane in range(lanes):
                place, kept = self.places[lane], fetched[lane]
                m.d.sync += [
                    kept.byte.eq(place[:2]), kept.value.eq(repeated(self.values[lane], job.size)),
                    Cat(kept.bank, kept.row).eq(Mux(job.line, place[2:OFFSET_BITS], place[2:]) | step)]

        # In each bank the word of its lowest lane.
        m.d.comb += [self.access.used.eq(pending.any()), self.access.line.eq(job.line)]
        for bank, access in enumerate(self.access.banks):
            wanted, row = Signal(lanes, name=f"wanted_{bank}"), Signal(row_bits(params), name=f"row_{bank}")
            m.d.comb += [
                wanted.eq(pending & Cat(kept.bank == bank for kept in fetched)),
                row.eq(pick((kept.row for kept in fetched), lowest(wanted))), access.row.eq(row)]
            for lane, kept in enumerate(fetched):
                with m.If(wanted[lane] & (kept.row == row)):
                    m.d.comb += served[lane].eq(1)
                    mask = byte_mask(kept.byte, job.size)
                    for byte in range(4):
                        with m.If(job.write & mask[byte]):
                            m.d.comb += [
                                access.bytes[byte].eq(1),
                                access.value[byte].eq(kept.value.word_select(byte, 8))]

        # What was read, a cycle later.
        reading, begins = Signal(lanes), Signal(data.ArrayLayout(2, lanes))
        m.d.sync += [
            reading.eq(Mux(job.write, 0, served)), self.write.beat.eq(mark.beat), self.write.word.eq(mark.word)]
        m.d.comb += [
            self.write.lanes.eq(reading), self.busy.eq(self.start | left.any() | pending.any() | reading.any())]
        for lane, kept in enumerate(fetched):
            m.d.sync += [begins[lane].eq(kept.byte), self.sources[lane].eq(kept.bank)]
            m.d.comb += self.write.values[lane].eq(extended(self.found[lane], begins[lane], job.size, job.signed))
        return m
