"""Shifts, fields and packed bits, as a plan for the one shifter."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .control import LaneControl, ShiftCount
from .stages import ShiftPlan

__all__ = ["ShiftPlanner", "WordShiftPlanner"]

_BYTES = 4
_TAKE_A, _TAKE_C = 1, 2


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
        near, low, high = control.pair & ~further, Signal(2), Signal(2)
        m.d.comb += [
            fill.eq(Mux(control.left, control.negate_a, sign)),
            low.eq(Mux(control.left & ~near, fill.replicate(2), Mux(~control.left & further, _TAKE_C, _TAKE_A))),
            high.eq(Mux(near, _TAKE_C, Mux(control.left, _TAKE_A, fill.replicate(2)))),
            plan.pair.eq(Cat(_taken(low, a, c), _taken(high, a, c)))]

        # What of the result counts: from bit ``start`` up to ``stop``, of which both may be 32.
        length, position = b[8:16], Mux(by_byte, b[:8], 0)
        end, end_bits, stop, start = Signal(9), Signal(6), Signal(6), Signal(6)
        m.d.comb += [
            end.eq(length + position), end_bits.eq(Mux(end[5:].any(), 32, end[:5])),
            start.eq(Mux(control.insert, Mux(b[5:8].any(), 32, b[:5]), 0))]
        with m.If(outside):
            m.d.comb += stop.eq(0)
        with m.Elif(control.insert):
            m.d.comb += stop.eq(end_bits)
        with m.Elif(control.field & ~length[5:].any()):
            m.d.comb += stop.eq(length[:5])
        with m.Else():
            m.d.comb += stop.eq(32)
        # A byte below the last bit counts as a whole or up to that bit; likewise for what is below the first one. What
        # is packed takes the place of the latter.
        field_sign, kept, dropped = Signal(), _Below(m, "stop", stop), _Below(m, "start", start)
        partly = Mux(control.pack, Cat(control.which_byte == byte for byte in range(_BYTES)), dropped.partly)
        bits = Mux(control.pack, b[:8], dropped.bits)
        m.d.comb += [
            field_sign.eq(Cat(Const(0, 1), a).bit_select(end_bits, 1) & control.signed_a & length.any()),
            plan.mask.eq(kept.word(kept.partly, kept.bits) & ~dropped.word(partly, bits)),
            plan.other.eq(Mux(control.insert, c, 0) | Mux(
                control.pack, self.marks, Mux(control.field, field_sign, fill).replicate(8)).replicate(4))]
        # What gets lost at the top, from there on: whole bytes, and the highest bits of the next one.
        lost = _Below(m, "lost", Cat(count, outside))
        others = (a ^ sign.replicate(32))[::-1]
        m.d.comb += plan.loses.eq(
            (Cat(byte.any() for byte in (others[at:at + 8] for at in range(0, 32, 8))) & lost.whole).any()
            | (others.word_select(count[3:], 8) & lost.bits).any())
        return m


class WordShiftPlanner(wiring.Component):
    """Shifts of a word, for an ordinary lane; combinational.

    A shift to the left is one of the word in the opposite order to the right, whose outcome comes in the opposite
    order as well.

    Members
    -------
    control : In(LaneControl)
    a, b : In
        The operands, a as it is shifted.
    plan : Out(ShiftPlan)
        Its ``amount``, ``fill`` and ``counts``.
    """

    control: In(LaneControl)
    a: In(32)
    b: In(32)
    plan: Out(ShiftPlan)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        control, plan, b = self.control, self.plan, self.b
        counted, outside, sign = control.count != ShiftCount.FIXED, Signal(), self.a[31] & control.signed_a
        # By 32 and more: the sign, as by 31, or nothing.
        m.d.comb += [
            outside.eq(counted & ~control.wrap & b[5:].any()),
            plan.amount.eq(Mux(counted, b[:5], control.shift) | outside.replicate(5)),
            plan.fill.eq(Mux(control.left, control.negate_a, sign)),
            plan.counts.eq(~outside | control.signed_a)]
        return m


class _Below:
    """The bits of a word that are below a bit, whose number is up to 32: which bytes are so as a whole, which one is
    partly, and which of its bits are then."""

    def __init__(self, m: Module, name: str, number: Value) -> None:
        self.whole, self.partly, self.bits = (Signal(width, name=f"{name}_{what}") for what, width in (
            ("whole", _BYTES), ("partly", _BYTES), ("bits", 8)))
        byte, bit = number[3:5], number[:3]
        m.d.comb += [
            self.whole.eq(Cat(number[5] | (byte > place) for place in range(_BYTES))),
            self.partly.eq(Cat(~number[5] & (byte == place) for place in range(_BYTES))),
            self.bits.eq(Cat(bit > place for place in range(8)))]

    def word(self, partly: Value, bits: Value) -> Value:
        """All of them, with ``partly`` and ``bits`` in place of its own."""
        return Cat(whole.replicate(8) | (part.replicate(8) & bits)
                   for whole, part in zip(self.whole, partly, strict=True))


def _taken(code: Value, a: Value, c: Value) -> Value:
    """A word by one of the codes above; 0 stands for zeros and 3 for ones, so that each bit is a table of four."""
    return Mux(code[1], c | code[0].replicate(32), a & code[0].replicate(32))
