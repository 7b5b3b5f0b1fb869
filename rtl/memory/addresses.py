"""Where each thread's access goes, and the first thread that can't make its own."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.arbiter import lowest
from rtl.component import Component
from rtl.isa.errors import WarpError
from rtl.isa.tokens import CRS_GRANULE
from rtl.params import ADDRESS_BITS, LOCAL_WINDOW, SHARED_WINDOW, WARP_THREADS, WINDOW_BYTES, SmParams
from rtl.pick import pick

from .instruction import MemoryInstruction, MemorySpace, place_layout
from .limits import address_limits

__all__ = ["AddressStage", "ThreadSpaces"]

_WORD_BITS = 2
_THREAD_BITS = ceil_log2(WARP_THREADS)
_WINDOW_BITS = ceil_log2(WINDOW_BYTES)


class ThreadSpaces(data.Struct):
    """The threads that access memory at their place, their own words in local memory, or shared memory. A thread is
    in one of the sets at most."""

    memory: WARP_THREADS
    local: WARP_THREADS
    shared: WARP_THREADS


class AddressStage(Component):
    """Takes a beat of address registers a cycle; three cycles later its threads are in ``spaces``, or one in ``error``.

    Of a thread's errors MISALIGNED_ADDR goes first, but for INVALID_ADDR_SPACE, which leaves no address to look at. An
    address that memory does not have is MMU_FAULT here already.

    Members
    -------
    start : In(1)
        Forgets what came before.
    valid, beat, low, high : In
        The address registers of a beat's threads.
    threads : In(32)
        Those that execute the instruction.
    instruction, limits : In(MemoryInstruction), In(address_limits)
    busy : Out(1)
        Beats are under way.
    write, write_beat, places : Out
        What a beat comes to: an address in memory or, for ``shared``, in the machine's shared memory. For ``local``
        it is that of the thread's first word.
    spaces : Out(ThreadSpaces)
    error, thread : Out(WarpError), Out(5)
        The lowest thread's error, if there is one.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        registers = data.ArrayLayout(32, params.lanes)
        super().__init__({
            "start": In(1), "valid": In(1), "beat": In(range(params.beats)), "low": In(registers),
            "high": In(registers), "threads": In(WARP_THREADS), "instruction": In(MemoryInstruction),
            "limits": In(address_limits(params)), "busy": Out(1), "write": Out(1),
            "write_beat": Out(range(params.beats)), "places": Out(place_layout(params)), "spaces": Out(ThreadSpaces),
            "error": Out(WarpError), "thread": Out(_THREAD_BITS)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        lanes = self._params.lanes
        added, beat = Signal(), Signal.like(self.beat)
        judged, judged_beat = Signal(), Signal.like(self.beat)
        errors = Signal(data.ArrayLayout(WarpError, lanes))
        m.d.sync += [added.eq(self.valid), beat.eq(self.beat), judged.eq(added), judged_beat.eq(beat)]
        m.d.comb += [self.busy.eq(self.valid | added | judged), self.write.eq(added), self.write_beat.eq(beat)]

        # Addresses, then spaces and places.
        sets = [Signal(lanes, name=f"in_{name}") for name in ("memory", "local", "shared")]
        for lane in range(lanes):
            address = Signal(64, name=f"address_{lane}")
            m.d.sync += address.eq(self._sum(self.low[lane], self.high[lane]))
            executes = self.threads.word_select(beat, lanes)[lane]
            self._judge(m, lane, address, Cat(Const(lane, ceil_log2(lanes)), beat), executes, errors, sets)
        for kept, found in zip((self.spaces.memory, self.spaces.local, self.spaces.shared), sets, strict=True):
            with m.If(added):
                m.d.sync += kept.word_select(beat, lanes).eq(found)

        # The first error.
        failing = Signal(lanes)
        m.d.comb += failing.eq(Cat(errors[lane] != WarpError.NONE for lane in range(lanes)))
        with m.If(self.start):
            m.d.sync += self.error.eq(WarpError.NONE)
        with m.Elif(judged & failing.any() & (self.error == WarpError.NONE)):
            lane = lowest(failing)
            m.d.sync += [self.error.eq(pick(errors, lane)), self.thread.eq(Cat(lane, judged_beat))]
        return m

    def _sum(self, low: Value, high: Value) -> Value:
        wide = self.instruction.wide
        whole = Cat(low, Mux(wide, high, 0)) + self.instruction.offset
        return Mux(wide, whole[:64], whole[:32])

    def _judge(self, m: Module, lane: int, address: Signal, thread: Value, executes: Value, errors: data.View,
               sets: list[Signal]) -> None:
        """Where one thread's address is. ``errors`` are a cycle later than the rest."""
        instruction, limits = self.instruction, self.limits
        space, inner = Signal(MemorySpace), Signal(64)
        generic = (instruction.space == MemorySpace.GENERIC) | (instruction.space == MemorySpace.OUTSIDE)
        in_shared = generic & (address[_WINDOW_BITS:] == SHARED_WINDOW >> _WINDOW_BITS)
        in_local = generic & (address[_WINDOW_BITS:] == LOCAL_WINDOW >> _WINDOW_BITS)
        inside = in_shared | in_local
        m.d.comb += [
            space.eq(Mux(generic, MemorySpace.GLOBAL, instruction.space)),
            inner.eq(Mux(inside, address[:_WINDOW_BITS], address))]
        with m.If(in_shared):
            m.d.comb += space.eq(MemorySpace.SHARED)
        with m.If(in_local):
            m.d.comb += space.eq(MemorySpace.LOCAL)
        low_mask = ((1 << instruction.size) - 1)[:4]

        # The place: where the space begins, plus the address in it; the last byte may be beyond the end of the space.
        base, distance, place = Signal(ADDRESS_BITS), Signal(ADDRESS_BITS), Signal(ADDRESS_BITS + 1)
        bank, error = limits.bank, Signal(WarpError)
        end, beyond, zero = Signal(max(len(limits.shared), len(limits.local), len(bank.size) + 1)), Signal(), Signal()
        m.d.comb += [
            distance.eq(inner), place.eq(base + distance),
            beyond.eq(inner[len(end):].any() | ((inner | low_mask)[:len(end)] >= end))]
        with m.Switch(space):
            with m.Case(MemorySpace.SHARED):
                m.d.comb += [base.eq(limits.shared_base), end.eq(limits.shared)]
                with m.If(beyond):
                    m.d.comb += error.eq(WarpError.OOR_ADDR)
            with m.Case(MemorySpace.LOCAL):
                m.d.comb += [
                    base.eq(limits.local_base << ceil_log2(CRS_GRANULE)), end.eq(limits.local),
                    distance.eq(Cat(inner[:_WORD_BITS], thread, inner[_WORD_BITS:]))]
                with m.If(beyond):
                    m.d.comb += error.eq(WarpError.OOR_ADDR)
                with m.Elif(place[ADDRESS_BITS]):
                    m.d.comb += error.eq(WarpError.MMU_FAULT)
            with m.Case(MemorySpace.CONSTANT):
                m.d.comb += [base.eq(bank.address), end.eq(_whole_words(bank.size))]
                with m.If(~bank.valid | beyond):
                    m.d.comb += zero.eq(~limits.report_constants)
                    with m.If(limits.report_constants):
                        m.d.comb += error.eq(WarpError.INVALID_CONST_ADDR_LDC)
                with m.Elif(place[ADDRESS_BITS]):
                    m.d.comb += error.eq(WarpError.MMU_FAULT)
            with m.Default(), m.If(inner[ADDRESS_BITS:].any()):
                m.d.comb += error.eq(WarpError.MMU_FAULT)
        with m.If((inner & low_mask).any()):
            m.d.comb += error.eq(WarpError.MISALIGNED_ADDR)
        with m.If(inside & (instruction.space == MemorySpace.OUTSIDE)):
            m.d.comb += error.eq(WarpError.INVALID_ADDR_SPACE)
        m.d.sync += errors[lane].eq(Mux(executes, error, WarpError.NONE))

        memory_set, local_set, shared_set = sets
        m.d.comb += [
            self.places[lane].eq(place),
            shared_set[lane].eq(executes & (space == MemorySpace.SHARED)),
            local_set[lane].eq(executes & (space == MemorySpace.LOCAL)),
            memory_set[lane].eq(executes & ~zero & (space != MemorySpace.SHARED) & (space != MemorySpace.LOCAL))]


def _whole_words(size: Value) -> Value:
    """A size rounded up to words."""
    return (size + (1 << _WORD_BITS) - 1)[_WORD_BITS:] << _WORD_BITS
