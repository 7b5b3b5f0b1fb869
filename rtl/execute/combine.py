"""The second stage of a lane: the thread's decision, and the two terms of its result."""

from abc import abstractmethod

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.isa.kinds import SumShift
from rtl.sums import sum_with_carry

from .bounds import ONE, kept_bytes
from .control import FirstTerm, LaneControl, ProductPart
from .float_add import FloatAdd
from .float_window import FloatSum
from .permute import permuted
from .shift_plan import loses_bits
from .shifter import shifted_down
from .stages import (
    PREPARED_SUM_BITS,
    WORD_BYTES,
    Prepared,
    Terms,
    Unbounded,
    Verdict,
    without_gaps,
)

__all__ = ["CombineStage", "FullCombineStage", "WordCombineStage"]

_WORD_SHIFT_BITS = 31
"""How far a shifter moves a word at most."""
_LOW_BYTE_SHIFT = 7
"""What the shifter of a low byte has below the word."""


class CombineStage(wiring.Component):
    """Logic, shifts, products and sums of a and b: the terms x and y, and the carry in ``plus``;
    combinational.

    x is the OR of all candidates, which are gated to 0 unless selected; logic is 0 by its table.

    Parameters
    ----------
    floats : bool
        With floating point.

    Members
    -------
    control : In(LaneControl)
    prepared : In(Prepared)
    terms : Out(Terms)
    sum : Out(FloatSum)
    """

    control: In(LaneControl)
    prepared: In(Prepared)
    terms: Out(Terms)
    sum: Out(FloatSum)

    def __init__(self, *, floats: bool) -> None:
        self._floats = floats
        super().__init__()
        self._logic = Signal(32, name="logic")
        """The logic function of a, b and c."""
        self._sum_ab = Signal(PREPARED_SUM_BITS, name="sum_ab")
        """a + b."""
        self._shifted = Signal(32, name="shifted")
        self._product = Signal(64, name="product")
        """The product of words; of an ordinary lane that of mantissas."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._decide(m)
        self._look_up(m)
        self._add(m)
        self._shift(m)
        self._join_product(m)
        self._choose_x(m)
        self._choose_y(m)
        self._choose_plus(m)
        if self._floats:
            self._add_floats(m)
        return m

    @abstractmethod
    def _add(self, m: Module) -> None:
        """The sum of a and b."""

    @abstractmethod
    def _shift(self, m: Module) -> None:
        """The outcome of the planned shift."""

    @abstractmethod
    def _join_product(self, m: Module) -> None:
        """The product of wide factors, of the products of their parts."""

    @abstractmethod
    def _choose_y(self, m: Module) -> None:
        """The second term."""

    @abstractmethod
    def _choose_plus(self, m: Module) -> None:
        """The carry in of the final sum, by the carry flag and by negations."""

    def _decide(self, m: Module) -> None:
        """The thread's decision, by the relation of a and b."""
        prepared = self.prepared
        terms = self.terms
        m.d.comb += terms.decision.eq(self._of_relation(prepared.decision))
        m.d.comb += terms.opposite.eq(self._of_relation(prepared.opposite_decision))
        m.d.comb += terms.relation.eq(prepared.relation)
        m.d.comb += terms.conditions.eq(prepared.conditions)

    def _of_relation(self, verdict: Verdict) -> Value:
        """The bit of a verdict that the relation selects."""
        less = self.prepared.relation.less
        equal = self.prepared.relation.equal
        greater = ~less & ~equal
        return (
            (verdict.less & less)
            | (verdict.equal & equal)
            | (verdict.greater & greater))

    def _look_up(self, m: Module) -> None:
        """The logic function of a, b and c, bit by bit. The control signals have two truth tables:
        the decision selects one."""
        control = self.control
        prepared = self.prepared
        table = Mux(self.terms.decision, control.table, control.table_otherwise)
        words: list[Value] = [bit.replicate(32) for bit in table]
        for selector in (prepared.c[:32], prepared.b, prepared.a[:32]):
            words = [
                (if_one & selector) | (if_zero & ~selector)
                for if_zero, if_one in zip(words[::2], words[1::2], strict=True)]
        m.d.comb += self._logic.eq(words[0])

    def _choose_x(self, m: Module) -> None:
        """The first term, for instructions of all lanes. The floating-point unit adds the sign of
        its numbers later."""
        control = self.control
        half_product = self.prepared.products[0][:32]
        is_product = control.product == ProductPart.HALVES
        is_low_product = is_product & ~control.result_high
        is_high_product = is_product & control.result_high
        logic = self._logic & Mux(control.as_one, Const(ONE, 32), Const(~0, 32))
        x = Signal(PREPARED_SUM_BITS)
        m.d.comb += x.eq(
            logic
            | _gated(self._sum_ab, control.first == FirstTerm.SUM)
            | _gated(self._shifted, control.first == FirstTerm.SHIFT)
            | _gated(half_product, is_low_product)
            | Cat(Const(0, 16), _gated(half_product[:16], is_high_product)))
        m.d.comb += self.terms.x.eq(Cat(x[:31], x[31] & ~control.floating.real, x[32:]))

    def _add_floats(self, m: Module) -> None:
        """The second stage of the floating-point unit."""
        m.submodules.floats = floats = FloatAdd()
        m.d.comb += floats.control.eq(self.control.floating)
        m.d.comb += floats.aligned.eq(self.prepared.aligned)
        m.d.comb += floats.product.eq(self._product)
        m.d.comb += floats.decision.eq(self.terms.decision)
        m.d.comb += self.sum.eq(floats.sum)


