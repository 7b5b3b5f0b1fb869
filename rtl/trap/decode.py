"""What a BPT, IDE or RTT asks for."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.errors import WarpError
from rtl.isa.kinds import BreakpointMode, ReturnFromTrapMode
from rtl.isa.syntax import WORD_BITS
from rtl.isa.table import BY_NAME
from rtl.isa.trap_status import TRAP_REASONS
from rtl.word import field_of, pattern_of

from .records import TrapOperation

__all__ = ["TrapDecoder"]


class TrapDecoder(Component):
    """Combinational.

    Members
    -------
    word : In(64)
    inside : In(1)
        The warp is in the trap.
    operation, reason, mode, interrupts, error : Out
        ``reason`` is that of BPT.TRAP, ``mode`` RTT's. With an ``error`` the operation is nothing.
    """

    def __init__(self) -> None:
        super().__init__({
            "word": In(WORD_BITS), "inside": In(1), "operation": Out(TrapOperation),
            "reason": Out(range(TRAP_REASONS.stop)), "mode": Out(ReturnFromTrapMode), "interrupts": Out(1),
            "error": Out(WarpError)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        (breakpoint_form,), (mask_form,), (return_form,) = BY_NAME["BPT"], BY_NAME["IDE"], BY_NAME["RTT"]
        word, operation, error = self.word, self.operation, self.error
        reason = field_of(word, breakpoint_form.fields["reason"])
        outside = Mux(self.inside, WarpError.NONE, WarpError.ILLEGAL_INSTR_ENCODING)
        m.d.comb += [
            self.reason.eq(reason), self.mode.as_value().eq(field_of(word, return_form.fields["mode"])),
            error.eq(WarpError.ILLEGAL_INSTR_ENCODING)]
        with m.Switch(word):
            with m.Case(pattern_of(breakpoint_form)), m.Switch(field_of(word, breakpoint_form.fields["mode"])):
                with m.Case(BreakpointMode.TRAP.value):
                    legal = Signal()
                    m.d.comb += [
                        legal.eq((reason >= TRAP_REASONS.start) & (reason < TRAP_REASONS.stop)),
                        operation.eq(Mux(legal, TrapOperation.TRAP, TrapOperation.GO_ON)),
                        error.eq(Mux(legal, WarpError.NONE, WarpError.ILLEGAL_INSTR_PARAM))]
                with m.Case(BreakpointMode.INT.value):
                    m.d.comb += [self.interrupts.eq(1), error.eq(WarpError.NONE)]
                with m.Case(BreakpointMode.DRAIN.value):
                    m.d.comb += error.eq(WarpError.NONE)
                for mode, pauses in ((BreakpointMode.PAUSE, TrapOperation.PAUSE),
                                     (BreakpointMode.PAUSE_QUIET, TrapOperation.PAUSE_QUIET)):
                    with m.Case(mode.value):
                        m.d.comb += [operation.eq(pauses), error.eq(outside)]
            with m.Case(pattern_of(mask_form)):
                disables = field_of(word, mask_form.fields["disable"])
                m.d.comb += [
                    operation.eq(Mux(disables, TrapOperation.MASK, TrapOperation.UNMASK)), error.eq(WarpError.NONE)]
            with m.Case(pattern_of(return_form)):
                m.d.comb += operation.eq(TrapOperation.RETURN)
                with m.If(self.mode != ReturnFromTrapMode.PREEMPTED):
                    m.d.comb += error.eq(outside)
        return m
