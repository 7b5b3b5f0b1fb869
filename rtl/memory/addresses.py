"""The address stage: the place of each thread's access, and the first thread that has an error."""

from typing import Any, NamedTuple

from amaranth.hdl import Assert, Cat, Const, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.arbiter import lowest
from rtl.component import Component
from rtl.isa.errors import WarpError
from rtl.isa.kinds import ShuffleMode
from rtl.isa.tokens import CRS_GRANULE
from rtl.layouts import BLOCK_ADDRESS_BITS, Event
from rtl.params import (
    ADDRESS_BITS,
    LOCAL_WINDOW,
    SHARED_WINDOW,
    WARP_THREADS,
    WINDOW_BYTES,
    SmParams,
)
from rtl.pick import pick
from rtl.structs import common_fields, struct_value
from rtl.sums import sum_with_carry

from .front import matched_beat
from .instruction import (
    MemoryInstruction,
    MemoryOperation,
    MemorySpace,
    ThreadSets,
    judged_layout,
    slot_bits,
)
from .limits import address_limits
from .operands import beat_places, shuffle_sources

__all__ = [
    "PAST_WINDOWS",
    "WINDOW_BITS",
    "AddressStage",
    "address_job",
    "early_layout",
    "in_segment",
    "shuffle_reach",
]

_BYTE_BITS = 2
"""Lower bits of an address: the byte in its word."""
_REGISTER_BITS = 32
_THREAD_BITS = ceil_log2(WARP_THREADS)
_GRANULE_BITS = ceil_log2(CRS_GRANULE)
_SHUFFLE_SETS = 0b100
"""Of ``some`` in a judged_layout: the set of a shuffle's threads, as if of shared memory."""
WINDOW_BITS = ceil_log2(WINDOW_BYTES)
"""Lower bits of an address: the offset in a window."""
PAST_WINDOWS = max(SHARED_WINDOW, LOCAL_WINDOW).bit_length()
"""The bits of an address from this one on are 0 in a window."""


def address_job(params: SmParams) -> data.StructLayout:
    """What is kept of an instruction until its addresses are judged.

    Fields
    ------
    instruction : MemoryInstruction
    threads : 32
        They execute it.
    local_base : in units of the CRS granule
        Where its warp's block of local memory began when it was dispatched.
    """
    return data.StructLayout({
        "instruction": MemoryInstruction,
        "threads": WARP_THREADS,
        "local_base": BLOCK_ADDRESS_BITS,
    })


def early_layout(params: SmParams) -> data.StructLayout:
    """The ``lanes`` of an instruction's first beat whose threads access memory, independently of
    later beats."""
    return data.StructLayout({"slot": slot_bits(params), "lanes": params.lanes})


class _SpaceFlags(data.Struct):
    """The space of an instruction, decoded a stage before it is needed."""

    has_windows: unsigned(1)
    """Addresses in a window belong to shared or local memory."""
    window_is_error: unsigned(1)
    is_shared: unsigned(1)
    is_local: unsigned(1)
    is_constant: unsigned(1)
    is_shuffle: unsigned(1)


class _Address(data.Struct):
    """A thread's address, and what its upper bits decide. Bits of a narrow address above 31 are
    0."""

    bits: unsigned(2 * _REGISTER_BITS)
    past_windows: unsigned(2)
    """It is past the windows if one of these is 1: by its bits below 32, and by those from 32 on.
    """
    past_memory: unsigned(1)
    """It has bits that addresses of memory do not have."""


class _Errors(data.Struct):
    """The errors of a thread's address, highest priority first."""

    wrong_space: unsigned(1)
    """It is in a window, where an instruction must not have it."""
    misaligned: unsigned(1)
    out_of_range: unsigned(1)
    """It is beyond the end of its space, or its constant bank is not there."""
    unmapped: unsigned(1)
    """Memory has no such address."""


