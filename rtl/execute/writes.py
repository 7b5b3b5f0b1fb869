"""How a beat's results are written to the state that is stored by warp; directions are those of
WriteBack."""

from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.isa.condition import Flags
from rtl.isa.syntax import PT
from rtl.params import SmParams

from .flags import ThreadFlags
from .slots import beat_place

__all__ = ["FlagWrite", "RegisterWrite"]


class RegisterWrite(wiring.Signature):
    """To the register file, in S8.

    Members
    -------
    next_row : Out
        S7: ``row`` of the next cycle.
    is_valid : Out(1)
        The instruction writes ``row`` of the register file.
    beat, row : Out
    lanes : Out(1 bit for each lane)
        The lanes whose register is written.
    values : Out(32 bits for each lane)
        What is written there; 0 in lanes that do not write.
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "next_row": Out(params.row_bits),
            "is_valid": Out(1),
            "beat": Out(range(params.beats)),
            "row": Out(params.row_bits),
            "lanes": Out(params.lanes),
            "values": Out(data.ArrayLayout(32, params.lanes)),
        })


class FlagWrite(wiring.Signature):
    """To predicates and CC, in S8.

    Members
    -------
    place : Out(beat_place)
    predicates_written : Out(P0 to P6 for each lane)
        The predicates that are written.
    predicates : Out(P0 to P6 for each lane)
        Their new values.
    conditional : Out(1 bit for each lane)
        The lanes whose CC is written.
    conditions : Out(Flags for each lane)
        Their new values.
    after : In(ThreadFlags for each lane)
        The flags of the beat's threads after the write; in the same cycle.
    """

    def __init__(self, params: SmParams) -> None:
        lanes = params.lanes
        super().__init__({
            "place": Out(beat_place(params)),
            "predicates_written": Out(data.ArrayLayout(PT, lanes)),
            "predicates": Out(data.ArrayLayout(PT, lanes)),
            "conditional": Out(lanes),
            "conditions": Out(data.ArrayLayout(Flags, lanes)),
            "after": In(data.ArrayLayout(ThreadFlags, lanes)),
        })
