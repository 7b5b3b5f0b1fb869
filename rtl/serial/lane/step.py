"""What a lane that computes a byte in a cycle does when."""

from typing import Any

from amaranth.hdl import Cat, Module, Signal, Value, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.execute.stages import WORD_BYTES

__all__ = ["BYTE_LANE_CYCLES", "Step", "Steps"]

BYTE_LANE_CYCLES = 5 * WORD_BYTES + 1
"""From the first cycle of operands to that of their result."""


class Step(data.Struct):
    """A step of a thread. In four of them the operands are prepared, byte by byte; in twelve the first term is made, in
    four the terms of the final sum, each of whose bytes is written a step later."""

    runs: unsigned(1)
    """There is a thread."""
    place: unsigned(2)
    """The byte's place in its word."""
    prepares: unsigned(1)
    """The operands are prepared."""
    low: unsigned(1)
    """The first term is made, of the low word of what it is made of."""
    high: unsigned(1)
    """The same of the high word."""
    above: unsigned(1)
    """The same of what is above that: the bytes of a product come three steps late, and there is one more of its
    sign."""
    concludes: unsigned(1)
    """The terms of the final sum are made."""
    ends: unsigned(1)
    """The last byte is written."""

    @property
    def makes(self) -> Value:
        """The first term is made."""
        return self.low | self.high | self.above

    @property
    def first_place(self) -> Value:
        """It is the lowest byte of its word."""
        return ~self.place.any()

    @property
    def last_place(self) -> Value:
        """It is the highest byte of its word."""
        return self.place.all()


class Steps(wiring.Component):
    """Goes through them.

    Members
    -------
    start : In(1)
    step : Out(Step)
    """

    start: In(1)
    step: Out(Step)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        step: Any = self.step
        phases = Signal(6, init=1)
        place = Signal(2)
        m.d.comb += [
            Cat(step.prepares, step.low, step.high, step.above, step.concludes, step.ends).eq(phases),
            step.place.eq(place), step.runs.eq(self.start | place.any() | ~step.prepares)]
        with m.If(step.runs):
            m.d.sync += place.eq(place + 1)
            with m.If(step.ends | step.last_place):
                m.d.sync += [place.eq(0), phases.eq(phases.rotate_left(1))]
        return m
