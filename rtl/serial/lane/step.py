"""The steps of a thread in a lane that computes a byte in a cycle."""

from typing import Any

from amaranth.hdl import Assert, Cat, Module, Signal, Value, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.execute.stages import WORD_BYTES

__all__ = ["BYTE_LANE_CYCLES", "Step", "Steps"]

BYTE_LANE_CYCLES = 5 * WORD_BYTES + 1
"""Cycles from operands to their result."""
_PHASES = 6


class Step(data.Struct):
    """A step of a thread, which handles a byte of each word.

    =====  =========  ==================================================================
    steps  phase
    =====  =========  ==================================================================
    0-3    prepares   operands are prepared
    4-7    low        the first term is made, of the low word of a pair
    8-11   high       of its high word
    12-15  above      of what is above that
    16-19  concludes  the terms of the final sum are made; each byte is written a step later
    20     ends       the last byte is written
    =====  =========  ==================================================================
    """

    runs: unsigned(1)
    """A thread is in the lane."""
    place: unsigned(2)
    """The byte's place in its word."""
    prepares: unsigned(1)
    low: unsigned(1)
    high: unsigned(1)
    above: unsigned(1)
    """The bytes of a product come three steps late, and have one more for its sign."""
    concludes: unsigned(1)
    ends: unsigned(1)

    @property
    def makes(self) -> Value:
        """Whether the first term is made in this step."""
        return self.low | self.high | self.above

    @property
    def first_place(self) -> Value:
        """Whether the step handles the lowest byte of its word."""
        return ~self.place.any()

    @property
    def last_place(self) -> Value:
        """Whether the step handles the highest byte of its word."""
        return self.place.all()


class Steps(wiring.Component):
    """Counts the steps of a thread.

    Members
    -------
    start : In(1)
        A thread's first step; only while none is in the lane.
    step : Out(Step)
    """

    start: In(1)
    step: Out(Step)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        step: Any = self.step
        phase = Signal(_PHASES, init=1)
        place = Signal(2)
        phases = Cat(
            step.prepares, step.low, step.high, step.above, step.concludes, step.ends)
        m.d.comb += phases.eq(phase)
        m.d.comb += step.place.eq(place)
        is_between_threads = step.prepares & step.first_place
        m.d.comb += step.runs.eq(self.start | ~is_between_threads)
        m.d.sync += Assert(~self.start | is_between_threads, "two threads in a lane")
        with m.If(step.runs):
            m.d.sync += place.eq(place + 1)
            with m.If(step.ends | step.last_place):
                m.d.sync += place.eq(0)
                m.d.sync += phase.eq(phase.rotate_left(1))
        return m
