"""Shifts, fields and packed bits, as a plan for the one shifter."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .control import LaneControl, Part, ShiftCount
from .stages import Operands, ShiftPlan

__all__ = ["ShiftPlanner", "WordShiftPlanner", "loses_bits"]

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
        The terms, a and c with their carries; b is a part of its operand.
    negative : In(1)
        What is shifted is signed and below zero, if it is no pair.
    operands : In(Operands)
        Whole, for what is no shift of a part: pairs, and fields.
    marks : In(8)
        The predicates or flags that are packed.
    plan : Out(ShiftPlan)
    """

    control: In(LaneControl)
    a: In(33)
    b: In(32)
    c: In(33)
    negative: In(1)
    operands: In(Operands)
    marks: In(8)
    plan: Out(ShiftPlan)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        control, plan, a, b, c, operands = (
            self.control, self.plan, self.a[:32], self.b, self.c[:32], self.operands)

        # Counts of 32 and more: the word that is further off, or nothing at all.
        counted, by_byte, further, count = Signal(), control.count == ShiftCount.BYTE, Signal(), Signal(5)

        def over(number: Value) -> Value:
            return Mux(control.wide, number[6:].any(), number[5:8].any() | (~by_byte & number[8:].any()))

        m.d.comb += [
            counted.eq(control.count != ShiftCount.FIXED),
            further.eq(counted & control.pair & Mux(
                control.wide, operands.b[5], over(operands.b) & ~control.wrap)),
            plan.outside.eq(counted & over(b) & ~control.wrap & (control.wide | ~control.pair)),
            count.eq(Mux(counted, b[:5] & ~(further & ~control.wide).replicate(5), control.shift)),
            plan.amount.eq(count ^ control.left.replicate(5))]

        # The pair. Below a complemented word come the ones of its complement.
        sign, fill = Mux(control.pair, operands.c[31] & control.signed_a, self.negative), Signal()
        near, low, high = control.pair & ~further, Signal(2), Signal(2)
        m.d.comb += [
            fill.eq(Mux(control.left, control.negate_a, sign)),
            low.eq(Mux(control.left & ~near, fill.replicate(2), Mux(~control.left & further, _TAKE_C, _TAKE_A))),
            high.eq(Mux(near, _TAKE_C, Mux(control.left, _TAKE_A, fill.replicate(2)))),
            plan.pair.eq(Cat(_taken(low, a, c), _taken(high, a, c)))]

        # What of the result counts, if any: from bit ``start`` up to ``stop``, of which both may be 32.
        selector, field = operands.b, Mux(control.part_a == Part.REVERSED, operands.a[::-1], operands.a)
        length, position = selector[8:16], Mux(by_byte, selector[:8], 0)
        end, end_bits, stop, start = Signal(9), Signal(6), Signal(6), Signal(6)
        m.d.comb += [
            end.eq(length + position), end_bits.eq(Mux(end[5:].any(), 32, end[:5])),
            start.eq(Mux(control.insert, Mux(selector[5:8].any(), 32, selector[:5]), 0))]
        with m.If(control.insert):
            m.d.comb += stop.eq(end_bits)
        with m.Elif(control.field & ~length[5:].any()):
            m.d.comb += stop.eq(length[:5])
        with m.Else():
            m.d.comb += stop.eq(32)
        # A byte below the last bit counts as a whole or up to that bit; likewise for what is below the first one. What
        # is packed takes the place of the latter.
        field_sign, kept, dropped = Signal(), _Below(m, "stop", stop), _Below(m, "start", start)
        partly = Mux(control.pack, Cat(control.which_byte == byte for byte in range(_BYTES)), dropped.partly)
        bits = Mux(control.pack, selector[:8], dropped.bits)
        m.d.comb += [
            field_sign.eq(Cat(Const(0, 1), field).bit_select(end_bits, 1) & control.signed_a & length.any()),
            plan.mask.eq(kept.word(kept.partly, kept.bits) & ~dropped.word(partly, bits)),
            plan.other.eq(Mux(control.insert, c, 0) | Mux(
                control.pack, self.marks, Mux(control.field, field_sign, fill).replicate(8)).replicate(4))]
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


def loses_bits(m: Module, plan: ShiftPlan, word: Value, negative: Value) -> Value:
    """Whether a word that goes to the left as planned loses bits that are not as its sign: whole bytes at the top, or
    the highest bits of the next one."""
    count = ~plan.amount
    lost, others = _Below(m, "lost", Cat(count, plan.outside)), (word ^ negative.replicate(32))[::-1]
    return ((Cat(others.word_select(byte, 8).any() for byte in range(_BYTES)) & lost.whole).any()
            | (others.word_select(count[3:], 8) & lost.bits).any())


def _taken(code: Value, a: Value, c: Value) -> Value:
    """A word by one of the codes above; 0 stands for zeros and 3 for ones, so that each bit is a table of four."""
    return Mux(code[1], c | code[0].replicate(32), a & code[0].replicate(32))
