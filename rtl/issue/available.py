"""Which kinds of instructions can be issued."""

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.layouts import InstructionKind
from rtl.params import SmParams

from .warp import FLOW_KINDS, KIND_CODES, LANE_KINDS

__all__ = ["COLLECTED_KINDS", "COLLECTING_CYCLES", "Availability", "unit_rooms"]

COLLECTING_CYCLES = 4
"""Cycles, from selection on, after which ``collecting`` tells of an instruction whose operands are collected."""
COLLECTED_KINDS = (InstructionKind.FLOW_INDEXED, InstructionKind.BARRIER_INDEXED)
_UNITS = {"flow": FLOW_KINDS, "memory": (InstructionKind.MEMORY,), "conversion": (InstructionKind.CONVERSION,),
          "barrier": (InstructionKind.BARRIER, InstructionKind.BARRIER_INDEXED, InstructionKind.BARRIER_READ),
          "trap": (InstructionKind.TRAP,)}
_COLLECTORS = ("flow", "barrier")
"""Units that are given instructions late, when their operands were collected: they get no others meanwhile."""


def unit_rooms() -> data.StructLayout:
    """The room of each unit beside the lanes."""
    return data.StructLayout(dict.fromkeys(_UNITS, 1))


class Availability(Component):
    """The lanes, which take an instruction or operation in so many cycles, and the other units.

    Members
    -------
    rooms, collecting : In(unit_rooms), In(1)
        See IssueUnit.
    enters, collects : In(1)
        Something is selected that passes through the lanes; an instruction whose operands are collected.
    lanes_free : Out(1)
    available : Out(1 bit a kind)
    """

    def __init__(self, params: SmParams) -> None:
        self._beats = params.beats
        super().__init__({
            "rooms": In(unit_rooms()), "collecting": In(1), "enters": In(1), "collects": In(1),
            "lanes_free": Out(1), "available": Out(KIND_CODES)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        busy, wait = Signal(range(self._beats)), Signal(range(COLLECTING_CYCLES))
        with m.If(self.enters):
            m.d.sync += busy.eq(self._beats - 1)
        with m.Elif(busy != 0):
            m.d.sync += busy.eq(busy - 1)
        with m.If(self.collects):
            m.d.sync += wait.eq(COLLECTING_CYCLES - 1)
        with m.Elif(wait != 0):
            m.d.sync += wait.eq(wait - 1)
        quiet = (wait == 0) & ~self.collecting
        m.d.comb += self.lanes_free.eq(busy == 0)
        for kind in InstructionKind:
            free: Any = self.lanes_free if kind in LANE_KINDS else 1
            for unit, kinds in _UNITS.items():
                if kind in kinds:
                    free = free & self.rooms[unit] & (quiet if unit in _COLLECTORS else 1)
            m.d.comb += self.available[kind.value].eq(free)
        return m
