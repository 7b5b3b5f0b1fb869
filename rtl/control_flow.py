"""The flow unit and its stack, joined."""

from amaranth.hdl import Module
from amaranth.lib.wiring import Out, connect

from rtl.component import Component, members_of, pass_on
from rtl.crs import CallReturnStack
from rtl.flow import FlowUnit
from rtl.isa.tokens import TokenKind
from rtl.params import SmParams

__all__ = ["ControlFlow"]

_OF_FLOW = ("request", "launch", "report_mask", "result")
_OF_STACK = ("write_fault", "events", "port")


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
        self.flow, self.stack = FlowUnit(params), CallReturnStack(params)
        super().__init__({"diverged": Out(1), **members_of(self.flow, *_OF_FLOW), **members_of(self.stack, *_OF_STACK)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.flow, m.submodules.stack = flow, stack = self.flow, self.stack
        self.join(m, flow, *_OF_FLOW)
        self.join(m, stack, *_OF_STACK)
        connect(m, flow.stack.request, stack.request)
        connect(m, stack.pushed, flow.stack.pushed)
        pass_on(m, flow.stack, stack, "configuration")
        pass_on(m, stack, flow.stack, "killed", "holes", "entry", "result_valid", "result")
        m.d.comb += self.diverged.eq(stack.pushed.valid & (stack.pushed.payload.kind == TokenKind.DIVERGE))
        return m
