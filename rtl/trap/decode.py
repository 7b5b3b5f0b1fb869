"""What BPT, IDE and RTT do."""

from typing import Any

from amaranth.hdl import Cat, Module, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.isa.errors import WarpError
from rtl.isa.kinds import BreakpointMode, ReturnFromTrapMode
from rtl.isa.syntax import WORD_BITS
from rtl.isa.table import BY_NAME
from rtl.isa.trap_status import TRAP_REASONS
from rtl.word import field_of, pattern_of

from .operations import TrapOperation

__all__ = ["DecodedOperation", "TrapDecoder", "return_mode"]

(_BPT,) = BY_NAME["BPT"]
(_IDE,) = BY_NAME["IDE"]
(_RTT,) = BY_NAME["RTT"]


def return_mode(word: Value) -> Value:
    """The mode of an RTT, from its word."""
    return field_of(word, _RTT.fields["mode"])


class DecodedOperation(data.Struct):
    """What an instruction does, and its error. With an error the operation is GO_ON."""

    operation: TrapOperation
    error: WarpError


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
    outside, inside : Out(DecodedOperation), Out(DecodedOperation)
        Of a warp outside the trap, and of one inside.
    is_interrupt : Out(1)
        BPT.INT.
    reason, reasons : Out(3), Out(one bit a reason)
        Of BPT.TRAP: its reason, and that as a bit.
    """

    word: In(WORD_BITS)
    outside: Out(DecodedOperation)
    inside: Out(DecodedOperation)
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
        for decoded in (self.outside, self.inside):
            m.d.comb += decoded.error.eq(WarpError.ILLEGAL_INSTR_ENCODING)
        with m.Switch(self.word):
            with m.Case(pattern_of(_BPT)):
                self._decode_breakpoint(m, mode)
            with m.Case(pattern_of(_IDE)):
                with m.If(field_of(self.word, _IDE.fields["disable"])):
                    self._decode(m, outside=TrapOperation.MASK, inside=TrapOperation.MASK)
                with m.Else():
                    self._decode(m, outside=TrapOperation.UNMASK, inside=TrapOperation.UNMASK)
            with m.Case(pattern_of(_RTT)), m.Switch(return_mode(self.word)):
                with m.Case(ReturnFromTrapMode.POPCRS, ReturnFromTrapMode.FALLTHROUGH):
                    self._decode(m, inside=TrapOperation.WAIT)
                with m.Case(ReturnFromTrapMode.TERMINATE):
                    self._decode(m, inside=TrapOperation.TERMINATE)
        return m

    def _decode_breakpoint(self, m: Module, mode: Any) -> None:
        """BPT."""
        with m.Switch(mode):
            with m.Case(BreakpointMode.TRAP):
                with m.If(~self.reasons.any()):
                    for decoded in (self.outside, self.inside):
                        m.d.comb += decoded.error.eq(WarpError.ILLEGAL_INSTR_PARAM)
                with m.Elif(self.reasons[-1]):
                    self._decode(
                        m, outside=TrapOperation.URGENT_TRAP, inside=TrapOperation.FAIL)
                with m.Else():
                    self._decode(m, outside=TrapOperation.TRAP, inside=TrapOperation.FAIL)
            with m.Case(BreakpointMode.INT, BreakpointMode.DRAIN):
                self._decode(m, outside=TrapOperation.GO_ON, inside=TrapOperation.GO_ON)
            with m.Case(BreakpointMode.PAUSE):
                self._decode(m, inside=TrapOperation.PAUSE)
            with m.Case(BreakpointMode.PAUSE_QUIET):
                self._decode(m, inside=TrapOperation.PAUSE_QUIET)

    def _decode(
            self, m: Module, *, inside: TrapOperation,
            outside: TrapOperation | None = None) -> None:
        """What the instruction does. Without ``outside`` only a warp inside the trap may execute
        it."""
        operations = [(self.inside, inside)]
        if outside is not None:
            operations.append((self.outside, outside))
        for decoded, operation in operations:
            m.d.comb += decoded.operation.eq(operation)
            m.d.comb += decoded.error.eq(WarpError.NONE)
