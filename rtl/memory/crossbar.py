"""The crossbar: words on their way between threads and banks, one word of every bank a cycle."""

from typing import Any

from amaranth.hdl import Assert, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.component import Component
from rtl.layouts import Event
from rtl.one_hot import chosen_of, one_hot
from rtl.params import SmParams
from rtl.pick import pick
from rtl.structs import common_fields, struct_value

from .instruction import (
    OFFSET_BITS,
    WORDS,
    BeatKind,
    BeatOwner,
    bank_read,
    bank_write,
    beat_job,
    memory_tag_bits,
    port_count,
    row_bits,
    slot_bits,
)
from .operands import inner_layout, operand_place

__all__ = [
    "AtomicPort",
    "Crossbar",
    "beat_half",
    "change_layout",
    "half_content",
    "passed_layout",
    "result_write",
]

_CHANGED_WORDS = 2
"""Words of an atomic operation's number, at most."""


def beat_half(params: SmParams) -> data.StructLayout:
    """Half of a beat whose threads' places are read.

    Fields
    ------
    slot, beat
        The instruction, and its beat.
    upper : 1
        The upper half of the beat; else the lower one.
    """
    return data.StructLayout({"slot": slot_bits(params), "beat": range(params.beats), "upper": 1})


def half_content(params: SmParams) -> data.StructLayout:
    """What is read of half of a beat.

    Fields
    ------
    inner : inner_layout
        The place of each thread, of a :func:`beat_half`.
    base : row
        The first row of their CTA's shared memory.
    values : a word for each port
        A word of each thread, of an :func:`~rtl.memory.operands.operand_place`.
    """
    return data.StructLayout({
        "inner": inner_layout(params),
        "base": row_bits(params),
        "values": data.ArrayLayout(32, port_count(params)),
    })


def passed_layout(params: SmParams) -> data.StructLayout:
    """The last beat of a job has passed; see :func:`~rtl.memory.instruction.beat_job`."""
    return data.StructLayout({
        "owner": BeatOwner,
        "slot": slot_bits(params),
        "tag": memory_tag_bits(params),
        "final": 1,
    })


def result_write(params: SmParams) -> data.StructLayout:
    """Words that are loaded, for some ``lanes`` of a beat: a port has one, which is the same word
    of the thread's four for both of its lanes."""
    ports = port_count(params)
    return data.StructLayout({
        "lanes": params.lanes,
        "slot": slot_bits(params),
        "beat": range(params.beats),
        "words": data.ArrayLayout(range(WORDS), ports),
        "values": data.ArrayLayout(32, ports),
    })


def change_layout(params: SmParams) -> data.StructLayout:
    """What atomic operations read and write through the crossbar.

    Fields
    ------
    busy : 1
        They have the banks.
    bank, is_read
        If ``is_read``, they get the words of that bank and of the next one; else 0.
    is_written, wide : 1, 1
        A number is written in the next cycle, in two words if it is ``wide``.
    line, tag : 1, tag
        Whether it is in the line of that tag, or in shared memory.
    place, value
        Its address there; the number.
    """
    return data.StructLayout({
        "busy": 1,
        "bank": ceil_log2(params.lanes),
        "is_read": 1,
        "is_written": 1,
        "wide": 1,
        "line": 1,
        "tag": memory_tag_bits(params),
        "place": params.shared_bits,
        "value": 32 * _CHANGED_WORDS,
    })


