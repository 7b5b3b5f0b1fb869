"""The miss queue: lines of memory that are requested, filled and answered, several at a time."""

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Assert, Cat, Module, Mux, Signal
from amaranth.lib import data, fifo, stream
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.arbiter import lowest
from rtl.component import Component
from rtl.isa.tokens import LINE_BYTES
from rtl.layouts import Event, MemoryPort
from rtl.one_hot import one_hot
from rtl.params import LINE_ADDRESS_BITS, WARP_THREADS, SmParams
from rtl.pick import pick
from rtl.structs import common_fields, struct_value
from rtl.words import Words

from .access import atomic_job, beats_of, found_line
from .crossbar import passed_layout
from .instruction import (
    WORDS,
    BeatOwner,
    beat_job,
    memory_tag_bits,
    slot_bits,
)
from .line_beats import AnswerSequencer, FillSequencer, filled_line, first_beat, line_info
from .line_hazards import LineHazards, NewLine
from .line_memory import LineMemory, LinePort

__all__ = ["MissQueue"]

_LINES_OF_A_WORD = 4 * WARP_THREADS // LINE_BYTES
"""Lines from one word of a warp's local memory to the next one."""


def _queued_request(params: SmParams) -> data.StructLayout:
    """A request that waits: to read the line of a tag, or to write it."""
    return data.StructLayout({"tag": memory_tag_bits(params), "write": 1})


