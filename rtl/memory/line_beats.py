"""Beats of lines under way: words for a line that is to be written, and words of one that was read.

Both sequencers send the same beats. A line's threads are taken a beat at a time, the lowest first,
and each beat once for every word of its threads; in local memory a line has one word of each.
"""

from typing import Any

from amaranth.hdl import Assert, Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.component import Component
from rtl.isa.tokens import LINE_BYTES
from rtl.layouts import Event, memory_response
from rtl.one_hot import chosen_of, number_of
from rtl.params import WARP_THREADS, SmParams
from rtl.structs import struct_value

from .access import atomic_job, halves, spread
from .crossbar import passed_layout
from .instruction import (
    WORDS,
    BeatKind,
    BeatOwner,
    beat_job,
    memory_tag_bits,
    port_count,
    slot_bits,
)
from .line_memory import copied_row, row_count

__all__ = [
    "AnswerSequencer",
    "FillSequencer",
    "filled_line",
    "first_beat",
    "line_beat",
    "line_info",
]


def line_beat(params: SmParams) -> data.StructLayout:
    """A beat of a line.

    Fields
    ------
    beat, lanes
        Its number, and its lanes whose threads access the line.
    skips, single : 1, 1
        As in a :func:`~rtl.memory.instruction.beat_job`.
    others : beats
        The beats that follow.
    """
    return data.StructLayout({
        "beat": range(params.beats),
        "lanes": params.lanes,
        "skips": 1,
        "single": 1,
        "others": params.beats,
    })


def line_info(params: SmParams) -> data.StructLayout:
    """What is kept of a line under way, by its tag.

    Fields
    ------
    slot
        The instruction.
    threads, paired
        As in a :func:`~rtl.memory.access.found_line`.
    first : line_beat
        The first beat.
    modify, local : 1, 1
        Atomic operations modify the line; it is one of local memory.
    word : 0 to 3
        In local memory: which word of the threads the line has.
    words, size, signed
        The instruction's.
    """
    return data.StructLayout({
        "slot": slot_bits(params),
        "threads": WARP_THREADS,
        "paired": params.beats,
        "first": line_beat(params),
        "modify": 1,
        "local": 1,
        "word": range(WORDS),
        "words": range(WORDS + 1),
        "size": 3,
        "signed": 1,
    })


def filled_line(params: SmParams) -> data.StructLayout:
    """A line that is to be filled.

    Fields
    ------
    info : line_info
    tag
        The line's.
    final : 1
        It is the last one that its instruction fills.
    """
    return data.StructLayout({
        "info": line_info(params),
        "tag": memory_tag_bits(params),
        "final": 1,
    })


def first_beat(m: Module, info: Any, beats: Value, params: SmParams) -> Any:
    """The lowest of some ``beats`` of a line, as a line_beat. ``info``: with the line's ``threads``
    and ``paired``."""
    first = Signal(line_beat(params))
    chosen = Cat(beats[beat] & ~beats[:beat].any() for beat in range(params.beats))
    lanes_of_beats = [info.threads.word_select(beat, params.lanes) for beat in range(params.beats)]
    lanes = Value.cast(chosen_of(chosen, lanes_of_beats))
    is_paired = (chosen & info.paired).any()
    skips, single = halves(lanes, is_paired, port_count(params))
    m.d.comb += first.eq(struct_value(
        line_beat(params),
        beat=number_of(chosen)[:ceil_log2(params.beats)],
        lanes=lanes,
        skips=skips,
        single=single,
        others=beats & ~chosen))
    return first


def _is_last_word(info: Any, step: Signal) -> Value:
    """Whether the word number ``step`` of the threads is the last one of a line's beat."""
    return info.local | (step == info.words - 1)


def _line_job(params: SmParams, info: Any, beat: Any, step: Signal, **direction: Any) -> Any:
    """A beat of a line, for the crossbar: word number ``step`` of the threads. ``direction``: the
    fields of a beat_job that depend on whether the line is filled or was read."""
    return struct_value(
        beat_job(params),
        slot=info.slot,
        beat=beat.beat,
        lanes=beat.lanes,
        word=Mux(info.local, info.word, step),
        local=info.local,
        size=info.size,
        last=_is_last_word(info, step) & ~beat.others.any(),
        skips=beat.skips,
        single=beat.single,
        **direction)