class AtomicPort(wiring.Signature):
    """How atomic operations use the crossbar; directions are those of the atomic unit.

    Members
    -------
    ahead : Out(operand_place)
        The operand that they read in the next cycle.
    change : Out(change_layout)
        The number that they read, or write.
    found : In(64)
        What was read a cycle ago; 0 if nothing was.
    changed : In(64)
        The number that is written.
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "ahead": Out(operand_place(params)),
            "change": Out(change_layout(params)),
            "found": In(32 * _CHANGED_WORDS),
            "changed": In(32 * _CHANGED_WORDS),
        })


def _half_beat(params: SmParams) -> data.StructLayout:
    """Half of a beat, before its places are read.

    Fields
    ------
    job : beat_job
        The beat.
    upper : 1
        It is the upper half; or the lower one.
    whole : 1
        It is the last of the beat: it serves the lanes of the upper half, alone or beside those of
        the lower one.
    """
    return data.StructLayout({"job": beat_job(params), "upper": 1, "whole": 1})


def _located_half(params: SmParams) -> data.StructLayout:
    """Places to conflicts: half of a beat with the places of its threads.

    Fields
    ------
    job : beat_job
        ``last`` means the last half.
    lower, upper : 1, 1
        Lanes of that half of the beat are served.
    base : row
        The first row of shared memory of the threads' CTA.
    ports
        Of each: the first ``byte`` of its number in a word, the ``bytes`` that this takes, the bank
        and row of the word, and which ``word`` of its thread this is.
    """
    port = data.StructLayout({
        "byte": 2,
        "bytes": 4,
        "bank": ceil_log2(params.lanes),
        "row": row_bits(params),
        "word": range(WORDS),
    })
    return data.StructLayout({
        "job": beat_job(params),
        "lower": 1,
        "upper": 1,
        "base": row_bits(params),
        "ports": data.ArrayLayout(port, port_count(params)),
    })


def _half_load(params: SmParams) -> data.StructLayout:
    """Conflicts to extraction: which lanes of half a beat load a word.

    Fields
    ------
    ports : ports
        Ports that get a word.
    lanes : lanes
        Lanes that get one.
    slot, beat, size, signed
        As in a :func:`~rtl.memory.instruction.beat_job`.
    """
    return data.StructLayout({
        "ports": port_count(params),
        "lanes": params.lanes,
        "slot": slot_bits(params),
        "beat": range(params.beats),
        "size": 3,
        "signed": 1,
    })


def _bank_access(params: SmParams) -> data.StructLayout:
    """Conflicts to banks: the words that are read or written.

    Fields
    ------
    used, writes : 1, 1
        There are some; they are written.
    kind, tag
        As in a :func:`~rtl.memory.instruction.beat_job`.
    load : half_load
        Which lanes load a word.
    ports
        Of each: the ``byte`` of the number in its word, bank and row of the word, which ``word`` of
        its thread it is, and the ``value`` to be written.
    """
    port = data.StructLayout({
        "byte": 2,
        "bank": ceil_log2(params.lanes),
        "row": row_bits(params),
        "word": range(WORDS),
        "value": 32,
    })
    return data.StructLayout({
        "used": 1,
        "writes": 1,
        "kind": BeatKind,
        "tag": memory_tag_bits(params),
        "load": _half_load(params),
        "ports": data.ArrayLayout(port, port_count(params)),
    })


def _switched_words(params: SmParams) -> data.StructLayout:
    """Banks to switch, and switch to extraction: the words for the lanes.

    Fields
    ------
    load : half_load
        Which lanes load a word.
    ports
        Of each: the ``byte`` of the number in its word, and which ``word`` of its thread it is.
    """
    port = data.StructLayout({"byte": 2, "word": range(WORDS)})
    return data.StructLayout({
        "load": _half_load(params),
        "ports": data.ArrayLayout(port, port_count(params)),
    })


class Crossbar(Component):
    """Passes words between threads and banks, half of a beat at a time. ::

        job --> PLACES --> CONFLICTS --> BANKS --> SWITCH --> EXTRACT --> result
                  ^          |   ^         ^          ^
                  '--waiting-'   |         |          |
                              operands   atomic operations

    =========  ==================================================================================
    stage      what happens
    =========  ==================================================================================
    places     the addresses of the threads are read, in the half that is offered or that waits
    conflicts  each bank serves the word of its lowest pending port, and all ports with the same
               word. What is to be stored is read
    banks      each bank reads its word, or writes bytes of it
    switch     each port gets the word of its bank
    extract    a number of less than a word is cut out and extended
    =========  ==================================================================================

    Half of a beat stays in the conflicts stage for as many cycles as a bank has different words to
    serve; the next one follows without a gap. If all threads in the upper half of a beat read at
    the places of those in the lower half, they are served with them: the beat is ``single``.

    Threads that write the same word write it together: each byte is the highest one's.

    A half that cannot enter the conflicts stage waits in a register, and no other half is taken
    meanwhile: so ``free`` depends on registers alone. It waits, too, if it stores and is behind a
    shuffle: a shuffle reads its operands a stage later, where they are its banks.

    Atomic operations use the last three stages when nothing else is under way: their numbers are
    written and read through the first two ports.

    Members
    -------
    job : In(stream of beat_job)
        A job may be replaced by another one until its first beat is taken.
    continues, free : Out(1)
        The lower half of the job that is offered was taken already; a half is taken if one is
        offered.
    half : Out(beat_half)
        The half in the places stage.
    operand, mixed : Out(operand_place), Out(1)
        Words of the threads of the half in the conflicts stage; but if ``mixed``, a shuffle in the
        banks stage has the first words of that slot read.
    content : In(half_content)
        What is read of both, in the same cycle.
    atomic : In(AtomicPort)
        Atomic operations, when nothing else is under way.
    read, write : Out(bank_read), Out(bank_write)
        Values that are not written are 0.
    found : In(a word for each bank)
        What was read a cycle ago.
    result : Out(result_write)
    passed : Out(Event of passed_layout)
        The last half of the last beat leaves the conflicts stage.
    closing, closed : Out(Event of passed_layout)
        Exactly one of them reports to the owner of a job that its words are, or will be, in time
        for the lanes. ``closing``: with ``passed`` or before, in the first cycle of a load's last
        half in the conflicts stage, since the rest will have arrived when it is needed. ``closed``:
        a cycle after ``passed``, if that could not be promised.
    busy : Out(1)
        Something has been taken and has not left the last stage.
    shared : Out(1)
        Shared memory serves some threads.

    Attributes
    ----------
    next_half, waiting, is_waiting : Signal(half), Signal(half), Signal(1)
        The half in the places stage; the one in the waiting register, if there is one.
    blocked, enters : Signal(1), Signal(1)
        The conflicts stage can take no half; it takes one.
    located : Signal
        The half in the conflicts stage.
    pending, served : Signal(ports)
        Its ports that are still pending; the pending ports that are served now.
    has_conflict : Signal(1)
        Some will still be pending then.
    words : Signal(a word for each port)
        Each port's word of what was read a cycle ago.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        self._ports = port_count(params)
        ports = self._ports
        super().__init__({
            "job": In(stream.Signature(beat_job(params))),
            "continues": Out(1),
            "free": Out(1),
            "half": Out(beat_half(params)),
            "operand": Out(operand_place(params)),
            "mixed": Out(1),
            "content": In(half_content(params)),
            "atomic": In(AtomicPort(params)),
            "read": Out(bank_read(params)),
            "write": Out(bank_write(params)),
            "found": In(data.ArrayLayout(32, params.lanes)),
            "result": Out(result_write(params)),
            "passed": Out(Event(passed_layout(params))),
            "closing": Out(Event(passed_layout(params))),
            "closed": Out(Event(passed_layout(params))),
            "busy": Out(1),
            "shared": Out(1),
        })
        half = _half_beat(params)
        self.next_half: Any = Signal(half)
        self.waiting: Any = Signal(half)
        self.is_waiting = Signal()
        self.blocked = Signal()
        self.enters = Signal()
        self.located: Any = Signal(_located_half(params))
        self.pending = Signal(ports)
        self.served = Signal(ports)
        self.has_conflict = Signal()
        self.words: Any = Signal(data.ArrayLayout(32, ports))

        # Between conflicts and banks. Of each bank: the port whose word it serves, and for each
        # byte the port that writes it, one-hot.
        self._access: Any = Signal(_bank_access(params))
        self._leaders = [Signal(ports, name=f"leader_{bank}") for bank in range(params.lanes)]
        self._writers = [
            [Signal(ports, name=f"writer_{bank}_{byte}") for byte in range(4)]
            for bank in range(params.lanes)]

        # Banks to switch, with the bank of each port, one-hot; switch to extraction.
        self._reading: Any = Signal(_switched_words(params))
        self._sources = Signal(data.ArrayLayout(params.lanes, ports))
        self._extracting: Any = Signal(_switched_words(params))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        is_shuffle = Signal()
        m.d.comb += is_shuffle.eq(
            self.pending.any() & (self.located.job.kind == BeatKind.LANES))
        self._offer(m)
        self._enter(m, is_shuffle)
        self._locate(m)
        self._read_operands(m, is_shuffle)
        leads, writes = self._resolve_conflicts(m)
        self._announce(m)
        self._select_words(m, leads, writes)
        self._change(m)
        self._access_banks(m)
        self._switch(m)
        self._extract(m)
        m.d.comb += self.busy.eq(
            self.is_waiting | self.pending.any() | self._access.used
            | self._reading.load.ports.any() | self._extracting.load.ports.any())
        return m

    def _offer(self, m: Module) -> None:
        """Halves of beats are taken while none waits."""
        job = self.job.payload
        offered: Any = Signal(_half_beat(self._params))
        m.d.comb += offered.eq(struct_value(
            _half_beat(self._params),
            job=job,
            upper=self.continues | job.skips,
            whole=self.continues | job.single))
        m.d.comb += self.free.eq(~self.is_waiting)
        m.d.comb += self.job.ready.eq(self.job.valid & self.free & offered.whole)
        with m.If(self.job.valid & self.free):
            m.d.sync += self.continues.eq(~offered.whole)

        with m.If(self.is_waiting):
            m.d.comb += self.next_half.eq(self.waiting)
        with m.Else():
            m.d.comb += self.next_half.eq(offered)
            m.d.sync += self.waiting.eq(offered)

    def _enter(self, m: Module, is_shuffle: Signal) -> None:
        """Whether the next half enters the conflicts stage. If not, it waits."""
        next_half = self.next_half
        job = next_half.job
        is_valid = self.job.valid | self.is_waiting
        m.d.comb += self.blocked.eq(self.has_conflict | (job.write & is_shuffle))
        m.d.comb += self.enters.eq(is_valid & ~self.blocked)
        m.d.sync += self.is_waiting.eq(is_valid & self.blocked)
        m.d.sync += Assert(~self.enters | job.lanes.any(), "a beat without threads")

        lower = job.lanes[:self._ports]
        upper = job.lanes[self._ports:]
        with m.If(self.enters):
            m.d.sync += self.pending.eq(Mux(next_half.upper, upper, lower))
        with m.Else():
            m.d.sync += self.pending.eq(self.pending & ~self.served)

    def _locate(self, m: Module) -> None:
        """The places stage: bank and row of each port's word. They are kept whether or not there
        is a half."""
        next_half = self.next_half
        job = next_half.job
        located = self.located
        bank_bits = ceil_log2(self._params.lanes)
        m.d.comb += self.half.eq(struct_value(
            beat_half(self._params), slot=job.slot, beat=job.beat, upper=next_half.upper))
        with m.If(~self.has_conflict):
            m.d.sync += located.job.eq(job)
            m.d.sync += located.job.last.eq(job.last & next_half.whole)
            m.d.sync += located.lower.eq(~next_half.upper)
            m.d.sync += located.upper.eq(next_half.whole)
            m.d.sync += located.base.eq(self.content.base)
            for number, port in enumerate(located.ports):
                word = self._word_of(number)
                byte = self.content.inner[number][:2]
                place = self._inner_word(number) | Mux(job.local, 0, word)
                m.d.sync += port.eq(struct_value(
                    port.shape(),
                    byte=byte,
                    bytes=byte_mask(byte, job.size),
                    bank=place[:bank_bits],
                    row=place[bank_bits:],
                    word=word))

    def _word_of(self, port: int) -> Value:
        """Which word of its thread a port has: the beat's, but another one in the second half of
        the lanes, or in each quarter of them, if the beat is ``spread``."""
        job = self.next_half.job
        lanes = self._params.lanes
        if self._ports == lanes:
            half = Const(port)
            quarter = Const(port)
        else:
            half = self.next_half.upper
            quarter = Cat(Const(port * WORDS // lanes, 1), self.next_half.upper)
        return job.word ^ Mux(job.spread[1], quarter, job.spread[0] & half)

    def _inner_word(self, port: int) -> Value:
        """The number of the first word of a port's thread, in shared memory or in its line. A line
        ignores row bits above its own size; where it has less words than there are banks, it is in
        the first banks."""
        place = self.content.inner[port]
        kind = self.next_half.job.kind
        banks_end = 2 + ceil_log2(self._params.lanes)
        if banks_end <= OFFSET_BITS:
            return place[2:]
        is_in_line = (kind == BeatKind.LINE) | (kind == BeatKind.ANSWER)
        above_line = Mux(is_in_line, 0, place[OFFSET_BITS:banks_end])
        return Cat(place[2:OFFSET_BITS], above_line, place[banks_end:])

    def _read_operands(self, m: Module, is_shuffle: Signal) -> None:
        """Whose operands are read in the next cycle: a store's in its conflicts stage, a shuffle's
        in its banks stage. Atomic operations report the end themselves."""
        operand = self.operand
        job = self.next_half.job
        located_slot = self.located.job.slot
        m.d.sync += self.mixed.eq(is_shuffle)
        with m.If(self.atomic.change.busy):
            m.d.sync += operand.eq(self.atomic.ahead)
        with m.Elif(self.has_conflict):
            m.d.sync += operand.slot.eq(located_slot)
        with m.Else():
            m.d.sync += operand.eq(struct_value(
                operand_place(self._params),
                slot=Mux(is_shuffle, located_slot, job.slot),
                beat=job.beat,
                upper=self.next_half.upper,
                word=job.word))

    def _resolve_conflicts(self, m: Module) -> tuple[Signal, Any]:
        """The conflicts stage. In each bank the lowest pending port *leads*, and those with the
        same word are served with it. Returns the ports that lead, and the bytes that each port
        writes."""
        ports = list(self.located.ports)
        pending = self.pending
        leads = Signal(len(ports))
        writes: Any = Signal(data.ArrayLayout(4, len(ports)))
        same_words: list[Signal] = []       # of each port: lower ports with the same word
        conflicts: list[Value] = []
        for number, port in enumerate(ports):
            same_bank = Signal(number, name=f"same_bank_{number}")
            same_word = Signal(number, name=f"same_word_{number}")
            same_row = Cat(other.row == port.row for other in ports[:number])
            lower = pending[:number]
            m.d.comb += same_bank.eq(Cat(other.bank == port.bank for other in ports[:number]))
            m.d.comb += same_word.eq(same_bank & same_row)
            m.d.comb += leads[number].eq(pending[number] & ~(lower & same_bank).any())
            is_with_leader = (leads[:number] & same_word).any()
            m.d.comb += self.served[number].eq(
                pending[number] & (leads[number] | is_with_leader))
            conflicts.append(pending[number] & (lower & same_bank & ~same_word).any())
            same_words.append(same_word)
        m.d.comb += self.has_conflict.eq(Cat(conflicts).any())

        # The highest port writes a byte.
        for number, port in enumerate(ports):
            overwritten = Const(0, 4)
            for higher in range(number + 1, len(ports)):
                meets = same_words[higher][number] & pending[higher]
                overwritten |= Mux(meets, ports[higher].bytes, 0)
            is_store = self.served[number] & self.located.job.write
            m.d.comb += writes[number].eq(Mux(is_store, port.bytes & ~overwritten, 0))
        return leads, writes

    def _announce(self, m: Module) -> None:
        """The owner of a beat learns that its last half passes, or early that it will pass in time.

        The last beat's words are needed as many cycles after the first one's as there are other
        beats. They have arrived by then if a half takes less cycles than there are beats: if there
        are fewer ports than beats, or as many and two of them are served together.
        """
        params = self._params
        located = self.located
        job = located.job
        passed = self.passed
        closing = self.closing
        m.d.comb += passed.valid.eq(self.pending.any() & ~self.has_conflict & job.last)
        m.d.comb += common_fields(passed.payload, job)

        is_in_time: Any = Const(self._ports < params.beats)
        if self._ports == params.beats:
            first, second = list(located.ports)[:2]
            first_two_conflict = (first.bank == second.bank) & (first.row != second.row)
            is_in_time = ~(self.pending.all() & first_two_conflict)
        has_entered = Signal()
        is_closed = Signal()
        is_last_load = job.last & ~job.write & (job.beat == params.beats - 1)
        m.d.sync += has_entered.eq(self.enters)
        m.d.comb += closing.valid.eq(has_entered & is_last_load & is_in_time)
        m.d.comb += closing.payload.eq(passed.payload)
        m.d.sync += is_closed.eq((is_closed | closing.valid) & ~passed.valid)
        m.d.sync += self.closed.valid.eq(passed.valid & ~is_closed & ~closing.valid)
        m.d.sync += self.closed.payload.eq(passed.payload)

    def _select_words(self, m: Module, leads: Signal, writes: Any) -> None:
        """What the banks do for the ports that are served."""
        access = self._access
        located = self.located
        job = located.job
        ports = self._ports
        loads = Mux(job.write, 0, self.served)
        lower_lanes = Mux(located.lower, loads & job.lanes[:ports], 0)
        upper_lanes = Mux(located.upper, loads & job.lanes[ports:], 0)
        m.d.sync += access.used.eq(self.pending.any())
        m.d.sync += access.writes.eq(self.pending.any() & job.write)
        m.d.sync += access.kind.eq(job.kind)
        m.d.sync += access.tag.eq(job.tag)
        m.d.sync += access.load.eq(struct_value(
            _half_load(self._params),
            ports=loads,
            lanes=Cat(lower_lanes, upper_lanes),
            slot=job.slot,
            beat=job.beat,
            size=job.size,
            signed=job.signed))
        first_row = Mux(job.kind == BeatKind.SHARED, located.base, 0)
        for number, (port, word) in enumerate(zip(located.ports, access.ports, strict=True)):
            m.d.sync += word.eq(struct_value(
                word.shape(),
                byte=port.byte,
                bank=port.bank,
                row=port.row + first_row,
                word=Mux(job.local, job.word, port.word),
                value=repeated(self.content.values[number], job.size)))
            self._select_port(m, number, port.bank, leads[number], writes[number])

    def _select_port(self, m: Module, port: int, bank: Value, leads: Value, writes: Value) -> None:
        """A port's word is in a bank: whether it leads there, and which of its bytes it writes."""
        for number, (leader, writers) in enumerate(zip(self._leaders, self._writers, strict=True)):
            is_there = bank == number
            m.d.sync += leader[port].eq(is_there & leads)
            for byte, writer in enumerate(writers):
                m.d.sync += writer[port].eq(is_there & writes[byte])

    def _change(self, m: Module) -> None:
        """An atomic operation's number takes the place of the first two ports' words."""
        change = self.atomic.change
        access = self._access
        bank_bits = ceil_log2(self._params.lanes)
        words = list(access.ports)[:_CHANGED_WORDS]
        with m.If(change.busy):
            m.d.sync += access.used.eq(change.is_written)
            m.d.sync += access.writes.eq(change.is_written)
            m.d.sync += access.tag.eq(change.tag)
            m.d.sync += access.kind.eq(Mux(change.line, BeatKind.LINE, BeatKind.SHARED))
            for number, word in enumerate(words):
                place = change.place[2:] | number
                is_written = change.is_written & (change.wide if number else 1)
                m.d.sync += word.row.eq(place[bank_bits:])
                m.d.sync += word.value.eq(change.value.word_select(number, 32))
                self._select_port(
                    m, number, place[:bank_bits], is_written, is_written.replicate(4))
        m.d.comb += self.atomic.changed.eq(Cat(word.value for word in words))

    def _access_banks(self, m: Module) -> None:
        """The banks stage: each bank has a word read, or written."""
        access = self._access
        banks: Any = Signal.like(self.write.banks)
        rows = [port.row for port in access.ports]
        m.d.comb += self.shared.eq(access.used & (access.kind == BeatKind.SHARED))
        m.d.comb += self.read.eq(struct_value(
            bank_read(self._params),
            used=access.load.ports.any(),
            kind=access.kind,
            tag=access.tag,
            slot=access.load.slot,
            rows=Cat(bank.row for bank in banks)))
        m.d.comb += self.write.eq(struct_value(
            bank_write(self._params),
            used=access.writes,
            line=access.kind == BeatKind.LINE,
            tag=access.tag,
            banks=banks))
        for number, bank in enumerate(banks):
            m.d.comb += bank.row.eq(chosen_of(self._leaders[number], rows))
            for byte, writer in enumerate(self._writers[number]):
                values = [port.value.word_select(byte, 8) for port in access.ports]
                m.d.comb += bank.bytes[byte].eq(writer.any())
                m.d.comb += bank.value[byte].eq(chosen_of(writer, values))

    def _switch(self, m: Module) -> None:
        """The switch stage: each port gets the word of its bank."""
        access = self._access
        change = self.atomic.change
        reading = self._reading
        sources = self._sources
        lanes = self._params.lanes
        m.d.sync += reading.load.eq(access.load)
        for number, port in enumerate(access.ports):
            m.d.sync += common_fields(reading.ports[number], port)
            m.d.sync += sources[number].eq(one_hot(port.bank, lanes, access.load.ports[number]))
            if number < _CHANGED_WORDS:
                with m.If(change.busy):
                    m.d.sync += sources[number].eq(
                        one_hot(change.bank | number, lanes, change.is_read))
            m.d.comb += self.words[number].eq(chosen_of(sources[number], self.found))
        m.d.comb += self.atomic.found.eq(Cat(self.words[:_CHANGED_WORDS]))

    def _extract(self, m: Module) -> None:
        """The extract stage: a number is cut out of each port's word."""
        extracting = self._extracting
        result = self.result
        words = Signal.like(self.words)
        m.d.sync += extracting.eq(self._reading)
        m.d.sync += words.eq(self.words)
        load = extracting.load
        m.d.comb += common_fields(result, load)
        for number, (word, port) in enumerate(zip(words, extracting.ports, strict=True)):
            m.d.comb += result.words[number].eq(port.word)
            m.d.comb += result.values[number].eq(extended(word, port.byte, load.size, load.signed))


def extended(word: Value, byte: Value, size: Value, signed: Value) -> Value:
    """What a load of ``1 << size`` bytes returns of a word, from the aligned offset ``byte`` on;
    the whole word for four bytes or more."""
    is_byte = size == 0
    is_word = size >= 2
    low = pick([word.word_select(number, 8) for number in range(4)], byte)
    middle = Mux(byte[1], word[24:], word[8:16])
    sign = signed & Mux(is_byte, low[-1], middle[-1])
    return Cat(
        low,
        Mux(is_byte, sign.replicate(8), middle),
        Mux(is_word, word[16:], sign.replicate(16)))


def repeated(word: Value, size: Value) -> Value:
    """A word with the number of ``1 << size`` bytes repeated at each of its aligned places."""
    low = Cat(word[:8], Mux(size == 0, word[:8], word[8:16]))
    return Cat(low, Mux(size >= 2, word[16:], low))


def byte_mask(byte: Value, size: Value) -> Value:
    """The bytes of its word that a number of ``1 << size`` bytes at ``byte`` takes, as four
    bits."""
    return (Mux(size >= 2, 15, Mux(size == 1, 3, 1)) << byte)[:4]
