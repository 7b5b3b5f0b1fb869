"""A shifter in stages, which finds out by itself how far a number can go up."""

from typing import Any

from amaranth.hdl import Const, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .instruction import EXPONENT_BITS
from .source import Shiftable

__all__ = ["SHIFTER_STAGES", "ConversionShifter"]

_STEPS = (32, 16, 8, 4, 2, 1)
"""By how much each stage but the first can shift."""
SHIFTER_STAGES = 1 + len(_STEPS)


class ConversionShifter(wiring.Component):
    """Shifts up by ``count``, or until the highest bit is on top; a register a stage.

    Whether a stage shifts is found out one stage before it.

    Members
    -------
    normalise : In(1)
        Up to the top, whatever ``count`` was; then ``count`` tells by how much. Stable while numbers pass.
    before, after : In(Shiftable), Out(Shiftable)
        What falls out on top makes ``sticky``. With no bit 1, ``normalise`` gives the largest ``count``.
    ahead : Out(signed)
        The exponent of what is in ``after`` a cycle later.
    """

    normalise: In(1)
    before: In(Shiftable)
    after: Out(Shiftable)
    ahead: Out(signed(EXPONENT_BITS))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        given: Any = self.before
        moves: Value = Const(0, 1)
        step = 0
        for next_step in (*_STEPS, None):
            passed: Any = self.after if next_step is None else Signal(Shiftable, name=f"before{next_step}")
            m.d.sync += [
                passed.eq(given), passed.bits.eq(Mux(moves, given.bits << step, given.bits))]
            if step:
                lost = given.bits[-step:].any()
                m.d.sync += [passed.sticky.eq(given.sticky | moves & lost), passed.count[_place(step)].eq(moves)]
            if next_step is not None:
                top = len(given.bits)
                stays = Mux(moves, given.bits[top - step - next_step:top - step].any(), given.bits[-next_step:].any())
                next_moves = Signal(name=f"moves{next_step}")
                m.d.sync += next_moves.eq(Mux(self.normalise, ~stays, given.count[_place(next_step)]))
                given, moves, step = passed, next_moves, next_step
        m.d.comb += self.ahead.eq(given.exponent)
        return m


def _place(step: int) -> int:
    """The bit of a count that stands for a step."""
    return step.bit_length() - 1
