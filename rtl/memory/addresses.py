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

__all__ = ["AddressStage", "address_job", "early_layout"]

_WORD_BITS = 2
_THREAD_BITS = ceil_log2(WARP_THREADS)
_WINDOW_BITS = ceil_log2(WINDOW_BYTES)
_PAST_WINDOWS = max(SHARED_WINDOW, LOCAL_WINDOW).bit_length()
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
        first word, and for a shuffle four times the number of the thread that is read.
    judged : Out(Event of judged_layout)
        All of an instruction's registers have come.
    loaded, inside : Out(32)
        With it: the threads that get something but 0, and those that a shuffle leaves in their segment.
    early : Out(Event of early_layout)
        Some threads of an instruction's first beat access memory, and none of them has an error.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        registers = data.ArrayLayout(32, params.lanes)
        super().__init__({
            "valid": In(1), "addresses": In(1), "last": In(1), "beat": In(range(params.beats)), "low": In(registers),
            "high": In(registers), "job": In(address_job(params)), "write": Out(1),
            "write_slot": Out(slot_bits(params)), "write_beat": Out(range(params.beats)),
            "places": Out(place_layout(params)), "judged": Out(Event(judged_layout(params))),
            "loaded": Out(WARP_THREADS), "inside": Out(WARP_THREADS), "early": Out(Event(early_layout(self._params)))})
        self._added: Any = Signal(address_job(params))
        limits = self._added.limits
        self._second: Any = Signal(data.StructLayout({
            "base": ADDRESS_BITS, "end": max(len(limits.shared), len(limits.local), len(limits.bank.size) + 1)}))
        self._low_mask = Signal(4)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        lanes, final = self._params.lanes, self._params.beats - 1
        added, beat, ends, job = Signal(), Signal.like(self.beat), Signal(), self._added
        later, later_beat, slot = Signal(), Signal.like(self.beat), Signal(slot_bits(self._params))
        judged = self.judged
        errors = Signal(data.ArrayLayout(WarpError, lanes))
        m.d.sync += [
            added.eq(self.valid & self.addresses), beat.eq(self.beat), job.eq(self.job),
            ends.eq(self.valid & self.last & (self.beat == final)), later.eq(added), later_beat.eq(beat),
            slot.eq(job.slot), judged.valid.eq(ends)]
        m.d.comb += [self.write.eq(added), self.write_slot.eq(job.slot), self.write_beat.eq(beat)]

        # Addresses, then spaces and places.
        self._spaces(m)
        names = ThreadSets.as_shape().members
        found = {name: Signal(lanes, name=f"in_{name}") for name in names}
        sets = {name: Signal(WARP_THREADS, name=name) for name in names}
        shuffles, some = Signal(), Signal(len(names))
        m.d.sync += shuffles.eq(job.instruction.operation == MemoryOperation.SHUFFLE)
        for lane in range(lanes):
            address = Signal(64, name=f"address_{lane}")
            m.d.sync += address.eq(self._sum(self.low[lane], self.high[lane]))
            executes = job.threads.word_select(beat, lanes)[lane]
            self._judge(m, lane, address, Cat(Const(lane, ceil_log2(lanes)), beat)[:_THREAD_BITS], executes, errors,
                        found)
        for name, kept in sets.items():
            with m.If(added):
                m.d.sync += kept.word_select(beat, lanes).eq(found[name])
        with m.If(added):
            m.d.sync += some.eq(Mux(beat == 0, 0, some) | Cat(lanes_of.any() for lanes_of in found.values()))

        # The first error.
        failing, error, earlier = Signal(lanes), Signal(WarpError), Signal(WarpError)
        thread, earlier_thread = Signal(_THREAD_BITS), Signal(_THREAD_BITS)
        m.d.comb += [failing.eq(Cat(errors[lane] != WarpError.NONE for lane in range(lanes))),
                     error.eq(earlier), thread.eq(earlier_thread)]
        with m.If(later & ((later_beat == 0) | (earlier == WarpError.NONE))):
            lane = lowest(failing)
            m.d.comb += [error.eq(Mux(failing.any(), pick(errors, lane), WarpError.NONE)),
                         thread.eq(Cat(lane, later_beat))]
        m.d.sync += [earlier.eq(error), earlier_thread.eq(thread)]
        m.d.comb += [
            judged.payload.slot.eq(slot), judged.payload.error.eq(error), judged.payload.thread.eq(thread),
            judged.payload.some.eq(Mux(shuffles, some & 0b100, some)), self.inside.eq(sets["local"]),
            self.loaded.eq(sets["shared"] | Mux(shuffles, 0, sets["memory"] | sets["local"]))]
        m.d.comb += [judged.payload.sets[name].eq(kept) for name, kept in sets.items()]
        m.d.comb += [
            self.early.valid.eq(later & (later_beat == 0) & ~failing.any()), self.early.payload.slot.eq(slot),
            self.early.payload.lanes.eq(sets["memory"][:lanes])]
        return m

    def _sum(self, low: Value, high: Value) -> Value:
        whole = Cat(low, high) + self.job.instruction.offset
        return Mux(self.job.instruction.wide, whole[:64], whole[:32])

    def _spaces(self, m: Module) -> None:
        """What the places of all threads have in common. Each is in shared memory, at an address of memory, or in the
        ``second`` space, with an end as well: local memory or the constant bank."""
        instruction, limits, second = self._added.instruction, self._added.limits, self._second
        m.d.comb += [
            second.base.eq(limits.local_base << ceil_log2(CRS_GRANULE)), second.end.eq(limits.local)]
        with m.If(instruction.space == MemorySpace.CONSTANT):
            m.d.comb += [second.base.eq(limits.bank.address), second.end.eq(_whole_words(limits.bank.size))]
        m.d.comb += self._low_mask.eq((1 << instruction.size) - 1)

    def _judge(self, m: Module, lane: int, address: Signal, thread: Value, executes: Value, errors: Any,
               sets: dict[str, Signal]) -> None:
        """Where one thread's address is. ``errors`` are a cycle later than the rest."""
        instruction, limits = self._added.instruction, self._added.limits
        second, low_mask = self._second, self._low_mask
        generic = (instruction.space == MemorySpace.GENERIC) | (instruction.space == MemorySpace.OUTSIDE)
        constant = instruction.space == MemorySpace.CONSTANT
        in_shared, in_local, above, beyond = Signal(), Signal(), Signal(), Signal()
        window, past = address[_WINDOW_BITS:_PAST_WINDOWS], Signal()
        m.d.comb += [
            above.eq(address[ADDRESS_BITS:].any()), past.eq(address[_PAST_WINDOWS:ADDRESS_BITS].any() | above),
            in_shared.eq(generic & ~past & (window == SHARED_WINDOW >> _WINDOW_BITS)),
            in_local.eq(generic & ~past & (window == LOCAL_WINDOW >> _WINDOW_BITS))]
        inside, to_shared, to_local = in_shared | in_local, Signal(), Signal()
        inner = Cat(address[:_WINDOW_BITS], window & ~inside.replicate(len(window)), address[_PAST_WINDOWS:])
        m.d.comb += [
            to_shared.eq(in_shared | (instruction.space == MemorySpace.SHARED)),
            to_local.eq(in_local | (instruction.space == MemorySpace.LOCAL))]

        # The place: where the space begins, plus the address in it; the last byte may be beyond the end of the space.
        base, distance, place = Signal(ADDRESS_BITS), Signal(ADDRESS_BITS), Signal(ADDRESS_BITS + 1)
        end, to_second, error, zero = Signal.like(second.end), to_local | constant, Signal(WarpError), Signal()
        m.d.comb += [
            base.eq(Mux(to_second, second.base, 0)),
            end.eq(Mux(to_shared, limits.shared, 0) | Mux(to_second, second.end, 0)),
            distance.eq(Mux(to_local, Cat(inner[:_WORD_BITS], thread, inner[_WORD_BITS:]), inner)),
            place.eq(base + distance), zero.eq(constant & ~limits.report_constants & (~limits.bank.valid | beyond)),
            beyond.eq(inner[len(end):ADDRESS_BITS].any() | above | ((inner | low_mask)[:len(end)] >= end))]
        with m.If(inside & (instruction.space == MemorySpace.OUTSIDE)):
            m.d.comb += error.eq(WarpError.INVALID_ADDR_SPACE)
        with m.Elif((inner & low_mask).any()):
            m.d.comb += error.eq(WarpError.MISALIGNED_ADDR)
        with m.Elif((to_shared | to_local) & beyond):
            m.d.comb += error.eq(WarpError.OOR_ADDR)
        with m.Elif(constant & (~limits.bank.valid | beyond)):
            m.d.comb += error.eq(Mux(limits.report_constants, WarpError.INVALID_CONST_ADDR_LDC, WarpError.NONE))
        with m.Elif(Mux(to_second, place[ADDRESS_BITS], ~to_shared & above)):
            m.d.comb += error.eq(WarpError.MMU_FAULT)
        shuffles, (source, stays) = instruction.operation == MemoryOperation.SHUFFLE, self._source(
            m, lane, address, thread)
        m.d.sync += errors[lane].eq(Mux(executes & ~shuffles, error, WarpError.NONE))
        inner_bits = self._params.shared_bits
        m.d.comb += self.places[lane].eq(Cat(
            Mux(shuffles, source << _WORD_BITS, place)[:inner_bits], place[inner_bits:]))
        with m.If(shuffles):
            m.d.comb += [
                sets["shared"][lane].eq(executes), sets["local"][lane].eq(stays)]
        with m.Else():
            m.d.comb += [
                sets["shared"][lane].eq(executes & to_shared), sets["local"][lane].eq(executes & to_local),
                sets["memory"][lane].eq(executes & ~zero & ~to_shared & ~to_local)]

    def _source(self, m: Module, lane: int, operands: Value, thread: Value) -> tuple[Value, Value]:
        """Which thread's value one gets in a shuffle, and whether it is in the thread's segment.

        The operands are the step, in the low word, and the clamp: the last thread of a segment is in its bits 4:0, the
        segment's mask in bits 12:8.
        """
        instruction = self._added.instruction
        step, clamp = operands[:_THREAD_BITS], operands[32:] | instruction.clamp
        segment, lowest_thread = clamp[8:8 + _THREAD_BITS], thread & clamp[8:8 + _THREAD_BITS]
        last = lowest_thread | clamp[:_THREAD_BITS] & ~segment
        reached, inside = Signal(_THREAD_BITS + 2, name=f"reached_{lane}"), Signal(name=f"inside_{lane}")
        up = instruction.mode == ShuffleMode.UP
        with m.Switch(instruction.mode):
            with m.Case(ShuffleMode.IDX):
                m.d.comb += reached.eq(lowest_thread | step & ~segment)
            with m.Case(ShuffleMode.UP, ShuffleMode.DOWN):
                added = Cat(up, step ^ up.replicate(_THREAD_BITS), up, up)
                m.d.comb += reached.eq((Cat(1, thread) + added)[1:])
            with m.Case(ShuffleMode.BFLY):
                m.d.comb += reached.eq(thread ^ step)
        m.d.comb += inside.eq(Mux(up, reached.as_signed() >= last, reached <= last))
        return Mux(inside, reached, thread)[:_THREAD_BITS], inside


def _whole_words(size: Value) -> Value:
    """A size rounded up to words."""
    return (size + (1 << _WORD_BITS) - 1)[_WORD_BITS:] << _WORD_BITS
