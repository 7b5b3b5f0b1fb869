"""A shifter in stages, which finds out by itself how far a number can go up."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .source import Shiftable

__all__ = ["SHIFTER_STAGES", "ConversionShifter"]

_STEPS = (32, 16, 8, 4, 2, 1)
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
        for step in _STEPS:
            place = step.bit_length() - 1
            lost, moves = Signal(name=f"lost{step}"), Signal(name=f"moves{step}")
            m.d.comb += [lost.eq(given.bits[-step:].any()),
                         moves.eq(Mux(self.normalise, ~lost, given.count[place]))]
            passed: Any = self.after if step == _STEPS[-1] else Signal(Shiftable, name=f"by{step}")
            m.d.sync += [
                passed.eq(given), passed.bits.eq(Mux(moves, given.bits << step, given.bits)),
                passed.sticky.eq(given.sticky | moves & lost), passed.count[place].eq(moves)]
            given = passed
        return m
