"""From a dispatched instruction to what the barrier unit needs of it."""

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import data, enum, stream
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import ceil_log2

from rtl.component import Component
from rtl.dispatch_queue import DispatchQueue
from rtl.isa.barriers import BARRIERS, PACKED_COUNT, SYNCALL_BARRIER, BarrierState, is_packed
from rtl.isa.kinds import BarrierMode, BarrierRead, BarrierReduction
from rtl.isa.syntax import PT, RZ, Form, Immediate, Register
from rtl.isa.table import BY_NAME
from rtl.layouts import SERIAL_BITS, dispatched
from rtl.params import WARP_THREADS, SmParams
from rtl.population import population
from rtl.word import field_of, pattern_of

__all__ = ["BARRIER_FORMS", "BarrierOperation", "BarrierQueue", "barrier_request"]

BARRIER_FORMS: tuple[Form, ...] = tuple(form for name in ("BAR", "B2R", "R2B") for form in BY_NAME[name])
"""The instructions of the barrier unit."""

_THREAD_BITS = ceil_log2(WARP_THREADS)
_COUNT_BITS = BarrierState.as_shape()["expected"].width


class BarrierOperation(enum.Enum, shape=2):
    """What an instruction does."""

    ARRIVE = 0
    """BAR."""
    READ = 1
    """B2R."""
    WRITE = 2
    """R2B."""


def barrier_request(params: SmParams) -> data.StructLayout:
    """An instruction of a warp.

    ``executes``: a thread does, or none has to. ``number`` is the barrier's; 16 stands for every number that no barrier
    has, and is BAR.SYNCALL's. ``count`` is how many warps BAR asks for, 0 for all, and ``wrong`` tells that it does not
    ask for whole warps, or for more than can be counted. ``population`` threads have BAR's predicate; ``some_true`` and
    ``some_false`` tell whether there is one that has it, and one that has not. ``content`` is R2B's number, or the
    threads that execute B2R.
    """
    return data.StructLayout({
        "warp": params.warp_bits, "serial": SERIAL_BITS, "pc": 32, "operation": BarrierOperation, "mode": BarrierMode,
        "reduction": BarrierReduction, "place": BarrierRead, "executes": 1, "number": range(BARRIERS + 1),
        "count": _COUNT_BITS, "wrong": 1, "population": range(WARP_THREADS + 1), "some_true": 1, "some_false": 1,
        "content": 32, "register": 8, "predicate": 3, "write_barrier": 3, "read_barrier": 3})


class BarrierQueue(Component):
    """Takes what was dispatched to the barrier unit, and hands it on decoded, in order.

    Members
    -------
    dispatch : In(valid and dispatched)
        Barrier and count are Ra's and Rb's in the lowest thread that executes the instruction, where they are in
        registers (ours).
    room : Out(1)
        There is room for an instruction whenever it comes, if it is selected now.
    request : Out(stream of barrier_request)
    """

    def __init__(self, params: SmParams) -> None:
        self._layout = barrier_request(params)
        super().__init__({
            "dispatch": In(data.StructLayout({"valid": 1, "payload": dispatched(params)})), "room": Out(1),
            "request": Out(stream.Signature(self._layout))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.places = places = DispatchQueue(self._layout, decoding=1)
        instruction, request = self.dispatch.payload, Signal(self._layout)

        # Decode.
        threads = Signal(WARP_THREADS)
        m.d.comb += [
            threads.eq(instruction.active & instruction.guard), request.register.eq(RZ), request.predicate.eq(PT)]
        m.d.comb += [request[name].eq(instruction[name])
                     for name in ("warp", "serial", "pc", "write_barrier", "read_barrier")]
        with m.Switch(instruction.word):
            for form in BARRIER_FORMS:
                with m.Case(pattern_of(form)):
                    getattr(self, f"_{form.name.lower()}")(m, form, request, threads)

        # Count.
        valid, decoded, having, missing = Signal(), Signal(self._layout), Signal(WARP_THREADS), Signal(WARP_THREADS)
        m.d.sync += [
            valid.eq(self.dispatch.valid), decoded.eq(request), having.eq(threads & instruction.predicate),
            missing.eq(threads & ~instruction.predicate)]
        counted = places.arriving.payload
        m.d.comb += [
            counted.eq(decoded), counted.some_true.eq(having.any()), counted.some_false.eq(missing.any()),
            counted.executes.eq(counted.some_true | counted.some_false | (decoded.mode == BarrierMode.SYNCALL)),
            counted.population.eq(population(having))]

        m.d.comb += [places.arriving.valid.eq(valid), self.room.eq(places.room)]
        connect(m, places.head, flipped(self.request))
        return m

    def _field(self, form: Form, name: str) -> Value:
        return field_of(self.dispatch.payload.word, form.fields[name])

    def _operand(self, form: Form, key: str) -> Value:
        """An operand that may be in a register."""
        operand = form.operands[key]
        if isinstance(operand, Immediate):
            return self._field(form, operand.field)
        assert isinstance(operand, Register)
        return self.dispatch.payload.operands[("Ra", "Rb").index(operand.field)]

    def _number(self, value: Value) -> Value:
        """The number of a barrier; 16 for one that nobody has."""
        bits = ceil_log2(BARRIERS)
        return Mux(value[bits:].any(), BARRIERS, value[:bits])

    def _bar(self, m: Module, form: Form, request: data.View, threads: Signal) -> None:
        m.d.comb += request.mode.eq(self._field(form, "mode"))
        if not form.operands:
            m.d.comb += [request.operation.eq(BarrierOperation.ARRIVE), request.number.eq(SYNCALL_BARRIER)]
            return
        number, count = self._operand(form, "a"), self._operand(form, "b")
        if is_packed(form):
            number, count = number & ~PACKED_COUNT.mask, field_of(count, PACKED_COUNT)
        m.d.comb += [
            request.operation.eq(BarrierOperation.ARRIVE), request.number.eq(self._number(number)),
            request.count.eq(count[_THREAD_BITS:]),
            request.wrong.eq(count[:_THREAD_BITS].any() | count[_THREAD_BITS + _COUNT_BITS:].any())]
        if "reduction" in form.fields:
            m.d.comb += request.reduction.eq(self._field(form, "reduction"))

    def _b2r(self, m: Module, form: Form, request: data.View, threads: Signal) -> None:
        m.d.comb += [
            request.operation.eq(BarrierOperation.READ), request.place.eq(self._field(form, "mode")),
            request.content.eq(threads), request.register.eq(self._field(form, "Rd"))]
        if "a" in form.operands:
            m.d.comb += request.number.eq(self._number(self._operand(form, "a")))
        if "p" in form.operands:
            m.d.comb += request.predicate.eq(self._field(form, "Pd"))

    def _r2b(self, m: Module, form: Form, request: data.View, threads: Signal) -> None:
        m.d.comb += [
            request.operation.eq(BarrierOperation.WRITE), request.place.eq(self._field(form, "mode")),
            request.number.eq(self._operand(form, "a")), request.content.eq(self._operand(form, "b"))]
