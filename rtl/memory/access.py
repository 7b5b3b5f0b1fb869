"""The access stage: instructions in order, each into the beats and lines that it accesses. It is the coalescer, too."""

from amaranth.hdl import Assert, Cat, Const, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, memory, stream
from amaranth.lib.wiring import In, Out

from rtl.arbiter import lowest
from rtl.component import Component
from rtl.isa.kinds import AtomicOperation
from rtl.layouts import Event
from rtl.one_hot import chosen_of, number_of, one_hot
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
    port_count,
    slot_bits,
)

__all__ = ["AccessInstruction", "AccessStage", "atomic_job", "beats_of", "found_line"]


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
    each of the ``words`` has a line of its own. Of a ``paired`` beat each thread in the upper half reads at the place
    of one in the lower half. ``complete``: all threads are found; before that ``threads``, ``paired`` and ``last`` mean
    nothing yet, but a line that is read may be asked for. ``last``: nothing else of the instruction comes."""
    return data.StructLayout({
        "slot": slot_bits(params), "line": LINE_ADDRESS_BITS, "threads": WARP_THREADS, "paired": params.beats,
        "write": 1, "modify": 1,
        "local": 1, "words": range(WORDS + 1), "size": 3, "signed": 1, "complete": 1,
        "last": 1})


def atomic_job(params: SmParams) -> data.StructLayout:
    """Atomic operations of some threads, in the ``line`` of a tag or in shared memory."""
    return data.StructLayout({
        "slot": slot_bits(params), "line": 1, "tag": memory_tag_bits(params), "threads": WARP_THREADS})


def beats_of(threads: Value, params: SmParams) -> Value:
    """The beats that have one of ``threads``, a bit for each."""
    return Cat(threads.word_select(beat, params.lanes).any() for beat in range(params.beats))


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
        The one that is taken or is the next, and what it is.
    line_slot, line_beat, lines, same : Out, Out, In, In(1 bit a port)
        Places of a beat's threads, as lines, and whether those of a port have the same place.
    found : Out(stream of found_line)
    lines_busy, fault : In(1), In(1 bit a slot)
        Lines of that instruction are under way; some are not mapped.
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
            "same": In(port_count(params)),
            "found": Out(stream.Signature(found_line(params))), "lines_busy": In(1), "fault": In(1 << slot),
            "job": Out(stream.Signature(beat_job(params))), "atomic": Out(stream.Signature(atomic_job(params))),
            "finished": Out(Event(slot))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        params, count = self._params, 1 << slot_bits(self._params)
        lanes, judged = params.lanes, self.judged

        # The next one, when its addresses are judged: the threads of one of its sets after the other.
        ready, idle, ends = Signal(count), Signal(count), Signal()
        m.submodules.known = known = memory.Memory(shape=judged_layout(params), depth=count, init=[])
        note, next_one = known.write_port(), known.read_port(domain="comb")
        begin = one_hot(self.idle.payload, count, self.idle.valid)
        come = one_hot(judged.payload.slot, count, judged.valid)
        here, instruction = next_one.data, self.instruction
        bad, done, rest, now, chosen = (here.bad, Signal(3), Signal(3), Signal(3),
                                        Signal(WARP_THREADS))
        m.d.comb += [
            note.en.eq(judged.valid), note.addr.eq(judged.payload.slot), note.data.eq(judged.payload),
            next_one.addr.eq(self.slot), rest.eq(here.some & ~done & ~Cat(0, 0, bad)),
            now.eq(Cat(rest[place] & ~rest[:place].any() for place in range(len(rest)))),
            chosen.eq(chosen_of(now, (here.sets.memory, here.sets.local, here.sets.shared)) & Cat(
                ~bad | (number < here.thread) for number in range(WARP_THREADS)))]
        m.d.sync += [
            ready.eq((ready | begin | come) & ~one_hot(self.slot, count, ends)), idle.eq((idle | begin) & ~come),
            self.slot.eq(self.slot + ends)]

        # What is left of it.
        waiting, left, step = Signal(WARP_THREADS), Signal(params.beats), Signal(range(WORDS))
        told, tells, picked, collected, first = Signal(), Signal(), Signal(), Signal(), Signal()
        hits, hit_beat, hit_same = Signal(lanes), Signal(params.beats), Signal.like(self.same)  # compared a cycle ago
        paired = Signal(params.beats)
        found, threads, line = self.found.payload, Signal(WARP_THREADS), Signal(LINE_ADDRESS_BITS)
        m.d.sync += [self.finished.valid.eq(0), self.finished.payload.eq(self.slot)]
        with m.If(self.found.ready):
            m.d.sync += self.found.valid.eq(0)
        m.d.comb += [
            self.line_slot.eq(self.slot), self.atomic.payload.slot.eq(self.slot),
            self.atomic.payload.threads.eq(waiting)]

        loads, stores, modifies = (instruction.operation == operation for operation in (
            MemoryOperation.LOAD, MemoryOperation.STORE, MemoryOperation.ATOMIC))
        lanes_waiting, picking, beat = Signal(lanes), Signal(lanes), self.line_beat
        others, remain, next_line = Signal(params.beats), Signal(WARP_THREADS), Signal(LINE_ADDRESS_BITS)
        remaining, hit_threads, beat_here = beats_of(remain, params), Signal(WARP_THREADS), Signal(params.beats)
        m.d.comb += [
            lanes_waiting.eq(waiting.word_select(beat, lanes)), picking.eq(lanes_waiting),
            beat_here.eq(Cat(left[beat] & ~left[:beat].any() for beat in range(params.beats))),
            beat.eq(number_of(beat_here)), next_line.eq(pick(self.lines, lowest(picking))),
            others.eq(left & ~beat_here), remain.eq(waiting & ~hit_threads),
            hit_threads.eq(Cat(hits & of.replicate(lanes) for of in hit_beat))]
        hit_paired = paired | hit_beat & (pairs(hits, hit_same) & ~stores).replicate(params.beats)
        m.d.sync += [
            hits.eq(lanes_waiting & Cat(place == line for place in self.lines)), hit_beat.eq(beat_here),
            hit_same.eq(self.same)]
        free, quiet = ~self.found.valid, Signal()
        m.d.sync += quiet.eq(free & ~self.lines_busy)
        with m.FSM():
            with m.State("TAKE"):
                early, settled, known_now = self.early, free & quiet, ready.bit_select(self.slot, 1)
                m.d.comb += [
                    first.eq(~done.any()), picking.eq(early.payload.lanes),
                    tells.eq(early.valid & (early.payload.slot == self.slot) & early.payload.lanes.any() & loads
                             & ~told)]
                m.d.sync += [waiting.eq(chosen), left.eq(beats_of(chosen, params) & known_now.replicate(params.beats))]
                with m.If(known_now):
                    with m.If(first & idle.bit_select(self.slot, 1) | ~(now[0] | now[1]) & (
                            ~first & settled & self.fault.bit_select(self.slot, 1) | ~rest.any() & (first | settled))):
                        m.d.comb += ends.eq(1)
                        m.d.sync += self.finished.valid.eq(1)
                    with m.Elif(now[0] | now[1]):
                        m.next = "PICK"
                    with m.Elif(now[2] & (first | settled)):
                        m.next = "SHARED"
                        with m.If(modifies):
                            m.next = "ATOMIC"
                    with m.If(~now[2] | first | settled):
                        m.d.sync += done.eq(Mux(ends, 0, done | now))
            with m.State("PICK"):
                m.d.comb += tells.eq(~told & left.any())
                m.d.sync += [line.eq(next_line), threads.eq(0), paired.eq(0), hit_beat.eq(0)]
                m.next = "COLLECT"
                with m.If(~left.any()):
                    m.next = "TAKE"
            with m.State("COLLECT"):
                m.d.comb += [picked.eq(1), tells.eq(~told)]
                m.d.sync += [
                    left.eq(others), waiting.eq(remain), threads.eq(threads | hit_threads), paired.eq(hit_paired)]
                with m.If(~others.any()):
                    m.d.sync += left.eq(remaining & ~beat_here)
                    m.next = "COLLECTED"
            with m.State("COLLECTED"):
                # A beat that surely has threads of another line has the next one's first thread.
                m.d.comb += picked.eq(1)
                with m.If(told | free):
                    m.d.comb += collected.eq(1)
                    m.d.sync += [
                        left.eq(remaining), waiting.eq(remain), told.eq(0), line.eq(next_line), threads.eq(0),
                        paired.eq(0), hit_beat.eq(0)]
                    m.next = "PICK"
                    with m.If(left.any()):
                        m.next = "COLLECT"
                    with m.Elif(~remaining.any()):
                        m.d.comb += ends.eq(~rest.any())
                        m.next = "TAKE"
                with m.Else():
                    m.d.sync += [hits.eq(hits), hit_beat.eq(hit_beat), hit_same.eq(hit_same)]
            with m.State("SHARED"):
                m.d.comb += self.job.valid.eq(1)
                with m.If(self.job.ready):
                    m.d.sync += step.eq(Mux(step == instruction.words - 1, 0, step + 1))
                    with m.If(step == instruction.words - 1):
                        m.d.sync += left.eq(others)
                        with m.If(~others.any()):
                            m.d.comb += ends.eq(1)
                            m.next = "TAKE"
            with m.State("ATOMIC"):
                m.d.comb += self.atomic.valid.eq(1)
                with m.If(self.atomic.ready):
                    m.d.comb += ends.eq(1)
                    m.next = "TAKE"
        with m.If(ends):
            m.d.sync += [done.eq(0), left.eq(0)]
        m.d.sync += Assert(
            ~judged.valid | ~ready.bit_select(judged.payload.slot, 1), "an instruction is judged twice")

        # What the miss queue is told: of the line, if there is room, and of its threads.
        tells_now = tells & free
        with m.If(tells_now):
            m.d.sync += [told.eq(1), found.complete.eq(0)]
        with m.If(collected):
            m.d.sync += [
                found.threads.eq(threads | hit_threads), found.paired.eq(hit_paired), found.complete.eq(1),
                found.last.eq(~remaining.any() & ~rest.any())]
        with m.If(tells_now | collected & ~told):
            m.d.sync += [
                self.found.valid.eq(1), found.slot.eq(self.slot), found.line.eq(Mux(picked, line, next_line)),
                found.local.eq(done[1]), found.words.eq(instruction.words), found.size.eq(instruction.size),
                found.signed.eq(instruction.is_signed), found.write.eq(stores & ~(bad & ~first)),
                found.modify.eq(modifies & ~(bad & ~first))]

        job = self.job.payload
        m.d.comb += [
            job.slot.eq(self.slot), job.beat.eq(beat), job.lanes.eq(lanes_waiting), job.write.eq(stores),
            job.word.eq(step), job.spread.eq(Mux(stores, 0, spread(instruction.words))), job.size.eq(instruction.size),
            job.signed.eq(instruction.is_signed), job.owner.eq(BeatOwner.ACCESS),
            job.last.eq((step == instruction.words - 1) & ~others.any()),
            Cat(job.skips, job.single).eq(halves(
                lanes_waiting, pairs(lanes_waiting, self.same) & ~stores, port_count(params))),
            job.kind.eq(Mux(instruction.operation == MemoryOperation.SHUFFLE, BeatKind.LANES, BeatKind.SHARED))]
        return m


def pairs(lanes: Value, same: Value) -> Value:
    """Whether each thread in the upper half of a beat's ``lanes`` has the place of one in the lower half."""
    return ~(lanes[len(same):] & ~(lanes[:len(same)] & same)).any()


def halves(lanes: Value, paired: Value, ports: int) -> Value:
    """``skips`` and ``single`` of a beat_job for these ``lanes``."""
    if len(lanes) == ports:
        return Cat(Const(0, 1), Const(1, 1))
    lower, upper = (half.any() for half in (lanes[:ports], lanes[ports:]))
    return Cat(~lower, ~lower | ~upper | paired)


def spread(words: Value) -> Value:
    """The ``spread`` of a beat_job whose threads have so many words."""
    return (words - 1)[:2]