class _ShuffleRead(data.Struct):
    """Which thread a thread reads in a shuffle, see :func:`shuffle_reach`."""

    thread: unsigned(_THREAD_BITS)
    is_up: unsigned(1)
    reached: unsigned(_THREAD_BITS + 2)
    last: unsigned(_THREAD_BITS)


def _progress(params: SmParams) -> data.StructLayout:
    """Which beat of which instruction is in a stage.

    Fields
    ------
    valid : 1
        A beat of addresses is in it.
    ends : 1
        The last registers of the instruction have arrived. With or without ``valid``.
    slot, beat
        The instruction, and its beat.
    """
    return data.StructLayout({
        "valid": 1,
        "ends": 1,
        "slot": slot_bits(params),
        "beat": range(params.beats),
    })


def _second_space(params: SmParams) -> data.StructLayout:
    """The space of a thread's address that is neither shared memory nor global memory: local memory
    or the constant bank.

    Fields
    ------
    base
        Its address in memory.
    end : bytes
        Its size. As wide as the window of shared memory, since one comparator serves both.
    """
    limits: Any = Signal(address_limits(params))
    end_bits = max(len(limits.shared), len(limits.local), len(limits.bank.size) + 1)
    return data.StructLayout({"base": ADDRESS_BITS, "end": end_bits})


def _summed_beat(params: SmParams) -> data.StructLayout:
    """SUM to PLACE: addresses of a beat, and the result over all threads.

    Fields
    ------
    progress : _progress
    job, limits : address_job, address_limits
        The instruction, and what its addresses are compared with.
    space : _SpaceFlags
    second : _second_space
    low_mask : 4
        Bits that are 0 in an address that is a multiple of its size.
    addresses : _Address for each lane
    """
    return data.StructLayout({
        "progress": _progress(params),
        "job": address_job(params),
        "limits": address_limits(params),
        "space": _SpaceFlags,
        "second": _second_space(params),
        "low_mask": 4,
        "addresses": data.ArrayLayout(_Address, params.lanes),
    })


def _lane_sets(params: SmParams) -> data.StructLayout:
    """The ThreadSets of a beat."""
    return data.StructLayout(dict.fromkeys(ThreadSets.as_shape().members, params.lanes))


def _placed_beat(params: SmParams) -> data.StructLayout:
    """PLACE to SETS: what each thread accesses, and what is wrong with it.

    Fields
    ------
    progress, space : _progress, _SpaceFlags
        As before.
    is_silent : 1
        What is beyond the end of a constant bank is 0, and no error.
    sets : lanes in each of the ThreadSets
        For a shuffle: without the threads that read a thread of their segment.
    errors : _Errors for each lane
    reads : _ShuffleRead for each lane
    """
    return data.StructLayout({
        "progress": _progress(params),
        "space": _SpaceFlags,
        "is_silent": 1,
        "sets": _lane_sets(params),
        "errors": data.ArrayLayout(_Errors, params.lanes),
        "reads": data.ArrayLayout(_ShuffleRead, params.lanes),
    })


class _FailingBeat(data.Struct):
    """SETS to ERROR: the lowest thread of a beat that has an error, and which one."""

    is_first: unsigned(1)
    """It is the first beat of its instruction."""
    fails: unsigned(1)
    """There is such a thread."""
    errors: _Errors
    thread: unsigned(_THREAD_BITS)
    is_constant: unsigned(1)
    """It is in a constant bank."""


class _ThreadError(data.Struct):
    """An error, or NONE, and the thread that has it."""

    error: WarpError
    thread: unsigned(_THREAD_BITS)


class _InSpace(NamedTuple):
    """PLACE: the space that a thread's address falls into, and the address in it."""

    in_window: Value
    is_shared: Value
    is_local: Value
    is_second: Value
    """It is local memory or the constant bank."""
    inner: Value


