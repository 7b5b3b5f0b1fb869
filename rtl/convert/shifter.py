"""A shifter in stages, which finds out by itself how far a number can go up."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .source import Shiftable

__all__ = ["SHIFTER_STAGES", "ConversionShifter"]

_STEPS = ((32, 16), (8, 4), (2, 1))
"""By how much each stage can shift."""
SHIFTER_STAGES = len(_STEPS)


class ConversionShifter(wiring.Component):
    """Shifts up by ``count``, or until the highest bit is on top; a register a stage.

    Members
    -------
    normalise : In(1)
        Up to the top, whatever ``count`` was; then ``count`` tells by how much. Stable while numbers pass.
    before, after : In(Shiftable), Out(Shiftable)
        What falls out on top makes ``sticky``. With no bit 1, ``normalise`` gives the largest ``count``.
    """

    normalise: In(1)
    before: In(Shiftable)
    after: Out(Shiftable)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        given: Any = self.before
        for stage, steps in enumerate(_STEPS):
            shifted, sticky, count = given.bits, given.sticky, list(given.count)
            for step in steps:
                place = step.bit_length() - 1
                moves, lost, moved = Signal(name=f"by{step}"), Signal(name=f"lost{step}"), Signal.like(
                    given.bits, name=f"bits{step}")
                m.d.comb += [
                    lost.eq(shifted[-step:].any()), moves.eq(Mux(self.normalise, ~lost, count[place])),
                    moved.eq(Mux(moves, shifted << step, shifted))]
                shifted, sticky, count[place] = moved, sticky | moves & lost, moves
            passed: Any = self.after if stage == SHIFTER_STAGES - 1 else Signal(Shiftable, name=f"stage{stage}")
            m.d.sync += [
                passed.bits.eq(shifted), passed.sticky.eq(sticky), passed.negative.eq(given.negative),
                passed.excess.eq(given.excess), passed.none.eq(given.none)]
            m.d.sync += [passed.count[place].eq(bit) for place, bit in enumerate(count)]
            given = passed
        return m
