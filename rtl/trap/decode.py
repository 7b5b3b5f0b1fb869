"""What a BPT, IDE or RTT asks for."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import enum
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.errors import WarpError
from rtl.isa.kinds import BreakpointMode, ReturnFromTrapMode
from rtl.isa.syntax import WORD_BITS
from rtl.isa.table import BY_NAME
from rtl.isa.trap_status import TRAP_REASONS
from rtl.word import field_of, pattern_of

__all__ = ["TrapDecoder", "TrapOperation"]


class TrapOperation(enum.Enum, shape=4):
    """What an instruction does to its warp."""

    GO_ON = 0
    """Nothing: the warp goes on."""
    TRAP = 1
    """BPT.TRAP, a cause."""
    FAIL = 2
    """BPT.TRAP in the trap: the warp is paused."""
    PAUSE = 3
    PAUSE_QUIET = 4
    MASK = 5
    UNMASK = 6
    WAIT = 7
    """RTT: the warp waits for its release."""
    TERMINATE = 8
    """RTT.TERMINATE: the warp leaves at once."""


class TrapDecoder(Component):
    """Combinational.

    Members
    -------
    word : In(64)
    inside : In(1)
        The warp is in the trap.
    operation, reason, mode, interrupts, error : Out
        ``reason`` is that of BPT.TRAP, ``mode`` RTT's. With an ``error`` the operation is GO_ON.
    """

    def __init__(self) -> None:
        super().__init__({
            "word": In(WORD_BITS), "inside": In(1), "operation": Out(TrapOperation),
            "reason": Out(range(TRAP_REASONS.stop)), "mode": Out(ReturnFromTrapMode), "interrupts": Out(1),
            "error": Out(WarpError)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        (breakpoint_form,), (mask_form,), (return_form,) = BY_NAME["BPT"], BY_NAME["IDE"], BY_NAME["RTT"]
        word, inside, legal = self.word, self.inside, Signal()
        reason, terminates = field_of(word, breakpoint_form.fields["reason"]), Signal()

        def does(operation: Any, legal: Any = 1, error: WarpError = WarpError.ILLEGAL_INSTR_ENCODING) -> Any:
            """The operation, or the error of one that is not legal."""
            return [self.operation.eq(Mux(legal, operation, TrapOperation.GO_ON)),
                    self.error.eq(Mux(legal, WarpError.NONE, error))]

        m.d.comb += [
            self.reason.eq(reason), self.mode.as_value().eq(field_of(word, return_form.fields["mode"])),
            legal.eq((reason >= TRAP_REASONS.start) & (reason < TRAP_REASONS.stop)),
            terminates.eq(self.mode == ReturnFromTrapMode.TERMINATE), *does(TrapOperation.GO_ON, 0)]
        with m.Switch(word):
            with m.Case(pattern_of(breakpoint_form)), m.Switch(field_of(word, breakpoint_form.fields["mode"])):
                with m.Case(BreakpointMode.TRAP.value):
                    m.d.comb += does(Mux(inside, TrapOperation.FAIL, TrapOperation.TRAP), legal,
                                     WarpError.ILLEGAL_INSTR_PARAM)
                with m.Case(BreakpointMode.INT.value):
                    m.d.comb += [self.interrupts.eq(1), *does(TrapOperation.GO_ON)]
                with m.Case(BreakpointMode.DRAIN.value):
                    m.d.comb += does(TrapOperation.GO_ON)
                with m.Case(BreakpointMode.PAUSE.value):
                    m.d.comb += does(TrapOperation.PAUSE, inside)
                with m.Case(BreakpointMode.PAUSE_QUIET.value):
                    m.d.comb += does(TrapOperation.PAUSE_QUIET, inside)
            with m.Case(pattern_of(mask_form)):
                disables = field_of(word, mask_form.fields["disable"])
                m.d.comb += does(Mux(disables, TrapOperation.MASK, TrapOperation.UNMASK))
            with m.Case(pattern_of(return_form)):
                m.d.comb += does(Mux(terminates, TrapOperation.TERMINATE, TrapOperation.WAIT),
                                 inside & (self.mode != ReturnFromTrapMode.PREEMPTED))
        return m