class WordCombineStage(CombineStage):
    """The second stage of an ordinary lane."""

    def _add(self, m: Module) -> None:
        prepared = self.prepared
        m.d.comb += self._sum_ab.eq(sum_with_carry(prepared.a, prepared.b, prepared.one_more))
        m.d.comb += self.terms.b.eq(prepared.b)

    def _shift(self, m: Module) -> None:
        """The shifter shifts to the right. A shift to the left reverses the bits before and
        after."""
        control = self.control
        prepared = self.prepared
        plan = prepared.shift
        pair = Cat(prepared.c[:32][::-1], prepared.a[:_WORD_SHIFT_BITS])
        word = Cat(prepared.a[:32], plan.fill.replicate(_WORD_SHIFT_BITS))
        moved = Signal(32)
        m.d.comb += moved.eq(shifted_down(m, Mux(control.pair, pair, word), plan.amount, 32))
        m.d.comb += self._shifted.eq(
            _gated(moved, plan.counts & ~control.left)
            | _gated(moved[::-1], plan.counts & control.left))

    def _join_product(self, m: Module) -> None:
        """Of mantissas of 24 bits, in parts of 16 and 8."""
        products = self.prepared.products
        low = products[0]
        high = products[3]
        middle = products[1][:24] + products[2][:24]
        upper = Signal(32)
        m.d.comb += upper.eq(Cat(low[16:32], high[:16]) + middle)
        m.d.comb += self._product.eq(Cat(low[:16], upper))

    def _choose_y(self, m: Module) -> None:
        control = self.control
        prepared = self.prepared
        m.d.comb += self.terms.y.eq(
            _gated(prepared.b, control.add_b) | _gated(prepared.c[:32], control.add_c))

    def _choose_plus(self, m: Module) -> None:
        """Of two negations, one has its carry in the sum of a and b, and the other one in
        ``plus``."""
        control = self.control
        adds_carry = control.add_carry & self.prepared.conditions.carry
        ones = control.one_a + control.one_b + control.one_c
        m.d.comb += self.terms.plus.eq(control.plus_one | adds_carry | (ones > 1))


