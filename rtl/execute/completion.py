"""When an instruction completes, and when issue hears of it."""

from typing import Any

from amaranth.hdl import Module, Mux, ShapeLike, Signal
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.layouts import Event, completion, delayed
from rtl.params import SmParams

from .lanes import LANE_CYCLES

__all__ = ["CompletionLine", "ReleaseLine"]

_STAGES = LANE_CYCLES + 2
"""Cycles from S3 to S8, for one beat."""


class CompletionLine(Component):
    """Delays each completion by ``beats + 4`` cycles: from S3 to S8 of the last beat.

    Everything that completes here takes that time in the line, so no two completions meet at the
    end. What passes the full lanes only takes longer: its completion is held, and enters with its
    last part in S4, in a cycle for which issue selects nothing else that would complete. It leaves
    ``beats - 1`` cycles after the last write. ::

        entering --> [ 1 ] --> [ 2 ] --> ... --> [ beats + 4 ] --> leaving
          ^   ^
          |   +--- completed, unless it is held
          +------- held, with the last part

    Members
    -------
    completed : In(completion)
        What the instruction in S3 completes.
    is_quarter : In(1)
        That instruction passes the full lanes only: its completion is held.
    has_last_part : In(1)
        The last part of such an instruction is in S4: the held completion enters.
    entering : Out(Event of completion)
        What enters the line in this cycle.
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

        with m.If(self.has_last_part):
            m.d.comb += self.entering.valid.eq(held.valid)
            m.d.comb += self.entering.payload.eq(held.payload)
        with m.Else():
            m.d.comb += self.entering.valid.eq(self.completed.valid)
            m.d.comb += self.entering.payload.eq(self.completed.payload)
        with m.If(self.is_quarter):
            m.d.comb += self.entering.valid.eq(0)

        last = delayed(m, self.entering, self._cycles)
        m.d.comb += self.leaving.valid.eq(last.valid)
        m.d.comb += self.leaving.payload.eq(last.payload)
        return m


class ReleaseLine(Component):
    """Delays what releases registers, so that who waits is selected in time for its operands.

    Of predicates and CC the last beat counts: the event leaves ``beats - 2`` cycles after S3, or at
    once with fewer beats. What issue selects 4 cycles after the event is in S3 7 cycles after it,
    which is the cycle behind the last beat's S8.

    Of a register that a unit writes the first beat is enough, since the reader's beats follow each
    other, too: such an event leaves at once, in a cycle in which nothing leaves the line; else it
    takes the line, too.

    Members
    -------
    entering : In(Event(shape))
    is_early : In(1)
        The first beat is enough.
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
