"""The lanes, the one way to the registers: what other units ask of them, and what they answer.

A warp's 32 threads pass the lanes in beats, as many at a time as there are lanes: thread ``beat * lanes + lane``. The
beats of one instruction or operation follow each other without a gap.
"""

from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.isa.condition import Flags
from rtl.isa.syntax import PT
from rtl.params import WARP_THREADS, SmParams

from .instruction import SERIAL_BITS

__all__ = [
    "GATHER_REGISTERS",
    "LaneClient",
    "LaneClientPort",
    "lane_operation",
    "lane_write",
    "offered_operation",
]

GATHER_REGISTERS = 3
"""Registers that one operation can read."""


class LaneClient(enum.Enum, shape=2):
    """Who asks for an operation of the lanes."""

    MEMORY = 0
    CONVERSION = 1
    BARRIER = 2
    FLOW = 3


def lane_operation(params: SmParams) -> data.StructLayout:
    """A unit reads up to three registers of a warp, or writes one.

    ``gather``: ``registers`` are read, RZ where none is. Otherwise ``registers[0]`` is written, by ``threads``; and
    predicate ``predicate``, if it is not PT; and CC, if ``conditional``. ``index`` is the unit's own mark and comes
    back with the data. ``last``: of its instruction's operations of this kind. The last gather lets scoreboard
    ``barrier`` go down by one, the last write too, and completes the instruction; 7 is none.
    """
    return data.StructLayout({
        "gather": 1, "warp": params.warp_bits, "serial": SERIAL_BITS,
        "registers": data.ArrayLayout(8, GATHER_REGISTERS), "predicate": 3, "conditional": 1,
        "threads": WARP_THREADS, "index": 4, "last": 1, "barrier": 3})


def offered_operation(params: SmParams) -> data.StructLayout:
    """An operation that goes to the lanes, and whose it is."""
    return data.StructLayout({"client": LaneClient, "operation": lane_operation(params)})


class LaneClientPort(wiring.Signature):
    """A unit's access to registers, seen from the unit.

    Members
    -------
    operation : Out(stream of lane_operation)
        Taken when the lanes have time for it: a transfer begins its beats a few cycles later.
    gathered : In(valid, index, beat, values)
        Three values for each lane, a beat a cycle.
    wanted : In(valid, index, beat)
        The data of this beat are wanted in the next cycle.
    values, flags, conditions : Out
        What is written to the register, to the predicate and to CC of each lane; in the cycle after ``wanted``.
    """

    def __init__(self, params: SmParams) -> None:
        mark = {"valid": 1, "index": 4, "beat": range(params.beats)}
        super().__init__({
            "operation": Out(stream.Signature(lane_operation(params))),
            "gathered": In(data.StructLayout(mark | {
                "values": data.ArrayLayout(data.ArrayLayout(32, GATHER_REGISTERS), params.lanes)})),
            "wanted": In(data.StructLayout(mark)),
            "values": Out(data.ArrayLayout(32, params.lanes)), "flags": Out(params.lanes),
            "conditions": Out(data.ArrayLayout(Flags, params.lanes))})


def lane_write(params: SmParams) -> data.StructLayout:
    """What a beat writes, for the retirement interface: ``lanes`` of it write.

    ``register`` RZ: no register. ``predicates`` are those written, and their new values in each lane. ``conditional``:
    CC is written.
    """
    return data.StructLayout({
        "valid": 1, "warp": params.warp_bits, "serial": SERIAL_BITS, "beat": range(params.beats), "lanes": params.lanes,
        "register": 8, "values": data.ArrayLayout(32, params.lanes), "predicates": PT,
        "flags": data.ArrayLayout(PT, params.lanes), "conditional": 1,
        "conditions": data.ArrayLayout(Flags, params.lanes)})
