"""Flow instructions on their way to the flow unit."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.dispatch_queue import DispatchQueue
from rtl.isa.errors import WarpError
from rtl.layouts import (
    Event,
    FlowOperation,
    StackOperation,
    ThreadCode,
    TrapMove,
    dispatched,
    flow_request,
    is_kind,
)
from rtl.params import SmParams

from .decode import FlowDecoder

__all__ = ["FlowQueue"]

_ASKED = {FlowOperation.BRANCH: StackOperation.PUSH, FlowOperation.LEAVE_TRAP: StackOperation.SET_MODE,
          FlowOperation.RESTORE: StackOperation.RESTORE, FlowOperation.TERMINATE: StackOperation.CLEAR}
"""What a warp that is made to do something asks of the stack. ENTER_TRAP asks several things."""


class FlowQueue(Component):
    """Takes what was dispatched to the flow unit, and hands it on decoded, in order; in the same cycle if nobody waits,
    unless the trap unit has to say what it is.

    Members
    -------
    dispatch : In(Event of dispatched)
        A flow instruction, or a place for what the trap unit says.
    trap : In(TrapMove)
        What it says, in the cycle of a ``dispatch`` of kind ENTER or LEAVE.
    room : Out(1)
        There is room for it whenever it comes, if it is selected now.
    request : Out(stream of flow_request)
    """

    def __init__(self, params: SmParams) -> None:
        self._layout = flow_request(params)
        super().__init__({
            "dispatch": In(Event(dispatched(params))), "trap": In(TrapMove), "room": Out(1),
            "request": Out(stream.Signature(self._layout))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.decoder = decoder = FlowDecoder()
        m.submodules.places = places = DispatchQueue(self._layout)
        arriving, decoded, stored = self.dispatch.payload, Signal(self._layout), places.arriving.payload
        moves, passes = Signal(), Signal()
        m.d.comb += [
            decoder.word.eq(arriving.word), decoded.instruction.eq(decoder.instruction),
            decoded.operand.eq(arriving.operands[0]), stored.eq(decoded), self.room.eq(places.room)]
        m.d.comb += [decoded[name].eq(arriving[name]) for name in ("warp", "pc", "guard", "same", "fault")]

        # What a warp is made to do concerns all its threads, and has its target from the trap unit.
        m.d.comb += moves.eq(is_kind(arriving.kind, lambda rule: rule.injected))
        with m.If(moves):
            m.d.comb += [
                stored.instruction.eq(0), stored.instruction.operation.eq(self.trap.operation),
                stored.instruction.code.eq(ThreadCode.EXIT), stored.instruction.constant.eq(1),
                stored.pc.eq(self.trap.pc), stored.operand.eq(self.trap.target), stored.guard.eq(~0),
                stored.fault.eq(WarpError.NONE)]
            with m.Switch(self.trap.operation):
                for operation, asked in _ASKED.items():
                    with m.Case(operation):
                        m.d.comb += stored.instruction.asked.eq(asked)

        # What the trap unit says comes late in the cycle, and only to the queue.
        head, request = places.head, self.request
        m.d.comb += [
            passes.eq(self.dispatch.valid & ~moves & ~head.valid), head.ready.eq(request.ready),
            request.valid.eq(head.valid | passes),
            request.payload.eq(Mux(head.valid, head.payload.as_value(), decoded.as_value())),
            places.arriving.valid.eq(self.dispatch.valid & ~(passes & request.ready))]
        return m