class FullCombineStage(CombineStage):
    """The second stage of a full lane, which adds sums and distances of bytes, products of words,
    and permutations.

    Members
    -------
    unbounded : Out(Unbounded)
        For instructions of a quarter of the rate.
    """

    unbounded: Out(Unbounded)

    def __init__(self, *, floats: bool) -> None:
        super().__init__(floats=floats)
        self._total = Signal(65, name="total")
        """The product of words, with c if that is added, and its sign."""
        self._product_part = Signal(32, name="product_part")
        self._low_word_is_zero = Signal(name="low_word_is_zero")
        """Of the product."""
        self._distances = Signal(11, name="distances")
        """The sum of the distances of four bytes, or one less: then ``distances_lack_one`` is 1."""
        self._distances_lack_one = Signal(name="distances_lack_one")

    def elaborate(self, platform: object) -> Module:
        m = super().elaborate(platform)
        self._select_product(m)
        self._add_distances(m)
        self._choose_unbounded(m)
        return m

    def _complemented_a(self) -> Value:
        """a, with the bytes in ``opposite`` complemented."""
        opposite = self.prepared.opposite
        bytes_ = (is_opposite.replicate(8) for is_opposite in opposite)
        return self.prepared.a ^ Cat(*bytes_, opposite[-1].replicate(2))

    def _add(self, m: Module) -> None:
        """One sum of words, or four of bytes, in one carry chain with a separator bit between the
        bytes (see ``between``). If a byte has a carry when one is added, its ninth bit is 0, so
        that the carry does not propagate to the next byte."""
        prepared = self.prepared
        a = self._complemented_a()
        spread_a: list[Value] = []
        spread_b: list[Value] = []
        for place in range(WORD_BYTES - 1):
            spread_a.append(a[8 * place:8 * place + 8])
            spread_a.append(prepared.between[place])
            spread_b.append(prepared.b[8 * place:8 * place + 8])
            spread_b.append(Const(0, 1))
        spread_a.append(a[24:])
        spread_b.append(prepared.b[24:])
        spread = sum_with_carry(
            Cat(*spread_a), Cat(*spread_b, Const(0, 2)), prepared.one_more)
        m.d.comb += self._sum_ab.eq(without_gaps(spread, 9))
        m.d.comb += self.terms.b.eq(prepared.low_b)

    def _add_distances(self, m: Module) -> None:
        """The sum of four distances. Each is a number of nine bits, complemented if its difference
        is below zero, and a one otherwise."""
        prepared = self.prepared
        a = self._complemented_a()
        ninths = [*prepared.between, a[32]]
        numbers = [
            Cat(a[8 * place:8 * place + 8], ninth) for place, ninth in enumerate(ninths)]
        ones = [prepared.b[8 * place] for place in range(WORD_BYTES)]
        lower = sum_with_carry(numbers[0], numbers[1], ones[0])
        upper = sum_with_carry(numbers[2], numbers[3], ones[2])
        m.d.comb += self._distances.eq(sum_with_carry(lower, upper, ones[1]))
        m.d.comb += self._distances_lack_one.eq(ones[3])

    def _shift(self, m: Module) -> None:
        """The outcome of the planned shift. Beside it, the highest byte of the low word of a
        shifted pair."""
        control = self.control
        plan = self.prepared.shift
        a = self.prepared.a[:32]
        shifted = Signal(33)
        mask = Signal(32)
        m.d.comb += shifted.eq(shifted_down(m, plan.pair, plan.amount, 33))
        m.d.comb += mask.eq(plan.mask & ~plan.outside.replicate(32))
        moved = Mux(control.left, shifted[1:], shifted[:32])
        m.d.comb += self._shifted.eq((moved & mask) | (plan.other & ~mask))

        fill = control.negate_a & ~control.one_a
        low_word = Cat(fill.replicate(_LOW_BYTE_SHIFT), a)
        m.d.comb += self.terms.low_byte.eq(shifted_down(m, low_word, plan.amount, 8))

    def _join_product(self, m: Module) -> None:
        """The product of words: low by low and high by high halves, plus c, plus the two mixed
        products at bit 16."""
        prepared = self.prepared
        products = prepared.products
        low = products[0]
        high = products[3]
        middle = products[1] + products[2]
        addend = Cat(prepared.addend, prepared.addend[32].replicate(32))
        one_more = prepared.one_more & self.control.add_to_product
        outer = sum_with_carry(Cat(low[:32], high[:33]), addend, one_more)[:65]
        m.d.comb += self._total.eq(Cat(outer[:16], (outer[16:] + middle)[:49]))
        m.d.comb += self._product.eq(self._total)
        m.d.comb += self._low_word_is_zero.eq(~self._total[:32].any())

    def _select_product(self, m: Module) -> None:
        """The selected word of the product, or of its complement."""
        control = self.control
        product = self._product ^ control.complement.replicate(64)
        with m.Switch(control.product):
            with m.Case(ProductPart.LOW):
                m.d.comb += self._product_part.eq(product[:32])
            with m.Case(ProductPart.HIGH):
                m.d.comb += self._product_part.eq(product[32:])
            with m.Case(ProductPart.HALVES):
                m.d.comb += self._product_part.eq(self.prepared.products[0])
            with m.Case(ProductPart.SCALED_7):
                m.d.comb += self._product_part.eq(product[7:39])
            with m.Case(ProductPart.SCALED_15):
                m.d.comb += self._product_part.eq(product[15:47])

    def _product_exceeds_word(self) -> Value:
        """Whether a product with c, scaled, has more than 32 bits and a sign."""
        part = self.control.product
        is_by_7 = part == ProductPart.SCALED_7
        is_by_15 = part == ProductPart.SCALED_15
        is_unlike_sign = self._total[32:64] ^ self._total[64].replicate(32)
        above_47 = is_unlike_sign[15:].any()
        above_39 = is_unlike_sign[7:15].any() & ~is_by_15
        above_32 = is_unlike_sign[:7].any() & ~is_by_15 & ~is_by_7
        return above_47 | above_39 | above_32

    def _choose_y(self, m: Module) -> None:
        control = self.control
        prepared = self.prepared
        c = Cat(prepared.c[:32] & kept_bytes(control), prepared.c[32] & control.three)
        m.d.comb += self.terms.y.eq(_gated(prepared.b, control.add_b) | c)

    def _choose_plus(self, m: Module) -> None:
        control = self.control
        adds_carry = control.add_carry & self.prepared.conditions.carry
        completes_product = control.complete & self._low_word_is_zero
        is_distances = control.first == FirstTerm.DISTANCES
        completes_distances = is_distances & self._distances_lack_one
        m.d.comb += self.terms.plus.eq(
            control.plus_one | adds_carry | completes_product | completes_distances)

    def _choose_unbounded(self, m: Module) -> None:
        """The terms for BoundStage, with the selected first term, its sign, and whether it exceeds
        32 bits."""
        control = self.control
        prepared = self.prepared
        unbounded = self.unbounded
        is_negative = unbounded.is_negative
        exceeds_word = unbounded.exceeds_word
        first = Signal(32)
        with m.Switch(control.first):
            with m.Case(FirstTerm.LOGIC):
                m.d.comb += first.eq(self._logic)
                m.d.comb += is_negative.eq(
                    Mux(self.terms.decision, prepared.negative_a, prepared.negative_b))
            with m.Case(FirstTerm.SHIFT):
                m.d.comb += first.eq(self._shifted)
                m.d.comb += is_negative.eq(prepared.negative_a)
                m.d.comb += exceeds_word.eq(control.left & loses_bits(
                    m, prepared.shift, prepared.a[:32], prepared.negative_a))
            with m.Case(FirstTerm.PERMUTATION):
                m.d.comb += first.eq(permuted(
                    m, prepared.picks.as_value(), prepared.a[:32], prepared.c[:32]))
            with m.Case(FirstTerm.PRODUCT):
                m.d.comb += first.eq(self._product_part)
                m.d.comb += is_negative.eq(self._total[64] ^ control.complement)
                m.d.comb += exceeds_word.eq(self._product_exceeds_word())
            with m.Case(FirstTerm.DISTANCES):
                m.d.comb += first.eq(self._distances)
            with m.Case(FirstTerm.SUM):
                m.d.comb += is_negative.eq(self._sum_ab[33])
                m.d.comb += exceeds_word.eq(self._sum_ab[32] != self._sum_ab[33])
                with m.If(control.sum_shift == SumShift.RS):
                    m.d.comb += first.eq(self._sum_ab[16:33])
                with m.Else():
                    m.d.comb += first.eq(self._sum_ab)
        keeps_carry = control.three & (control.sum_shift == SumShift.NONE)
        m.d.comb += unbounded.terms.eq(self.terms)
        m.d.comb += unbounded.terms.x.eq(Cat(first, _gated(self._sum_ab[32:], keeps_carry)))


def _gated(value: Value, holds: Value) -> Value:
    """The value, or 0."""
    return value & holds.replicate(len(value))
