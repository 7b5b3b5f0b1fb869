"""A pipelined left shifter, which can normalize: it finds the shift count itself."""

from itertools import pairwise
from typing import Any

from amaranth.hdl import Const, Module, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from .instruction import EXPONENT_BITS
from .source import Shiftable

__all__ = ["SHIFTER_STAGES", "ConversionShifter"]

_STEPS = (32, 16, 8, 4, 2, 1)
"""How far each stage can shift; the first stage, before these, does not shift."""
SHIFTER_STAGES = 1 + len(_STEPS)


class ConversionShifter(wiring.Component):
    """Shifts left by ``count``, or until the top bit is 1; a register in each stage. A shift right
    is a shift left of bits in reverse order, see Shiftable.

    Each stage decides whether the next one shifts, so that no stage examines bits and shifts by the
    result in the same cycle. ::

        stage     1             2              3                   7
                                shift by 32    shift by 16   ...   shift by 1
                  by 32?        by 16?         by 8?

    Members
    -------
    normalise : In(1)
        Shift until the top bit is 1. ``count`` of ``before`` is ignored; that of ``after`` is how
        far the number was shifted, 63 if it is 0. Stable while numbers are in the stages.
    before, after : In(Shiftable), Out(Shiftable)
        ``after`` is SHIFTER_STAGES cycles later. A 1 that is shifted out sets ``sticky``.
    ahead : Out(signed)
        The exponent that ``after`` has in the next cycle.
    """

    normalise: In(1)
    before: In(Shiftable)
    after: Out(Shiftable)
    ahead: Out(signed(EXPONENT_BITS))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        number: Any = self.before
        shifts: Value = Const(0, 1)
        for step, next_step in pairwise((0, *_STEPS)):
            shifted = Signal(Shiftable, name=f"before_{next_step}")
            next_shifts = self._decide(m, number, step, shifts, next_step)
            self._shift(m, number, step, shifts, shifted)
            number = shifted
            shifts = next_shifts
        self._shift(m, number, _STEPS[-1], shifts, self.after)
        m.d.comb += self.ahead.eq(number.exponent)
        return m

    def _decide(self, m: Module, number: Any, step: int, shifts: Value, next_step: int) -> Signal:
        """Whether the next stage shifts by ``next_step``, while this one shifts by ``step`` if
        ``shifts``. When normalizing it does unless it would shift out a 1."""
        top = len(number.bits)
        decision = Signal(name=f"shifts_by_{next_step}")
        shifts_out = Signal(name=f"shifts_out_{next_step}")
        """The next stage would shift out a bit that is 1."""
        with m.If(shifts):
            m.d.comb += shifts_out.eq(number.bits[top - step - next_step:top - step].any())
        with m.Else():
            m.d.comb += shifts_out.eq(number.bits[top - next_step:].any())
        with m.If(self.normalise):
            m.d.sync += decision.eq(~shifts_out)
        with m.Else():
            m.d.sync += decision.eq(number.count[exact_log2(next_step)])
        return decision

    def _shift(self, m: Module, number: Any, step: int, shifts: Value, shifted: Any) -> None:
        """A stage: shifts by ``step`` if ``shifts``. With ``step`` 0 it is a register only."""
        m.d.sync += shifted.eq(number)
        if not step:
            return
        m.d.sync += shifted.count[exact_log2(step)].eq(shifts)
        with m.If(shifts):
            m.d.sync += shifted.bits.eq(number.bits << step)
            m.d.sync += shifted.sticky.eq(number.sticky | number.bits[-step:].any())
