"""The access stage, which is the coalescer, too: instructions in order, each into the beats and
lines that it accesses."""

from typing import Any

from amaranth.hdl import Assert, Cat, Const, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out

from rtl.arbiter import lowest
from rtl.component import Component
from rtl.isa.kinds import AtomicOperation
from rtl.layouts import Event
from rtl.one_hot import number_of, one_hot
from rtl.params import LINE_ADDRESS_BITS, WARP_THREADS, SmParams
from rtl.pick import pick
from rtl.structs import common_fields, struct_value
from rtl.words import Words

from .addresses import early_layout
from .instruction import (
    WORDS,
    BeatKind,
    BeatOwner,
    MemoryOperation,
    beat_job,
    judged_layout,
    memory_tag_bits,
    port_count,
    slot_bits,
)
from .operands import LinesPort

__all__ = ["AccessInstruction", "AccessStage", "atomic_job", "beats_of", "found_line"]


class AccessInstruction(data.Struct):
    """What the stages after the addresses need of an instruction; its fields are those of a
    MemoryInstruction."""

    operation: MemoryOperation
    size: unsigned(3)
    words: range(WORDS + 1)
    is_signed: unsigned(1)
    atomic: AtomicOperation
    compare: unsigned(1)


class SetFlags(data.Struct):
    """A flag for each set of an instruction's threads, see
    :class:`~rtl.memory.instruction.ThreadSets`."""

    memory: unsigned(1)
    local: unsigned(1)
    shared: unsigned(1)


def found_line(params: SmParams) -> data.StructLayout:
    """A line, and all threads of an instruction that access it.

    Fields
    ------
    slot, line
        The instruction; the line's address.
    threads : 32
        The threads. In local memory these access it with their first word.
    paired : beats
        Of such a beat each thread in the upper half reads at the address of one in the lower half.
    write, modify : 1, 1
        What it is accessed for: to be written, to be modified, or else to be read.
    local, words : 1, 0 to 4
        It is local memory: each of the ``words`` is in another line.
    size, signed
        The instruction's.
    complete : 1
        All threads of the instruction that access the line are known. Before that ``threads``,
        ``paired`` and ``last`` are undefined, but a line that is read may be requested.
    last : 1
        The instruction has no line after this one, and nothing in shared memory.
    """
    return data.StructLayout({
        "slot": slot_bits(params),
        "line": LINE_ADDRESS_BITS,
        "threads": WARP_THREADS,
        "paired": params.beats,
        "write": 1,
        "modify": 1,
        "local": 1,
        "words": range(WORDS + 1),
        "size": 3,
        "signed": 1,
        "complete": 1,
        "last": 1,
    })


def collected_threads(params: SmParams) -> data.StructLayout:
    """Threads that access a line: ``threads`` and ``paired`` of a :func:`found_line`."""
    return data.StructLayout({"threads": WARP_THREADS, "paired": params.beats})


def atomic_job(params: SmParams) -> data.StructLayout:
    """Atomic operations of some threads, in the ``line`` of a tag or in shared memory."""
    return data.StructLayout({
        "slot": slot_bits(params),
        "line": 1,
        "tag": memory_tag_bits(params),
        "threads": WARP_THREADS,
    })


def beats_of(threads: Value, params: SmParams) -> Value:
    """The beats that have one of ``threads``, a bit for each."""
    return Cat(threads.word_select(beat, params.lanes).any() for beat in range(params.beats))


