"""The flow unit and its stack, joined."""

from typing import Any

from amaranth.hdl import Module
from amaranth.lib.wiring import Out, connect

from rtl.component import Component, members_of, pass_on
from rtl.crs import call_return_stack
from rtl.flow import flow_unit
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
        self._serial = params.serial
        self.flow: Any = flow_unit(params)
        self.stack: Any = call_return_stack(params)
        super().__init__({"diverged": Out(1), **members_of(self.flow, *_OF_FLOW), **members_of(self.stack, *_OF_STACK)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.flow, m.submodules.stack = flow, stack = self.flow, self.stack
        self.join(m, flow, *_OF_FLOW)
        self.join(m, stack, *_OF_STACK)
        pushed = flow.stack.pushed
        if self._serial:
            connect(m, flow.stack, stack.stack)
        else:
            connect(m, flow.stack.request, stack.request)
            connect(m, stack.pushed, pushed)
            pass_on(m, flow.stack, stack, "configuration")
            pass_on(m, stack, flow.stack, "killed", "holes", "entry", "result_valid", "result")
        m.d.comb += self.diverged.eq(pushed.valid & (pushed.payload.kind == TokenKind.DIVERGE))
        return m
