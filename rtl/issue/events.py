"""What lowers scoreboards: many at a time, one after the other."""

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Assert, Cat, Const, Module, Mux, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.dispatch_queue import DispatchQueue
from rtl.isa.control_code import NO_BARRIER, SCOREBOARDS
from rtl.layouts import Event, operands_read, scoreboard_event
from rtl.params import SmParams

__all__ = ["LoweringQueue", "lowering"]

_PLACES = 16
_UNDER_WAY = 8
"""Events of the lanes that may still come after the queue has said that it is full: from selection on."""


def lowering(params: SmParams) -> data.StructLayout:
    """Scoreboards of a warp that go down by one; whether an instruction of it is complete, other than by the lanes."""
    return data.StructLayout({"warp": params.warp_bits, "lowers": SCOREBOARDS, "completes": 1})


class LoweringQueue(Component):
    """Hands on one event a cycle. Those of units go first, in the order of the units; events of the lanes, and then
    those of gathers, wait in a queue, and pass it in the same cycle if it is empty and no other goes first.

    There is a place for one event of each unit. Of those of each unit come so few that it is free in time.

    Members
    -------
    lanes, gathered : In(Event of scoreboard_event), In(Event of operands_read)
        None may come any more 8 cycles after ``room`` is 0.
    units : In(array of Event of scoreboard_event)
    rests : In(1)
        No event of the lanes or of a gather goes.
    room : Out(1)
    lowers, event : Out(1), Out(lowering)
    """

    def __init__(self, params: SmParams, units: int) -> None:
        self._params = params
        super().__init__({
            "lanes": In(Event(scoreboard_event(params))), "gathered": In(Event(operands_read(params))),
            "units": In(Event(scoreboard_event(params))).array(units),
            "rests": In(1), "room": Out(1), "lowers": Out(1), "event": Out(lowering(params))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        fields = scoreboard_event(self._params)

        # A place for each unit.
        free: Any = Const(1)
        chosen = []
        for index, source in enumerate(self.units):
            kept = Signal(fields, name=f"kept_{index}")
            full, goes = (Signal(name=f"{name}_{index}") for name in ("full", "goes"))
            m.d.comb += goes.eq(full & free)
            m.d.sync += [full.eq(source.valid | full & ~goes),
                         Assert(~(source.valid & full & ~goes), "completions come too close behind each other")]
            with m.If(source.valid):
                m.d.sync += kept.eq(source.payload)
            chosen.append((goes, kept.as_value()))
            free = free & ~full

        # Those of the lanes, and of gathers.
        event, ours = Signal(fields), Signal()
        m.submodules.lanes = lanes = DispatchQueue(fields, places=_PLACES, under_way=_UNDER_WAY, bypass=True)
        m.submodules.gathers = gathers = DispatchQueue(
            operands_read(self._params), places=_PLACES, under_way=_UNDER_WAY, bypass=True)
        passing, read = self.lanes.payload, Signal(fields)
        m.d.comb += [
            lanes.arriving.valid.eq(self.lanes.valid & ((passing.write_barrier != NO_BARRIER)
                                                        | (passing.read_barrier != NO_BARRIER))),
            lanes.arriving.payload.eq(passing),
            gathers.arriving.valid.eq(self.gathered.valid & (self.gathered.payload.barrier != NO_BARRIER)),
            gathers.arriving.payload.eq(self.gathered.payload), read.warp.eq(gathers.head.payload.warp),
            read.write_barrier.eq(NO_BARRIER), read.read_barrier.eq(gathers.head.payload.barrier),
            lanes.head.ready.eq(free & ~self.rests), gathers.head.ready.eq(lanes.head.ready & ~lanes.head.valid),
            self.room.eq(lanes.room & gathers.room),
            ours.eq(lanes.head.ready & (lanes.head.valid | gathers.head.valid))]
        chosen.append((ours, Mux(lanes.head.valid, lanes.head.payload.as_value(), read.as_value())))

        m.d.comb += [
            event.eq(reduce(or_, (Mux(here, source, 0) for here, source in chosen))),
            self.lowers.eq(Cat(here for here, _ in chosen).any()), self.event.warp.eq(event.warp),
            self.event.completes.eq(event.completes & ~ours),
            self.event.lowers.eq(Mux(self.lowers, Cat(
                (event.write_barrier == number) | (event.read_barrier == number) for number in range(SCOREBOARDS)), 0))]
        return m
