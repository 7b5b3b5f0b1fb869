"""The barrier unit's queue: decodes dispatched instructions, counts their threads, keeps them in
order."""

from typing import Any

from amaranth.hdl import Assert, Module, Mux, Signal, Value
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import ceil_log2

from rtl.component import Component
from rtl.dispatch_queue import DispatchQueue
from rtl.isa.barriers import BARRIERS, PACKED_COUNT, SYNCALL_BARRIER, is_packed
from rtl.isa.kinds import BarrierMode
from rtl.isa.syntax import PT, RZ, Form, Immediate, Register
from rtl.isa.table import BY_NAME
from rtl.layouts import EventLayout, dispatched
from rtl.params import WARP_THREADS, SmParams
from rtl.population import population
from rtl.word import field_of, pattern_of

from .stages import COUNT_BITS, BarrierTask, barrier_request

__all__ = ["BarrierQueue"]

_BARRIER_BITS = ceil_log2(BARRIERS)
_THREAD_BITS = ceil_log2(WARP_THREADS)


class BarrierQueue(Component):
    """Decodes instructions as they are dispatched, and hands them to the unit in order. ::

        dispatch --> DECODE --> COUNT --> places --> request

    Decoded in cycle 0, counted in cycle 1, an instruction is offered from cycle 2 on. A machine of
    one lane has one instruction under way: it counts a thread a cycle, and offers the instruction
    after 32 cycles.

    Members
    -------
    dispatch : In(EventLayout of dispatched)
    room : Out(1)
        There is room for an instruction whenever it comes, if it is selected now.
    request : Out(stream of barrier_request)
    """

    def __init__(self, params: SmParams) -> None:
        self._layout = barrier_request(params)
        self._serial = params.serial
        super().__init__({
            "dispatch": In(EventLayout(dispatched(params))),
            "room": Out(1),
            "request": Out(stream.Signature(self._layout)),
        })
        self._decoded: Any = Signal(self._layout)
        self._threads = Signal(WARP_THREADS)
        """Threads that execute the instruction that is dispatched."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._decode(m)
        if self._serial:
            self._count_in_turn(m)
        else:
            self._count(m)
        return m

    def _decode(self, m: Module) -> None:
        """What is known of an instruction without counting its threads."""
        instruction = self.dispatch.payload
        decoded = self._decoded
        m.d.comb += self._threads.eq(instruction.active & instruction.guard)
        m.d.comb += decoded.warp.eq(instruction.warp)
        m.d.comb += decoded.serial.eq(instruction.serial)
        m.d.comb += decoded.pc.eq(instruction.pc)
        m.d.comb += decoded.write_barrier.eq(instruction.write_barrier)
        m.d.comb += decoded.read_barrier.eq(instruction.read_barrier)
        m.d.comb += decoded.register.eq(RZ)
        m.d.comb += decoded.predicate.eq(PT)
        with m.Switch(instruction.word):
            for form in (*BY_NAME["BAR"], *BY_NAME["B2R"], *BY_NAME["R2B"]):
                with m.Case(pattern_of(form)):
                    self._decode_form(m, form)

    def _decode_form(self, m: Module, form: Form) -> None:
        """An instruction of this form. Barrier and count are Ra's and Rb's in the lowest thread
        that executes the instruction, where they are in registers (ours)."""
        decoded = self._decoded
        instruction = self.dispatch.payload
        fields = {name: field_of(instruction.word, field) for name, field in form.fields.items()}
        values = {**fields, "Ra": instruction.operands[0], "Rb": instruction.operands[1]}
        operands: dict[str, Any] = {
            key: values[operand.field]
            for key, operand in form.operands.items()
            if key in ("a", "b") and isinstance(operand, (Immediate, Register))
        }
        if form.name == "BAR":
            self._decode_bar(m, form, fields, operands)
            return

        m.d.comb += decoded.selection.eq(fields["mode"])
        if form.name == "R2B":
            m.d.comb += decoded.operation.eq(BarrierTask.WRITE)
            m.d.comb += decoded.number.eq(operands["a"])
            if not self._serial:
                m.d.comb += decoded.content.eq(operands["b"])
            return

        m.d.comb += decoded.operation.eq(BarrierTask.READ)
        m.d.comb += decoded.register.eq(fields["Rd"])
        if "p" in form.operands:
            m.d.comb += decoded.predicate.eq(fields["Pd"])
        if "a" in operands:
            m.d.comb += decoded.number.eq(_barrier_number(operands["a"]))
        if not self._serial:
            m.d.comb += decoded.content.eq(self._threads)

    def _decode_bar(
            self, m: Module, form: Form, fields: dict[str, Any], operands: dict[str, Any]) -> None:
        """BAR of this form: its mode, barrier and count. BAR.SYNCALL names neither."""
        decoded = self._decoded
        m.d.comb += decoded.operation.eq(BarrierTask.ARRIVE)
        m.d.comb += decoded.mode.eq(fields["mode"])
        if not operands:
            m.d.comb += decoded.number.eq(SYNCALL_BARRIER)
            return

        number = operands["a"]
        threads = operands["b"]
        if is_packed(form):
            number = number & ~PACKED_COUNT.mask
            threads = field_of(threads, PACKED_COUNT)
        is_no_whole_warp = threads[:_THREAD_BITS].any()
        is_too_large = threads[_THREAD_BITS + COUNT_BITS:].any()
        m.d.comb += decoded.number.eq(_barrier_number(number))
        m.d.comb += decoded.count.eq(threads[_THREAD_BITS:])
        m.d.comb += decoded.count_is_wrong.eq(is_no_whole_warp | is_too_large)
        if "reduction" in fields:
            m.d.comb += decoded.reduction.eq(fields["reduction"])

    def _count(self, m: Module) -> None:
        """Counts an instruction's threads in the cycle after it was dispatched; then it waits."""
        m.submodules.places = places = DispatchQueue(self._layout, decoding=1)
        instruction = self.dispatch.payload
        valid = Signal()
        decoded: Any = Signal(self._layout)
        true_threads = Signal(WARP_THREADS)
        false_threads = Signal(WARP_THREADS)
        m.d.sync += valid.eq(self.dispatch.valid)
        m.d.sync += decoded.eq(self._decoded)
        m.d.sync += true_threads.eq(self._threads & instruction.predicate)
        m.d.sync += false_threads.eq(self._threads & ~instruction.predicate)

        counted = places.arriving.payload
        m.d.comb += places.arriving.valid.eq(valid)
        m.d.comb += counted.eq(decoded)
        m.d.comb += counted.some_true.eq(true_threads.any())
        m.d.comb += counted.some_false.eq(false_threads.any())
        m.d.comb += counted.population.eq(population(true_threads))
        m.d.comb += counted.executes.eq(_executes(counted))
        m.d.comb += self.room.eq(places.room)
        connect(m, places.head, flipped(self.request))

    def _count_in_turn(self, m: Module) -> None:
        """Counts the threads of the one instruction, one in a cycle: threads and predicates are
        rotated, so that the one to count is the lowest bit."""
        request = self.request
        instruction = self.dispatch.payload
        counted: Any = Signal(self._layout)
        predicate = Signal(WARP_THREADS)
        remaining = Signal(range(WARP_THREADS + 1))
        counts = Signal()
        m.d.comb += counts.eq(remaining.any() & ~request.valid)
        m.d.comb += self.room.eq(~(counts | request.valid | self.dispatch.valid))
        m.d.comb += request.payload.eq(counted)
        m.d.comb += request.payload.executes.eq(_executes(counted))

        executes = counted.threads[0]
        is_true = executes & predicate[0]
        is_false = executes & ~predicate[0]
        with m.If(self.dispatch.valid):
            m.d.sync += counted.eq(self._decoded)
            m.d.sync += counted.threads.eq(self._threads)
            m.d.sync += counted.content.eq(instruction.operands[1])
            m.d.sync += predicate.eq(instruction.predicate)
            m.d.sync += remaining.eq(WARP_THREADS)
        with m.Elif(counts):
            m.d.sync += counted.threads.eq(counted.threads.rotate_right(1))
            m.d.sync += predicate.eq(predicate.rotate_right(1))
            m.d.sync += remaining.eq(remaining - 1)
            m.d.sync += counted.some_true.eq(counted.some_true | is_true)
            m.d.sync += counted.some_false.eq(counted.some_false | is_false)
            m.d.sync += counted.population.eq(counted.population + is_true)
        with m.If(counts):
            m.d.sync += request.valid.eq(remaining == 1)
        with m.Elif(request.ready):
            m.d.sync += request.valid.eq(0)
        m.d.sync += Assert(
            ~(self.dispatch.valid & (counts | request.valid)),
            "an instruction is dispatched without room")


def _executes(counted: Any) -> Value:
    """Whether an instruction whose threads are counted is executed."""
    is_syncall = counted.mode == BarrierMode.SYNCALL
    return counted.some_true | counted.some_false | is_syncall


def _barrier_number(value: Value) -> Value:
    """The number of a barrier; 16 for one that no barrier has."""
    return Mux(value[_BARRIER_BITS:].any(), BARRIERS, value[:_BARRIER_BITS])
