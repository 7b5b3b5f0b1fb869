"""The address stage: where each thread's access goes, and the first thread that can't make its own."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.arbiter import lowest
from rtl.component import Component
from rtl.isa.errors import WarpError
from rtl.isa.kinds import ShuffleMode
from rtl.isa.tokens import CRS_GRANULE
from rtl.layouts import Event
from rtl.params import ADDRESS_BITS, LOCAL_WINDOW, SHARED_WINDOW, WARP_THREADS, WINDOW_BYTES, SmParams
from rtl.pick import pick

from .instruction import MemoryInstruction, MemoryOperation, MemorySpace, ThreadSets, judged_layout, slot_bits
from .limits import address_limits
from .operands import place_layout

__all__ = ["PAST_WINDOWS", "WINDOW_BITS", "AddressStage", "address_job", "early_layout", "in_segment", "shuffle_reach"]

_WORD_BITS = 2
_THREAD_BITS = ceil_log2(WARP_THREADS)
WINDOW_BITS = ceil_log2(WINDOW_BYTES)
"""Lower bits of an address, which tell where in a window it is."""
PAST_WINDOWS = max(SHARED_WINDOW, LOCAL_WINDOW).bit_length()
"""The bits of an address from this one on are 0 in a window."""


def address_job(params: SmParams) -> data.StructLayout:
    """An instruction whose addresses are judged: its slot, its executing threads, and what its addresses are held
    against."""
    return data.StructLayout({
        "slot": slot_bits(params), "instruction": MemoryInstruction, "threads": WARP_THREADS,
        "limits": address_limits(params)})


def early_layout(params: SmParams) -> data.StructLayout:
    """The ``lanes`` of an instruction's first beat whose threads access memory, whatever comes of later beats."""
    return data.StructLayout({"slot": slot_bits(params), "lanes": params.lanes})


