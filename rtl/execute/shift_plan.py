"""Plans shifts, bit fields and packed bits, all for one shifter."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.structs import struct_value

from .control import LaneControl, Part, ShiftCount
from .stages import WORD_BYTES, Operands, ShiftPlan

__all__ = ["ShiftPlanner", "ShiftTerms", "loses_bits", "word_shift_plan"]

# Codes of a half of a pair; 0 stands for zeros and 3 for ones, so that each bit is a table of four.
_TAKE_A = 1
_TAKE_C = 2


class ShiftTerms(data.Struct):
    """The operands of a shift."""

    a: unsigned(33)
    """The term a, with its carry; c likewise."""
    b: unsigned(32)
    """A part of operand b: the count, unless it is fixed."""
    c: unsigned(33)


class ShiftPlanner(wiring.Component):
    """Counts and masks; combinational.

    A shift to the left by n is a shift to the right of the pair {word, zeros} by 32 - n. That is by
    31 - n, the complement of n, and by one more.

    ==============  ====================  ====================  ==============================
    operation       pair, high word       pair, low word        what counts of the result
    ==============  ====================  ====================  ==============================
    right           fill                  a                     all; nothing by 32 and more
    left            a                     fill                  all; nothing by 32 and more
    pair, right     c; fill by 32 and     a; c by 32 and more   all
                    more
    pair, left      c; a by 32 and more   a; fill by 32 and     all
                                          more
    field           fill                  a                     up to its length
    insertion       a                     fill                  from its first to its last bit;
                                                                c elsewhere
    packing         fill                  a                     all but a byte; there marks
                                                                where b has ones
    ==============  ====================  ====================  ==============================

    Members
    -------
    control : In(LaneControl)
    terms : In(ShiftTerms)
    negative : In(1)
        The word is signed and below zero. Not for pairs.
    operands : In(Operands)
        The whole operands, for pairs and fields.
    marks : In(8)
        The predicates or flags that are packed.
    plan : Out(ShiftPlan)
    """

    control: In(LaneControl)
    terms: In(ShiftTerms)
    negative: In(1)
    operands: In(Operands)
    marks: In(8)
    plan: Out(ShiftPlan)

    def __init__(self) -> None:
        super().__init__()
        self._is_far = Signal(name="is_far")
        """A pair is shifted by 32 and more."""
        self._fill = Signal(name="fill")
        """The bit that is shifted in."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._plan_amount(m)
        self._plan_pair(m)
        self._plan_result(m)
        return m

    def _is_over(self, number: Value) -> Value:
        """Whether a count is 32 or more; if ``wide``, 64 or more."""
        control = self.control
        by_byte = control.count == ShiftCount.BYTE
        exceeds_word = number[5:8].any() | (number[8:].any() & ~by_byte)
        return Mux(control.wide, number[6:].any(), exceeds_word)

    def _plan_amount(self, m: Module) -> None:
        """The amount, and whether all bits are shifted out."""
        control = self.control
        plan = self.plan
        is_counted = control.count != ShiftCount.FIXED
        count = Signal(5)

        b = self.operands.b
        is_outside_word = Mux(control.wide, b[5], self._is_over(b) & ~control.wrap)
        m.d.comb += self._is_far.eq(is_counted & control.pair & is_outside_word)
        keeps_word = control.pair & ~control.wide
        m.d.comb += plan.outside.eq(
            is_counted & self._is_over(self.terms.b) & ~control.wrap & ~keeps_word)
        with m.If(~is_counted):
            m.d.comb += count.eq(control.shift)
        with m.Elif(self._is_far & ~control.wide):
            m.d.comb += count.eq(0)
        with m.Else():
            m.d.comb += count.eq(self.terms.b[:5])
        m.d.comb += plan.amount.eq(count ^ control.left.replicate(5))

    def _plan_pair(self, m: Module) -> None:
        """The pair that is shifted. Below a complemented word there are ones."""
        control = self.control
        sign = Mux(control.pair, self.operands.c[31] & control.signed_a, self.negative)
        m.d.comb += self._fill.eq(Mux(control.left, control.negate_a, sign))
        fill = self._fill.replicate(2)
        is_near_pair = control.pair & ~self._is_far
        low = Signal(2)
        with m.If(control.left & ~is_near_pair):
            m.d.comb += low.eq(fill)
        with m.Elif(~control.left & self._is_far):
            m.d.comb += low.eq(_TAKE_C)
        with m.Else():
            m.d.comb += low.eq(_TAKE_A)
        high = Signal(2)
        with m.If(is_near_pair):
            m.d.comb += high.eq(_TAKE_C)
        with m.Elif(control.left):
            m.d.comb += high.eq(_TAKE_A)
        with m.Else():
            m.d.comb += high.eq(fill)
        m.d.comb += self.plan.pair.eq(Cat(self._taken(low), self._taken(high)))

    def _taken(self, code: Value) -> Value:
        """A word by one of the codes above."""
        a = self.terms.a[:32]
        c = self.terms.c[:32]
        return Mux(code[1], c | code[0].replicate(32), a & code[0].replicate(32))

    def _plan_result(self, m: Module) -> None:
        """The bits of the result that count, from ``start`` to below ``stop`` (both up to 32), and
        what replaces the others."""
        control = self.control
        selector = self.operands.b
        length = selector[8:16]
        position = Mux(control.count == ShiftCount.BYTE, selector[:8], 0)
        end = Signal(9)
        last = Signal(6)
        m.d.comb += end.eq(length + position)
        m.d.comb += last.eq(Mux(end[5:].any(), 32, end[:5]))

        start = Signal(6)
        stop = Signal(6)
        with m.If(control.insert):
            m.d.comb += start.eq(Mux(selector[5:8].any(), 32, selector[:5]))
            m.d.comb += stop.eq(last)
        with m.Elif(control.field & ~length[5:].any()):
            m.d.comb += stop.eq(length[:5])
        with m.Else():
            m.d.comb += stop.eq(32)

        # Packed bits use the mask of the bits below ``start``.
        kept = _BitsBelow(m, "stop", stop)
        dropped = _BitsBelow(m, "start", start)
        packed_byte = Cat(control.which_byte == byte for byte in range(WORD_BYTES))
        partly = Mux(control.pack, packed_byte, dropped.partly)
        bits = Mux(control.pack, selector[:8], dropped.bits)
        m.d.comb += self.plan.mask.eq(
            kept.word(kept.partly, kept.bits) & ~dropped.word(partly, bits))

        other_byte = Signal(8)
        with m.If(control.pack):
            m.d.comb += other_byte.eq(self.marks)
        with m.Elif(control.field):
            m.d.comb += other_byte.eq(self._field_sign(last).replicate(8))
        with m.Else():
            m.d.comb += other_byte.eq(self._fill.replicate(8))
        other = Mux(control.insert, self.terms.c[:32], 0)
        m.d.comb += self.plan.other.eq(other | other_byte.replicate(WORD_BYTES))

    def _field_sign(self, last: Value) -> Value:
        """The sign of a field that ends below bit ``last``; that of an empty one is 0."""
        control = self.control
        a = self.operands.a
        word = Mux(control.part_a == Part.REVERSED, a[::-1], a)
        top = Cat(Const(0, 1), word).bit_select(last, 1)
        is_empty = ~self.operands.b[8:16].any()
        return top & control.signed_a & ~is_empty


