"""What BPT, IDE and RTT do."""

from typing import Any

from amaranth.hdl import Cat, Module, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.isa.errors import WarpError
from rtl.isa.kinds import BreakpointMode, ReturnFromTrapMode
from rtl.isa.syntax import WORD_BITS
from rtl.isa.table import BY_NAME
from rtl.isa.trap_status import TRAP_REASONS
from rtl.word import field_of, pattern_of

from .operations import TrapOperation

__all__ = ["TrapDecoder", "return_mode"]

(_BPT,) = BY_NAME["BPT"]
(_IDE,) = BY_NAME["IDE"]
(_RTT,) = BY_NAME["RTT"]


def return_mode(word: Value) -> Value:
    """The mode of an RTT, from its word."""
    return field_of(word, _RTT.fields["mode"])


class TrapDecoder(wiring.Component):
    """What an instruction of the trap unit does, and its error; combinational.

    =========================  ===========================  ====================================
    instruction                outside the trap             inside
    =========================  ===========================  ====================================
    BPT.TRAP                   TRAP or, for the highest     FAIL
                               reason, URGENT_TRAP
    BPT.INT, BPT.DRAIN         GO_ON                        GO_ON
    BPT.PAUSE                  ILLEGAL_INSTR_ENCODING       PAUSE
    BPT.PAUSE_QUIET            ILLEGAL_INSTR_ENCODING       PAUSE_QUIET
    IDE.DI, IDE.EN             MASK, UNMASK                 MASK, UNMASK
    RTT, RTT.FALLTHROUGH       ILLEGAL_INSTR_ENCODING       WAIT
    RTT.TERMINATE              ILLEGAL_INSTR_ENCODING       TERMINATE
    =========================  ===========================  ====================================

    All else is ILLEGAL_INSTR_ENCODING; BPT.TRAP without a known reason is ILLEGAL_INSTR_PARAM.

    Members
    -------
    word : In(64)
    is_inside : In(1)
        The warp is inside the trap.
    operation, error : Out(TrapOperation), Out(WarpError)
        With an error the operation is GO_ON.
    is_interrupt : Out(1)
        BPT.INT.
    reason, reasons : Out(3), Out(one bit a reason)
        Of BPT.TRAP: its reason, and that as a bit.
    """

    word: In(WORD_BITS)
    is_inside: In(1)
    operation: Out(TrapOperation)
    error: Out(WarpError)
    is_interrupt: Out(1)
    reason: Out(range(TRAP_REASONS.stop))
    reasons: Out(len(TRAP_REASONS))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        mode = field_of(self.word, _BPT.fields["mode"])
        reason = field_of(self.word, _BPT.fields["reason"])
        is_breakpoint = self.word.matches(pattern_of(_BPT))
        m.d.comb += self.reason.eq(reason)
        m.d.comb += self.reasons.eq(Cat(reason == each for each in TRAP_REASONS))
        m.d.comb += self.is_interrupt.eq(is_breakpoint & (mode == BreakpointMode.INT.value))
        m.d.comb += self.error.eq(WarpError.ILLEGAL_INSTR_ENCODING)
        with m.Switch(self.word):
            with m.Case(pattern_of(_BPT)):
                self._decode_breakpoint(m, mode)
            with m.Case(pattern_of(_IDE)):
                m.d.comb += self.error.eq(WarpError.NONE)
                with m.If(field_of(self.word, _IDE.fields["disable"])):
                    m.d.comb += self.operation.eq(TrapOperation.MASK)
                with m.Else():
                    m.d.comb += self.operation.eq(TrapOperation.UNMASK)
            with m.Case(pattern_of(_RTT)), m.Switch(return_mode(self.word)):
                with m.Case(ReturnFromTrapMode.POPCRS, ReturnFromTrapMode.FALLTHROUGH):
                    self._decode_for_inside(m, TrapOperation.WAIT)
                with m.Case(ReturnFromTrapMode.TERMINATE):
                    self._decode_for_inside(m, TrapOperation.TERMINATE)
        return m

    def _decode_breakpoint(self, m: Module, mode: Any) -> None:
        """BPT."""
        with m.Switch(mode):
            with m.Case(BreakpointMode.TRAP):
                with m.If(~self.reasons.any()):
                    m.d.comb += self.error.eq(WarpError.ILLEGAL_INSTR_PARAM)
                with m.Else():
                    m.d.comb += self.error.eq(WarpError.NONE)
                    with m.If(self.is_inside):
                        m.d.comb += self.operation.eq(TrapOperation.FAIL)
                    with m.Elif(self.reasons[-1]):
                        m.d.comb += self.operation.eq(TrapOperation.URGENT_TRAP)
                    with m.Else():
                        m.d.comb += self.operation.eq(TrapOperation.TRAP)
            with m.Case(BreakpointMode.INT, BreakpointMode.DRAIN):
                m.d.comb += self.error.eq(WarpError.NONE)
            with m.Case(BreakpointMode.PAUSE):
                self._decode_for_inside(m, TrapOperation.PAUSE)
            with m.Case(BreakpointMode.PAUSE_QUIET):
                self._decode_for_inside(m, TrapOperation.PAUSE_QUIET)

    def _decode_for_inside(self, m: Module, operation: TrapOperation) -> None:
        """What only a warp inside the trap may execute."""
        with m.If(self.is_inside):
            m.d.comb += self.operation.eq(operation)
            m.d.comb += self.error.eq(WarpError.NONE)
