"""The access stage: instructions in order, each into the beats and lines that it accesses. It is the coalescer, too."""

from typing import Any

from amaranth.hdl import Assert, Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, memory, stream
from amaranth.lib.wiring import In, Out

from rtl.arbiter import lowest
from rtl.component import Component
from rtl.isa.errors import WarpError
from rtl.isa.kinds import AtomicOperation
from rtl.layouts import Event
from rtl.one_hot import one_hot
from rtl.params import LINE_ADDRESS_BITS, WARP_THREADS, SmParams
from rtl.pick import pick

from .addresses import early_layout
from .instruction import (
    WORDS,
    BeatKind,
    BeatOwner,
    MemoryOperation,
    beat_job,
    judged_layout,
    memory_tag_bits,
    slot_bits,
)

__all__ = ["AccessInstruction", "AccessStage", "atomic_job", "first_beat", "found_line"]


class AccessInstruction(data.Struct):
    """What the stages behind the addresses need of an instruction; its fields are those of a MemoryInstruction."""

    operation: MemoryOperation
    size: unsigned(3)
    words: range(WORDS + 1)
    is_signed: unsigned(1)
    atomic: AtomicOperation
    compare: unsigned(1)


def found_line(params: SmParams) -> data.StructLayout:
    """A line, and all ``threads`` of an instruction that access it; in ``local`` memory that is their first word, and
    each of the ``words`` has a line of its own. ``complete``: all threads are found; before that ``threads`` and
    ``last`` mean nothing yet, but a line that is read may be asked for. ``last``: nothing else of the instruction
    comes."""
    return data.StructLayout({
        "slot": slot_bits(params), "line": LINE_ADDRESS_BITS, "threads": WARP_THREADS, "write": 1, "modify": 1,
        "local": 1, "words": range(WORDS + 1), "size": 3, "signed": 1, "complete": 1,
        "last": 1})


def atomic_job(params: SmParams) -> data.StructLayout:
    """Atomic operations of some threads, in the ``line`` of a tag or in shared memory."""
    return data.StructLayout({
        "slot": slot_bits(params), "line": 1, "tag": memory_tag_bits(params), "threads": WARP_THREADS})


def first_beat(threads: Value, params: SmParams) -> Value:
    """The number of the first beat that has one of ``threads``."""
    return lowest(Cat(threads.word_select(beat, params.lanes).any() for beat in range(params.beats)))