class FillSequencer(Component):
    """Fills a line that is to be written: sends the words that threads store to the line's buffer,
    one line at a time. Nothing comes from memory.

    The first beat is offered in the cycle after ``start``.

    Members
    -------
    start : In(Event of filled_line)
        Another line; ``fill.valid`` is 0.
    fill : Out(stream of beat_job)
    filling : Out(1)
        Some words of the line are in it or in the crossbar, others were not offered yet.

    Attributes
    ----------
    line : Signal(filled_line)
        The line that is filled. Its ``info.first`` is the beat that is offered.
    step : Signal
        The word that is offered.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        self.line: Any = Signal(filled_line(params))
        self.step = Signal(range(WORDS))
        super().__init__({
            "start": In(Event(filled_line(params))),
            "fill": Out(stream.Signature(beat_job(params))),
            "filling": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        line = self.line
        info = line.info
        job = self.fill.payload
        m.d.comb += job.eq(_line_job(
            self._params, info, info.first, self.step,
            kind=BeatKind.LINE,
            write=1,
            tag=line.tag,
            spread=0,
            signed=0,
            owner=BeatOwner.FILL,
            final=line.final))

        next_beat = first_beat(m, info, info.first.others, self._params)
        with m.If(self.start.valid):
            m.d.sync += self.fill.valid.eq(1)
            m.d.sync += line.eq(self.start.payload)
            m.d.sync += self.step.eq(0)
        with m.Elif(self.fill.valid & self.fill.ready):
            m.d.sync += self.fill.valid.eq(~job.last)
            m.d.sync += self.filling.eq(~job.last)
            with m.If(_is_last_word(info, self.step)):
                m.d.sync += self.step.eq(0)
                m.d.sync += info.first.eq(next_beat)
            with m.Else():
                m.d.sync += self.step.eq(self.step + 1)
        m.d.sync += Assert(~(self.start.valid & self.fill.valid), "two lines are filled at once")
        return m


class AnswerSequencer(Component):
    """Takes an answer of memory, and sends its words, or has its line modified.

    The answer register has one answer, until its words have passed the crossbar. Beats leave from
    another register: what is kept of the line is read before it, places of threads behind it. ::

        memory -->--+--> answer register --> words         passed: the register is free
                    |                          ^
                    +--> beats -->[register]---+--> crossbar

    The next answer's beats begin before that answer is taken, and pass the crossbar's first stages
    meanwhile, so that they follow without a gap. The answer whose beats are sent is the one in the
    register if that has beats to send (``has_beats``), else the one that memory offers.

    A line that is to be modified gets a copy of the answer, row by row; the last row is copied
    while the first atomic operation is in the stages before the banks.

    The confirmation of a write, or a fault, is taken at once.

    Members
    -------
    response : In(stream of memory_response)
    info_tag, info : Out(tag), In(line_info)
        What is kept of the line, in the same cycle.
    incomplete : In(Event(tag))
        A line that was requested before all its threads are known: its answer waits for them.
    answer : Out(stream of beat_job)
    passed : In(Event(passed_layout))
        The crossbar's.
    atomic : Out(stream of atomic_job)
    is_quiet : In(1)
        The banks are neither read nor written, now and in the next cycle.
    take, copy : Out(Event(line)), Out(Event(copied_row))
        For the line memory: the answer that is taken; a row of it that is copied.

    Attributes
    ----------
    occupied, held_tag : Signal(1), Signal(tag)
        The answer register has the line of that tag.
    has_beats : Signal(1)
        Beats of it are still to be sent, or it is still to be copied.
    sent_early : Signal(1)
        All beats of the answer that memory offers have been sent before it was taken.
    has_begun, following : Signal(1), Signal(line_beat)
        The first beat of the line has been sent: ``following`` is the next one.
    step, row : Signal
        Which word of its threads is sent next, or which row is copied.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        tag = memory_tag_bits(params)
        self.occupied = Signal()
        self.held_tag = Signal(tag)
        self.has_beats = Signal()
        self.sent_early = Signal()
        self.has_begun = Signal()
        self.following: Any = Signal(line_beat(params))
        self.step = Signal(range(WORDS))
        self.row = Signal(range(row_count(params)))
        super().__init__({
            "response": In(stream.Signature(memory_response(tag))),
            "info_tag": Out(tag),
            "info": In(line_info(params)),
            "incomplete": In(Event(tag)),
            "answer": Out(stream.Signature(beat_job(params))),
            "passed": In(Event(passed_layout(params))),
            "atomic": Out(stream.Signature(atomic_job(params))),
            "is_quiet": In(1),
            "take": Out(Event(8 * LINE_BYTES)),
            "copy": Out(Event(copied_row(params))),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._beat: Any = Event(beat_job(self._params)).create(path=("next_beat",))
        self._last_is_copied = Signal()
        self._take(m)
        self._send(m)
        self._modify(m)
        return m

    def _take(self, m: Module) -> None:
        """An answer with words is taken when the register is free."""
        response = self.response
        has_words = Signal()
        is_served = Signal()
        sends_last = Signal()
        m.d.comb += has_words.eq(response.valid & ~response.payload.write & ~response.payload.error)
        m.d.comb += self.take.valid.eq(has_words & ~self.occupied)
        m.d.comb += self.take.payload.eq(response.payload.data)
        m.d.comb += response.ready.eq(~has_words | ~self.occupied)
        m.d.comb += is_served.eq(
            self.passed.valid & (self.passed.payload.owner == BeatOwner.ANSWER))
        m.d.comb += sends_last.eq(self._beat.valid & self._beat.payload.last)

        with m.If(self.take.valid):
            m.d.sync += self.held_tag.eq(response.payload.tag)
            m.d.sync += self.has_beats.eq(~self.sent_early & ~sends_last)
            m.d.sync += self.sent_early.eq(0)
        with m.Elif(sends_last):
            m.d.sync += self.has_beats.eq(0)
            m.d.sync += self.sent_early.eq(~self.has_beats)
        with m.If(self._last_is_copied):
            m.d.sync += self.has_beats.eq(0)

        with m.If(is_served | self._last_is_copied):
            m.d.sync += self.occupied.eq(0)
        with m.Elif(self.take.valid):
            m.d.sync += self.occupied.eq(1)

        # Whose beats are sent.
        is_known = Signal()
        has_room = ~self.answer.valid | self.answer.ready
        m.d.comb += self.info_tag.eq(Mux(self.has_beats, self.held_tag, response.payload.tag))
        m.d.comb += is_known.eq(
            ~(self.incomplete.valid & (self.info_tag == self.incomplete.payload)))
        has_line = self.has_beats | (has_words & ~self.sent_early)
        m.d.comb += self._beat.valid.eq(has_room & has_line & is_known & ~self.info.modify)
        with m.If(has_room):
            m.d.sync += self.answer.valid.eq(self._beat.valid)
            m.d.sync += self.answer.payload.eq(self._beat.payload)
        self._is_known = is_known

    def _send(self, m: Module) -> None:
        """The beats of a line, one after another."""
        info = self.info
        job = self._beat.payload
        beat: Any = Signal(line_beat(self._params))
        m.d.comb += beat.eq(Mux(self.has_begun, self.following.as_value(), info.first.as_value()))
        m.d.comb += job.eq(_line_job(
            self._params, info, beat, self.step,
            kind=BeatKind.ANSWER,
            write=0,
            tag=self.info_tag,
            spread=Mux(info.local, 0, spread(info.words)),
            signed=info.signed,
            owner=BeatOwner.ANSWER,
            final=0))

        next_beat = first_beat(m, info, beat.others, self._params)
        with m.If(self._beat.valid):
            with m.If(_is_last_word(info, self.step)):
                m.d.sync += self.step.eq(0)
                m.d.sync += self.has_begun.eq(~job.last)
                m.d.sync += self.following.eq(next_beat)
            with m.Else():
                m.d.sync += self.step.eq(self.step + 1)

    def _modify(self, m: Module) -> None:
        """A line that is to be modified is copied. Its operations are offered with the row before
        the last one, if there is one, and the last row is copied in the next cycle."""
        atomic = self.atomic
        info = self.info
        copy = self.copy
        row = self.row
        tag = self.held_tag
        last_row = row_count(self._params) - 1
        offer_row = max(0, last_row - 1)

        # This is a cycle old, for the same tag: the tag stays until all is copied.
        can_copy = Signal()
        m.d.sync += can_copy.eq(info.modify & self._is_known)

        copies = Signal()
        m.d.comb += copies.eq(self.has_beats & can_copy)
        m.d.comb += atomic.payload.eq(struct_value(
            atomic_job(self._params), slot=info.slot, line=1, tag=tag, threads=info.threads))
        m.d.comb += copy.payload.eq(struct_value(copied_row(self._params), row=row, tag=tag))
        with m.If(row == offer_row):
            m.d.comb += atomic.valid.eq(copies)
            m.d.comb += copy.valid.eq(copies & atomic.ready)
        with m.Else():
            m.d.comb += copy.valid.eq(copies & (self.is_quiet | (row == last_row)))
        m.d.comb += self._last_is_copied.eq(copy.valid & (row == last_row))
        with m.If(copy.valid):
            m.d.sync += row.eq(Mux(row == last_row, 0, row + 1))
