"""The dispatcher: hands every instruction that the lanes do not execute to its unit."""

from functools import partial
from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.double import is_double
from rtl.layouts import REPORT_BITS, Event, KindRule, dispatched, is_kind, reported
from rtl.params import SmParams

__all__ = ["Dispatcher", "is_executed_by"]


def is_executed_by(unit: str, kind: Any) -> Any:
    """Whether a unit of :data:`~rtl.layouts.UNITS` executes instructions of a kind, which is a
    value. The trap unit also receives the operations that it injects into a warp."""
    def executes(rule: KindRule, unit: str) -> bool:
        return rule.unit == unit or (rule.injected and unit == "trap")
    return is_kind(kind, partial(executes, unit=unit))


class Dispatcher(Component):
    """Passes a dispatched instruction to the unit of its kind, in the same cycle.

    An instruction of double precision has the kind CONVERSION. If some thread executes it and it
    has no reported fault, it is dispatched to the unit for double precision; else to the conversion
    unit, which raises the error, and completes an instruction that does nothing. A machine without
    that unit refuses such instructions at fetch, and ``double`` has no events.

    Members
    -------
    dispatch : In(Event of dispatched)
    report_mask : In(32)
        Bit n: warp errors of code n are reported.
    flow, memory, conversion, double, barrier, trap : Out(Event of dispatched)
        At most one has an event in a cycle, except that ENTER and LEAVE are dispatched to two
        units, flow and trap.
    """

    def __init__(self, params: SmParams) -> None:
        self._has_doubles = params.doubles
        event = Event(dispatched(params))
        super().__init__({
            "dispatch": In(event),
            "report_mask": In(REPORT_BITS),
            "flow": Out(event),
            "memory": Out(event),
            "conversion": Out(event),
            "double": Out(event),
            "barrier": Out(event),
            "trap": Out(event),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        valid = self.dispatch.valid
        instruction = self.dispatch.payload
        for unit in (self.flow, self.memory, self.conversion, self.double, self.barrier, self.trap):
            m.d.comb += unit.payload.eq(instruction)

        m.d.comb += self.flow.valid.eq(valid & is_executed_by("flow", instruction.kind))
        m.d.comb += self.memory.valid.eq(valid & is_executed_by("memory", instruction.kind))
        m.d.comb += self.barrier.valid.eq(valid & is_executed_by("barrier", instruction.kind))
        m.d.comb += self.trap.valid.eq(valid & is_executed_by("trap", instruction.kind))

        is_conversion = valid & is_executed_by("conversion", instruction.kind)
        computes_double = Signal()
        if self._has_doubles:
            has_threads = (instruction.active & instruction.guard).any()
            has_fault = reported(self.report_mask, instruction.fault)
            m.d.comb += computes_double.eq(is_double(instruction.word) & has_threads & ~has_fault)
        m.d.comb += self.conversion.valid.eq(is_conversion & ~computes_double)
        m.d.comb += self.double.valid.eq(is_conversion & computes_double)
        return m
