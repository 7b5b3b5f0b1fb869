"""What a lane that computes a byte in a cycle does when."""

from typing import Any

from amaranth.hdl import Module, Signal, Value, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["BYTE_LANE_CYCLES", "FIRST_STEP", "SUM_STEP", "Step", "Steps"]

FIRST_STEP = 4
"""The first step in which the first term is made."""
_LAST_FIRST_STEP = 14
"""The last one: eight bytes of a product, which come late, and what is above them."""
SUM_STEP = 16
"""The first step of the final sum."""
_LAST_STEP = 20
BYTE_LANE_CYCLES = _LAST_FIRST_STEP + 1 + _LAST_STEP + 1 - SUM_STEP
"""From the first cycle of operands to that of their result."""


class Step(data.Struct):
    """A step of a thread. In four of them the operands are prepared, byte by byte; in eleven the first term is made, in
    five the final sum and the result."""

    runs: unsigned(1)
    """There is a thread."""
    number: unsigned(5)
    prepares: unsigned(1)
    """The operands are prepared."""
    makes: unsigned(1)
    """The first term is made."""
    low: unsigned(1)
    """The same, of the low word of what it is made of."""
    high: unsigned(1)
    """The same of the high word."""
    concludes: unsigned(1)
    """The final sum is made."""

    @property
    def place(self) -> Value:
        """The byte's place in its word."""
        return self.number[:2]

    @property
    def first_place(self) -> Value:
        """It is the lowest byte of its word."""
        return ~self.place.any()

    @property
    def last_place(self) -> Value:
        """It is the highest byte of its word."""
        return self.place.all()


class Steps(wiring.Component):
    """Counts them. What they are is in registers.

    Members
    -------
    start : In(1)
    step : Out(Step)
    """

    start: In(1)
    step: Out(Step)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        coming = Signal(5)
        step: Any = self.step
        now: Any = Signal(Step, init={"prepares": 1})
        m.d.comb += [step.eq(now), step.runs.eq(self.start | now.number.any()), coming.eq(now.number + step.runs)]
        with m.If(now.number == _LAST_FIRST_STEP):
            m.d.comb += coming.eq(SUM_STEP)
        with m.If(now.number == _LAST_STEP):
            m.d.comb += coming.eq(0)
        m.d.sync += [
            now.number.eq(coming), now.prepares.eq(coming < FIRST_STEP),
            now.makes.eq((coming >= FIRST_STEP) & (coming < SUM_STEP)), now.low.eq(coming[2:] == FIRST_STEP >> 2),
            now.high.eq(coming[2:] == (FIRST_STEP >> 2) + 1), now.concludes.eq(coming >= SUM_STEP)]
        return m
