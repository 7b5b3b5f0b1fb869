"""Loads and stores of shared memory: each cycle one word of every bank."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.arbiter import lowest
from rtl.component import Component
from rtl.params import WARP_THREADS, SmParams

from .banks import bank_access, row_bits
from .choose import first_beat, pick
from .instruction import WORDS, place_layout
from .narrow import byte_mask, extended, repeated
from .words import word_write

__all__ = ["SharedPass", "shared_job"]


def shared_job() -> data.StructLayout:
    """Accesses of ``threads``, of ``words`` words or less each."""
    return data.StructLayout({
        "threads": WARP_THREADS, "write": 1, "words": range(WORDS + 1), "size": 3, "signed": 1})


class SharedPass(Component):
    """Takes a word of each thread of a beat, and serves them in as many cycles as a bank has different words to give.

    Threads that read the same word are served together, and those that write it too: the highest one's bytes stay.

    Members
    -------
    start : In(1)
        ``job`` is there in this cycle, and as long as the unit is busy.
    job : In(shared_job)
    beat, places, values : Out, In, In
        The beat that is next, its threads' places and words.
    used, access, read : Out(1), Out(bank_access), In
        An access to the banks, and what they answer a cycle later.
    write : Out(word_write)
        Words that were loaded.
    busy : Out(1)
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__({
            "start": In(1), "job": In(shared_job()), "beat": Out(range(params.beats)),
            "places": In(place_layout(params)),
            "values": In(data.ArrayLayout(data.ArrayLayout(32, params.lanes), WORDS)), "used": Out(1),
            "access": Out(bank_access(params)), "read": In(data.ArrayLayout(32, params.lanes)),
            "write": Out(word_write(params)), "busy": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        params, job = self._params, self.job
        lanes, bank_bits = params.lanes, ceil_log2(params.lanes)
        left, word = Signal(WARP_THREADS), Signal(range(WORDS))
        pending, served = Signal(lanes), Signal(lanes)
        fetched = Signal(data.ArrayLayout(data.StructLayout({
            "byte": 2, "bank": bank_bits, "row": row_bits(params), "value": 32}), lanes))
        mark = Signal(data.StructLayout({"beat": range(params.beats), "word": range(WORDS)}))

        # The next word of the next beat, when all of the last one are served.
        m.d.comb += self.beat.eq(Mux(left.any(), first_beat(left, params), 0))
        next_pending = Signal(lanes)
        m.d.comb += next_pending.eq(pending & ~served)
        m.d.sync += pending.eq(next_pending)
        with m.If(self.start):
            m.d.sync += [left.eq(job.threads), word.eq(0)]
        with m.Elif(left.any() & ~next_pending.any()):
            m.d.sync += [
                pending.eq(left.word_select(self.beat, lanes)), mark.beat.eq(self.beat), mark.word.eq(word),
                word.eq(word + 1)]
            with m.If(word == job.words - 1):
                m.d.sync += [word.eq(0), left.word_select(self.beat, lanes).eq(0)]
            for lane in range(lanes):
                place, kept = self.places[lane], fetched[lane]
                m.d.sync += [
                    kept.byte.eq(place[:2]), Cat(kept.bank, kept.row).eq(place[2:params.shared_bits] | word),
                    kept.value.eq(repeated(pick((values[lane] for values in self.values), word), job.size))]

        # In each bank the word of its lowest lane.
        for bank in range(lanes):
            wanted, row = Signal(lanes), Signal(row_bits(params))
            m.d.comb += [
                wanted.eq(pending & Cat(fetched[lane].bank == bank for lane in range(lanes))),
                row.eq(pick((kept.row for kept in fetched), lowest(wanted))), self.access[bank].row.eq(row)]
            for lane in range(lanes):
                kept = fetched[lane]
                with m.If(wanted[lane] & (kept.row == row)):
                    m.d.comb += served[lane].eq(1)
                    mask = byte_mask(kept.byte, job.size)
                    for byte in range(4):
                        with m.If(job.write & mask[byte]):
                            m.d.comb += [
                                self.access[bank].bytes[byte].eq(1),
                                self.access[bank].value[byte].eq(kept.value.word_select(byte, 8))]
        m.d.comb += self.used.eq(pending.any())

        # What was read, a cycle later.
        reading = Signal(lanes)
        banks = Signal(data.ArrayLayout(data.StructLayout({"byte": 2, "bank": bank_bits}), lanes))
        m.d.sync += [
            reading.eq(Mux(job.write, 0, served)), self.write.beat.eq(mark.beat), self.write.word.eq(mark.word)]
        m.d.comb += [
            self.write.lanes.eq(reading), self.busy.eq(self.start | left.any() | pending.any() | reading.any())]
        for lane in range(lanes):
            m.d.sync += [banks[lane].byte.eq(fetched[lane].byte), banks[lane].bank.eq(fetched[lane].bank)]
            m.d.comb += self.write.values[lane].eq(
                extended(pick(self.read, banks[lane].bank), banks[lane].byte, job.size, job.signed))
        return m
