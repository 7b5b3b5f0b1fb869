"""The error status: what went wrong first, and what else has happened."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.errors import WarpError
from rtl.isa.registers import ALWAYS_INTERRUPT, SM_REGISTERS, GlobalError, trap_bit
from rtl.isa.trap_status import TRAP_REASONS
from rtl.layouts import (
    REPORT_BITS,
    RegisterAccess,
    TrapEvents,
    TrapReport,
    error_event,
    place_of,
)
from rtl.params import SmParams
from rtl.population import population

__all__ = ["ErrorStatus"]

_TRAPS = sum(1 << trap_bit(reason) for reason in TRAP_REASONS)


class ErrorStatus(Component):
    """Registers of the SM block. What happens in the cycle of a write counts as being after it.

    Members
    -------
    access : RegisterAccess
    errors : In(array of error_event)
        Reported ones. Of several in a cycle the first in the array is kept.
    report, events : In(TrapReport), In(TrapEvents)
    report_mask : Out(32)
    interrupt : Out(1)

    Attributes
    ----------
    contents : dict of str to Value
        Register -> what it reads as.
    """

    def __init__(self, params: SmParams, sources: int) -> None:
        super().__init__({
            "access": Out(RegisterAccess()),
            "errors": In(data.ArrayLayout(error_event(params), sources)), "report": In(TrapReport(params)),
            "events": In(TrapEvents), "report_mask": Out(REPORT_BITS), "interrupt": Out(1)})
        self._event = error_event(params)
        self._error, self._warp, self._pc = Signal(16, name="error"), Signal(8, name="warp"), Signal(32, name="pc")
        self._status = Signal(32, name="status")
        self._reported, self._mask = (
            Signal(32, name=name, init=SM_REGISTERS[f"HWW_{which}_ESR_REPORT_MASK"].reset)
            for name, which in (("reported", "WARP"), ("mask", "GLOBAL")))
        self.contents = {
            "HWW_WARP_ESR_REPORT_MASK": self._reported, "HWW_WARP_ESR": Cat(self._error, self._warp),
            "HWW_GLOBAL_ESR_REPORT_MASK": self._mask, "HWW_GLOBAL_ESR": self._status, "HWW_WARP_ESR_PC": self._pc}

    def simultaneous(self) -> list[Any]:
        """The errors that can come in one cycle, the first one first."""
        return list(self.errors)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        access, report, events = self.access, self.report, self.events
        error, warp, pc, status, reported, mask = (
            self._error, self._warp, self._pc, self._status, self._reported, self._mask)
        m.d.comb += self.report_mask.eq(reported)

        # Reading and writing.
        with m.Switch(access.place):
            for name, content in self.contents.items():
                with m.Case(place_of(SM_REGISTERS[name])):
                    m.d.comb += access.value.eq(content)
        writes = {name: access.write & (access.place == place_of(SM_REGISTERS[name])) for name in self.contents}
        for name, register in (("HWW_WARP_ESR_REPORT_MASK", reported), ("HWW_GLOBAL_ESR_REPORT_MASK", mask)):
            with m.If(writes[name]):
                m.d.sync += register.eq(access.data)
        with m.If(writes["HWW_WARP_ESR"]):
            m.d.sync += [error.eq(0), warp.eq(0)]

        # What happens.
        raised, kept = Signal(32), Signal()
        errors = self.simultaneous()
        first, valid = Signal(self._event), Cat(event.valid for event in errors)
        for event in reversed(errors):
            with m.If(event.valid):
                m.d.comb += first.eq(event)
        pending = error.any() & ~writes["HWW_WARP_ESR"]
        overflow = Cat(event.valid & (event.error == WarpError.STACK_OVERFLOW) for event in errors).any()
        several = (population(valid) > 1) | (valid.any() & pending)
        m.d.comb += [
            raised[GlobalError.MULTIPLE_WARP_ERRORS.value].eq(several),
            raised[GlobalError.PHYSICAL_STACK_OVERFLOW.value].eq(overflow),
            raised[GlobalError.BPT_INT.value].eq(events.interrupt),
            raised[GlobalError.BPT_PAUSE.value].eq(events.pause),
            raised[GlobalError.SINGLE_STEP_COMPLETE.value].eq(events.step),
            raised[GlobalError.ERROR_IN_TRAP.value].eq(events.error_in_trap),
            raised[GlobalError.TIMEOUT.value].eq(events.timeout),
            kept.eq(~pending & (valid.any() | (report.valid & ~(status & _TRAPS).any())))]
        m.d.comb += [raised[trap_bit(reason)].eq(report.valid & (report.reason == reason)) for reason in TRAP_REASONS]
        m.d.sync += status.eq(status & ~Mux(writes["HWW_GLOBAL_ESR"], access.data, 0) | raised)
        with m.If(kept):
            m.d.sync += [
                error.eq(Mux(valid.any(), first.error.as_value(), 0)),
                warp.eq(Mux(valid.any(), first.warp, report.warp)), pc.eq(Mux(valid.any(), first.pc, report.pc))]
        m.d.comb += self.interrupt.eq(error.any() | (status & (mask | ALWAYS_INTERRUPT)).any())
        return m
