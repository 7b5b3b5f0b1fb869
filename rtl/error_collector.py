"""The error collector: the errors of all units, for those that act on them."""

from typing import Any

from amaranth.hdl import Module
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.errors import WarpError
from rtl.layouts import REPORT_BITS, ErrorEvents, Event, error_event, errors_by_source, flow_result
from rtl.params import SmParams
from rtl.structs import struct_value

__all__ = ["ErrorCollector"]

_KNOWN_LATE = ("flow", "barrier", "stack")
"""Sources that know of an error late in the cycle."""


class ErrorCollector(Component):
    """Gathers the errors of a cycle, by their sources.

    The units raise reported errors only. Two sources are no ``error`` port: a flow result with an
    error, whose pc is that of the instruction that failed; and a stack line that memory did not
    accept, which is an MMU_FAULT of its warp if that code is reported.

    Flow, barrier and stack know of an error late in the cycle. The trap unit and the error status
    see it a cycle later, which changes nothing for them: the warp is held anyway, or has no next
    instruction yet. The retirement interface sees all errors at once.

    Members
    -------
    lanes, memory, conversion, barrier, trap : In(Event of error_event)
    flow_result : In(Event of flow_result)
    stack_fault : In(Event of a warp)
        See CallReturnStack.write_fault.
    report_mask : In(32)
        Bit n: warp errors of code n are reported.
    raised : Out(ErrorEvents)
        In the cycle in which the unit raises them.
    registered : Out(ErrorEvents)
        The same, those of late sources a cycle later.
    """

    def __init__(self, params: SmParams) -> None:
        event = Event(error_event(params))
        self._event = event
        self._layout = error_event(params)
        super().__init__({
            "lanes": In(event),
            "memory": In(event),
            "conversion": In(event),
            "barrier": In(event),
            "trap": In(event),
            "flow_result": In(Event(flow_result(params))),
            "stack_fault": In(Event(params.warp_bits)),
            "report_mask": In(REPORT_BITS),
            "raised": Out(ErrorEvents(params)),
            "registered": Out(ErrorEvents(params)),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        flow = self._flow_error(m)
        stack = self._stack_error(m)
        errors = {"lanes": self.lanes, "flow": flow, "memory": self.memory,
                  "conversion": self.conversion, "barrier": self.barrier, "trap": self.trap,
                  "stack": stack}
        all_registered = errors_by_source(self.registered)
        for source, raised in errors_by_source(self.raised).items():
            error = errors[source]
            registered = all_registered[source]
            domain = m.d.sync if source in _KNOWN_LATE else m.d.comb
            m.d.comb += raised.valid.eq(error.valid)
            m.d.comb += raised.payload.eq(error.payload)
            domain += registered.valid.eq(error.valid)
            domain += registered.payload.eq(error.payload)
        return m

    def _flow_error(self, m: Module) -> Any:
        """The error of a flow instruction, from its result."""
        result = self.flow_result.payload
        error: Any = self._event.create(path=("flow_error",))
        m.d.comb += error.valid.eq(self.flow_result.valid & (result.error != WarpError.NONE))
        m.d.comb += error.payload.eq(
            struct_value(self._layout, warp=result.warp, pc=result.request_pc, error=result.error))
        return error

    def _stack_error(self, m: Module) -> Any:
        """A line of a stack that memory did not accept. It is of no instruction: its pc is 0."""
        is_reported = self.report_mask[WarpError.MMU_FAULT.value]
        error: Any = self._event.create(path=("stack_error",))
        m.d.comb += error.valid.eq(self.stack_fault.valid & is_reported)
        m.d.comb += error.payload.eq(struct_value(
            self._layout, warp=self.stack_fault.payload, pc=0, error=WarpError.MMU_FAULT))
        return error