class MissQueue(Component):
    """Gives each line a tag, under which it is read, or filled and written, or read, modified and
    written.

    There is no data cache, and requests are never merged: every line is requested, even if the same
    line is under way. To *fill* a line is to write the words that threads store into its buffer;
    nothing is read from memory. ::

        found line --> ALLOCATE ---- read --------------> request queue --> memory
                        |  a tag, if the                      ^                |
                        |  hazard rule                        | write          v
                        |  allows it     .-- all words are in the line <-.   ANSWER
                        |                |                    ^          |     |
                        +---- write ---> FILL: words ---> crossbar    atomic <-+
                                                              ^                |
                                                              +---- words -----+

    ========  ===================================================================================
    step      what happens
    ========  ===================================================================================
    allocate  the line gets a tag. Its hazards are known in the second cycle at the latest, see
              LineHazards. A line that is read is requested at once, though all its threads may
              not be known yet; a line that is written waits until they are
    request   requests are sent to memory in the order in which they are ready, from the queue; a
    read
              is sent in its first cycle if the queue is empty
    fill      the words that threads store pass the crossbar into the line memory, for one line
              at a time; the mask keeps all other bytes in memory unchanged. Two cycles after the
              last beat has passed, the line is complete and its write is queued
    answer    an answer is taken when the words of the one before have passed the crossbar. Its
              words go to their threads; or its line is modified, complete and queued as above
    ========  ===================================================================================

    Accesses to a line are made in the order in which it was found, and none between an atomic
    operation's read and its write. A tag is free again when memory has confirmed the write, or has
    reported a fault, or when the last word that was read has passed.

    Simultaneous requests: a complete line has the queue's write port, and no read gets a tag in
    that cycle.

    Members
    -------
    found : In(stream of found_line)
    fill, answer : Out(stream of beat_job)
        Words for a line that is to be written; words of one that was read.
    atomic : Out(stream of atomic_job)
        A line that was read, to be modified.
    modified : In(Event of a tag)
        All atomic operations on the line of that tag are done.
    passed, closing : In(Event of passed_layout)
        Of the crossbar.
    lines : In(LinePort)
        Words of lines, see :class:`~rtl.memory.line_memory.LineMemory`.
    memory : Out(MemoryPort)
    begun : In(Event of a slot)
        Another instruction gets a slot: it has no fault.
    quiet : In(1)
        Nothing is read or written, nor will be in the next cycle.
    busy : Out(1)
        A line waits for its tag.
    pending, fault : Out(1 bit a slot)
        Slots with lines that may not be served in time for write-back: lines under way that are
        not ``closed``. Slots with a line that was not mapped.
    filling : Out(1)
        Some words of a line that is filled are in it or in the crossbar, others were not offered.
    issued, filled : Out(Event of a slot)
        In the cycle before, the last line of an instruction had its tag and all its threads, so
        all its lines have tags; the last word that an instruction stores passed the crossbar.

    Attributes
    ----------
    line, word : Signal
        The line that is to get a tag; in local memory, which word of the threads it has.
    free_tag, has_free_tag : Signal(tag), Signal(1)
        The tag that is allocated next, if there is one.
    allocate, allocated : Event(tag), Signal(tags)
        The line gets its tag in this cycle; the same, one-hot.
    advance : Signal(1)
        The line has its tag and all its threads: the next one follows.
    early : Event(tag)
        The line has had this tag since before all its threads were known.
    used, confirmed, released : Signal(tags)
        Tags of lines under way; tags that are freed with an answer; tags that are free after this
        cycle.
    fill_passed : Event(tag)
        The last beat of a line that is filled has passed the crossbar a cycle ago.
    completed : Event(tag)
        A line is full: it has all words that are stored, or is modified. Its write is queued.
    closed : Signal(tags)
        Lines that are read, and for which the crossbar has announced (``closing``) that their words
        will be in time for write-back; until the last of these has passed.
    slots, slot_masks : list of Signal
        By tag: the instruction's slot, as a number and one-hot.
    addresses, infos : Words
        By tag: the line's address; a line_info.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        slot = slot_bits(params)
        tag = memory_tag_bits(params)
        tags = 1 << tag
        super().__init__({
            "found": In(stream.Signature(found_line(params))),
            "fill": Out(stream.Signature(beat_job(params))),
            "answer": Out(stream.Signature(beat_job(params))),
            "atomic": Out(stream.Signature(atomic_job(params))),
            "modified": In(Event(tag)),
            "passed": In(Event(passed_layout(params))),
            "closing": In(Event(passed_layout(params))),
            "lines": In(LinePort(params)),
            "memory": Out(MemoryPort(tag)),
            "begun": In(Event(slot)),
            "quiet": In(1),
            "busy": Out(1),
            "pending": Out(1 << slot),
            "fault": Out(1 << slot),
            "filling": Out(1),
            "issued": Out(Event(slot)),
            "filled": Out(Event(slot)),
        })
        self.hazards = LineHazards(params)
        self.line_memory = LineMemory(params)
        self.fills = FillSequencer(params)
        self.answers = AnswerSequencer(params)
        self.allocate = self.hazards.allocate
        self.completed = self.line_memory.finish
        self.requests: Any = fifo.SyncFIFO(width=_queued_request(params).size, depth=tags)
        self.addresses = Words(LINE_ADDRESS_BITS, tags)
        self.infos = Words(line_info(params), tags)

        self.line = Signal(LINE_ADDRESS_BITS)
        self.word = Signal(range(WORDS))
        self.free_tag = Signal(tag)
        self.has_free_tag = Signal()
        self.allocated = Signal(tags)
        self.advance = Signal()
        self.early: Any = Event(tag).create(path=("early",))
        self.used = Signal(tags)
        self.confirmed = Signal(tags)
        self.released = Signal(tags)
        self.fill_passed: Any = Event(tag).create(path=("fill_passed",))
        self.closed = Signal(tags)
        self.slots = [Signal(slot, name=f"slot_{tag}") for tag in range(tags)]
        self.slot_masks = [Signal(1 << slot, name=f"slot_mask_{tag}") for tag in range(tags)]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.hazards = self.hazards
        m.submodules.lines = self.line_memory
        m.submodules.fills = self.fills
        m.submodules.answers = self.answers
        m.submodules.requests = self.requests
        m.submodules.addresses = self.addresses
        m.submodules.infos = self.infos
        is_last_word = self._select_line(m)
        self._check_hazards(m)
        self._allocate(m)
        self._release(m)
        info = self._keep_info(m)
        self._fill(m, info, self.found.payload.last & is_last_word)
        self._answer(m)
        self._complete(m)
        self._request(m)
        self._connect_words(m)
        self._track_slots(m)
        self._record_faults(m)
        return m

    def _tag_mask(self, tag: Any, when: Any) -> Any:
        """A tag one-hot, or no tag."""
        return one_hot(tag, len(self.used), when)

    def _select_line(self, m: Module) -> Signal:
        """The line that is to get a tag: the one in ``found``, and in local memory those of the
        threads' other words after it. Returns whether it is the last of these."""
        found = self.found.payload
        is_last_word = Signal()
        next_line = Signal.like(self.line)
        m.d.comb += is_last_word.eq(~found.local | (self.word == found.words - 1))
        m.d.comb += self.line.eq(Mux(self.word.any(), next_line, found.line))
        m.d.comb += self.busy.eq(self.found.valid)
        m.d.comb += self.found.ready.eq(self.advance & is_last_word)
        m.d.sync += self.issued.valid.eq(self.advance & is_last_word & found.last)
        m.d.sync += self.issued.payload.eq(found.slot)
        with m.If(self.advance):
            m.d.sync += next_line.eq(self.line + _LINES_OF_A_WORD)
            with m.If(is_last_word):
                m.d.sync += self.word.eq(0)
            with m.Else():
                m.d.sync += self.word.eq(self.word + 1)
        return is_last_word

    def _check_hazards(self, m: Module) -> None:
        """Whether the line may have a tag beside the lines that are under way."""
        found = self.found.payload
        hazards = self.hazards
        m.d.comb += hazards.is_waiting.eq(self.found.valid & ~self.advance)
        m.d.comb += hazards.new.eq(struct_value(
            NewLine, line=self.line, write=found.write, modify=found.modify))
        m.d.comb += hazards.used.eq(self.used)
        m.d.comb += hazards.confirmed.eq(self.confirmed)

    def _allocate(self, m: Module) -> None:
        """The line gets its tag, and leaves when all its threads are known."""
        found = self.found.payload
        allocate = self.allocate
        needs_tag = Signal()
        can_begin = Signal()
        is_first_word = ~self.word.any()
        m.d.comb += needs_tag.eq(
            self.found.valid & ~self.early.valid & (found.complete | is_first_word))
        with m.If(found.write):
            m.d.comb += can_begin.eq(found.complete & ~self.fill.valid)
        with m.Else():
            # Its request may need the queue's write port.
            m.d.comb += can_begin.eq(~self.completed.valid)
        m.d.comb += allocate.payload.eq(self.free_tag)
        m.d.comb += allocate.valid.eq(
            needs_tag & can_begin & self.has_free_tag & self.hazards.may_allocate)
        m.d.comb += self.allocated.eq(self._tag_mask(self.free_tag, allocate.valid))
        m.d.comb += self.advance.eq(
            self.found.valid & found.complete & (allocate.valid | self.early.valid))
        with m.If(self.advance):
            m.d.sync += self.early.valid.eq(0)
        with m.Elif(allocate.valid):
            m.d.sync += self.early.valid.eq(1)
            m.d.sync += self.early.payload.eq(self.free_tag)

        # The next free tag.
        reserved = self._tag_mask(self.free_tag, self.has_free_tag)
        free = ~((self.used & ~self.confirmed) | reserved)
        with m.If(allocate.valid | ~self.has_free_tag):
            m.d.sync += self.free_tag.eq(lowest(free))
            m.d.sync += self.has_free_tag.eq(free.any())
        m.d.sync += self.used.eq((self.used | self.allocated) & ~self.released)
        m.d.sync += Assert(~(self.allocated & self.used).any(), "a tag in use is allocated again")

    def _release(self, m: Module) -> None:
        """A line ends with its last word, its confirmation or its fault."""
        response = self.memory.response
        passed = self.passed
        self._served = Signal.like(self.used)
        m.d.comb += self._served.eq(self._tag_mask(
            passed.payload.tag, passed.valid & (passed.payload.owner == BeatOwner.ANSWER)))
        m.d.comb += self.confirmed.eq(self._tag_mask(
            response.payload.tag,
            response.valid & (response.payload.write | response.payload.error)))
        m.d.comb += self.released.eq(self._served | self.confirmed)

    def _keep_info(self, m: Module) -> Any:
        """What is to be done with the line, kept by its tag. Returns it."""
        found = self.found.payload
        self.addresses.write(m, self.allocate.valid, self.allocate.payload, self.line)

        info: Any = Signal(line_info(self._params))
        tag = Mux(self.early.valid, self.early.payload, self.free_tag)
        self.infos.write(m, self.advance, tag, info)
        m.d.comb += info.word.eq(self.word)
        m.d.comb += info.first.eq(first_beat(
            m, found, beats_of(found.threads, self._params), self._params))
        m.d.comb += common_fields(info, found)
        return info

    def _fill(self, m: Module, info: Any, is_final: Any) -> None:
        """A line that is written gets its words."""
        fills = self.fills
        passed = self.passed
        connect(m, fills.fill, flipped(self.fill))
        m.d.comb += fills.start.valid.eq(self.allocate.valid & self.found.payload.write)
        m.d.comb += fills.start.payload.eq(struct_value(
            filled_line(self._params), info=info, tag=self.free_tag, final=is_final))
        m.d.comb += self.filling.eq(fills.filling)

        has_passed = Signal()
        m.d.comb += has_passed.eq(passed.valid & (passed.payload.owner == BeatOwner.FILL))
        m.d.sync += self.fill_passed.valid.eq(has_passed)
        m.d.sync += self.fill_passed.payload.eq(passed.payload.tag)
        m.d.sync += self.filled.valid.eq(has_passed & passed.payload.final)
        m.d.sync += self.filled.payload.eq(passed.payload.slot)

    def _answer(self, m: Module) -> None:
        """Memory's answers are sent to the threads, or are modified."""
        answers = self.answers
        connect(m, flipped(self.memory.response), answers.response)
        connect(m, flipped(self.passed), answers.passed)
        connect(m, answers.answer, flipped(self.answer))
        connect(m, answers.atomic, flipped(self.atomic))
        connect(m, self.early, answers.incomplete)
        m.d.comb += answers.info.eq(self.infos.read(m, answers.info_tag))
        m.d.comb += answers.is_quiet.eq(self.quiet)

    def _complete(self, m: Module) -> None:
        """A line has all its words: the last one that fills it, or an atomic operation's."""
        fill_passed = self.fill_passed
        modified = self.modified
        m.d.sync += self.completed.valid.eq(fill_passed.valid | modified.valid)
        with m.If(fill_passed.valid):
            m.d.sync += self.completed.payload.eq(fill_passed.payload)
        with m.Else():
            m.d.sync += self.completed.payload.eq(modified.payload)
        m.d.sync += Assert(
            ~(fill_passed.valid & modified.valid), "two lines are complete in one cycle")

    def _request(self, m: Module) -> None:
        """Requests in the order in which they are ready. One at the head of the queue that is held
        keeps all others back."""
        request = self.memory.request
        queue = self.requests
        read = Signal()
        m.d.comb += read.eq(self.allocate.valid & ~self.found.payload.write)

        # The queue. A read passes it by if it is empty and memory is ready.
        layout = _queued_request(self._params)
        with m.If(self.completed.valid):
            m.d.comb += queue.w_en.eq(1)
            m.d.comb += queue.w_data.eq(struct_value(layout, tag=self.completed.payload, write=1))
        with m.Else():
            m.d.comb += queue.w_en.eq(read & (queue.r_rdy | ~request.ready))
            m.d.comb += queue.w_data.eq(struct_value(layout, tag=self.free_tag, write=0))
        m.d.sync += Assert(~queue.w_en | queue.w_rdy, "a request is lost")

        head: Any = data.View(layout, queue.r_data)
        address = self.addresses.read(m, head.tag)
        is_held = self.hazards.held.bit_select(head.tag, 1)
        m.d.comb += queue.r_en.eq(request.ready & ~is_held)
        with m.If(queue.r_rdy):
            m.d.comb += request.valid.eq(~is_held)
            m.d.comb += common_fields(request.payload, head)
            m.d.comb += request.payload.address.eq(address)
        with m.Else():
            m.d.comb += request.valid.eq(read)
            m.d.comb += request.payload.tag.eq(self.free_tag)
            m.d.comb += request.payload.address.eq(self.line)
        m.d.comb += self.line_memory.tag.eq(request.payload.tag)
        m.d.comb += common_fields(request.payload, self.line_memory.content)

    def _connect_words(self, m: Module) -> None:
        """The words of lines."""
        lines = self.line_memory
        connect(m, self.answers.take, lines.take)
        connect(m, self.answers.copy, lines.copy)
        connect(m, flipped(self.lines), lines.lines)

    def _track_slots(self, m: Module) -> None:
        """Which instructions have lines under way. The crossbar announces that a line will be
        served (``closing``), late in the cycle: so whether it is the last line of its slot is
        computed before."""
        closing = self.closing.payload
        found = self.found.payload
        slots = len(self.pending)
        for tag, (slot, mask) in enumerate(zip(self.slots, self.slot_masks, strict=True)):
            with m.If(self.allocated[tag]):
                m.d.sync += slot.eq(found.slot)
                m.d.sync += mask.eq(one_hot(found.slot, slots))

        open_tags = Signal.like(self.used)
        closing_tag = Signal.like(self.used)
        of_slot = Cat(slot == closing.slot for slot in self.slots)
        m.d.comb += open_tags.eq(self.used & ~self.closed)
        m.d.comb += closing_tag.eq(
            self._tag_mask(closing.tag, closing.owner == BeatOwner.ANSWER))
        is_last_of_slot = closing_tag.any() & ~(open_tags & ~closing_tag & of_slot).any()
        open_slots = reduce(or_, (
            Mux(open_tags[tag], mask, 0) for tag, mask in enumerate(self.slot_masks)))
        m.d.comb += self.pending.eq(
            open_slots & ~one_hot(closing.slot, slots, self.closing.valid & is_last_of_slot))
        newly_closed = Mux(self.closing.valid, closing_tag, 0)
        m.d.sync += self.closed.eq((self.closed | newly_closed) & ~self._served)

    def _record_faults(self, m: Module) -> None:
        """Faults that memory has reported, by slot, until the slot has another instruction."""
        response = self.memory.response
        slots = len(self.fault)
        cleared = one_hot(self.begun.payload, slots, self.begun.valid)
        failed = one_hot(
            pick(self.slots, response.payload.tag), slots,
            response.valid & response.payload.error)
        m.d.sync += self.fault.eq((self.fault & ~cleared) | failed)
