"""The flow unit and its stack, joined."""

from amaranth.hdl import Module
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.component import Component, pass_on
from rtl.crs import CallReturnStack
from rtl.flow import FlowUnit
from rtl.isa.tokens import TokenKind
from rtl.layouts import Event, MemoryPort, StackEvents, flow_launch, flow_request, flow_result
from rtl.params import SmParams

__all__ = ["ControlFlow"]


class ControlFlow(Component):
    """All that decides which instruction of a warp is next.

    Members
    -------
    request, launch, report_mask, result
        See FlowUnit.
    write_fault, events, port
        See CallReturnStack.
    diverged : Out(1)
        A branch has pushed the token of those that do not take it.
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "request": In(stream.Signature(flow_request(params))), "launch": In(stream.Signature(flow_launch(params))),
            "report_mask": In(32), "result": Out(Event(flow_result(params))),
            "write_fault": Out(Event(params.warp_bits)), "events": Out(StackEvents), "diverged": Out(1),
            "port": Out(MemoryPort(params.warp_bits))})
        self.flow = FlowUnit(params)
        self.stack = CallReturnStack(params)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.flow = flow = self.flow
        m.submodules.stack = stack = self.stack
        connect(m, flipped(self.request), flow.request)
        connect(m, flipped(self.launch), flow.launch)
        connect(m, flow.result, flipped(self.result))
        connect(m, flow.stack.request, stack.request)
        connect(m, stack.write_fault, flipped(self.write_fault))
        connect(m, stack.port, flipped(self.port))
        connect(m, stack.pushed, flow.stack.pushed)
        pass_on(m, flow.stack, stack, "configuration")
        pass_on(m, stack, flow.stack, "killed", "holes", "entry", "result_valid", "result")
        m.d.comb += [
            flow.report_mask.eq(self.report_mask), self.events.eq(stack.events),
            self.diverged.eq(stack.pushed.valid & (stack.pushed.payload.kind == TokenKind.DIVERGE))]
        return m
