"""The error status: what went wrong first, and what stops the machine."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.errors import WarpError
from rtl.isa.registers import SM_REGISTERS, GlobalError, trap_bit
from rtl.layouts import error_event
from rtl.params import SmParams
from rtl.population import population
from rtl.trap import TRAP_REASONS, TrapEvent

from .block import RegisterAccess, place_of

__all__ = ["ErrorStatus"]

_TRAPS = sum(1 << trap_bit(reason) for reason in TRAP_REASONS)


class ErrorStatus(Component):
    """The registers of the SM block. What happens in the cycle of a write counts as being after it.

    Members
    -------
    access : RegisterAccess
    errors : In(array of error_event)
        Reported ones. Of several in a cycle the first in the array is kept.
    trapped : In(TrapEvent)
    valid : In(warps)
        Warp slots with a warp that has not ended.
    report_mask : Out(32)
    halt, interrupt : Out(1), Out(1)
    """

    def __init__(self, params: SmParams, sources: int) -> None:
        super().__init__({
            "access": Out(RegisterAccess()),
            "errors": In(data.ArrayLayout(error_event(params), sources)), "trapped": In(TrapEvent(params)),
            "valid": In(params.warps), "report_mask": Out(32),
            "halt": Out(1), "interrupt": Out(1)})
        self._sources = sources
        self._event = error_event(params)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        access, trapped = self.access, self.trapped
        error, warp, pc = Signal(16), Signal(8), Signal(32)
        status = Signal(32)
        reported, mask = (Signal(32, init=SM_REGISTERS[f"HWW_{which}_ESR_REPORT_MASK"].reset)
                          for which in ("WARP", "GLOBAL"))
        m.d.comb += self.report_mask.eq(reported)

        # Reading and writing.
        contents = {
            "WARP_VALID_MASK": self.valid[:32], "WARP_VALID_MASK_1": self.valid[32:],
            "HWW_WARP_ESR_REPORT_MASK": reported, "HWW_WARP_ESR": Cat(error, warp),
            "HWW_GLOBAL_ESR_REPORT_MASK": mask, "HWW_GLOBAL_ESR": status, "HWW_WARP_ESR_PC": pc}
        with m.Switch(access.place):
            for name, content in contents.items():
                with m.Case(place_of(SM_REGISTERS[name])):
                    m.d.comb += access.value.eq(content)
        writes = {name: access.write & (access.place == place_of(SM_REGISTERS[name])) for name in contents}
        for name, register in (("HWW_WARP_ESR_REPORT_MASK", reported), ("HWW_GLOBAL_ESR_REPORT_MASK", mask)):
            with m.If(writes[name]):
                m.d.sync += register.eq(access.data)
        with m.If(writes["HWW_WARP_ESR"]):
            m.d.sync += [error.eq(0), warp.eq(0)]

        # What happens.
        raised, kept = Signal(32), Signal()
        first, valid = Signal(self._event), Cat(event.valid for event in self.errors)
        for event in reversed(list(self.errors)):
            with m.If(event.valid):
                m.d.comb += first.eq(event)
        pending = error.any() & ~writes["HWW_WARP_ESR"]
        overflow = Cat(event.valid & (event.error == WarpError.STACK_OVERFLOW) for event in self.errors).any()
        several = (population(valid) > 1) | (valid.any() & pending)
        m.d.comb += [
            raised[GlobalError.MULTIPLE_WARP_ERRORS.value].eq(several),
            raised[GlobalError.PHYSICAL_STACK_OVERFLOW.value].eq(overflow),
            raised[GlobalError.BPT_INT.value].eq(trapped.interrupt),
            kept.eq(~pending & (valid.any() | (trapped.trap & ~(status & _TRAPS).any())))]
        m.d.comb += [raised[trap_bit(reason)].eq(trapped.trap & (trapped.reason == reason)) for reason in TRAP_REASONS]
        m.d.sync += status.eq(status & ~Mux(writes["HWW_GLOBAL_ESR"], access.data, 0) | raised)
        with m.If(kept):
            m.d.sync += [
                error.eq(Mux(valid.any(), first.error.as_value(), 0)),
                warp.eq(Mux(valid.any(), first.warp, trapped.warp)), pc.eq(Mux(valid.any(), first.pc, trapped.pc))]
        m.d.comb += [
            self.halt.eq(error.any() | (status & _TRAPS).any()), self.interrupt.eq(self.halt | (status & mask).any())]
        return m