class AccessStage(Component):
    """Takes instructions one at a time, in the order of their slots, and has their threads served
    set by set: memory's first, then those of local memory, then shared memory. ::

                    .-------------------------- all threads of the set are found
                    v                                            |
        judged --> TAKE --> PICK --> COLLECT --> COLLECTED ------+--> found line
          early -->  |        ^         ^            |
                     |        '---------+------------'  other threads are pending
                     +--> SHARED --> beats
                     '--> ATOMIC --> atomic operations

    =========  ===================================================================================
    state      what happens
    =========  ===================================================================================
    take       the threads of the next set become pending. Shared memory waits until memory has
               answered all lines of the instruction, and is skipped if one had a fault
    pick       the lowest pending thread has the line
    collect    the lines of a beat's threads are compared with it, a beat with pending threads a
               cycle
    collected  the last comparison is known: the line is complete. The next line is picked in the
               same cycle, a cycle early, if a beat before the last one has pending threads: these
               have another line, independently of the last comparison
    shared     words of shared memory, or of a shuffle, a beat and a word at a time
    atomic     all operations in shared memory at once
    =========  ===================================================================================

    The result of a comparison is known a cycle later (``matched``): it finds threads while the next
    beat is compared.

    A line is passed to the miss queue in two steps, through ``found``, which has one line at a
    time:

    - announced: its address, in PICK or COLLECT; the first line of a load even in TAKE, while the
      addresses of later beats are still judged (``early``). Its read may start;
    - complete: its threads, in COLLECTED.

    While another line is in ``found``, a line is not announced, and waits in COLLECTED. One that
    was not announced by then is announced and complete at once.

    Error: if the addresses hold one, the threads below the failing one only read: one of them may
    have a fault, which is reported first. Shared memory is skipped.

    Members
    -------
    judged, early : In(Event of judged_layout), In(Event of early_layout)
    idle : In(Event of a slot)
        An instruction that has nothing to do gets a slot.
    slot, instruction : Out, In(AccessInstruction)
        The one that is taken or is the next, and what it is.
    lines : Out(LinesPort)
        Lines of the present beat's threads.
    found : Out(stream of found_line)
    lines_busy, fault : In(1), In(1 bit a slot)
        Lines of that instruction are under way; some are not mapped.
    job, atomic : Out(stream of beat_job), Out(stream of atomic_job)
        For shared memory and shuffles.
    finished : Out(Event of a slot)
        An instruction has nothing to do, or is done.

    Attributes
    ----------
    is_judged, is_idle : Signal(slots)
        The instruction in the slot can be taken; it has nothing to do.
    judgements : Words
        By slot: what was judged.
    done_sets, pending_sets, next_set : Signal(SetFlags)
        Of the instruction that is taken: sets that were taken; sets that remain; the first of
        these.
    pending, pending_beats : Signal(threads), Signal(beats)
        Threads of the set that were not found or served; beats that remain to be compared, or
        served.
    line, collected : Signal, Signal(collected_threads)
        The line that is collected, and the threads found for it so far.
    candidates : Signal(lanes)
        Lanes of the present beat, the lowest of which may have the next line.
    matched, matched_same, matched_beat : Signal(lanes), Signal(ports), Signal(beats)
        Lanes that had the line a cycle ago, whether those of a port had the same address, and
        their beat, one-hot.
    is_announced : Signal(1)
        The line was announced, and is not complete.
    announces, line_is_complete : Signal(1), Signal(1)
        The line is announced; it is complete, and passed on.
    word : Signal
        The word that shared memory serves.
    ends : Signal(1)
        The next instruction is taken.
    no_line_waits : Signal(1)
        A cycle ago no line was offered, and none of the instruction was under way.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        slot = slot_bits(params)
        slots = 1 << slot
        super().__init__({
            "judged": In(Event(judged_layout(params))),
            "early": In(Event(early_layout(params))),
            "idle": In(Event(slot)),
            "slot": Out(slot),
            "instruction": In(AccessInstruction),
            "lines": Out(LinesPort(params)),
            "found": Out(stream.Signature(found_line(params))),
            "lines_busy": In(1),
            "fault": In(slots),
            "job": Out(stream.Signature(beat_job(params))),
            "atomic": Out(stream.Signature(atomic_job(params))),
            "finished": Out(Event(slot)),
        })
        self.is_judged = Signal(slots)
        self.is_idle = Signal(slots)
        self.judgements = Words(judged_layout(params), slots)
        self.done_sets: Any = Signal(SetFlags)
        self.pending_sets: Any = Signal(SetFlags)
        self.next_set: Any = Signal(SetFlags)
        self.pending = Signal(WARP_THREADS)
        self.pending_beats = Signal(params.beats)
        self.line = Signal(LINE_ADDRESS_BITS)
        self.collected: Any = Signal(collected_threads(params))
        self.candidates = Signal(params.lanes)
        self.matched = Signal(params.lanes)
        self.matched_same = Signal(port_count(params))
        self.matched_beat = Signal(params.beats)
        self.is_announced = Signal()
        self.announces = Signal()
        self.line_is_complete = Signal()
        self.word = Signal(range(WORDS))
        self.ends = Signal()
        self.no_line_waits = Signal()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        params = self._params
        instruction = self.instruction
        m.submodules.judgements = self.judgements
        self._judgement = self.judgements.read(m, self.slot)
        self._loads = instruction.operation == MemoryOperation.LOAD
        self._stores = instruction.operation == MemoryOperation.STORE
        self._modifies = instruction.operation == MemoryOperation.ATOMIC
        self._is_last_word = self.word == instruction.words - 1

        # The present beat, and what is pending beside it, or will be when the comparison of a cycle
        # ago counts.
        self._beat = Signal(params.beats)
        self._other_beats = Signal(params.beats)
        self._unmatched = Signal(WARP_THREADS)
        self._unmatched_beats = Signal(params.beats)
        self._collected_now: Any = Signal(collected_threads(params))
        self._next_line = Signal(LINE_ADDRESS_BITS)

        # Outputs of the states.
        self._set_threads = Signal(WARP_THREADS)
        self._may_announce = Signal()
        self._starts_line = Signal()
        self._has_line = Signal()
        self._stalls = Signal()

        self._record_judged(m)
        self._select_set(m)
        self._select_beat(m)
        self._compare(m)
        self._run(m)
        self._offer_line(m)
        self._offer_beat(m)
        return m

    def _record_judged(self, m: Module) -> None:
        """Instructions that can be taken."""
        judged = self.judged
        slots = len(self.is_judged)
        self.judgements.write(m, judged.valid, judged.payload.slot, judged.payload)
        idle = one_hot(self.idle.payload, slots, self.idle.valid)
        newly_judged = one_hot(judged.payload.slot, slots, judged.valid)
        ended = one_hot(self.slot, slots, self.ends)
        m.d.sync += self.is_judged.eq((self.is_judged | idle | newly_judged) & ~ended)
        m.d.sync += self.is_idle.eq((self.is_idle | idle) & ~newly_judged)
        m.d.sync += self.slot.eq(self.slot + self.ends)
        m.d.sync += Assert(
            ~judged.valid | ~self.is_judged.bit_select(judged.payload.slot, 1),
            "an instruction is judged twice")

    def _select_set(self, m: Module) -> None:
        """The next set of threads, of those below the failing one."""
        judgement = self._judgement
        some: Any = data.View(SetFlags, judgement.some)
        done = self.done_sets
        pending = self.pending_sets
        next_set = self.next_set
        m.d.comb += pending.memory.eq(some.memory & ~done.memory)
        m.d.comb += pending.local.eq(some.local & ~done.local)
        m.d.comb += pending.shared.eq(some.shared & ~done.shared & ~judgement.bad)

        threads = Signal(WARP_THREADS)
        with m.If(pending.memory):
            m.d.comb += next_set.memory.eq(1)
            m.d.comb += threads.eq(judgement.sets.memory)
        with m.Elif(pending.local):
            m.d.comb += next_set.local.eq(1)
            m.d.comb += threads.eq(judgement.sets.local)
        with m.Elif(pending.shared):
            m.d.comb += next_set.shared.eq(1)
            m.d.comb += threads.eq(judgement.sets.shared)
        is_below_error = Cat(
            ~judgement.bad | (thread < judgement.thread) for thread in range(WARP_THREADS))
        m.d.comb += self._set_threads.eq(threads & is_below_error)

    def _select_beat(self, m: Module) -> None:
        """The present beat is the lowest pending one."""
        params = self._params
        pending = self.pending_beats
        m.d.comb += self._beat.eq(
            Cat(pending[beat] & ~pending[:beat].any() for beat in range(params.beats)))
        m.d.comb += self._other_beats.eq(pending & ~self._beat)
        m.d.comb += self.lines.slot.eq(self.slot)
        m.d.comb += self.lines.beat.eq(number_of(self._beat))
        self._lanes = Signal(params.lanes)
        m.d.comb += self._lanes.eq(self.pending.word_select(self.lines.beat, params.lanes))

    def _compare(self, m: Module) -> None:
        """The present beat's lines are compared; the result of a cycle ago is used."""
        params = self._params
        has_line = Cat(line == self.line for line in self.lines.lines)
        with m.If(~self._stalls):
            m.d.sync += self.matched.eq(self._lanes & has_line)
            m.d.sync += self.matched_same.eq(self.lines.same)

        matched_threads = Signal(WARP_THREADS)
        m.d.comb += matched_threads.eq(
            Cat(Mux(beat, self.matched, 0) for beat in self.matched_beat))
        is_paired = pairs(self.matched, self.matched_same) & ~self._stores
        m.d.comb += self._unmatched.eq(self.pending & ~matched_threads)
        m.d.comb += self._unmatched_beats.eq(beats_of(self._unmatched, params))
        m.d.comb += self._collected_now.eq(struct_value(
            collected_threads(params),
            threads=self.collected.threads | matched_threads,
            paired=self.collected.paired | Mux(is_paired, self.matched_beat, 0)))

        # The next line.
        m.d.comb += self._next_line.eq(pick(self.lines.lines, lowest(self.candidates)))
        with m.If(self._starts_line):
            m.d.sync += self.line.eq(self._next_line)
            m.d.sync += self.collected.eq(0)
            m.d.sync += self.matched_beat.eq(0)
        with m.Elif(~self._stalls):
            m.d.sync += self.matched_beat.eq(self._beat)

    def _run(self, m: Module) -> None:
        """The state machine."""
        m.d.comb += self.candidates.eq(self._lanes)
        m.d.sync += self.no_line_waits.eq(~self.found.valid & ~self.lines_busy)
        m.d.sync += self.finished.valid.eq(0)
        m.d.sync += self.finished.payload.eq(self.slot)
        with m.FSM():
            with m.State("TAKE"):
                self._take(m)
            with m.State("PICK"):
                self._pick(m)
            with m.State("COLLECT"):
                self._collect(m)
            with m.State("COLLECTED"):
                self._complete_line(m)
            with m.State("SHARED"):
                self._serve_shared(m)
            with m.State("ATOMIC"):
                self._modify_shared(m)
        with m.If(self.ends):
            m.d.sync += self.done_sets.eq(0)
            m.d.sync += self.pending_beats.eq(0)

    def _take(self, m: Module) -> None:
        """The next set of the instruction, or its end."""
        next_set = self.next_set
        early = self.early
        can_be_taken = self.is_judged.bit_select(self.slot, 1)
        is_idle = self.is_idle.bit_select(self.slot, 1)
        had_fault = self.fault.bit_select(self.slot, 1)
        is_first_set = Signal()
        lines_are_answered = Signal()
        has_lines = Signal()
        is_over = Signal()
        m.d.comb += is_first_set.eq(~self.done_sets.as_value().any())
        m.d.comb += lines_are_answered.eq(
            is_first_set | (~self.found.valid & self.no_line_waits))
        m.d.comb += has_lines.eq(next_set.memory | next_set.local)

        # The first line of a load may be known before the instruction is judged.
        early_lanes = early.payload.lanes
        is_early = early.valid & (early.payload.slot == self.slot) & early_lanes.any()
        m.d.comb += self.candidates.eq(early_lanes)
        m.d.comb += self._may_announce.eq(is_early & self._loads & ~self.is_announced)

        m.d.sync += self.pending.eq(self._set_threads)
        m.d.sync += self.pending_beats.eq(
            Mux(can_be_taken, beats_of(self._set_threads, self._params), 0))
        nothing_to_do = ~self.pending_sets.as_value().any()
        fault_ends_it = had_fault & ~is_first_set
        m.d.comb += is_over.eq(
            (is_first_set & is_idle)
            | (~has_lines & lines_are_answered & (fault_ends_it | nothing_to_do)))
        with m.If(can_be_taken):
            with m.If(is_over):
                m.d.comb += self.ends.eq(1)
                m.d.sync += self.finished.valid.eq(1)
            with m.Elif(has_lines):
                m.d.sync += self.done_sets.eq(self.done_sets.as_value() | next_set.as_value())
                m.next = "PICK"
            with m.Elif(next_set.shared & lines_are_answered):
                m.d.sync += self.done_sets.shared.eq(1)
                with m.If(self._modifies):
                    m.next = "ATOMIC"
                with m.Else():
                    m.next = "SHARED"

    def _pick(self, m: Module) -> None:
        """The lowest pending thread has the line. There is none if all are above the error."""
        m.d.comb += self._starts_line.eq(1)
        m.d.comb += self._may_announce.eq(~self.is_announced & self.pending_beats.any())
        with m.If(self.pending_beats.any()):
            m.next = "COLLECT"
        with m.Else():
            m.next = "TAKE"

    def _collect(self, m: Module) -> None:
        """A beat is compared with the line. A beat that was compared before the last one and still
        has pending threads has another line. That is known without the last comparison, so the
        next line starts there a cycle early: ``pending_beats`` are these."""
        m.d.comb += self._has_line.eq(1)
        m.d.comb += self._may_announce.eq(~self.is_announced)
        m.d.sync += self.pending.eq(self._unmatched)
        m.d.sync += self.collected.eq(self._collected_now)
        with m.If(self._other_beats.any()):
            m.d.sync += self.pending_beats.eq(self._other_beats)
        with m.Else():
            m.d.sync += self.pending_beats.eq(self._unmatched_beats & ~self._beat)
            m.next = "COLLECTED"

    def _complete_line(self, m: Module) -> None:
        """All threads of the line are known. It waits if it was not announced and ``found`` has
        another line."""
        m.d.comb += self._has_line.eq(1)
        with m.If(self.is_announced | ~self.found.valid):
            m.d.comb += self.line_is_complete.eq(1)
            m.d.comb += self._starts_line.eq(1)
            m.d.sync += self.is_announced.eq(0)
            m.d.sync += self.pending.eq(self._unmatched)
            m.d.sync += self.pending_beats.eq(self._unmatched_beats)
            with m.If(self.pending_beats.any()):
                m.next = "COLLECT"
            with m.Elif(self._unmatched_beats.any()):
                m.next = "PICK"
            with m.Else():
                m.d.comb += self.ends.eq(~self.pending_sets.as_value().any())
                m.next = "TAKE"
        with m.Else():
            m.d.comb += self._stalls.eq(1)

    def _serve_shared(self, m: Module) -> None:
        """Words of shared memory, or of a shuffle: each beat once for each word."""
        m.d.comb += self.job.valid.eq(1)
        with m.If(self.job.ready):
            with m.If(~self._is_last_word):
                m.d.sync += self.word.eq(self.word + 1)
            with m.Else():
                m.d.sync += self.word.eq(0)
                m.d.sync += self.pending_beats.eq(self._other_beats)
                with m.If(~self._other_beats.any()):
                    m.d.comb += self.ends.eq(1)
                    m.next = "TAKE"

    def _modify_shared(self, m: Module) -> None:
        """Atomic operations in shared memory."""
        m.d.comb += self.atomic.valid.eq(1)
        with m.If(self.atomic.ready):
            m.d.comb += self.ends.eq(1)
            m.next = "TAKE"

    def _offer_line(self, m: Module) -> None:
        """To the miss queue: the line, if none is offered, and its threads."""
        instruction = self.instruction
        found = self.found.payload
        with m.If(self.found.ready):
            m.d.sync += self.found.valid.eq(0)
        m.d.comb += self.announces.eq(self._may_announce & ~self.found.valid)
        with m.If(self.announces):
            m.d.sync += self.is_announced.eq(1)
            m.d.sync += found.complete.eq(0)
        with m.If(self.line_is_complete):
            m.d.sync += common_fields(found, self._collected_now)
            m.d.sync += found.complete.eq(1)
            m.d.sync += found.last.eq(
                ~self._unmatched_beats.any() & ~self.pending_sets.as_value().any())
        with m.If(self.announces | (self.line_is_complete & ~self.is_announced)):
            has_error = self._judgement.bad
            m.d.sync += self.found.valid.eq(1)
            m.d.sync += found.slot.eq(self.slot)
            m.d.sync += found.line.eq(Mux(self._has_line, self.line, self._next_line))
            m.d.sync += found.local.eq(self.done_sets.local)
            m.d.sync += found.words.eq(instruction.words)
            m.d.sync += found.size.eq(instruction.size)
            m.d.sync += found.signed.eq(instruction.is_signed)
            m.d.sync += found.write.eq(self._stores & ~has_error)
            m.d.sync += found.modify.eq(self._modifies & ~has_error)

    def _offer_beat(self, m: Module) -> None:
        """A beat of shared memory or of a shuffle; or the atomic operations of all threads."""
        instruction = self.instruction
        is_shuffle = instruction.operation == MemoryOperation.SHUFFLE
        is_paired = pairs(self._lanes, self.lines.same) & ~self._stores
        skips, single = halves(self._lanes, is_paired, port_count(self._params))
        m.d.comb += self.job.payload.eq(struct_value(
            beat_job(self._params),
            slot=self.slot,
            beat=self.lines.beat,
            lanes=self._lanes,
            kind=Mux(is_shuffle, BeatKind.LANES, BeatKind.SHARED),
            write=self._stores,
            tag=0,
            word=self.word,
            spread=Mux(self._stores, 0, spread(instruction.words)),
            local=0,
            size=instruction.size,
            signed=instruction.is_signed,
            owner=BeatOwner.ACCESS,
            last=self._is_last_word & ~self._other_beats.any(),
            final=0,
            skips=skips,
            single=single))
        m.d.comb += self.atomic.payload.eq(struct_value(
            atomic_job(self._params), slot=self.slot, line=0, tag=0, threads=self.pending))


def pairs(lanes: Value, same: Value) -> Value:
    """Whether each thread in the upper half of a beat's ``lanes`` has the address of one in the
    lower half. ``same``: a bit for each port whose two lanes have the same address."""
    lower = lanes[:len(same)]
    upper = lanes[len(same):]
    return ~(upper & ~(lower & same)).any()


def halves(lanes: Value, paired: Value, ports: int) -> Value:
    """``skips`` and ``single`` of a beat_job for these ``lanes``."""
    if len(lanes) == ports:
        return Cat(Const(0, 1), Const(1, 1))
    has_lower = lanes[:ports].any()
    has_upper = lanes[ports:].any()
    return Cat(~has_lower, ~has_lower | ~has_upper | paired)


def spread(words: Value) -> Value:
    """The ``spread`` of a beat_job whose threads have so many words."""
    return (words - 1)[:2]
