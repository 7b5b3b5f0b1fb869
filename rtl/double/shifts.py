"""Shifts over a stage or several, some levels in each."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Out

from rtl.component import Component

__all__ = [
    "ALIGN_STAGES",
    "DISTANCE_BITS",
    "NORMAL_STAGES",
    "Align",
    "Normalize",
    "saturated",
]

DISTANCE_BITS = 7
_LEVELS = ((6, 5), (4, 3), (2, 1), (0,))
"""Bits of a distance, by stages."""
ALIGN_STAGES = NORMAL_STAGES = len(_LEVELS)


def saturated(distance: Value) -> Value:
    """A distance in DISTANCE_BITS, the highest one if it is greater; it is not negative."""
    is_far = distance[DISTANCE_BITS:].any()
    return distance[:DISTANCE_BITS] | is_far.replicate(DISTANCE_BITS)


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
        super().__init__({
            "value": In(width),
            "distance": In(DISTANCE_BITS),
            "shifted": Out(width),
            "lost": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        value: Value = self.value
        lost: Value = Const(0, 1)
        for stage, levels in enumerate(_LEVELS):
            for level in levels:
                step = 1 << level
                shifts = self.distance[level]
                lost = lost | (shifts & value[:step].any())
                value = Mux(shifts, value[step:], value)
            value = _registered(m, f"value_{stage}", value)
            lost = _registered(m, f"lost_{stage}", lost)
        m.d.comb += self.shifted.eq(value)
        m.d.comb += self.lost.eq(lost)
        return m


class Normalize(Component):
    """Shifts to the left until the top bit is 1, but not farther than ``most``; a register behind
    each stage.

    Members
    -------
    value, most : In(width), In(7)
    shifted, distance : Out(width), Out(7)
        NORMAL_STAGES later; how far.
    """

    def __init__(self, width: int) -> None:
        self._width = width
        super().__init__({
            "value": In(width),
            "most": In(DISTANCE_BITS),
            "shifted": Out(width),
            "distance": Out(DISTANCE_BITS),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        value: Value = self.value
        most: Value = self.most
        distance: Value = Const(0, 0)
        for stage, levels in enumerate(_LEVELS):
            for level in levels:
                step = 1 << level
                shifts = Signal(name=f"shifts_{level}")
                m.d.comb += shifts.eq(most[level] & ~value[-step:].any())
                # If a level may shift and does not, all levels below may: together they shift less.
                may_shift_freely = most[level] & ~shifts
                most = most[:level] | may_shift_freely.replicate(level)
                value = Mux(shifts, Cat(Const(0, step), value[:-step]), value)
                distance = Cat(shifts, distance)
            value = _registered(m, f"value_{stage}", value)
            most = _registered(m, f"most_{stage}", most)
            distance = _registered(m, f"distance_{stage}", distance)
        m.d.comb += self.shifted.eq(value)
        m.d.comb += self.distance.eq(distance)
        return m


def _registered(m: Module, name: str, value: Value) -> Signal:
    """The value a cycle later."""
    register = Signal(len(value), name=name)
    m.d.sync += register.eq(value)
    return register