class AddressStage(Component):
    """Takes a beat of address registers a cycle, in four stages. ::

        registers --> SUM --> PLACE --> SETS --> ERROR --> judged
                                |         |
                                v         v
                             places    sources, early

    =====  ==================================================================================
    stage  what is known at its end
    =====  ==================================================================================
    SUM    each thread's address: its register or pair of them, and the offset
    PLACE  the space that the address falls into, and the place in memory or shared memory:
           ``places``. What is wrong with it is in registers
    SETS   threads in the set of their space, collected over the beats. The lowest thread of
           the beat that has an error. In a shuffle the thread that each one reads: ``sources``
    ERROR  the lowest thread of the instruction that has an error: ``judged``, with the sets
    =====  ==================================================================================

    Of a thread's errors MISALIGNED_ADDR is reported, but INVALID_ADDR_SPACE before it, which leaves
    no address to look at. An address that memory does not have is MMU_FAULT here already. Outside
    of a constant bank a thread loads 0, if that is not reported as an error.

    Members
    -------
    registers : In(Event of matched_beat)
        A beat of registers that a gather has brought. Of the first gather of an instruction these
        begin with its address registers; a second gather only reports that all have arrived.
    job, limits : In(address_job), In(address_limits)
        With ``registers``: the instruction, and what its addresses are compared with.
    places : Out(Event of beat_places)
        A cycle later.
    sources : Out(shuffle_sources)
        One more cycle later, of the same beat.
    judged : Out(Event of judged_layout)
        All of an instruction's registers have arrived.
    loaded, inside : Out(32)
        With it: the threads whose result is not the constant 0, and the threads whose shuffle
        source is in their segment.
    early : Out(Event of early_layout)
        Some threads of an instruction's first beat access memory, and nothing is wrong with any
        address in it.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__({
            "registers": In(Event(matched_beat(params))),
            "job": In(address_job(params)),
            "limits": In(address_limits(params)),
            "places": Out(Event(beat_places(params))),
            "sources": Out(shuffle_sources(params)),
            "judged": Out(Event(judged_layout(params))),
            "loaded": Out(WARP_THREADS),
            "inside": Out(WARP_THREADS),
            "early": Out(Event(early_layout(params))),
        })
        self._summed: Any = Signal(_summed_beat(params), name="summed")
        self._placed: Any = Signal(_placed_beat(params), name="placed")
        self._failing: Any = Signal(_FailingBeat, name="failing")
        self._sets: Any = Signal(_lane_sets(params), name="beat_sets")
        """PLACE: what threads of the beat access."""
        self._in_segment = Signal(params.lanes, name="in_segment")
        """SETS: threads of the beat that read a thread of their segment."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._sum(m)
        self._decode_space(m)
        self._place(m)
        for lane in range(self._params.lanes):
            self._place_thread(m, lane)
            self._read_thread(m, lane)
        self._collect_sets(m)
        self._find_kinds(m)
        self._find_failing(m)
        self._find_error(m)
        return m

    def _sum(self, m: Module) -> None:
        """SUM: each thread's address."""
        summed = self._summed
        instruction = self.job.instruction
        is_valid = self.registers.valid
        registers = self.registers.payload.data
        gather = self.registers.payload.gather
        beat = registers.beat
        is_last_beat = beat == self._params.beats - 1
        m.d.sync += summed.progress.eq(struct_value(
            _progress(self._params),
            valid=is_valid & ~gather.second,
            ends=is_valid & gather.last & is_last_beat,
            slot=gather.slot,
            beat=beat))
        m.d.sync += summed.job.eq(self.job)
        m.d.sync += summed.limits.eq(self.limits)
        m.d.sync += summed.low_mask.eq((1 << instruction.size) - 1)
        next_beat = Signal.like(beat)
        with m.If(is_valid):
            m.d.sync += next_beat.eq(beat + 1)
        m.d.sync += Assert(~is_valid | (beat == next_beat), "beats are out of order")

        is_wide = instruction.wide
        for lane, address in enumerate(summed.addresses):
            total = Signal(2 * _REGISTER_BITS, name=f"total_{lane}")
            values = registers.values[lane]
            register = Cat(values[0], values[1])
            past_low = total[PAST_WINDOWS:_REGISTER_BITS].any()
            past_high = total[_REGISTER_BITS:ADDRESS_BITS].any()
            m.d.comb += total.eq(register + instruction.offset)
            m.d.sync += address.bits.eq(Mux(is_wide, total, total[:_REGISTER_BITS]))
            m.d.sync += address.past_windows.eq(Cat(past_low, is_wide & past_high))
            m.d.sync += address.past_memory.eq(is_wide & total[ADDRESS_BITS:].any())

    def _decode_space(self, m: Module) -> None:
        """SUM: what the places of all threads have in common."""
        summed = self._summed
        limits = self.limits
        instruction = self.job.instruction
        space = instruction.space
        is_outside = space == MemorySpace.OUTSIDE
        is_constant = space == MemorySpace.CONSTANT
        m.d.sync += summed.space.eq(struct_value(
            _SpaceFlags,
            has_windows=(space == MemorySpace.GENERIC) | is_outside,
            window_is_error=is_outside,
            is_shared=space == MemorySpace.SHARED,
            is_local=space == MemorySpace.LOCAL,
            is_constant=is_constant,
            is_shuffle=instruction.operation == MemoryOperation.SHUFFLE))
        with m.If(is_constant):
            m.d.sync += summed.second.eq(struct_value(
                summed.second.shape(), base=limits.bank.address, end=limits.bank.size))
        with m.Else():
            m.d.sync += summed.second.eq(struct_value(
                summed.second.shape(),
                base=self.job.local_base << _GRANULE_BITS,
                end=limits.local))

    def _place(self, m: Module) -> None:
        """PLACE: what is the same for all threads of the beat."""
        summed = self._summed
        placed = self._placed
        m.d.comb += self.places.valid.eq(summed.progress.valid)
        m.d.comb += common_fields(self.places.payload, summed.progress)
        m.d.sync += placed.progress.eq(summed.progress)
        m.d.sync += placed.space.eq(summed.space)
        m.d.sync += placed.is_silent.eq(
            summed.space.is_constant & ~summed.limits.report_constants)
        m.d.sync += placed.sets.eq(self._sets)

    def _thread(self, lane: int) -> Value:
        """PLACE: the number of a lane's thread."""
        lane_bits = ceil_log2(self._params.lanes)
        return Cat(Const(lane, lane_bits), self._summed.progress.beat)[:_THREAD_BITS]

    def _find_space(self, m: Module, lane: int) -> _InSpace:
        """PLACE: the space that a thread's address falls into."""
        space = self._summed.space
        address = self._summed.addresses[lane]
        in_shared_window = Signal(name=f"in_shared_window_{lane}")
        in_local_window = Signal(name=f"in_local_window_{lane}")
        is_shared = Signal(name=f"is_shared_{lane}")
        is_local = Signal(name=f"is_local_{lane}")
        window = address.bits[WINDOW_BITS:PAST_WINDOWS]
        may_be_in_window = (
            space.has_windows & ~address.past_windows.any() & ~address.past_memory)
        m.d.comb += in_shared_window.eq(
            may_be_in_window & (window == SHARED_WINDOW >> WINDOW_BITS))
        m.d.comb += in_local_window.eq(
            may_be_in_window & (window == LOCAL_WINDOW >> WINDOW_BITS))
        m.d.comb += is_shared.eq(in_shared_window | space.is_shared)
        m.d.comb += is_local.eq(in_local_window | space.is_local)
        in_window = in_shared_window | in_local_window
        inner = Cat(
            address.bits[:WINDOW_BITS],
            window & ~in_window.replicate(len(window)),
            address.bits[PAST_WINDOWS:])
        return _InSpace(in_window, is_shared, is_local, is_local | space.is_constant, inner)

    def _find_place(self, m: Module, lane: int, of: _InSpace) -> Signal:
        """PLACE: the place, with a bit: whether it is past the end of memory. Consecutive words of
        a thread's local memory are 32 words apart: one for each thread of the warp."""
        base = Signal(ADDRESS_BITS, name=f"base_{lane}")
        distance = Signal(ADDRESS_BITS, name=f"distance_{lane}")
        place = Signal(ADDRESS_BITS + 1, name=f"place_{lane}")
        interleaved = Cat(of.inner[:_BYTE_BITS], self._thread(lane), of.inner[_BYTE_BITS:])
        m.d.comb += base.eq(Mux(of.is_second, self._summed.second.base, 0))
        m.d.comb += distance.eq(Mux(of.is_local, interleaved, of.inner))
        m.d.comb += place.eq(base + distance)
        m.d.comb += self.places.payload.places[lane].eq(place)
        return place

    def _find_range(self, m: Module, lane: int, of: _InSpace) -> Signal:
        """PLACE: whether the last byte is beyond the end of its space; a constant bank ends with a
        word. For a space without an end the result is undefined."""
        summed = self._summed
        is_constant = summed.space.is_constant
        end = Signal.like(summed.second.end, name=f"end_{lane}")
        is_past_end = Signal(name=f"is_past_end_{lane}")
        last_byte = (of.inner | summed.low_mask)[:len(end)]
        last_of_word = last_byte[:_BYTE_BITS] & ~is_constant.replicate(_BYTE_BITS)
        reach = Cat(last_of_word, last_byte[_BYTE_BITS:])
        has_upper_bits = of.inner[len(end):ADDRESS_BITS].any()
        m.d.comb += end.eq(
            Mux(of.is_shared, summed.limits.shared, 0)
            | Mux(of.is_second, summed.second.end, 0))
        m.d.comb += is_past_end.eq(
            has_upper_bits | summed.addresses[lane].past_memory | (reach >= end))
        return is_past_end

    def _place_thread(self, m: Module, lane: int) -> None:
        """PLACE: the place of a lane's thread, what is wrong with it, and the set of threads that
        it is in."""
        summed = self._summed
        space = summed.space
        limits = summed.limits
        past_memory = summed.addresses[lane].past_memory
        threads = summed.job.threads.word_select(summed.progress.beat, self._params.lanes)
        executes = threads[lane]
        of = self._find_space(m, lane)
        place = self._find_place(m, lane, of)
        is_past_end = self._find_range(m, lane, of)

        bank_is_missing = space.is_constant & ~limits.bank.valid
        can_fail = executes & ~space.is_shuffle
        is_misaligned = (of.inner & summed.low_mask).any()
        is_out_of_range = bank_is_missing | ((of.is_shared | of.is_second) & is_past_end)
        is_unmapped = Mux(of.is_second, place[ADDRESS_BITS], ~of.is_shared & past_memory)
        m.d.sync += self._placed.errors[lane].eq(struct_value(
            _Errors,
            wrong_space=can_fail & of.in_window & space.window_is_error,
            misaligned=can_fail & is_misaligned,
            out_of_range=can_fail & is_out_of_range,
            unmapped=can_fail & is_unmapped))

        is_silent = space.is_constant & ~limits.report_constants
        loads_zero = is_silent & (bank_is_missing | is_past_end)
        with m.If(space.is_shuffle | of.is_shared):
            m.d.comb += self._sets.shared[lane].eq(executes)
        with m.Elif(of.is_local):
            m.d.comb += self._sets.local[lane].eq(executes)
        with m.Elif(~loads_zero):
            m.d.comb += self._sets.memory[lane].eq(executes)

    def _read_thread(self, m: Module, lane: int) -> None:
        """PLACE and SETS: the thread that a lane's thread reads in a shuffle. The operands are the
        step, in the low word, and the clamp."""
        summed = self._summed
        thread = self._thread(lane)
        instruction = summed.job.instruction
        operands = summed.addresses[lane].bits
        reached, last = shuffle_reach(
            m, instruction, thread, operands[:_THREAD_BITS], operands[_REGISTER_BITS:])
        read = self._placed.reads[lane]
        is_up = instruction.mode == ShuffleMode.UP
        m.d.sync += read.eq(struct_value(
            _ShuffleRead, thread=thread, is_up=is_up, reached=reached, last=last))

        is_inside = self._in_segment[lane]
        m.d.comb += is_inside.eq(in_segment(read.is_up, read.reached, read.last))
        m.d.comb += self.sources.threads[lane].eq(Mux(is_inside, read.reached, read.thread))

    def _collect_sets(self, m: Module) -> None:
        """SETS: threads in the set of their space, over the beats of an instruction. They are sent
        with its last registers: in the last beat of its addresses, or later."""
        placed = self._placed
        progress = placed.progress
        is_shuffle = placed.space.is_shuffle
        judged = self.judged
        beat_sets: Any = Signal(placed.sets.shape(), name="found_sets")
        collected: Any = Signal(ThreadSets, name="collected")
        complete: Any = Signal(ThreadSets, name="complete")
        m.d.comb += self.sources.is_shuffle.eq(is_shuffle)
        m.d.comb += beat_sets.eq(placed.sets)
        with m.If(is_shuffle):
            m.d.comb += beat_sets.local.eq(self._in_segment)
        m.d.comb += complete.eq(struct_value(
            ThreadSets,
            memory=self._collect_set(m, collected.memory, beat_sets.memory),
            local=self._collect_set(m, collected.local, beat_sets.local),
            shared=self._collect_set(m, collected.shared, beat_sets.shared)))

        m.d.sync += judged.valid.eq(progress.ends)
        m.d.sync += judged.payload.slot.eq(progress.slot)
        m.d.sync += judged.payload.sets.eq(complete)
        m.d.sync += self.inside.eq(complete.local)
        with m.If(is_shuffle):
            m.d.sync += self.loaded.eq(complete.shared)
        with m.Else():
            m.d.sync += self.loaded.eq(complete.memory | complete.local | complete.shared)

        is_first = progress.valid & (progress.beat == 0)
        m.d.comb += self.early.valid.eq(is_first & ~placed.errors.as_value().any())
        m.d.comb += self.early.payload.eq(struct_value(
            early_layout(self._params), slot=progress.slot, lanes=beat_sets.memory))

    def _collect_set(self, m: Module, collected: Value, found: Value) -> Value:
        """SETS: adds the lanes ``found`` of the present beat to one of the sets. Returns it with
        them, if the beat is the last one."""
        progress = self._placed.progress
        lanes = self._params.lanes
        with m.If(progress.valid):
            m.d.sync += collected.word_select(progress.beat, lanes).eq(found)
        return Cat(collected[:-lanes], Mux(progress.valid, found, collected[-lanes:]))

    def _find_kinds(self, m: Module) -> None:
        """SETS: which of the sets have a thread."""
        progress = self._placed.progress
        sets = self._placed.sets
        kinds = Signal.like(self.judged.payload.some)
        kinds_before = Signal.like(kinds)
        kinds_of_beat = Cat(sets.memory.any(), sets.local.any(), sets.shared.any())
        with m.If(progress.valid & (progress.beat == 0)):
            m.d.comb += kinds.eq(kinds_of_beat)
        with m.Elif(progress.valid):
            m.d.comb += kinds.eq(kinds_before | kinds_of_beat)
        with m.Else():
            m.d.comb += kinds.eq(kinds_before)
        m.d.sync += kinds_before.eq(kinds)
        m.d.sync += self.judged.payload.some.eq(
            Mux(self._placed.space.is_shuffle, kinds & _SHUFFLE_SETS, kinds))

    def _find_failing(self, m: Module) -> None:
        """SETS: the lowest thread of the beat that has an error."""
        placed = self._placed
        progress = placed.progress
        fails = Signal(self._params.lanes)
        for lane, errors in enumerate(placed.errors):
            with m.If(errors.wrong_space | errors.misaligned):
                m.d.comb += fails[lane].eq(1)
            with m.Elif(errors.out_of_range):
                m.d.comb += fails[lane].eq(~placed.is_silent)
            with m.Else():
                m.d.comb += fails[lane].eq(errors.unmapped)
        lane = lowest(fails)
        m.d.sync += self._failing.eq(struct_value(
            _FailingBeat,
            is_first=progress.valid & (progress.beat == 0),
            fails=progress.valid & fails.any(),
            errors=pick([each.as_value() for each in placed.errors], lane),
            thread=Cat(lane, progress.beat),
            is_constant=placed.space.is_constant))

    def _find_error(self, m: Module) -> None:
        """ERROR: the error of the lowest failing thread of the instruction: an earlier beat has
        lower threads."""
        failing = self._failing
        errors = failing.errors
        judged = self.judged.payload
        lowest_error: Any = Signal(_ThreadError)
        earlier: Any = Signal(_ThreadError)
        has_earlier_error = ~failing.is_first & (earlier.error != WarpError.NONE)
        m.d.comb += lowest_error.thread.eq(failing.thread)
        with m.If(has_earlier_error):
            m.d.comb += lowest_error.eq(earlier)
        with m.Elif(~failing.fails):
            m.d.comb += lowest_error.error.eq(WarpError.NONE)
        with m.Elif(errors.wrong_space):
            m.d.comb += lowest_error.error.eq(WarpError.INVALID_ADDR_SPACE)
        with m.Elif(errors.misaligned):
            m.d.comb += lowest_error.error.eq(WarpError.MISALIGNED_ADDR)
        with m.Elif(errors.out_of_range & failing.is_constant):
            m.d.comb += lowest_error.error.eq(WarpError.INVALID_CONST_ADDR_LDC)
        with m.Elif(errors.out_of_range):
            m.d.comb += lowest_error.error.eq(WarpError.OOR_ADDR)
        with m.Else():
            m.d.comb += lowest_error.error.eq(WarpError.MMU_FAULT)
        m.d.sync += earlier.eq(lowest_error)
        m.d.comb += common_fields(judged, lowest_error)
        m.d.comb += judged.bad.eq(lowest_error.error != WarpError.NONE)


