"""The flow unit and its stack, joined."""

from amaranth.hdl import Module
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.component import Component
from rtl.crs import CallReturnStack
from rtl.flow import FlowUnit
from rtl.isa.tokens import TokenKind
from rtl.layouts import MemoryPort, StackEvents, flow_launch, flow_request, flow_result
from rtl.params import SmParams

__all__ = ["ControlFlow"]


class ControlFlow(Component):
    """All that decides which instruction of a warp is next.

    Members
    -------
    request, launch, report_mask, result_valid, result
        See FlowUnit.
    ready : Out(warps)
        Warps whose next instruction would not wait for their stack.
    write_fault, write_fault_warp, events, port
        See CallReturnStack.
    diverged : Out(1)
        A branch has pushed the token of those that do not take it.
    """

    def __init__(self, params: SmParams) -> None:
        bits = params.warp_bits
        super().__init__({
            "request": In(stream.Signature(flow_request(params))), "launch": In(stream.Signature(flow_launch(params))),
            "report_mask": In(32), "result_valid": Out(1), "result": Out(flow_result(params)),
            "ready": Out(params.warps), "write_fault": Out(1), "write_fault_warp": Out(bits),
            "events": Out(StackEvents), "diverged": Out(1),
            "port": Out(MemoryPort(bits))})
        self.flow = FlowUnit(params)
        self.stack = CallReturnStack(params)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.flow = flow = self.flow
        m.submodules.stack = stack = self.stack
        connect(m, flipped(self.request), flow.request)
        connect(m, flipped(self.launch), flow.launch)
        connect(m, flow.stack.request, stack.request)
        connect(m, stack.port, flipped(self.port))
        m.d.comb += [
            flow.report_mask.eq(self.report_mask), self.result_valid.eq(flow.result_valid), self.result.eq(flow.result),
            stack.configuration.eq(flow.stack.configuration), flow.stack.killed.eq(stack.killed),
            flow.stack.pushed.eq(stack.pushed.valid), flow.stack.holes.eq(stack.holes),
            flow.stack.entry.eq(stack.entry), flow.stack.result_valid.eq(stack.result_valid),
            flow.stack.result.eq(stack.result), self.ready.eq(stack.ready),
            self.write_fault.eq(stack.write_fault.valid),
            self.write_fault_warp.eq(stack.write_fault.payload), self.events.eq(stack.events),
            self.diverged.eq(stack.pushed.valid & (stack.pushed.payload.kind == TokenKind.DIVERGE))]
        return m
