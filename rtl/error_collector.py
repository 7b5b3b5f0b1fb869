"""The error collector: the errors of all units, for the trap unit and the error status."""

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
"""Sources whose errors are late in the cycle: they are registered before they are used."""


class ErrorCollector(Component):
    """Gathers the errors of a cycle, by their sources.

    The units apply the report mask themselves: they raise reported errors only. Two sources have no
    ``error`` port. A flow result can have an error, with the pc of the instruction that failed. A
    stack line that memory did not accept is an MMU_FAULT of its warp; the collector applies the
    report mask to it, and drops an unreported fault.

    There is no arbitration: each source has its own event, and several may have one in the same
    cycle. Errors of flow, barrier and stack are late in the cycle, so that ``registered`` has them
    a cycle later. The trap unit and the error status tolerate this: the warp is held anyway, or has
    no next instruction yet.

    Members
    -------
    lanes, memory, conversion, barrier, trap : In(Event of error_event)
    flow_result : In(Event of flow_result)
    stack_fault : In(Event of a warp)
        See CallReturnStack.write_fault.
    report_mask : In(32)
        Bit n: warp errors of code n are reported.
    raised : Out(ErrorEvents)
        In the cycle in which the unit raises them; for the retirement interface.
    registered : Out(ErrorEvents)
        The same, late sources a cycle later; for the trap unit and the error status.
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
        """A line of a stack that memory did not accept. It belongs to no instruction: its pc is
        0."""
        is_reported = self.report_mask[WarpError.MMU_FAULT.value]
        error: Any = self._event.create(path=("stack_error",))
        m.d.comb += error.valid.eq(self.stack_fault.valid & is_reported)
        m.d.comb += error.payload.eq(struct_value(
            self._layout, warp=self.stack_fault.payload, pc=0, error=WarpError.MMU_FAULT))
        return error
