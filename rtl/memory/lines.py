"""The miss queue: lines of memory that are asked for, filled, and answered, several at a time."""

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Assert, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, fifo, memory, stream
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.arbiter import lowest
from rtl.component import Component
from rtl.isa.tokens import LINE_BYTES
from rtl.layouts import Event, MemoryPort
from rtl.one_hot import chosen_of, number_of, one_hot
from rtl.params import LINE_ADDRESS_BITS, WARP_THREADS, SmParams
from rtl.pick import pick

from .access import atomic_job, beats_of, found_line, halves, spread
from .crossbar import passed_layout
from .instruction import (
    LINE_WORDS,
    WORDS,
    BeatKind,
    BeatOwner,
    bank_read,
    bank_write,
    beat_job,
    memory_tag_bits,
    port_count,
    slot_bits,
)

__all__ = ["LineMemory", "MissQueue"]

_COMPARED_BITS = 16
"""Lower bits of a line's address by which it is told whether another one may be the same: lines that are 4 MiB apart
wait for each other, too, if one is written."""


class LineMemory(Component):
    """The lines that are filled or modified, one for each tag, which of their bytes were written since the last
    ``finish``, and the line that memory has answered last. Threads see them as they see shared memory: word w is in
    bank w modulo the number of banks.

    Members
    -------
    take, taken : In(1), In(line)
        The answer.
    copy, copy_row, copy_tag : In(1), In, In
        One row of words of the answer becomes that of a tag's line in the next cycle, when nothing is written; nothing
        is read now.
    copied : Out(1)
        The next cycle: the row is in ``values``, and has to be in ``write``, of which no byte is written.
    read, values, words : In(bank_read), Out(a word for each bank), Out(the same)
        What was read a cycle ago of the answer, 0 if it was something else; and what is in the line of a tag.
    write : In(bank_write)
    finish, finish_tag : In(1), In
        All writes to the line of that tag were done.
    tag, line, written : In, Out, Out
        That line, and its bytes that were written.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        self._banks = min(params.lanes, LINE_WORDS)
        self.rows = LINE_WORDS // self._banks
        tag, words = memory_tag_bits(params), data.ArrayLayout(32, params.lanes)
        super().__init__({
            "take": In(1), "taken": In(8 * LINE_BYTES), "copy": In(1), "copy_row": In(range(self.rows)),
            "copy_tag": In(tag), "copied": Out(1), "read": In(bank_read(params)), "values": Out(words),
            "words": Out(words), "write": In(bank_write(params)), "finish": In(1), "finish_tag": In(tag),
            "tag": In(tag), "line": Out(8 * LINE_BYTES), "written": Out(LINE_BYTES)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        tags, written, now = 1 << memory_tag_bits(self._params), Signal(LINE_BYTES), Signal(LINE_BYTES)
        row_bits_, answer = ceil_log2(self.rows), Signal(8 * LINE_BYTES)
        with m.If(self.take):
            m.d.sync += answer.eq(self.taken)
        copied, copied_row, copied_tag = self.copied, Signal.like(self.copy_row), Signal.like(self.copy_tag)
        m.d.sync += [
            copied.eq(self.copy), copied_row.eq(self.copy_row), copied_tag.eq(self.copy_tag),
            Assert(~(self.copy & self.read.used), "a row is copied while words are read"),
            Assert(~(copied & Cat(bank.bytes for bank in self.write.banks).any()), "and while some are written"),
            written.eq(Mux(self.finish, 0, written) | now)]
        for bank in range(self._banks):
            access, words = self.write.banks[bank], range(bank, LINE_WORDS, self._banks)
            m.submodules[f"bank_{bank}"] = kept = memory.Memory(shape=32, depth=tags * self.rows, init=[])
            write, read = kept.write_port(granularity=8), kept.read_port(domain="comb")
            row, found = Mux(self.copy, self.copy_row, self.read.rows[bank][:row_bits_]), Signal(32)
            m.d.comb += [
                found.eq(pick([answer.word_select(word, 32) for word in words], row)),
                write.addr.eq(Cat(Mux(copied, copied_row, access.row[:row_bits_]),
                                  Mux(copied, copied_tag, self.write.tag))),
                write.data.eq(access.value.as_value()),
                write.en.eq(copied.replicate(4) | Mux(self.write.line, access.bytes, 0)),
                read.addr.eq(Cat(self.read.rows[bank][:row_bits_], self.read.tag)), self.words[bank].eq(read.data)]
            m.d.sync += self.values[bank].eq(Mux(self.copy | (self.read.kind == BeatKind.ANSWER), found, 0))
            for number, word in enumerate(words):
                sent, chosen = kept.read_port(domain="comb"), self.write.line & (access.row[:row_bits_] == number)
                m.d.comb += [
                    now.word_select(word, 4).eq(Mux(chosen, access.bytes, 0)),
                    sent.addr.eq(Cat(Const(number, row_bits_), self.tag)),
                    self.line.word_select(word, 32).eq(sent.data)]
        m.submodules.masks = masks = memory.Memory(shape=LINE_BYTES, depth=tags, init=[])
        note, noted = masks.write_port(), masks.read_port(domain="comb")
        m.d.comb += [
            note.en.eq(self.finish), note.addr.eq(self.finish_tag), note.data.eq(written), noted.addr.eq(self.tag),
            self.written.eq(noted.data)]
        return m


class MissQueue(Component):
    """Gives each line a tag, under which it is read, or filled and written, or read, modified and written.

    Memory keeps no order between tags. So a line gets no tag while another one has it, unless both only read, or both
    only write: the second one's words are collected while the first one is written, and its request waits until memory
    has confirmed that. Accesses to a line happen in the order in which it was found, and nobody sees it between an
    atomic operation's read and its write. An answer is taken when the words of the one before have passed the crossbar;
    what confirms a write, always.

    Members
    -------
    found : In(stream of found_line)
    fill, answer : Out(stream of beat_job)
        Words for a line that is to be written; words of one that was read.
    atomic : Out(stream of atomic_job)
        A line that was read, to be modified.
    modified : In(Event of a tag)
        It is.
    passed, closing : In(Event of passed_layout)
        Of the crossbar.
    read, values, words, write, copied : In(bank_read), Out(a word for each bank), Out(the same), In(bank_write), Out(1)
        Words of lines, as of :class:`LineMemory`.
    memory : Out(MemoryPort)
    begun : In(Event of a slot)
        Another instruction gets a slot: it has no fault.
    quiet : In(1)
        Nothing is read or written, nor will be in the next cycle.
    busy : Out(1)
        A line waits for its tag.
    pending, fault : Out(1 bit a slot)
        Slots that have lines under way; those of which something was not mapped.
    filling : Out(1)
        Some words of a line that is filled are on their way or in it, others have not begun theirs.
    issued, filled : Out(Event of a slot)
        All lines of an instruction have tags; all of its words are in them, since a cycle before.
    asked, asked_write : Out(1)
        Memory took a request; to write.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        slot, tag = slot_bits(params), memory_tag_bits(params)
        super().__init__({
            "found": In(stream.Signature(found_line(params))), "fill": Out(stream.Signature(beat_job(params))),
            "answer": Out(stream.Signature(beat_job(params))), "atomic": Out(stream.Signature(atomic_job(params))),
            "modified": In(Event(tag)), "passed": In(Event(passed_layout(params))),
            "closing": In(Event(passed_layout(params))), "read": In(bank_read(params)),
            "values": Out(data.ArrayLayout(32, params.lanes)), "words": Out(data.ArrayLayout(32, params.lanes)),
            "write": In(bank_write(params)), "copied": Out(1), "memory": Out(MemoryPort(tag)),
            "begun": In(Event(slot)), "quiet": In(1), "busy": Out(1), "pending": Out(1 << slot),
            "fault": Out(1 << slot), "filling": Out(1),
            "issued": Out(Event(slot)), "filled": Out(Event(slot)), "asked": Out(1), "asked_write": Out(1)})
        self.sending: Any = fifo.SyncFIFO(width=1 + tag, depth=1 << tag)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        params, tags = self._params, 1 << memory_tag_bits(self._params)
        m.submodules.lines = lines = LineMemory(params)
        m.submodules.sending = sending = self.sending
        m.submodules.addresses = addresses = memory.Memory(shape=LINE_ADDRESS_BITS, depth=tags, init=[])
        note, address = addresses.write_port(), addresses.read_port(domain="comb")
        found, request, response = self.found.payload, self.memory.request, self.memory.response
        used, alters, released, confirmed = Signal(tags), Signal(tags), Signal(tags), Signal(tags)
        known = [Signal(_COMPARED_BITS, name=f"line_{tag}") for tag in range(tags)]

        # A tag for the next line, when nobody else has that line.
        tag, has_tag, word = Signal(memory_tag_bits(params)), Signal(), Signal(range(WORDS))
        line, ahead, ahead_tag, goes_on = Signal(LINE_ADDRESS_BITS), Signal(), Signal.like(tag), Signal()
        following = Signal.like(line)       # of local memory, the next word's
        gives, last_word, finished = Signal(), Signal(), Signal()
        given, free = one_hot(tag, tags, gives), ~(used & ~confirmed | one_hot(tag, tags, has_tag))

        # Whether the line is another one's is known in its second cycle, and does not matter if all only read. If all
        # only write, the new one is held, and so are those that come behind it, until all writes that they follow are
        # confirmed. Who meets one that is held waits.
        meets, compared, altering, alter = Signal(), Signal(), Signal(), found.write | found.modify
        writes, held, unconfirmed, same, follows = (Signal(tags, name=name) for name in (
            "writes", "held", "unconfirmed", "same", "follows"))
        safe = ~(alter | altering) | compared & ~meets
        m.d.comb += same.eq(used & ~confirmed & Cat(other == line[:_COMPARED_BITS] for other in known))
        m.d.sync += [
            meets.eq((same & Mux(found.write, ~(writes & ~held), alters | found.modify.replicate(tags))).any()),
            follows.eq(same), compared.eq(self.found.valid & ~goes_on),
            altering.eq((used & alters).any() | gives & alter),
            held.eq(Mux(unconfirmed.any(), held, 0) | Mux((follows | held).any() & found.write, given, 0)),
            unconfirmed.eq((unconfirmed | Mux(gives & found.write, follows, 0)) & ~confirmed)]
        m.d.comb += [
            line.eq(Mux(word.any(), following, found.line)),
            last_word.eq(~found.local | (word == found.words - 1)),
            gives.eq(self.found.valid & ~ahead & has_tag & safe & (found.complete | ~word.any())
                     & Mux(found.write, found.complete & ~self.fill.valid, ~finished)),
            goes_on.eq(self.found.valid & found.complete & (gives | ahead)),
            self.found.ready.eq(goes_on & last_word), self.busy.eq(self.found.valid),
            note.en.eq(gives), note.addr.eq(tag), note.data.eq(line)]
        m.d.sync += [
            self.issued.valid.eq(goes_on & last_word & found.last), self.issued.payload.eq(found.slot)]
        with m.If(goes_on):
            m.d.sync += [
                word.eq(Mux(last_word, 0, word + 1)), ahead.eq(0), following.eq(line + 4 * WARP_THREADS // LINE_BYTES)]
        with m.Elif(gives):
            m.d.sync += [ahead.eq(1), ahead_tag.eq(tag)]
        with m.If(gives | ~has_tag):
            m.d.sync += [tag.eq(lowest(free)), has_tag.eq(free.any())]
        m.d.sync += [used.eq((used | given) & ~released), Assert(~(given & used).any(), "a tag in use is given again")]
        for number in range(tags):
            with m.If(given[number]):
                m.d.sync += [known[number].eq(line), alters[number].eq(alter), writes[number].eq(found.write)]

        # What is to be done with it.
        info_layout = data.StructLayout({
            "slot": slot_bits(params), "threads": WARP_THREADS, "paired": params.beats, "next": next_layout(params),
            "modify": 1, "local": 1, "word": range(WORDS), "words": range(WORDS + 1), "size": 3, "signed": 1})
        m.submodules.infos = infos = memory.Memory(shape=info_layout, depth=tags, init=[])
        keep, info = infos.write_port(), infos.read_port(domain="comb")
        m.d.comb += [keep.en.eq(goes_on), keep.addr.eq(Mux(ahead, ahead_tag, tag)), keep.data.word.eq(word),
            keep.data.next.as_value().eq(first_of(found, beats_of(found.threads, params), params))]
        m.d.comb += [keep.data[name].eq(found[name]) for name in (
            "slot", "threads", "paired", "modify", "local", "words", "size", "signed")]
        self._fill(m, gives & found.write, tag, keep.data, found.last & last_word)

        # Requests, in the order in which they are complete.
        reads, passed, filled, filled_tag = Signal(), self.passed, Signal(), Signal.like(tag)
        waits = held.bit_select(sending.r_data[:-1], 1)
        m.d.sync += [
            filled.eq(passed.valid & (passed.payload.owner == BeatOwner.FILL)), filled_tag.eq(passed.payload.tag),
            finished.eq(filled | self.modified.valid),
            lines.finish_tag.eq(Mux(filled, filled_tag, self.modified.payload))]
        m.d.comb += [
            lines.finish.eq(finished), reads.eq(gives & ~found.write),
            sending.w_en.eq(finished | reads & (sending.r_rdy | ~request.ready)),
            sending.w_data.eq(Mux(finished, Cat(lines.finish_tag, 1), Cat(tag, 0))),
            request.valid.eq(Mux(sending.r_rdy, ~waits, reads)), sending.r_en.eq(request.ready & ~waits),
            lines.tag.eq(request.payload.tag), address.addr.eq(sending.r_data[:-1]),
            Cat(request.payload.tag, request.payload.write).eq(Mux(sending.r_rdy, sending.r_data, Cat(tag, 0))),
            request.payload.address.eq(Mux(sending.r_rdy, address.data, line)), request.payload.data.eq(lines.line),
            request.payload.mask.eq(lines.written), self.asked.eq(request.valid & request.ready),
            self.asked_write.eq(request.payload.write)]
        m.d.sync += [
            Assert(~(filled & self.modified.valid), "two lines are complete in one cycle"),
            Assert(~sending.w_en | sending.w_rdy, "a request is lost")]

        # Answers.
        said, served = response.payload, Signal(tags)
        m.d.comb += [
            lines.taken.eq(said.data), lines.read.eq(self.read), lines.write.eq(self.write),
            self.values.eq(lines.values), self.words.eq(lines.words), self.copied.eq(lines.copied),
            served.eq(one_hot(passed.payload.tag, tags, passed.valid & (passed.payload.owner == BeatOwner.ANSWER))),
            confirmed.eq(one_hot(said.tag, tags, response.valid & (said.write | said.error))),
            released.eq(served | confirmed)]
        self._answer(m, lines, info, ahead, ahead_tag)

        # Whose lines are under way.
        slots, count = [Signal(slot_bits(params), name=f"slot_{tag}") for tag in range(tags)], 1 << slot_bits(params)
        marks = [Signal(count, name=f"mark_{tag}") for tag in range(tags)]
        for number, (slot, mark) in enumerate(zip(slots, marks, strict=True)):
            with m.If(given[number]):
                m.d.sync += [slot.eq(found.slot), mark.eq(one_hot(found.slot, count))]
        # That one of them closes is known late: whether it is the slot's last one, before.
        closed, closing, closes = Signal(tags), self.closing.payload, self.closing.valid
        opens, slot_waits, mine = used & ~closed, Signal(count), one_hot(
            closing.tag, tags, closing.owner == BeatOwner.ANSWER)
        alone = ~(opens & ~mine & Cat(slot == closing.slot for slot in slots)).any()
        m.d.comb += [
            slot_waits.eq(reduce(or_, (Mux(opens[tag], of, 0) for tag, of in enumerate(marks)))),
            self.pending.eq(slot_waits & ~one_hot(closing.slot, count, closes & alone & mine.any()))]
        m.d.sync += closed.eq((closed | Mux(closes, mine, 0)) & ~served)
        m.d.sync += self.fault.eq(
            self.fault & ~one_hot(self.begun.payload, count, self.begun.valid)
            | one_hot(pick(slots, said.tag), count, response.valid & said.error))
        return m

    def _fill(self, m: Module, starts: Any, tag: Any, info: Any, last: Any) -> None:
        """Beats that fill a line."""
        job, step, ends = self.fill.payload, Signal(range(WORDS)), Signal()
        kept, kept_tag, final, passed = Signal.like(info), Signal.like(tag), Signal(), self.passed.payload
        m.d.comb += ends.eq(kept.local | (step == kept.words - 1))
        with m.If(starts):
            m.d.sync += [self.fill.valid.eq(1), kept.eq(info), kept_tag.eq(tag), step.eq(0), final.eq(last)]
        with m.Elif(self.fill.valid & self.fill.ready):
            m.d.sync += [
                step.eq(Mux(ends, 0, step + 1)), self.filling.eq(~job.last), self.fill.valid.eq(~job.last)]
            with m.If(ends):
                m.d.sync += kept.next.as_value().eq(first_of(kept, kept.next.others, self._params))
        self._beat(m, job, kept, kept_tag, kept.next, step, ends)
        m.d.comb += [
            job.write.eq(1), job.final.eq(final), job.owner.eq(BeatOwner.FILL), job.kind.eq(BeatKind.LINE)]
        m.d.sync += [
            self.filled.valid.eq(self.passed.valid & (passed.owner == BeatOwner.FILL) & passed.final),
            self.filled.payload.eq(passed.slot)]

    def _answer(self, m: Module, lines: LineMemory, info: Any, early: Signal, incomplete: Signal) -> None:
        """Beats that a line gives, or its atomic operations. If one was asked for ``early``, it is that whose tag is
        ``incomplete``, and has to wait until its threads are known.

        The answer that was taken stays until its words have been read. The next one's beats follow those of it without
        a gap: the first of them, of an answer that is not taken yet, passes the crossbar's first stages meanwhile.
        Beats leave from registers: what is kept of an answer's line is read before them, threads' places behind.
        """
        params, job, atomic, here = self._params, Signal(beat_job(self._params)), self.atomic, info.data
        response, said, passed = self.memory.response, self.memory.response.payload, self.passed
        begun, following, now = Signal(), Signal(next_layout(params)), Signal(next_layout(params))
        step, ends, done, gives, comes, free = Signal(range(WORDS)), Signal(), Signal(), Signal(), Signal(), Signal()
        stays, kept_tag, more, served, ahead = Signal(), Signal.like(said.tag), Signal(), Signal(), Signal()
        modifies, known, is_known = Signal(), Signal(), Signal()
        m.d.sync += [modifies.eq(here.modify), known.eq(is_known)]      # of the same tag: it stays
        m.d.comb += [
            comes.eq(response.valid & ~said.write & ~said.error), response.ready.eq(~comes | ~stays),
            lines.take.eq(comes & ~stays), info.addr.eq(Mux(more, kept_tag, said.tag)),
            is_known.eq(~(early & (info.addr == incomplete))),
            now.eq(Mux(begun, following.as_value(), here.next.as_value())),
            ends.eq(here.local | (step == here.words - 1)), free.eq(~self.answer.valid | self.answer.ready),
            gives.eq(free & (more | comes & ~ahead) & is_known & ~here.modify), done.eq(gives & job.last),
            served.eq(passed.valid & (passed.payload.owner == BeatOwner.ANSWER))]
        with m.If(free):
            m.d.sync += [self.answer.valid.eq(gives), self.answer.payload.eq(job)]
        with m.If(gives):
            m.d.sync += step.eq(Mux(ends, 0, step + 1))
            with m.If(ends):
                m.d.sync += [
                    begun.eq(~done), following.as_value().eq(first_of(here, now.others, params))]
        with m.If(lines.take):
            m.d.sync += [kept_tag.eq(said.tag), stays.eq(1), more.eq(~ahead & ~done), ahead.eq(0)]
        with m.Elif(done):
            m.d.sync += [more.eq(0), ahead.eq(~more)]

        # A line that is to be modified is copied, the last row while the first operation is on its way.
        row, last_row = lines.copy_row, lines.rows - 1
        offers, starts = row == max(0, last_row - 1), Signal()
        m.d.comb += [
            starts.eq(more & modifies & known), atomic.valid.eq(starts & offers), atomic.payload.slot.eq(here.slot),
            atomic.payload.line.eq(1), atomic.payload.tag.eq(kept_tag), atomic.payload.threads.eq(here.threads),
            lines.copy.eq(starts & Mux(offers, atomic.ready, self.quiet | (row == last_row))),
            lines.copy_tag.eq(kept_tag)]
        copied = lines.copy & (row == last_row)
        with m.If(lines.copy):
            m.d.sync += row.eq(Mux(row == last_row, 0, row + 1))
        with m.If(copied):
            m.d.sync += more.eq(0)
        with m.If(served | copied):
            m.d.sync += stays.eq(0)
        self._beat(m, job, here, info.addr, now, step, ends)
        m.d.comb += [job.owner.eq(BeatOwner.ANSWER), job.kind.eq(BeatKind.ANSWER), job.signed.eq(here.signed),
                     job.spread.eq(Mux(here.local, 0, spread(here.words)))]

    def _beat(self, m: Module, job: Any, info: Any, tag: Any, now: Any, step: Any, ends: Any) -> None:
        """The next beat of a line."""
        m.d.comb += [
            job.slot.eq(info.slot), job.beat.eq(now.beat), job.lanes.eq(now.lanes), job.tag.eq(tag),
            job.word.eq(Mux(info.local, info.word, step)), job.local.eq(info.local), job.size.eq(info.size),
            job.skips.eq(now.skips), job.single.eq(now.single), job.last.eq(ends & ~now.others.any())]


def next_layout(params: SmParams) -> data.StructLayout:
    """The next of a line's beats, its ``lanes``, and the ``others`` behind it."""
    return data.StructLayout({"beat": range(params.beats), "lanes": params.lanes, "skips": 1, "single": 1,
                              "others": params.beats})


def first_of(info: Any, beats: Value, params: SmParams) -> Value:
    """The lowest of some beats of a line, as a next_layout."""
    lowest_one = Cat(beats[beat] & ~beats[:beat].any() for beat in range(params.beats))
    lanes = Value.cast(chosen_of(
        lowest_one, [info.threads.word_select(beat, params.lanes) for beat in range(params.beats)]))
    return Cat(number_of(lowest_one)[:ceil_log2(params.beats)], lanes, halves(
        lanes, (lowest_one & info.paired).any(), port_count(params)), beats & ~lowest_one)
