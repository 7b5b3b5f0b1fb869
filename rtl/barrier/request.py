"""From a dispatched instruction to what the barrier unit needs of it."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import data, enum, stream
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.component import Component, pass_on
from rtl.dispatch_queue import DispatchQueue
from rtl.isa.barriers import BARRIERS, PACKED_COUNT, SYNCALL_BARRIER, BarrierState, is_packed
from rtl.isa.kinds import BarrierMode, BarrierRead, BarrierReduction
from rtl.isa.syntax import PT, RZ, Form, Immediate, Register
from rtl.isa.table import BY_NAME
from rtl.layouts import SERIAL_BITS, EventLayout, dispatched
from rtl.params import WARP_THREADS, SmParams
from rtl.population import population
from rtl.word import field_of, pattern_of

__all__ = ["BarrierQueue", "BarrierTask", "barrier_request"]

_BARRIER_BITS = ceil_log2(BARRIERS)
_THREAD_BITS = ceil_log2(WARP_THREADS)
_COUNT_BITS = BarrierState.as_shape()["expected"].width


class BarrierTask(enum.Enum, shape=3):
    """What the unit does. BAR, B2R and R2B ask for one of the first three; NOTHING is an instruction that no thread
    executes, or that has an error. SETTLE looks at the used barriers of a CTA that has lost a warp, WITHDRAW takes the
    arrival of a warp back."""

    ARRIVE = 0
    READ = 1
    WRITE = 2
    NOTHING = 3
    SETTLE = 4
    WITHDRAW = 5


def barrier_request(params: SmParams) -> data.StructLayout:
    """An instruction of a warp.

    ``executes``: a thread does, or none has to. ``number`` is the barrier's; 16 is BAR.SYNCALL's, and every number that
    no barrier has. BAR asks for ``count`` warps, 0 for all; ``wrong``: not for whole ones, or for more than can be
    counted. ``population`` threads have its predicate; ``some_true``, ``some_false``: one has it, one has not.
    ``content`` is R2B's number, or the threads that execute B2R; in a machine of one lane these are ``threads``.
    """
    return data.StructLayout({
        "warp": params.warp_bits, "serial": SERIAL_BITS, "pc": 32, "operation": BarrierTask, "mode": BarrierMode,
        "reduction": BarrierReduction, "place": BarrierRead, "executes": 1, "number": range(BARRIERS + 1),
        "count": _COUNT_BITS, "wrong": 1, "population": range(WARP_THREADS + 1), "some_true": 1, "some_false": 1,
        "content": 32, "threads": WARP_THREADS if params.serial else 0, "register": 8, "predicate": 3,
        "write_barrier": 3, "read_barrier": 3})


class BarrierQueue(Component):
    """Takes what was dispatched to the barrier unit (``dispatch``, ``room``), and hands it on decoded, in order
    (``request``, a stream of barrier_request)."""

    def __init__(self, params: SmParams) -> None:
        self._layout, self._alone = barrier_request(params), params.serial
        super().__init__({
            "dispatch": In(EventLayout(dispatched(params))), "room": Out(1),
            "request": Out(stream.Signature(self._layout))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        instruction, request, threads = self.dispatch.payload, Signal(self._layout), Signal(WARP_THREADS)

        # Decode.
        m.d.comb += [
            threads.eq(instruction.active & instruction.guard), request.register.eq(RZ), request.predicate.eq(PT)]
        pass_on(m, instruction, request, "warp", "serial", "pc", "write_barrier", "read_barrier")
        with m.Switch(instruction.word):
            for form in (*BY_NAME["BAR"], *BY_NAME["B2R"], *BY_NAME["R2B"]):
                with m.Case(pattern_of(form)):
                    m.d.comb += [request[name].eq(value) for name, value in self._decoded(form, threads).items()]
        if self._alone:
            self._count_alone(m, request, threads)
        else:
            self._count(m, request, threads)
        return m

    def _count(self, m: Module, request: Any, threads: Signal) -> None:
        """Counts an instruction's threads, and puts it behind others."""
        m.submodules.places = places = DispatchQueue(self._layout, decoding=1)
        instruction = self.dispatch.payload
        valid, decoded, having, missing = Signal(), Signal(self._layout), Signal(WARP_THREADS), Signal(WARP_THREADS)
        m.d.sync += [
            valid.eq(self.dispatch.valid), decoded.eq(request), having.eq(threads & instruction.predicate),
            missing.eq(threads & ~instruction.predicate)]
        counted = places.arriving.payload
        m.d.comb += [
            places.arriving.valid.eq(valid), counted.eq(decoded), counted.some_true.eq(having.any()),
            counted.some_false.eq(missing.any()), counted.population.eq(population(having)),
            counted.executes.eq(counted.some_true | counted.some_false | (decoded.mode == BarrierMode.SYNCALL))]

        self.join(m, places, "room", request="head")

    def _count_alone(self, m: Module, request: Any, threads: Signal) -> None:
        """Counts the threads of the one instruction, one in a cycle; they go round."""
        asked, having, step = self.request.payload, Signal(WARP_THREADS), Signal(range(WARP_THREADS + 1))
        here, has, counts = asked.threads[0], having[0], Signal()
        m.d.comb += [self.room.eq(~(counts | self.request.valid | self.dispatch.valid)),
                     counts.eq(step.any() & ~self.request.valid)]
        kept = Signal(self._layout)
        m.d.comb += [asked.eq(kept), asked.executes.eq(
            kept.some_true | kept.some_false | (kept.mode == BarrierMode.SYNCALL))]
        with m.If(self.request.ready):
            m.d.sync += self.request.valid.eq(0)
        with m.If(counts):
            m.d.sync += [
                kept.threads.eq(kept.threads.rotate_right(1)), having.eq(having.rotate_right(1)), step.eq(step - 1),
                kept.some_true.eq(kept.some_true | (here & has)), kept.some_false.eq(kept.some_false | (here & ~has)),
                kept.population.eq(kept.population + (here & has)), self.request.valid.eq(step == 1)]
        with m.If(self.dispatch.valid):
            m.d.sync += [
                kept.eq(request), kept.threads.eq(threads), kept.content.eq(self.dispatch.payload.operands[1]),
                having.eq(self.dispatch.payload.predicate), step.eq(WARP_THREADS)]

    def _decoded(self, form: Form, threads: Signal) -> dict[str, Any]:
        """What an instruction of this form asks for: fields of the request. Barrier and count are Ra's and Rb's in the
        lowest thread that executes the instruction, where they are in registers (ours)."""
        fields = {name: field_of(self.dispatch.payload.word, field) for name, field in form.fields.items()}
        values = fields | dict(zip(("Ra", "Rb"), self.dispatch.payload.operands, strict=True))
        operands: dict[str, Any] = {
            key: values[operand.field] for key, operand in form.operands.items()
            if key in ("a", "b") and isinstance(operand, (Immediate, Register))}
        if form.name == "R2B":
            content = {} if self._alone else {"content": operands["b"]}
            return content | {"operation": BarrierTask.WRITE, "place": fields["mode"], "number": operands["a"]}
        if form.name == "B2R":
            named = {"number": _number(operands["a"])} if operands else {}
            content = {} if self._alone else {"content": threads}
            return named | content | {
                "operation": BarrierTask.READ, "place": fields["mode"], "register": fields["Rd"],
                "predicate": fields["Pd"] if "p" in form.operands else PT}
        asked = {"operation": BarrierTask.ARRIVE, "mode": fields["mode"]}
        if not operands:
            return asked | {"number": SYNCALL_BARRIER}
        number, count = operands["a"], operands["b"]
        if is_packed(form):
            number, count = number & ~PACKED_COUNT.mask, field_of(count, PACKED_COUNT)
        return asked | {
            "number": _number(number), "count": count[_THREAD_BITS:], "reduction": fields.get("reduction", 0),
            "wrong": count[:_THREAD_BITS].any() | count[_THREAD_BITS + _COUNT_BITS:].any()}


def _number(value: Value) -> Value:
    """The number of a barrier; 16 for one that nobody has."""
    return Mux(value[_BARRIER_BITS:].any(), BARRIERS, value[:_BARRIER_BITS])