def shuffle_reach(m: Module, instruction: Any, thread: Value, step: Value,
                  clamp: Value) -> tuple[Signal, Value]:
    """The thread that ``thread`` reads in a shuffle, if that is in its segment: with two bits more,
    as a number with a sign; and the segment's last thread.

    The operands are the step and the clamp: the last thread of a segment is in its bits 4:0, the
    segment's mask in bits 12:8.
    """
    clamp = clamp | instruction.clamp
    segment = clamp[8:8 + _THREAD_BITS]
    lowest_thread = thread & segment
    last = lowest_thread | clamp[:_THREAD_BITS] & ~segment
    reached = Signal(_THREAD_BITS + 2)
    with m.Switch(instruction.mode):
        with m.Case(ShuffleMode.IDX):
            m.d.comb += reached.eq(lowest_thread | step & ~segment)
        with m.Case(ShuffleMode.UP, ShuffleMode.DOWN):
            # One adder for both: thread - step is thread + ~step + 1.
            is_up = instruction.mode == ShuffleMode.UP
            addend = Cat(step ^ is_up.replicate(_THREAD_BITS), is_up, is_up)
            m.d.comb += reached.eq(sum_with_carry(thread, addend, is_up))
        with m.Case(ShuffleMode.BFLY):
            m.d.comb += reached.eq(thread ^ step)
    return reached, last


def in_segment(up: Value, reached: Value, last: Value) -> Value:
    """Whether the thread that one reads is in its segment."""
    return Mux(up, reached.as_signed() >= last, reached <= last)
