"""Pipelined shifters: for alignment, to the right, and for normalization, to the left."""

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
"""The bits of a distance by which each stage shifts."""
ALIGN_STAGES = NORMAL_STAGES = len(_LEVELS)


def saturated(distance: Value) -> Value:
    """A distance, which is not negative, limited to the greatest one of DISTANCE_BITS."""
    is_far = distance[DISTANCE_BITS:].any()
    return distance[:DISTANCE_BITS] | is_far.replicate(DISTANCE_BITS)


class Align(Component):
    """Shifts right by ``distance``; a register after each stage.

    Members
    -------
    value, distance : In(width), In(7)
        ``distance`` is not pipelined: it has to be stable while its value is in the stages.
    shifted, lost : Out(width), Out(1)
        ALIGN_STAGES later. ``lost``: a 1 was shifted out.
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
    """Shifts left until the top bit is 1, but at most by ``most``; a register after each stage.

    Members
    -------
    value, most : In(width), In(7)
        In the same cycle; both are pipelined.
    shifted, distance : Out(width), Out(7)
        NORMAL_STAGES later. ``distance``: how far it was shifted.
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
                # If ``most`` allows this level to shift and it does not, it allows all lower
                # levels: together they shift less.
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
    """A register of the value."""
    register = Signal(len(value), name=name)
    m.d.sync += register.eq(value)
    return register
