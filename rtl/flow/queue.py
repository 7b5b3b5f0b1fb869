"""Flow instructions on their way to the flow unit."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from rtl.component import Component, pass_on
from rtl.dispatch_queue import DispatchQueue
from rtl.isa.errors import WarpError
from rtl.layouts import (
    Event,
    FlowOperation,
    InstructionKind,
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
    unless it is to enter a trap.

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
        m.submodules.places = places = DispatchQueue(self._layout, bypass=True)
        arriving, decoded, stored = self.dispatch.payload, Signal(self._layout), places.arriving.payload
        enters = Signal()
        m.d.comb += [
            decoder.word.eq(arriving.word), decoded.instruction.eq(decoder.instruction),
            decoded.operand.eq(arriving.operands[0]), enters.eq(arriving.kind == InstructionKind.ENTER),
            places.arriving.valid.eq(self.dispatch.valid), stored.eq(decoded), self.room.eq(places.room)]
        pass_on(m, arriving, decoded, "warp", "pc", "guard", "same", "fault")

        # What a warp is made to do concerns all its threads.
        with m.If(is_kind(arriving.kind, lambda rule: rule.injected)):
            m.d.comb += [
                decoded.instruction.eq(0), decoded.instruction.operation.eq(self.trap.operation),
                decoded.instruction.code.eq(ThreadCode.EXIT), decoded.instruction.constant.eq(1),
                decoded.operand.eq(arriving.pc), decoded.guard.eq(~0), decoded.fault.eq(WarpError.NONE)]
            with m.Switch(self.trap.operation):
                for operation, asked in _ASKED.items():
                    with m.Case(operation):
                        m.d.comb += decoded.instruction.asked.eq(asked)

        # Where it enters and what it comes back to is known late in the cycle, and goes only to the queue.
        with m.If(enters):
            m.d.comb += [stored.pc.eq(self.trap.pc), stored.operand.eq(self.trap.target)]
        head, request = places.head, self.request
        m.d.comb += [
            head.ready.eq(request.ready & (places.waits | ~enters)),
            request.valid.eq(places.waits | self.dispatch.valid & ~enters),
            request.payload.eq(Mux(places.waits, head.payload.as_value(), decoded.as_value()))]
        return m
