"""The barrier unit's queue: decodes dispatched instructions, counts their threads, keeps them in
order."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import ceil_log2

from rtl.component import Component
from rtl.dispatch_queue import DispatchQueue
from rtl.isa.barriers import BARRIERS, PACKED_COUNT, SYNCALL_BARRIER, is_packed
from rtl.isa.kinds import BarrierMode
from rtl.isa.syntax import PT, RZ, Form, Immediate, Register
from rtl.isa.table import BY_NAME
from rtl.layouts import Event, dispatched
from rtl.params import WARP_THREADS, SmParams
from rtl.population import population
from rtl.structs import common_fields
from rtl.word import field_of, pattern_of

from .stages import COUNT_BITS, BarrierTask, Destination, barrier_request

__all__ = ["BarrierQueue", "is_executed"]

_BARRIER_BITS = ceil_log2(BARRIERS)
_THREAD_BITS = ceil_log2(WARP_THREADS)
_NO_DESTINATION = Destination.const({"register": RZ, "predicate": PT})


class BarrierQueue(Component):
    """Decodes instructions as they are dispatched, and passes them to the unit in order. ::

        dispatch --> DECODE --> COUNT --> places --> request

    Decoded in cycle 0, counted in cycle 1, an instruction is offered from cycle 2 on.

    Members
    -------
    dispatch : In(Event of dispatched)
    room : Out(1)
        The unit will have room for an instruction that issue selects in this cycle.
    request : Out(stream of ``layout``)

    Attributes
    ----------
    layout : barrier_request
    """

    def __init__(self, params: SmParams) -> None:
        self.layout = self.request_layout(params)
        super().__init__({
            "dispatch": In(Event(dispatched(params))),
            "room": Out(1),
            "request": Out(stream.Signature(self.layout)),
        })
        self.decoded: Any = Signal(self.layout)
        """The instruction that is dispatched, except what is known by counting its threads."""
        self.threads = Signal(WARP_THREADS)
        """Threads that execute it."""

    def request_layout(self, params: SmParams) -> data.StructLayout:
        """The layout of ``request``: an instruction as the unit receives it."""
        return barrier_request(params)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._decode(m)
        self.count(m)
        return m

    def _decode(self, m: Module) -> None:
        """What is known of an instruction without counting its threads."""
        instruction = self.dispatch.payload
        decoded = self.decoded
        m.d.comb += self.threads.eq(instruction.active & instruction.guard)
        m.d.comb += common_fields(decoded, instruction)
        m.d.comb += decoded.destination.eq(_NO_DESTINATION)
        with m.Switch(instruction.word):
            for form in (*BY_NAME["BAR"], *BY_NAME["B2R"], *BY_NAME["R2B"]):
                with m.Case(pattern_of(form)):
                    self._decode_form(m, form)

    def _decode_form(self, m: Module, form: Form) -> None:
        """An instruction of this form. Barrier and count are Ra's and Rb's in the lowest thread
        that executes the instruction, where they are in registers (ours)."""
        decoded = self.decoded
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
            self.decode_content(m, operands["b"])
            return

        m.d.comb += decoded.operation.eq(BarrierTask.READ)
        m.d.comb += decoded.destination.register.eq(fields["Rd"])
        if "p" in form.operands:
            m.d.comb += decoded.destination.predicate.eq(fields["Pd"])
        if "a" in operands:
            m.d.comb += decoded.number.eq(_barrier_number(operands["a"]))
        self.decode_content(m, self.threads)

    def decode_content(self, m: Module, content: Value) -> None:
        """The value of R2B, or the threads that execute B2R."""
        m.d.comb += self.decoded.content.eq(content)

    def _decode_bar(
            self, m: Module, form: Form, fields: dict[str, Any], operands: dict[str, Any]) -> None:
        """BAR of this form: its mode, barrier and count. BAR.SYNCALL has neither operand."""
        decoded = self.decoded
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

    def count(self, m: Module) -> None:
        """Counts an instruction's threads in the cycle after it was dispatched; then it waits."""
        m.submodules.places = places = DispatchQueue(self.layout, decoding=1)
        instruction = self.dispatch.payload
        valid = Signal()
        decoded: Any = Signal(self.layout)
        true_threads = Signal(WARP_THREADS)
        false_threads = Signal(WARP_THREADS)
        m.d.sync += valid.eq(self.dispatch.valid)
        m.d.sync += decoded.eq(self.decoded)
        m.d.sync += true_threads.eq(self.threads & instruction.predicate)
        m.d.sync += false_threads.eq(self.threads & ~instruction.predicate)

        counted = places.arriving.payload
        m.d.comb += places.arriving.valid.eq(valid)
        m.d.comb += counted.eq(decoded)
        m.d.comb += counted.some_true.eq(true_threads.any())
        m.d.comb += counted.some_false.eq(false_threads.any())
        m.d.comb += counted.population.eq(population(true_threads))
        m.d.comb += counted.executes.eq(is_executed(counted))
        m.d.comb += self.room.eq(places.room)
        connect(m, places.head, flipped(self.request))


def is_executed(counted: Any) -> Value:
    """Whether an instruction whose threads are counted is executed."""
    is_syncall = counted.mode == BarrierMode.SYNCALL
    return counted.some_true | counted.some_false | is_syncall


def _barrier_number(value: Value) -> Value:
    """The number of a barrier; 16 for one that no barrier has."""
    return Mux(value[_BARRIER_BITS:].any(), BARRIERS, value[:_BARRIER_BITS])
