"""Delay lines of completions, and of the releases for issue."""

from typing import Any

from amaranth.hdl import Module, Mux, ShapeLike, Signal
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.component import Component
from rtl.layouts import Event, completion, delayed
from rtl.params import SmParams

from .lanes import LANE_CYCLES

__all__ = ["CompletionLine", "ReleaseLine"]

_STAGES = LANE_CYCLES + 2
"""Cycles from S3 to S8, for one beat."""


class CompletionLine(Component):
    """Delays each completion by ``beats + 4`` cycles: from S3 to S8 of the last beat.

    All completions have this delay, so that no two leave in the same cycle. An instruction of a
    quarter of the rate takes longer: its completion is held, and enters the line when the last part
    is in S4. Issue selects no other instruction that would enter in that cycle. It leaves ``beats -
    1`` cycles after the instruction's last write. ::

        entering --> [ 1 ] --> [ 2 ] --> ... --> [ beats + 4 ] --> leaving
          ^   ^
          |   +--- completed, unless it is held
          +------- held, with the last part

    Members
    -------
    completed : In(completion)
        The completion of what is in S3.
    is_quarter : In(1)
        It is that of an instruction of a quarter of the rate: it is held.
    has_last_part : In(1)
        The last part of such an instruction is in S4: the held completion enters.
    entering : Out(Event of completion)
        The completion that enters the line in this cycle.
    leaving : Out(Event of completion)
    """

    def __init__(self, params: SmParams) -> None:
        event = Event(completion(params))
        self._completion = event
        self._cycles = _STAGES + params.beats - 1
        super().__init__({
            "completed": In(event),
            "is_quarter": In(1),
            "has_last_part": In(1),
            "entering": Out(event),
            "leaving": Out(event),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        held: Any = self._completion.create(path=("held",))
        with m.If(self.is_quarter):
            m.d.sync += held.valid.eq(self.completed.valid)
            m.d.sync += held.payload.eq(self.completed.payload)

        with m.If(self.is_quarter):
            m.d.comb += self.entering.valid.eq(0)
        with m.Elif(self.has_last_part):
            m.d.comb += self.entering.valid.eq(held.valid)
        with m.Else():
            m.d.comb += self.entering.valid.eq(self.completed.valid)
        m.d.comb += self.entering.payload.eq(Mux(
            self.has_last_part, held.payload.as_value(), self.completed.payload.as_value()))
        connect(m, delayed(m, self.entering, self._cycles), flipped(self.leaving))
        return m


class ReleaseLine(Component):
    """Delays releases of registers: as little as possible, so that an instruction that waits for
    one, and is selected 4 cycles after its output at the earliest, reads what was written.

    Predicates and CC are read for all threads in S3, so that the last beat has to be written. The
    event leaves ``beats - 2`` cycles after S3, or at once if that is negative. An instruction that
    is selected 4 cycles later is in S3 after 3 more: in the cycle after S8 of the last beat.

    A register that a unit writes is read beat by beat, in the same order, so that it is enough that
    the first beat is written. Such an event bypasses the line, unless another event leaves the line
    in the same cycle; then it enters the line.

    Members
    -------
    entering : In(Event(shape))
    is_early : In(1)
        It is the release of a write of a register only.
    leaving : Out(Event(shape))
    """

    def __init__(self, params: SmParams, shape: ShapeLike) -> None:
        self._event = Event(shape)
        self._cycles = max(params.beats - 2, 0)
        super().__init__({
            "entering": In(Event(shape)),
            "is_early": In(1),
            "leaving": Out(Event(shape)),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        entering = self.entering
        bypasses = Signal()
        first: Any = self._event.create(path=("first",))
        m.d.comb += first.payload.eq(entering.payload)
        m.d.comb += first.valid.eq(entering.valid & ~bypasses)
        last = delayed(m, first, self._cycles)
        if self._cycles:
            m.d.comb += bypasses.eq(entering.valid & self.is_early & ~last.valid)
        m.d.comb += self.leaving.valid.eq(last.valid | bypasses)
        m.d.comb += self.leaving.payload.eq(
            Mux(bypasses, entering.payload.as_value(), last.payload.as_value()))
        return m
