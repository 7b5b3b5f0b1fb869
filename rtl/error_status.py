"""The error status: what went wrong first, and what else has happened."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.errors import WarpError
from rtl.isa.registers import ALWAYS_INTERRUPT, SM_REGISTERS, GlobalError, trap_bit
from rtl.isa.trap_status import TRAP_REASONS
from rtl.layouts import (
    REPORT_BITS,
    ErrorEvents,
    Event,
    RegisterAccess,
    TrapEvents,
    TrapReport,
    error_event,
    errors_by_source,
    place_of,
)
from rtl.params import SmParams
from rtl.population import population
from rtl.structs import struct_value

__all__ = ["ErrorStatus", "all_errors"]

_TRAP_BITS = sum(1 << trap_bit(reason) for reason in TRAP_REASONS)
"""Bits of HWW_GLOBAL_ESR that report a BPT.TRAP."""


def _mask_register(name: str, register: str) -> Signal:
    return Signal(32, name=name, init=SM_REGISTERS[register].reset)


def all_errors(m: Module, errors: Any) -> list[Any]:
    """The ErrorEvents that can arrive in one cycle, highest priority first: all of them."""
    return list(errors_by_source(errors).values())


class _FirstError(data.Struct):
    """The first error, or else the first BPT.TRAP."""

    code: unsigned(16)
    """The WarpError; 0 if there is none."""
    warp: unsigned(8)
    pc: unsigned(32)


class ErrorStatus(Component):
    """Registers of the SM block: what went wrong first, and what has happened since the host
    cleared it.

    ===========================  ===========================================================
    register                     content
    ===========================  ===========================================================
    HWW_WARP_ESR                 code and warp of the first error; a write clears it
    HWW_WARP_ESR_PC              its pc; or the pc of the first BPT.TRAP, if there is no error
    HWW_WARP_ESR_REPORT_MASK     which errors are reported
    HWW_GLOBAL_ESR               a bit an event; a write clears the bits that are 1 in it
    HWW_GLOBAL_ESR_REPORT_MASK   which events interrupt the host
    ===========================  ===========================================================

    Simultaneous events: an event in the cycle of a write is treated as if it came after the write.
    Of several errors in a cycle the first source's is kept, and MULTIPLE_WARP_ERRORS is set. An
    error has priority over a BPT.TRAP.

    Members
    -------
    access : RegisterAccess
    errors : In(ErrorEvents)
        The reported errors. Of several in a cycle that of the first source is kept.
    report : In(Event of TrapReport)
        A BPT.TRAP was executed.
    events : In(TrapEvents)
        Events of the trap unit, which set bits of HWW_GLOBAL_ESR.
    report_mask : Out(32)
        HWW_WARP_ESR_REPORT_MASK. Bit n: warp errors of code n are reported.
    interrupt : Out(1)
        Requests an interrupt of the host.

    Attributes
    ----------
    contents : dict of str to Value
        Register -> what it reads as.
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "access": Out(RegisterAccess()),
            "errors": In(ErrorEvents(params)),
            "report": In(Event(TrapReport(params))),
            "events": In(TrapEvents),
            "report_mask": Out(REPORT_BITS),
            "interrupt": Out(1),
        })
        self._event = error_event(params)
        self._first: Any = Signal(_FirstError, name="first")
        self._status = Signal(32, name="status")
        self._reported = _mask_register("reported", "HWW_WARP_ESR_REPORT_MASK")
        self._mask = _mask_register("mask", "HWW_GLOBAL_ESR_REPORT_MASK")
        self.contents = {
            "HWW_WARP_ESR_REPORT_MASK": self._reported,
            "HWW_WARP_ESR": Cat(self._first.code, self._first.warp),
            "HWW_GLOBAL_ESR_REPORT_MASK": self._mask,
            "HWW_GLOBAL_ESR": self._status,
            "HWW_WARP_ESR_PC": self._first.pc,
        }

    def elaborate(self, platform: object) -> Module:
        m = Module()
        errors = self.simultaneous(m)
        valid = Signal(len(errors))
        has_pending = Signal()
        m.d.comb += valid.eq(Cat(event.valid for event in errors))
        m.d.comb += has_pending.eq(self._first.code.any() & ~self._writes("HWW_WARP_ESR"))
        self._read(m)
        self._keep_masks(m)
        self._keep_first(m, errors, valid, has_pending)
        self._keep_events(m, errors, valid, has_pending)
        interrupting = self._status & (self._mask | ALWAYS_INTERRUPT)
        m.d.comb += self.interrupt.eq(self._first.code.any() | interrupting.any())
        return m

    def simultaneous(self, m: Module) -> list[Any]:
        """Errors of which several may arrive in a cycle, highest priority first."""
        return all_errors(m, self.errors)

    def _writes(self, name: str) -> Value:
        """Whether the host writes a register."""
        return self.access.write & (self.access.place == place_of(SM_REGISTERS[name]))

    def _read(self, m: Module) -> None:
        """What the host reads."""
        with m.Switch(self.access.place):
            for name, content in self.contents.items():
                with m.Case(place_of(SM_REGISTERS[name])):
                    m.d.comb += self.access.value.eq(content)

    def _keep_masks(self, m: Module) -> None:
        """Registers that the host alone writes."""
        m.d.comb += self.report_mask.eq(self._reported)
        with m.If(self._writes("HWW_WARP_ESR_REPORT_MASK")):
            m.d.sync += self._reported.eq(self.access.data)
        with m.If(self._writes("HWW_GLOBAL_ESR_REPORT_MASK")):
            m.d.sync += self._mask.eq(self.access.data)

    def _keep_first(self, m: Module, errors: list[Any], valid: Value, has_pending: Value) -> None:
        """The first error, or pc and warp of the first BPT.TRAP, while none is pending."""
        report = self.report
        first = self._first
        error = Signal(self._event)
        for event in reversed(errors):
            with m.If(event.valid):
                m.d.comb += error.eq(event.payload)
        has_trapped = (self._status & _TRAP_BITS).any()
        with m.If(valid.any() & ~has_pending):
            m.d.sync += first.eq(struct_value(
                _FirstError, code=error.error, warp=error.warp, pc=error.pc))
        with m.Elif(report.valid & ~has_trapped & ~has_pending):
            m.d.sync += first.eq(struct_value(
                _FirstError, code=0, warp=report.payload.warp, pc=report.payload.pc))
        with m.Elif(self._writes("HWW_WARP_ESR")):
            m.d.sync += first.code.eq(0)
            m.d.sync += first.warp.eq(0)

    def _keep_events(self, m: Module, errors: list[Any], valid: Value, has_pending: Value) -> None:
        """The bits of HWW_GLOBAL_ESR."""
        report = self.report
        events = self.events
        raised = Signal(32)
        has_several = (population(valid) > 1) | (valid.any() & has_pending)
        overflows = Cat(
            event.valid & (event.payload.error == WarpError.STACK_OVERFLOW)
            for event in errors).any()
        happens = {
            GlobalError.MULTIPLE_WARP_ERRORS: has_several,
            GlobalError.PHYSICAL_STACK_OVERFLOW: overflows,
            GlobalError.BPT_INT: events.interrupt,
            GlobalError.BPT_PAUSE: events.pause,
            GlobalError.SINGLE_STEP_COMPLETE: events.step,
            GlobalError.ERROR_IN_TRAP: events.error_in_trap,
            GlobalError.TIMEOUT: events.timeout,
        }
        for bit, event in happens.items():
            m.d.comb += raised[bit.value].eq(event)
        for reason in TRAP_REASONS:
            is_raised = report.valid & (report.payload.reason == reason)
            m.d.comb += raised[trap_bit(reason)].eq(is_raised)
        cleared = Mux(self._writes("HWW_GLOBAL_ESR"), self.access.data, 0)
        m.d.sync += self._status.eq((self._status & ~cleared) | raised)
