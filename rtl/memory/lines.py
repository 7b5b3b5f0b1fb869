"""The miss queue: lines of memory that are asked for, filled, and answered, several at a time."""

from typing import Any

from amaranth.hdl import Assert, Cat, Module, Mux, Signal
from amaranth.lib import data, fifo, memory, stream
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.arbiter import lowest
from rtl.component import Component
from rtl.isa.tokens import LINE_BYTES
from rtl.layouts import Event, MemoryPort
from rtl.one_hot import one_hot
from rtl.params import LINE_ADDRESS_BITS, WARP_THREADS, SmParams
from rtl.pick import pick

from .access import atomic_job, first_beat, found_line, spread
from .crossbar import passed_layout
from .instruction import (
    LINE_WORDS,
    OFFSET_BITS,
    WORDS,
    BeatKind,
    BeatOwner,
    bank_read,
    bank_write,
    beat_job,
    memory_tag_bits,
    slot_bits,
)

__all__ = ["LineMemory", "MissQueue"]


class LineMemory(Component):
    """A line for each tag, and which of its bytes were written since the last ``finish``. Threads see it as they see
    shared memory: word w is in bank w modulo the number of banks.

    Members
    -------
    load, load_tag, loaded : In(1), In, In(line)
        A whole line, when nobody writes a word.
    read, values : In(bank_read), Out(a word for each bank)
        What was read a cycle ago; 0 if it was no line.
    write : In(bank_write)
    writes : Out(1)
        It writes to a line.
    finish, finish_tag : In(1), In
        All writes to the line of that tag are done, with that of this cycle.
    tag, line, written : In, Out, Out
        That line, and its bytes that were written.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        self._banks = min(params.lanes, LINE_WORDS)
        tag = memory_tag_bits(params)
        super().__init__({
            "load": In(1), "load_tag": In(tag), "loaded": In(8 * LINE_BYTES), "read": In(bank_read(params)),
            "values": Out(data.ArrayLayout(32, params.lanes)), "write": In(bank_write(params)), "writes": Out(1),
            "finish": In(1), "finish_tag": In(tag), "tag": In(tag), "line": Out(8 * LINE_BYTES),
            "written": Out(LINE_BYTES)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        tags, written, now = 1 << memory_tag_bits(self._params), Signal(LINE_BYTES), Signal(LINE_BYTES)
        rows = ceil_log2(LINE_WORDS // self._banks)
        m.d.comb += self.writes.eq(now.any())
        m.d.sync += [
            Assert(~(self.load & self.writes), "a line comes while a word is written"),
            written.eq(Mux(self.finish, 0, written | now))]
        found: list[Any] = []
        for word in range(LINE_WORDS):
            m.submodules[f"word_{word}"] = kept = memory.Memory(shape=32, depth=tags, init=[])
            write, read, sent = kept.write_port(granularity=8), kept.read_port(domain="comb"), kept.read_port(
                domain="comb")
            access = self.write.banks[word % self._banks]
            chosen = self.write.line & (access.row[:rows] == word // self._banks)
            m.d.comb += [
                now.word_select(word, 4).eq(Mux(chosen, access.bytes, 0)),
                write.addr.eq(Mux(self.load, self.load_tag, self.write.tag)),
                write.data.eq(Mux(self.load, self.loaded.word_select(word, 32), access.value.as_value())),
                write.en.eq(Mux(self.load, 15, now.word_select(word, 4))), read.addr.eq(self.read.tag),
                sent.addr.eq(self.tag), self.line.word_select(word, 32).eq(sent.data)]
            found.append(read.data)
        for bank in range(self._banks):
            value = pick(found[bank::self._banks], self.read.rows[bank][:rows])
            m.d.sync += self.values[bank].eq(Mux(self.read.kind == BeatKind.LINE, value, 0))
        m.submodules.masks = masks = memory.Memory(shape=LINE_BYTES, depth=tags, init=[])
        note, noted = masks.write_port(), masks.read_port(domain="comb")
        m.d.comb += [
            note.en.eq(self.finish), note.addr.eq(self.finish_tag), note.data.eq(written | now),
            noted.addr.eq(self.tag), self.written.eq(noted.data)]
        return m


class MissQueue(Component):
    """Gives each line a tag, under which it is read, or filled and written, or read, modified and written.

    Memory keeps no order between tags. So a line gets no tag while another one has it, unless both only read: accesses
    to a line happen in the order in which it was found, and nobody sees it between an atomic operation's read and its
    write. Answers are always taken.

    Members
    -------
    found : In(stream of found_line)
    fill, answer : Out(stream of beat_job)
        Words for a line that is to be written; words of one that was read.
    atomic : Out(stream of atomic_job)
        A line that was read, to be modified.
    modified : In(Event of a tag)
        It is.
    passed : In(Event of passed_layout)
    read, values, write : In(bank_read), Out(a word for each bank), In(bank_write)
        Words of lines.
    memory : Out(MemoryPort)
    begun : In(Event of a slot)
        Another instruction gets a slot: it has no fault.
    busy : Out(1)
        A line waits for its tag.
    pending, fault : Out(1 bit a slot)
        Slots that have lines under way; those of which something was not mapped.
    issued, filled : Out(Event of a slot)
        All lines of an instruction have tags; all of its words are in them.
    asked, asked_write : Out(1)
        Memory took a request; to write.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        slot, tag = slot_bits(params), memory_tag_bits(params)
        super().__init__({
            "found": In(stream.Signature(found_line(params))), "fill": Out(stream.Signature(beat_job(params))),
            "answer": Out(stream.Signature(beat_job(params))), "atomic": Out(stream.Signature(atomic_job(params))),
            "modified": In(Event(tag)), "passed": In(Event(passed_layout(params))), "read": In(bank_read(params)),
            "values": Out(data.ArrayLayout(32, params.lanes)), "write": In(bank_write(params)),
            "memory": Out(MemoryPort(tag)), "begun": In(Event(slot)), "busy": Out(1), "pending": Out(1 << slot),
            "fault": Out(1 << slot), "issued": Out(Event(slot)), "filled": Out(Event(slot)), "asked": Out(1),
            "asked_write": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        params, tags = self._params, 1 << memory_tag_bits(self._params)
        m.submodules.lines = lines = LineMemory(params)
        m.submodules.sending = sending = fifo.SyncFIFO(width=1 + memory_tag_bits(params), depth=tags)
        m.submodules.addresses = addresses = memory.Memory(shape=LINE_ADDRESS_BITS, depth=tags, init=[])
        note, address = addresses.write_port(), addresses.read_port(domain="comb")
        found, request, response = self.found.payload, self.memory.request, self.memory.response
        used, alters, released = Signal(tags), Signal(tags), Signal(tags)
        known = [Signal(LINE_ADDRESS_BITS, name=f"line_{tag}") for tag in range(tags)]

        # A tag for the next line, when nobody else has that line.
        tag, has_tag, word = Signal(memory_tag_bits(params)), Signal(), Signal(range(WORDS))
        line, ahead, ahead_tag, goes_on = Signal(LINE_ADDRESS_BITS), Signal(), Signal.like(tag), Signal()
        gives, last_word, meets, fills, pushes = Signal(), Signal(), Signal(), Signal(), Signal()
        given = one_hot(tag, tags, gives)
        free = ~(used | given)
        m.d.comb += [
            line.eq(found.line + Mux(found.local, word << ceil_log2(WARP_THREADS * 4) - OFFSET_BITS, 0)),
            last_word.eq(~found.local | (word == found.words - 1)), meets.eq(Cat(
                in_use & (other == line) & (found.write | found.modify | alter)
                for in_use, other, alter in zip(used, known, alters, strict=True)).any()),
            gives.eq(self.found.valid & ~ahead & has_tag & ~meets & (found.complete | ~word.any())
                     & Mux(found.write, found.complete & fills, ~pushes)),
            goes_on.eq(self.found.valid & found.complete & (gives | ahead)),
            self.found.ready.eq(goes_on & last_word), self.busy.eq(self.found.valid),
            self.issued.valid.eq(goes_on & last_word & found.last), self.issued.payload.eq(found.slot),
            note.en.eq(gives), note.addr.eq(tag), note.data.eq(line)]
        with m.If(goes_on):
            m.d.sync += [word.eq(Mux(last_word, 0, word + 1)), ahead.eq(0)]
        with m.Elif(gives):
            m.d.sync += [ahead.eq(1), ahead_tag.eq(tag)]
        with m.If(gives | ~has_tag):
            m.d.sync += [tag.eq(lowest(free)), has_tag.eq(free.any())]
        m.d.sync += [used.eq((used | given) & ~released), Assert(~(given & used).any(), "a tag in use is given again")]
        for number in range(tags):
            with m.If(given[number]):
                m.d.sync += [known[number].eq(line), alters[number].eq(found.write | found.modify)]

        # What is to be done with it.
        info_layout = data.StructLayout({
            "slot": slot_bits(params), "threads": WARP_THREADS, "modify": 1, "local": 1, "word": range(WORDS),
            "words": range(WORDS + 1), "size": 3, "signed": 1})
        m.submodules.infos = infos = memory.Memory(shape=info_layout, depth=tags, init=[])
        keep, info = infos.write_port(), infos.read_port(domain="comb")
        m.d.comb += [keep.en.eq(goes_on), keep.addr.eq(Mux(ahead, ahead_tag, tag)), keep.data.word.eq(word)]
        m.d.comb += [keep.data[name].eq(found[name]) for name in (
            "slot", "threads", "modify", "local", "words", "size", "signed")]
        self._fill(m, gives & found.write, tag, keep.data, found.last & last_word, fills)

        # Requests, in the order in which they are complete.
        finished, reads, passed = Signal(), Signal(), self.passed
        filled = passed.valid & (passed.payload.owner == BeatOwner.FILL)
        m.d.comb += [
            finished.eq(filled | self.modified.valid), pushes.eq(finished), lines.finish.eq(finished),
            lines.finish_tag.eq(Mux(filled, passed.payload.tag, self.modified.payload)),
            reads.eq(gives & ~found.write), sending.w_en.eq(finished | reads & (sending.r_rdy | ~request.ready)),
            sending.w_data.eq(Mux(finished, Cat(lines.finish_tag, 1), Cat(tag, 0))),
            request.valid.eq(sending.r_rdy | reads), sending.r_en.eq(request.ready), lines.tag.eq(request.payload.tag),
            address.addr.eq(sending.r_data[:-1]), Cat(request.payload.tag, request.payload.write).eq(
                Mux(sending.r_rdy, sending.r_data, Cat(tag, 0))),
            request.payload.address.eq(Mux(sending.r_rdy, address.data, line)), request.payload.data.eq(lines.line),
            request.payload.mask.eq(lines.written), self.asked.eq(request.valid & request.ready),
            self.asked_write.eq(request.payload.write)]
        m.d.sync += [
            Assert(~(filled & self.modified.valid), "two lines are complete in one cycle"),
            Assert(~sending.w_en | sending.w_rdy, "a request is lost")]

        # Answers.
        arrives, said, served = response.valid & response.ready, response.payload, Signal(tags)
        m.d.comb += [
            response.ready.eq(~lines.writes), lines.load.eq(arrives & ~said.write & ~said.error),
            lines.load_tag.eq(said.tag), lines.loaded.eq(said.data), lines.read.eq(self.read),
            lines.write.eq(self.write), self.values.eq(lines.values),
            served.eq(one_hot(passed.payload.tag, tags, passed.valid & (passed.payload.owner == BeatOwner.ANSWER))),
            released.eq(served | one_hot(said.tag, tags, arrives & (said.write | said.error)))]
        self._answer(m, info, lines.load, said.tag, one_hot(ahead_tag, tags, ahead))

        # Whose lines are under way.
        faulty = one_hot(said.tag, tags, arrives & said.error)
        for number in range(1 << slot_bits(params)):
            mine, pending = Signal(name=f"mine_{number}"), Signal(tags, name=f"pending_{number}")
            m.d.comb += [mine.eq(found.slot == number), self.pending[number].eq((pending & ~served).any())]
            m.d.sync += pending.eq((pending | (given & mine.replicate(tags))) & ~released)
            with m.If((pending & faulty).any()):
                m.d.sync += self.fault[number].eq(1)
            with m.Elif(self.begun.valid & (self.begun.payload == number)):
                m.d.sync += self.fault[number].eq(0)
        return m

    def _fill(self, m: Module, starts: Any, tag: Any, info: Any, last: Any, free: Signal) -> None:
        """Beats that fill a line; ``free``: another one may start."""
        params, job = self._params, self.fill.payload
        left, others, step, ends = Signal(WARP_THREADS), Signal(WARP_THREADS), Signal(range(WORDS)), Signal()
        kept, kept_tag, is_last = Signal.like(info), Signal.like(tag), Signal()
        m.d.comb += [
            others.eq(left & ~Cat((job.beat == number).replicate(params.lanes) for number in range(params.beats))),
            ends.eq(kept.local | (step == kept.words - 1)), self.fill.valid.eq(left.any()),
            free.eq(~left.any() | (self.fill.ready & job.last))]
        with m.If(starts):
            m.d.sync += [left.eq(info.threads), kept.eq(info), kept_tag.eq(tag), step.eq(0), is_last.eq(last)]
        with m.Elif(left.any() & self.fill.ready):
            m.d.sync += step.eq(Mux(ends, 0, step + 1))
            with m.If(ends):
                m.d.sync += left.eq(others)
        self._beat(m, job, kept, kept_tag, left, others, step, ends)
        m.d.comb += [
            job.write.eq(1), job.owner.eq(BeatOwner.FILL),
            self.filled.valid.eq(self.fill.valid & self.fill.ready & job.last & is_last),
            self.filled.payload.eq(kept.slot)]

    def _answer(self, m: Module, info: Any, loads: Any, tag: Any, incomplete: Any) -> None:
        """Beats that a line gives, or its atomic operations; of the next answer from the cycle on in which it comes.
        The line whose tag is ``incomplete`` has to wait until its threads are known."""
        params, job, atomic, here = self._params, self.answer.payload, self.atomic, info.data
        m.submodules.answered = answered = fifo.SyncFIFO(width=len(tag), depth=1 << len(tag))
        gone, left, others = Signal(WARP_THREADS), Signal(WARP_THREADS), Signal(WARP_THREADS)
        step, ends, done, over, there = Signal(range(WORDS)), Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            info.addr.eq(Mux(answered.r_rdy, answered.r_data, tag)),
            there.eq((answered.r_rdy | loads) & ~incomplete.bit_select(info.addr, 1)), left.eq(here.threads & ~gone),
            others.eq(left & ~Cat((job.beat == number).replicate(params.lanes) for number in range(params.beats))),
            ends.eq(here.local | (step == here.words - 1)), self.answer.valid.eq(there & ~here.modify),
            atomic.valid.eq(there & here.modify), atomic.payload.slot.eq(here.slot), atomic.payload.line.eq(1),
            atomic.payload.tag.eq(info.addr), atomic.payload.threads.eq(here.threads),
            done.eq(self.answer.valid & self.answer.ready & job.last), over.eq(done | atomic.valid & atomic.ready),
            answered.w_en.eq(loads & (answered.r_rdy | ~over)), answered.w_data.eq(tag), answered.r_en.eq(over)]
        with m.If(self.answer.valid & self.answer.ready):
            m.d.sync += step.eq(Mux(ends, 0, step + 1))
            with m.If(ends):
                m.d.sync += gone.eq(Mux(done, 0, ~others))
        self._beat(m, job, here, info.addr, left, others, step, ends)
        m.d.comb += [job.owner.eq(BeatOwner.ANSWER), job.signed.eq(here.signed),
                     job.spread.eq(Mux(here.local, 0, spread(here.words)))]

    def _beat(self, m: Module, job: Any, info: Any, tag: Any, left: Any, others: Any, step: Any, ends: Any) -> None:
        """The next beat of a line."""
        m.d.comb += [
            job.slot.eq(info.slot), job.beat.eq(first_beat(left, self._params)),
            job.lanes.eq(left.word_select(job.beat, self._params.lanes)), job.kind.eq(BeatKind.LINE), job.tag.eq(tag),
            job.word.eq(Mux(info.local, info.word, step)), job.local.eq(info.local), job.size.eq(info.size),
            job.last.eq(ends & ~others.any())]
