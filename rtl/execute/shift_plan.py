"""Shifts, fields and packed bits, as a plan for the one shifter."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .control import LaneControl, ShiftCount
from .stages import ShiftPlan

__all__ = ["ShiftPlanner"]

_ALL = Const(0xFFFF_FFFF, 32)


class ShiftPlanner(wiring.Component):
    """Counts and masks; combinational.

    A shift to the left by n is one of the word above zeros to the right, by 32 - n: by 31 - n, which is the complement
    of n, and by one more.

    Members
    -------
    control : In(LaneControl)
    a, b, c : In
        The operands, a and c with their carries.
    marks : In(8)
        The predicates or flags that are packed.
    plan : Out(ShiftPlan)
    """

    control: In(LaneControl)
    a: In(33)
    b: In(32)
    c: In(33)
    marks: In(8)
    plan: Out(ShiftPlan)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        control, plan, a, b, c = self.control, self.plan, self.a[:32], self.b, self.c[:32]

        # Counts of 32 and more: the word that is further off, or nothing at all.
        counted, by_byte = Signal(), control.count == ShiftCount.BYTE
        over, further, outside, count = Signal(), Signal(), Signal(), Signal(5)
        m.d.comb += [
            counted.eq(control.count != ShiftCount.FIXED),
            over.eq(Mux(control.wide, b[6:].any(), b[5:8].any() | (~by_byte & b[8:].any()))),
            further.eq(counted & control.pair & Mux(control.wide, b[5], over & ~control.wrap)),
            outside.eq(counted & over & ~control.wrap & (control.wide | ~control.pair)),
            count.eq(Mux(counted, b[:5] & ~(further & ~control.wide).replicate(5), control.shift)),
            plan.amount.eq(count ^ control.left.replicate(5))]

        # The pair. Below a complemented word come the ones of its complement.
        sign, fill = Mux(control.pair, c[31], a[31]) & control.signed_a, Signal()
        near = control.pair & ~further
        m.d.comb += [
            fill.eq(Mux(control.left, control.negate_a, sign)),
            plan.pair.eq(Mux(
                control.left, Cat(Mux(near, a, fill.replicate(32)), Mux(near, c, a)),
                Cat(Mux(further, c, a), Mux(near, c, fill.replicate(32)))))]

        # What of the result counts.
        length, position = b[8:16], Mux(by_byte, b[:8], 0)
        end, bits = Signal(9), Signal(6)
        m.d.comb += [
            end.eq(length + position), bits.eq(Mux(end[5:].any(), 32, end[:5]))]
        upper = Mux(control.insert, bits, Mux(length[5:].any(), 32, length[:5]))
        lower = Mux(b[5:8].any(), 32, b[:5])
        field_sign = Cat(Const(0, 1), a).bit_select(bits, 1) & control.signed_a & length.any()
        inside, marked = Signal(32), Signal(32)
        with m.If(control.field):
            m.d.comb += inside.eq(~(_ALL << upper)[:32] & Mux(control.insert, (_ALL << lower)[:32], _ALL))
        with m.Else():
            m.d.comb += inside.eq(_ALL)
        m.d.comb += [
            marked.word_select(control.which_byte, 8).eq(Mux(control.pack, b[:8], 0)),
            plan.mask.eq(inside & ~marked & ~outside.replicate(32)),
            plan.other.eq(Mux(control.insert, c, 0) | Mux(
                control.pack, self.marks, Mux(control.field, field_sign, fill).replicate(8)).replicate(4))]
        return m