class AddressStage(Component):
    """Takes a beat of address registers a cycle. A cycle later its places are known, one more and its threads are in
    ``sets``, or one of the instruction's has an error.

    Of a thread's errors MISALIGNED_ADDR goes first, but for INVALID_ADDR_SPACE, which leaves no address to look at. An
    address that memory does not have is MMU_FAULT here already.

    Members
    -------
    valid, last, beat, low, high : In
        The address registers of a beat's threads; the beats of an instruction follow each other. Or, when the
        instruction's ``last`` registers are others, those.
    addresses : In(1)
        It is the former.
    job : In(address_job)
        Its instruction.
    write, write_slot, write_beat, places : Out
        What a beat comes to: an address in memory or in the CTA's shared memory; for local memory that of the thread's
        first word.
    shuffled, sources : Out(1), Out(a thread for each lane)
        A cycle later: it is a shuffle's, and the threads that are read.
    judged : Out(Event of judged_layout)
        All of an instruction's registers have come.
    loaded, inside : Out(32)
        With it: the threads that get something but 0, and those that a shuffle leaves in their segment.
    early : Out(Event of early_layout)
        Some threads of an instruction's first beat access memory, and nothing is wrong with any address in it.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        registers = data.ArrayLayout(32, params.lanes)
        super().__init__({
            "valid": In(1), "addresses": In(1), "last": In(1), "beat": In(range(params.beats)), "low": In(registers),
            "high": In(registers), "job": In(address_job(params)), "write": Out(1),
            "write_slot": Out(slot_bits(params)), "write_beat": Out(range(params.beats)),
            "places": Out(place_layout(params)), "shuffled": Out(1),
            "sources": Out(data.ArrayLayout(_THREAD_BITS, params.lanes)), "judged": Out(Event(judged_layout(params))),
            "loaded": Out(WARP_THREADS), "inside": Out(WARP_THREADS), "early": Out(Event(early_layout(self._params)))})
        self._added: Any = Signal(address_job(params))
        limits = self._added.limits
        self._second: Any = Signal(data.StructLayout({
            "base": ADDRESS_BITS, "end": max(len(limits.shared), len(limits.local), len(limits.bank.size) + 1)}))
        self._low_mask = Signal(4)
        self._is: Any = Signal(data.StructLayout(dict.fromkeys(
            ("generic", "outside", "shared", "local", "constant", "shuffle"), 1)))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        lanes, final = self._params.lanes, self._params.beats - 1
        added, beat, ends, ended, job = Signal(), Signal.like(self.beat), Signal(), Signal(), self._added
        later, later_beat, slot = Signal(), Signal.like(self.beat), Signal(slot_bits(self._params))
        judged = self.judged
        wrong = Signal(data.ArrayLayout(data.StructLayout(dict.fromkeys(
            ("outside", "misaligned", "beyond", "unmapped"), 1)), lanes))
        m.d.sync += [
            added.eq(self.valid & self.addresses), beat.eq(self.beat), job.eq(self.job),
            ends.eq(self.valid & self.last & (self.beat == final)), later.eq(added), later_beat.eq(beat),
            slot.eq(job.slot), ended.eq(ends)]
        m.d.comb += [self.write.eq(added), self.write_slot.eq(job.slot), self.write_beat.eq(beat)]

        # Addresses, then spaces and places.
        self._spaces(m)
        names = ThreadSets.as_shape().members
        found, stays = {name: Signal(lanes, name=f"in_{name}") for name in names}, Signal(lanes)
        sets = {name: Signal(WARP_THREADS, name=name) for name in names}
        shuffles, constant, reports = Signal(), Signal(), Signal()
        m.d.sync += [
            shuffles.eq(self._is.shuffle), constant.eq(self._is.constant), reports.eq(job.limits.report_constants)]
        for lane in range(lanes):
            address: Any = Signal(data.StructLayout({"bits": 64, "past": 2, "above": 1}), name=f"address_{lane}")
            total = Signal(64, name=f"total_{lane}")
            m.d.comb += total.eq(Cat(self.low[lane], self.high[lane]) + self.job.instruction.offset)
            wide = self.job.instruction.wide
            m.d.sync += [
                address.bits.eq(Mux(wide, total, total[:32])), address.above.eq(wide & total[ADDRESS_BITS:].any()),
                address.past.eq(Cat(total[PAST_WINDOWS:32].any(), wide & total[32:ADDRESS_BITS].any()))]
            executes = job.threads.word_select(beat, lanes)[lane]
            thread = Cat(Const(lane, ceil_log2(lanes)), beat)[:_THREAD_BITS]
            self._judge(m, lane, address, thread, executes, wrong[lane], {**found, "stays": stays})
        some, before, kinds = Signal(len(names)), Signal(len(names)), {
            name: Signal(lanes, name=f"last_{name}") for name in names}
        last = {**kinds, "local": kinds["local"] | stays & shuffles.replicate(lanes)}
        m.d.comb += self.shuffled.eq(shuffles)
        m.d.comb += some.eq(
            Mux(later & (later_beat == 0), 0, before) | Mux(later, Cat(kept.any() for kept in kinds.values()), 0))
        m.d.sync += [before.eq(some), Cat(kinds.values()).eq(Cat(found.values()))]
        complete: dict[str, Value] = {}
        for name, kept in sets.items():
            with m.If(later):
                m.d.sync += kept.word_select(later_beat, lanes).eq(last[name])
            complete[name] = Cat(kept[:-lanes], Mux(later, last[name], kept[-lanes:]))

        # The first error.
        failing, error, earlier = Signal(lanes), Signal(WarpError), Signal(WarpError)
        thread, earlier_thread, opens, fails = Signal(_THREAD_BITS), Signal(_THREAD_BITS), Signal(), Signal()
        silent, lane = constant & ~reports, lowest(failing)
        first: Any = Signal(wrong[0].shape())
        first_thread, last_constant = Signal(_THREAD_BITS), Signal()
        m.d.sync += [
            opens.eq(later & (later_beat == 0)), fails.eq(later & failing.any()),
            first.eq(pick([one.as_value() for one in wrong], lane)), first_thread.eq(Cat(lane, later_beat)),
            last_constant.eq(constant)]
        m.d.comb += [
            failing.eq(Cat(one.outside | one.misaligned | Mux(one.beyond, ~silent, one.unmapped) for one in wrong)),
            error.eq(earlier), thread.eq(earlier_thread)]
        with m.If(opens | (earlier == WarpError.NONE)):
            m.d.comb += [thread.eq(first_thread), error.eq(WarpError.NONE)]
            with m.If(fails & first.outside):
                m.d.comb += error.eq(WarpError.INVALID_ADDR_SPACE)
            with m.Elif(fails & first.misaligned):
                m.d.comb += error.eq(WarpError.MISALIGNED_ADDR)
            with m.Elif(fails & first.beyond):
                m.d.comb += error.eq(Mux(last_constant, WarpError.INVALID_CONST_ADDR_LDC, WarpError.OOR_ADDR))
            with m.Elif(fails):
                m.d.comb += error.eq(WarpError.MMU_FAULT)
        m.d.sync += [earlier.eq(error), earlier_thread.eq(thread)]
        m.d.comb += [judged.payload.error.eq(error), judged.payload.thread.eq(thread),
                     judged.payload.bad.eq(error != WarpError.NONE)]
        m.d.sync += [
            judged.valid.eq(ended), judged.payload.slot.eq(slot),
            judged.payload.some.eq(Mux(shuffles, some & 0b100, some)), self.inside.eq(complete["local"]),
            self.loaded.eq(complete["shared"] | Mux(shuffles, 0, complete["memory"] | complete["local"]))]
        m.d.sync += [judged.payload.sets[name].eq(kept) for name, kept in complete.items()]
        m.d.comb += [
            self.early.valid.eq(later & (later_beat == 0) & ~wrong.as_value().any()), self.early.payload.slot.eq(slot),
            self.early.payload.lanes.eq(last["memory"])]
        return m

    def _spaces(self, m: Module) -> None:
        """What the places of all threads have in common. Each is in shared memory, at an address of memory, or in the
        ``second`` space, with an end as well: local memory or the constant bank."""
        instruction, limits, second, is_ = self.job.instruction, self.job.limits, self._second, self._is
        space = instruction.space
        m.d.sync += [
            second.base.eq(limits.local_base << ceil_log2(CRS_GRANULE)), second.end.eq(limits.local),
            is_.generic.eq((space == MemorySpace.GENERIC) | (space == MemorySpace.OUTSIDE)),
            is_.outside.eq(space == MemorySpace.OUTSIDE), is_.shared.eq(space == MemorySpace.SHARED),
            is_.local.eq(space == MemorySpace.LOCAL), is_.constant.eq(space == MemorySpace.CONSTANT),
            is_.shuffle.eq(instruction.operation == MemoryOperation.SHUFFLE)]
        with m.If(space == MemorySpace.CONSTANT):
            m.d.sync += [second.base.eq(limits.bank.address), second.end.eq(limits.bank.size)]
        m.d.sync += self._low_mask.eq((1 << instruction.size) - 1)

    def _judge(self, m: Module, lane: int, sum_: Any, thread: Value, executes: Value, wrong: Any,
               sets: dict[str, Signal]) -> None:
        """Where one thread's address is. What is ``wrong`` is a cycle later than the rest."""
        limits, second, low_mask = self._added.limits, self._second, self._low_mask
        generic, constant, shuffles = self._is.generic, self._is.constant, self._is.shuffle
        in_shared, in_local, beyond = Signal(), Signal(), Signal()
        address, past, above = sum_.bits, sum_.past.any() | sum_.above, sum_.above
        window = address[WINDOW_BITS:PAST_WINDOWS]
        m.d.comb += [
            in_shared.eq(generic & ~past & (window == SHARED_WINDOW >> WINDOW_BITS)),
            in_local.eq(generic & ~past & (window == LOCAL_WINDOW >> WINDOW_BITS))]
        inside, to_shared, to_local = in_shared | in_local, Signal(), Signal()
        inner = Cat(address[:WINDOW_BITS], window & ~inside.replicate(len(window)), address[PAST_WINDOWS:])
        m.d.comb += [
            to_shared.eq(in_shared | self._is.shared),
            to_local.eq(in_local | self._is.local)]

        # The place: where the space begins, plus the address in it; the last byte may be beyond the end of the space.
        base, distance, place = Signal(ADDRESS_BITS), Signal(ADDRESS_BITS), Signal(ADDRESS_BITS + 1)
        end, to_second, missing = Signal.like(second.end), to_local | constant, constant & ~limits.bank.valid
        last_byte = (inner | low_mask)[:len(end)]       # of its word the first one, where a constant bank ends
        reach = Cat(last_byte[:_WORD_BITS] & ~constant.replicate(_WORD_BITS), last_byte[_WORD_BITS:])
        m.d.comb += [
            base.eq(Mux(to_second, second.base, 0)),
            end.eq(Mux(to_shared, limits.shared, 0) | Mux(to_second, second.end, 0)),
            distance.eq(Mux(to_local, Cat(inner[:_WORD_BITS], thread, inner[_WORD_BITS:]), inner)),
            place.eq(base + distance),
            beyond.eq(inner[len(end):ADDRESS_BITS].any() | above | (reach >= end))]
        zero, judges = constant & ~limits.report_constants & (missing | beyond), executes & ~shuffles
        m.d.sync += [
            wrong.outside.eq(judges & inside & self._is.outside),
            wrong.misaligned.eq(judges & (inner & low_mask).any()),
            wrong.beyond.eq(judges & (missing | (to_shared | to_second) & beyond)),
            wrong.unmapped.eq(judges & Mux(to_second, place[ADDRESS_BITS], ~to_shared & above))]
        m.d.comb += self.places[lane].eq(place)
        self._source(m, lane, address, thread, sets["stays"])
        with m.If(shuffles):
            m.d.comb += sets["shared"][lane].eq(executes)
        with m.Else():
            m.d.comb += [
                sets["shared"][lane].eq(executes & to_shared), sets["local"][lane].eq(executes & to_local),
                sets["memory"][lane].eq(executes & ~zero & ~to_shared & ~to_local)]

    def _source(self, m: Module, lane: int, operands: Value, thread: Value, stays: Signal) -> None:
        """Which thread's value one gets in a shuffle, and whether it is in the thread's segment, a cycle later. The
        operands are the step, in the low word, and the clamp."""
        instruction = self._added.instruction
        reached, last = shuffle_reach(m, instruction, thread, operands[:_THREAD_BITS], operands[32:])
        inside, up = Signal(name=f"inside_{lane}"), instruction.mode == ShuffleMode.UP
        got, end, own, rises = Signal.like(reached), Signal(_THREAD_BITS), Signal(_THREAD_BITS), Signal()
        m.d.sync += [got.eq(reached), end.eq(last), own.eq(thread), rises.eq(up)]
        m.d.comb += [
            inside.eq(in_segment(rises, got, end)), stays[lane].eq(inside),
            self.sources[lane].eq(Mux(inside, got, own))]


