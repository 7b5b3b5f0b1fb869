"""The error collector: the errors of all units as one array, for whoever acts on them."""

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.errors import WarpError
from rtl.layouts import ERROR_SOURCES, REPORT_BITS, Event, error_event, flow_result
from rtl.params import SmParams

__all__ = ["ErrorCollector"]


class ErrorCollector(Component):
    """Puts the errors of a cycle into the order of :data:`~rtl.layouts.ERROR_SOURCES`.

    The units raise reported errors only. Two sources are no ``error`` port: a flow result with an
    error, whose pc is that of the instruction that failed; and a stack line that memory did not
    accept, which is an MMU_FAULT of its warp if that code is reported.

    Flow, barrier and stack know of an error late in the cycle. The trap unit and the error status
    see it a cycle later, which changes nothing for them: the warp is held anyway, or has no next
    instruction yet. The retirement interface sees all errors at once.

    Members
    -------
    lanes, memory, conversion, barrier, trap : In(error_event)
    flow_result : In(Event of flow_result)
    stack_fault : In(Event of a warp)
        See CallReturnStack.write_fault.
    report_mask : In(32)
        Bit n: warp errors of code n are reported.
    raised : Out(array of error_event), by ERROR_SOURCES
        In the cycle in which the unit raises them.
    registered : Out(array of error_event), by ERROR_SOURCES
        The same, those of late sources a cycle later.
    """

    def __init__(self, params: SmParams) -> None:
        event = error_event(params)
        self._event = event
        super().__init__({
            "lanes": In(event),
            "memory": In(event),
            "conversion": In(event),
            "barrier": In(event),
            "trap": In(event),
            "flow_result": In(Event(flow_result(params))),
            "stack_fault": In(Event(params.warp_bits)),
            "report_mask": In(REPORT_BITS),
            "raised": Out(data.ArrayLayout(event, len(ERROR_SOURCES))),
            "registered": Out(data.ArrayLayout(event, len(ERROR_SOURCES))),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        flow = self._flow_error(m)
        stack = self._stack_error(m)
        known_early = {"lanes": self.lanes, "memory": self.memory, "conversion": self.conversion,
                       "trap": self.trap}
        known_late = {"flow": flow, "barrier": self.barrier, "stack": stack}
        for number, source in enumerate(ERROR_SOURCES):
            if source in known_late:
                m.d.comb += self.raised[number].eq(known_late[source])
                registered = Signal(self._event, name=f"{source}_error_registered")
                m.d.sync += registered.eq(known_late[source])
                m.d.comb += self.registered[number].eq(registered)
            else:
                m.d.comb += self.raised[number].eq(known_early[source])
                m.d.comb += self.registered[number].eq(known_early[source])
        return m

    def _flow_error(self, m: Module) -> Any:
        """The error of a flow instruction, from its result."""
        result = self.flow_result.payload
        error = Signal(self._event, name="flow_error")
        m.d.comb += error.valid.eq(self.flow_result.valid & (result.error != WarpError.NONE))
        m.d.comb += error.warp.eq(result.warp)
        m.d.comb += error.pc.eq(result.own)
        m.d.comb += error.error.eq(result.error)
        return error

    def _stack_error(self, m: Module) -> Any:
        """A line of a stack that memory did not accept. It is of no instruction: its pc is 0."""
        is_reported = self.report_mask[WarpError.MMU_FAULT.value]
        error = Signal(self._event, name="stack_error")
        m.d.comb += error.valid.eq(self.stack_fault.valid & is_reported)
        m.d.comb += error.warp.eq(self.stack_fault.payload)
        m.d.comb += error.error.eq(WarpError.MMU_FAULT)
        return error