class AccessStage(Component):
    """Takes one instruction after the other, in the order of their slots.

    Of those that access memory it takes the line of the lowest thread that waits, and finds all others in it, a beat a
    cycle. It tells of a line that is read when it has the first thread; for the first line of a load that is while the
    addresses of later beats are still judged.

    Memory's lines go first, then those of local memory; shared memory when there was no fault. If the addresses hold an
    error, the threads below only read: one of them may have a fault, and then goes first.

    Members
    -------
    judged, early : In(Event of judged_layout), In(Event of early_layout)
    idle : In(Event of a slot)
        An instruction that has nothing to do gets a slot.
    slot, instruction : Out, In(AccessInstruction)
        The next one, and what it is.
    line_slot, line_beat, lines : Out, Out, In
        Places of a beat's threads, as lines.
    found : Out(stream of found_line)
    lines_busy, fault : In(1), In(1 bit a slot)
        Lines of the last instruction that was taken are under way; some are not mapped.
    job, atomic : Out(stream of beat_job), Out(stream of atomic_job)
        For shared memory and shuffles.
    finished : Out(Event of a slot)
        An instruction has nothing to do, or no more.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        slot = slot_bits(params)
        super().__init__({
            "judged": In(Event(judged_layout(params))), "early": In(Event(early_layout(params))),
            "idle": In(Event(slot)), "slot": Out(slot), "instruction": In(AccessInstruction), "line_slot": Out(slot),
            "line_beat": Out(range(params.beats)), "lines": In(data.ArrayLayout(LINE_ADDRESS_BITS, params.lanes)),
            "found": Out(stream.Signature(found_line(params))), "lines_busy": In(1), "fault": In(1 << slot),
            "job": Out(stream.Signature(beat_job(params))), "atomic": Out(stream.Signature(atomic_job(params))),
            "finished": Out(Event(slot))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        params, count = self._params, 1 << slot_bits(self._params)
        lanes, judged = params.lanes, self.judged

        # What is known of the next one.
        ready, idle, takes = Signal(count), Signal(count), Signal()
        m.submodules.known = known = memory.Memory(shape=judged_layout(params), depth=count, init=[])
        note, next_one = known.write_port(), known.read_port(domain="comb")
        m.d.comb += [
            note.en.eq(judged.valid), note.addr.eq(judged.payload.slot), note.data.eq(judged.payload),
            next_one.addr.eq(self.slot)]
        begins = one_hot(self.idle.payload, count, self.idle.valid)
        ends = one_hot(judged.payload.slot, count, judged.valid)
        m.d.sync += [
            ready.eq((ready | begins | ends) & ~one_hot(self.slot, count, takes)), idle.eq((idle | begins) & ~ends),
            self.slot.eq(self.slot + takes)]

        # The one that is taken, and what is left of it.
        slot, here = Signal(slot_bits(params)), Signal(judged_layout(params))
        instruction: Any = Signal(AccessInstruction)
        telling: Any = Signal(AccessInstruction)
        now = judged.valid & (judged.payload.slot == self.slot)
        m.d.comb += here.eq(Mux(now, judged.payload.as_value(), next_one.data.as_value()))
        bad, sets = here.error != WarpError.NONE, here.sets
        waiting, local, shared = Signal(WARP_THREADS), Signal(WARP_THREADS), Signal(WARP_THREADS)
        reads, own, left, step = Signal(), Signal(), Signal(WARP_THREADS), Signal(range(WORDS))
        told, tells, collected, first = Signal(), Signal(), Signal(), Signal()
        found, threads, line = self.found.payload, Signal(WARP_THREADS), Signal(LINE_ADDRESS_BITS)
        with m.If(self.found.ready):
            m.d.sync += self.found.valid.eq(0)
        m.d.comb += [
            self.line_slot.eq(slot), telling.eq(instruction), self.finished.payload.eq(Mux(takes, self.slot, slot)),
            self.atomic.payload.slot.eq(slot), self.atomic.payload.threads.eq(shared)]

        lanes_waiting, hits, beat = Signal(lanes), Signal(lanes), self.line_beat
        others, remain, next_line = Signal(WARP_THREADS), Signal(WARP_THREADS), Signal(LINE_ADDRESS_BITS)
        of_beat = Cat((beat == number).replicate(lanes) for number in range(params.beats))
        m.d.comb += [
            lanes_waiting.eq(left.word_select(beat, lanes)), beat.eq(first_beat(left, params)),
            next_line.eq(pick(self.lines, lowest(lanes_waiting))),
            hits.eq(lanes_waiting & Cat(place == line for place in self.lines)),
            others.eq(left & ~of_beat), remain.eq(waiting & ~(of_beat & hits.replicate(params.beats)))]
        with m.FSM():
            with m.State("TAKE"):
                early = self.early
                m.d.comb += [
                    first.eq(1), takes.eq(ready.bit_select(self.slot, 1) | now), telling.eq(self.instruction),
                    beat.eq(0), self.line_slot.eq(self.slot), lanes_waiting.eq(early.payload.lanes),
                    tells.eq(early.valid & (early.payload.slot == self.slot) & early.payload.lanes.any()
                             & (self.instruction.operation == MemoryOperation.LOAD) & ~told)]
                m.d.sync += [
                    slot.eq(self.slot), instruction.eq(self.instruction), own.eq(~sets.memory.any()), reads.eq(bad),
                    waiting.eq(Mux(sets.memory.any(), sets.memory, sets.local)),
                    left.eq(Mux(sets.memory.any(), sets.memory, Mux(sets.local.any(), sets.local, sets.shared))),
                    local.eq(Mux(sets.memory.any(), sets.local, 0)), shared.eq(Mux(bad, 0, sets.shared)), step.eq(0)]
                with m.If(takes):
                    with m.If(idle.bit_select(self.slot, 1) & ~now):
                        m.d.comb += self.finished.valid.eq(1)
                    with m.Elif(sets.memory.any() | sets.local.any()):
                        m.next = "PICK"
                    with m.Elif(sets.shared.any() & ~bad):
                        m.next = "SHARED"
                        with m.If(self.instruction.operation == MemoryOperation.ATOMIC):
                            m.next = "ATOMIC"
                    with m.Else():
                        m.d.comb += self.finished.valid.eq(1)
            with m.State("PICK"):
                m.d.comb += tells.eq(~told & ((instruction.operation != MemoryOperation.STORE) | reads))
                m.d.sync += [line.eq(next_line), threads.eq(0)]
                m.next = "COLLECT"
            with m.State("COLLECT"), m.If(others.any() | told | ~self.found.valid | self.found.ready):
                m.d.sync += [
                    left.eq(others), waiting.eq(remain), threads.eq(threads | of_beat & hits.replicate(params.beats))]
                with m.If(~others.any()):
                    m.d.comb += collected.eq(1)
                    m.d.sync += [left.eq(remain), told.eq(0)]
                    m.next = "PICK"
                    with m.If(~remain.any()):
                        m.d.sync += [waiting.eq(local), left.eq(local), local.eq(0), own.eq(1)]
                        with m.If(~local.any()):
                            m.d.sync += left.eq(shared)
                            m.next = "TAKE"
                            with m.If(shared.any()):
                                m.next = "SETTLE"
            with m.State("SETTLE"), m.If(~self.found.valid & ~self.lines_busy):
                m.next = "SHARED"
                with m.If(self.fault.bit_select(slot, 1)):
                    m.d.comb += self.finished.valid.eq(1)
                    m.next = "TAKE"
            with m.State("SHARED"):
                m.d.comb += self.job.valid.eq(1)
                with m.If(self.job.ready):
                    m.d.sync += step.eq(step + 1)
                    with m.If(step == instruction.words - 1):
                        m.d.sync += [step.eq(0), left.eq(others)]
                        with m.If(~others.any()):
                            m.next = "TAKE"
            with m.State("ATOMIC"):
                m.d.comb += self.atomic.valid.eq(1)
                with m.If(self.atomic.ready):
                    m.next = "TAKE"
        m.d.sync += Assert(
            ~judged.valid | ~ready.bit_select(judged.payload.slot, 1), "an instruction is judged twice")

        # What the miss queue is told: of the line, if there is room, and of its threads.
        tells_now = tells & (~self.found.valid | self.found.ready)
        with m.If(tells_now):
            m.d.sync += [told.eq(1), found.complete.eq(0)]
        with m.If(collected):
            m.d.sync += [
                found.threads.eq(threads | of_beat & hits.replicate(params.beats)), found.complete.eq(1),
                found.last.eq(~remain.any() & ~local.any() & ~shared.any())]
        with m.If(tells_now | collected & ~told):
            m.d.sync += [
                self.found.valid.eq(1), found.slot.eq(self.line_slot), found.line.eq(Mux(collected, line, next_line)),
                found.local.eq(own & ~first), found.words.eq(telling.words), found.size.eq(telling.size),
                found.signed.eq(telling.is_signed),
                found.write.eq((telling.operation == MemoryOperation.STORE) & ~reads),
                found.modify.eq((telling.operation == MemoryOperation.ATOMIC) & ~reads)]

        job, store = self.job.payload, instruction.operation == MemoryOperation.STORE
        m.d.comb += [
            job.slot.eq(slot), job.beat.eq(beat), job.lanes.eq(lanes_waiting), job.write.eq(store), job.word.eq(step),
            job.spread.eq(Mux(store, 0, spread(instruction.words))), job.size.eq(instruction.size),
            job.signed.eq(instruction.is_signed), job.owner.eq(BeatOwner.ACCESS),
            job.last.eq((step == instruction.words - 1) & ~others.any()),
            job.kind.eq(Mux(instruction.operation == MemoryOperation.SHUFFLE, BeatKind.LANES, BeatKind.SHARED))]
        return m


def spread(words: Value) -> Value:
    """The ``spread`` of a beat_job whose threads have so many words."""
    return (words - 1)[:2]