def shuffle_reach(m: Module, instruction: Any, thread: Value, step: Value, clamp: Value) -> tuple[Signal, Value]:
    """Which thread one reads in a shuffle if that is in its segment: with two bits more, as a number with a sign; and
    the segment's last thread.

    The operands are the step and the clamp: the last thread of a segment is in its bits 4:0, the segment's mask in
    bits 12:8.
    """
    clamp = clamp | instruction.clamp
    segment, lowest_thread = clamp[8:8 + _THREAD_BITS], thread & clamp[8:8 + _THREAD_BITS]
    last = lowest_thread | clamp[:_THREAD_BITS] & ~segment
    reached, up = Signal(_THREAD_BITS + 2), instruction.mode == ShuffleMode.UP
    with m.Switch(instruction.mode):
        with m.Case(ShuffleMode.IDX):
            m.d.comb += reached.eq(lowest_thread | step & ~segment)
        with m.Case(ShuffleMode.UP, ShuffleMode.DOWN):
            added = Cat(up, step ^ up.replicate(_THREAD_BITS), up, up)
            m.d.comb += reached.eq((Cat(1, thread) + added)[1:])
        with m.Case(ShuffleMode.BFLY):
            m.d.comb += reached.eq(thread ^ step)
    return reached, last


def in_segment(up: Value, reached: Signal, last: Value) -> Value:
    """Whether the thread that one reads is in its segment."""
    return Mux(up, reached.as_signed() >= last, reached <= last)
