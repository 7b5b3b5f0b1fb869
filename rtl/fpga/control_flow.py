"""The flow unit with its call/return stack: a harness that measures and tests the two together."""

from typing import Any

from amaranth.hdl import Module
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.component import Component
from rtl.layouts import REPORT_BITS, Event, StackEvents, flow_launch, flow_request, flow_result
from rtl.machines import units_of
from rtl.params import SmParams

__all__ = ["ControlFlow"]


class ControlFlow(Component):
    """Flow unit and call/return stack: the part of a core that determines a warp's next pc and
    active mask.

    Members
    -------
    request, launch, report_mask, result
        See FlowUnit.
    write_fault, events, port
        See CallReturnStack.
    """

    def __init__(self, params: SmParams) -> None:
        self._units = units_of(params)
        self.flow: Any = self._units.flow(params)
        self.stack: Any = self._units.stack(params)
        super().__init__({
            "request": In(stream.Signature(flow_request(params))),
            "launch": In(stream.Signature(flow_launch(params))),
            "report_mask": In(REPORT_BITS),
            "result": Out(Event(flow_result(params))),
            "write_fault": Out(Event(params.warp_bits)),
            "events": Out(StackEvents),
            "port": Out(self._units.memory_port(params.warp_bits)),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.flow = flow = self.flow
        m.submodules.stack = stack = self.stack
        connect(m, flipped(self.request), flow.request)
        connect(m, flipped(self.launch), flow.launch)
        m.d.comb += flow.report_mask.eq(self.report_mask)
        connect(m, flow.result, flipped(self.result))
        connect(m, stack.write_fault, flipped(self.write_fault))
        m.d.comb += self.events.eq(stack.events)
        connect(m, stack.port, flipped(self.port))
        self._units.connect_stack(m, flow, stack)
        return m