def word_shift_plan(control: Any, a: Value, b: Value) -> Any:
    """The ShiftPlan of an ordinary lane, which shifts words: its ``amount``, ``fill`` and
    ``counts``. ``a`` is the operand that is shifted, ``b`` the count.

    A shift to the left is a shift to the right of the reversed word; the outcome is reversed as
    well, by the second stage.
    """
    is_counted = control.count != ShiftCount.FIXED
    # A count of 32 or more has the outcome of 31 for a signed word, else 0.
    is_outside = is_counted & ~control.wrap & b[5:].any()
    count = Mux(is_counted, b[:5], control.shift)
    sign = a[31] & control.signed_a
    return struct_value(
        ShiftPlan,
        pair=0,
        amount=count | is_outside.replicate(5),
        mask=0,
        other=0,
        outside=0,
        fill=Mux(control.left, control.negate_a, sign),
        counts=~is_outside | control.signed_a)


class _BitsBelow:
    """A mask of the bits of a word below bit ``number``, which is 0 to 32: whole bytes, and a part
    of the byte that has this bit.

    Attributes
    ----------
    whole : 4 bits
        The bytes that are completely below it.
    partly : 4 bits
        The byte that has this bit.
    bits : 8 bits
        The bits of that byte that are below it.
    """

    def __init__(self, m: Module, name: str, number: Value) -> None:
        self.whole = Signal(WORD_BYTES, name=f"{name}_whole")
        self.partly = Signal(WORD_BYTES, name=f"{name}_partly")
        self.bits = Signal(8, name=f"{name}_bits")
        bit = number[:3]
        byte = number[3:5]
        is_all = number[5]
        m.d.comb += self.whole.eq(Cat(is_all | (byte > place) for place in range(WORD_BYTES)))
        m.d.comb += self.partly.eq(Cat(~is_all & (byte == place) for place in range(WORD_BYTES)))
        m.d.comb += self.bits.eq(Cat(bit > place for place in range(8)))

    def word(self, partly: Value, bits: Value) -> Value:
        """The mask as a word, with ``partly`` and ``bits`` in place of those of the object."""
        return Cat(
            is_whole.replicate(8) | (is_part.replicate(8) & bits)
            for is_whole, is_part in zip(self.whole, partly, strict=True))


def loses_bits(m: Module, plan: ShiftPlan, word: Value, negative: Value) -> Value:
    """Whether the planned shift to the left of a word drops bits that differ from its sign: whole
    bytes at the top, or the highest bits of the next one."""
    count = ~plan.amount
    lost = _BitsBelow(m, "lost", Cat(count, plan.outside))
    unlike_sign = (word ^ negative.replicate(32))[::-1]
    bytes_unlike = Cat(unlike_sign.word_select(byte, 8).any() for byte in range(WORD_BYTES))
    next_byte = unlike_sign.word_select(count[3:], 8)
    return (bytes_unlike & lost.whole).any() | (next_byte & lost.bits).any()
