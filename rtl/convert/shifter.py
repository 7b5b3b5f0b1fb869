"""A shifter in stages, which finds out by itself how far a number can go up."""

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
"""By how much each stage but the first can shift."""
SHIFTER_STAGES = 1 + len(_STEPS)


class ConversionShifter(wiring.Component):
    """Shifts up by ``count``, or until the highest bit is on top; a register a stage.

    Whether a stage shifts is decided one stage before it: no stage looks at bits and shifts them in
    the same cycle. ::

        stage     1             2              3                   7
                                shift by 32    shift by 16   ...   shift by 1
                  by 32?        by 16?         by 8?

    Members
    -------
    normalise : In(1)
        Up to the top, whatever ``count`` was; then ``count`` becomes by how much. Stable while
        numbers pass.
    before, after : In(Shiftable), Out(Shiftable)
        What is shifted out on top makes ``sticky``. With no bit 1, ``normalise`` gives the largest
        ``count``.
    ahead : Out(signed)
        The exponent of what is in ``after`` a cycle later.
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
        """Whether the next stage shifts by ``next_step``, while this one shifts by ``step`` or
        not: to normalise, if that shifts out no bit that is 1."""
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
        """A stage that shifts by ``step`` or not. The first stage shifts by nothing."""
        m.d.sync += shifted.eq(number)
        if not step:
            return
        m.d.sync += shifted.count[exact_log2(step)].eq(shifts)
        with m.If(shifts):
            m.d.sync += shifted.bits.eq(number.bits << step)
            m.d.sync += shifted.sticky.eq(number.sticky | number.bits[-step:].any())
