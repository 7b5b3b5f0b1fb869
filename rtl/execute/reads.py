"""Read ports of the state that is stored by warp, directions are those of the reading stage."""

from amaranth.hdl import ShapeLike
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.isa.special_registers import OF_THREADS
from rtl.layouts import GATHER_REGISTERS
from rtl.params import SmParams

from .flags import ThreadFlags
from .slots import beat_place

__all__ = ["FlagRead", "RegisterRead", "SpecialRead", "UniformRead", "WarpRead"]


class WarpRead(wiring.Signature):
    """A value that is stored once for each warp.

    Members
    -------
    warp : Out
    value : In(shape)
        In the same cycle.
    """

    def __init__(self, params: SmParams, shape: ShapeLike) -> None:
        super().__init__({"warp": Out(params.warp_bits), "value": In(shape)})


class UniformRead(wiring.Signature):
    """A special register that is the same in all threads of a warp.

    Members
    -------
    warp, number : Out, Out(8)
        The warp, and the number of the register.
    value : In(32)
        In the same cycle; 0 for a register that differs from thread to thread, and for a number
        without a register.
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({"warp": Out(params.warp_bits), "number": Out(8), "value": In(32)})


class RegisterRead(wiring.Signature):
    """Three rows of the register file, a beat of each.

    Members
    -------
    rows, beat : Out
        A row for each operand, and the beat, in S3.
    values : In(32 bits for each lane, for each operand)
        Their content, a cycle later.
    blank : In(1 bit for each operand)
        A cycle later as well: the row is blank, and its values count as 0.
    """

    def __init__(self, params: SmParams) -> None:
        values = data.ArrayLayout(32, params.lanes)
        super().__init__({
            "rows": Out(data.ArrayLayout(params.row_bits, GATHER_REGISTERS)),
            "beat": Out(range(params.beats)),
            "values": In(data.ArrayLayout(values, GATHER_REGISTERS)),
            "blank": In(GATHER_REGISTERS),
        })


class FlagRead(wiring.Signature):
    """Predicates and CC of a beat's threads.

    Members
    -------
    is_first : Out(1)
        The beat is the first one of a slot; otherwise its warp is that of the previous cycle.
    place : Out(beat_place)
        The beat, in S3.
    flags : In(ThreadFlags for each lane)
        In the same cycle.
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "is_first": Out(1),
            "place": Out(beat_place(params)),
            "flags": In(data.ArrayLayout(ThreadFlags, params.lanes)),
        })


class SpecialRead(wiring.Signature):
    """A special register that differs from thread to thread.

    Members
    -------
    place : Out(beat_place)
        The beat, in S3.
    register : Out(1 bit for each of OF_THREADS)
        Which one, in S4; 0 for all other special registers.
    values : In(32 bits for each lane)
        In S4; 0 if ``register`` is 0.
    """

    def __init__(self, params: SmParams) -> None:
        super().__init__({
            "place": Out(beat_place(params)),
            "register": Out(len(OF_THREADS)),
            "values": In(data.ArrayLayout(32, params.lanes)),
        })
