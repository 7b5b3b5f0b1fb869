"""Shifts over a stage or several, some levels in each."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib.wiring import In, Out

from rtl.component import Component

__all__ = ["ALIGN_STAGES", "DISTANCE_BITS", "NORMAL_STAGES", "Align", "Normalize"]

DISTANCE_BITS = 7
_LEVELS = ((6, 5), (4, 3), (2, 1), (0,))
"""Bits of a distance, by stages."""
ALIGN_STAGES = NORMAL_STAGES = len(_LEVELS)


class Align(Component):
    """Shifts to the right; a register behind each stage.

    Members
    -------
    value, distance : In(width), In(7)
        The distance stays while the value passes.
    shifted, lost : Out(width), Out(1)
        ALIGN_STAGES later; whether a 1 was shifted out.
    """

    def __init__(self, width: int) -> None:
        self._width = width
        super().__init__({"value": In(width), "distance": In(DISTANCE_BITS), "shifted": Out(width), "lost": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        value, lost = self.value, Const(0, 1)
        for number, levels in enumerate(_LEVELS):
            for level in levels:
                far, moves = 1 << level, self.distance[level]
                lost = lost | (moves & value[:far].any())
                value = Mux(moves, value[far:], value)
            kept, out = Signal(self._width, name=f"value_{number}"), Signal(name=f"lost_{number}")
            m.d.sync += [kept.eq(value), out.eq(lost)]
            value, lost = kept, out
        m.d.comb += [self.shifted.eq(value), self.lost.eq(lost)]
        return m


class Normalize(Component):
    """Shifts to the left until the top bit is 1, but not farther than ``most``; a register behind each stage.

    Members
    -------
    value, most : In(width), In(7)
    shifted, distance : Out(width), Out(7)
        NORMAL_STAGES later; how far.
    """

    def __init__(self, width: int) -> None:
        self._width = width
        super().__init__({
            "value": In(width), "most": In(DISTANCE_BITS), "shifted": Out(width), "distance": Out(DISTANCE_BITS)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        value, most, distance = self.value, self.most, Const(0, 0)
        for number, levels in enumerate(_LEVELS):
            for level in levels:
                far = 1 << level
                moves = Signal(name=f"moves_{level}")
                m.d.comb += moves.eq(most[level] & ~value[-far:].any())
                # What a level leaves of its own distance is more than all that come behind it can take.
                most = most[:level] | (most[level] & ~moves).replicate(level)
                value = Mux(moves, Cat(Const(0, far), value[:-far]), value)
                distance = Cat(moves, distance)
            names = ("value", "most", "distance")
            kept = [Signal(len(now), name=f"{name}_{number}")
                    for name, now in zip(names, (value, most, distance), strict=True)]
            m.d.sync += [register.eq(now) for register, now in zip(kept, (value, most, distance), strict=True)]
            value, most, distance = kept
        m.d.comb += [self.shifted.eq(value), self.distance.eq(distance)]
        return m
