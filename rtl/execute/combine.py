"""The second stage of a lane: what the thread decides, and the two terms of its result."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.isa.kinds import SumShift
from rtl.sums import sum_with_carry

from .bounds import ONE, kept_bytes
from .control import FirstTerm, LaneControl, ProductPart
from .float_unit import FloatAdd, FloatAligned, FloatSum
from .permute import BytePermuter
from .shift_plan import loses_bits
from .shifter import Shifter
from .stages import PREPARED_SUM_BITS, WORD_BYTES, Prepared, Terms, Unbounded, Verdict, together

__all__ = ["TermStage"]


class TermStage(wiring.Component):
    """Logic, shifts, permutations, products and first sums; combinational.

    Parameters
    ----------
    full : bool
        Of a full lane.
    floats : bool
        With floating point.

    Members
    -------
    control : In(LaneControl)
    prepared : In(Prepared)
    aligned : In(FloatAligned)
    terms : Out(Terms)
    unbounded : Out(Unbounded)
        Of a full lane: of what passes such lanes only.
    sum : Out(FloatSum)
    """

    control: In(LaneControl)
    prepared: In(Prepared)
    aligned: In(FloatAligned)
    terms: Out(Terms)
    unbounded: Out(Unbounded)
    sum: Out(FloatSum)

    def __init__(self, *, full: bool, floats: bool) -> None:
        self._full, self._floats = full, floats
        super().__init__()
        self._total = Signal(65)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        control, prepared, terms = self.control, self.prepared, self.terms
        sum_of_two, logic, table = Signal(PREPARED_SUM_BITS), Signal(32), Signal(8)
        m.d.comb += [
            terms.decision.eq(self._decided(prepared.decision)),
            terms.opposite.eq(self._decided(prepared.opposite_decision)),
            table.eq(Mux(terms.decision, control.table, control.table_otherwise)),
            sum_of_two.eq(self._sum_of_two() if self._full else sum_with_carry(
                prepared.a, prepared.b, prepared.one_more)),
            logic.eq(_looked_up(table, prepared)), terms.b.eq(prepared.low_b if self._full else prepared.b),
            terms.less.eq(prepared.less), terms.equal.eq(prepared.equal), terms.conditions.eq(prepared.conditions)]
        product = self._multiply(m)
        if self._floats:
            m.submodules.floats = floats = FloatAdd()
            m.d.comb += [
                floats.control.eq(control.floating), floats.aligned.eq(self.aligned), floats.product.eq(product),
                floats.decision.eq(terms.decision), self.sum.eq(floats.sum)]
        if self._full:
            self._terms(m, sum_of_two, logic, product)
        else:
            self._simple_terms(m, sum_of_two, logic)
        return m

    def _simple_terms(self, m: Module, sum_of_two: Signal, logic: Signal) -> None:
        """The terms of an ordinary lane."""
        control, prepared, terms, plan = self.control, self.prepared, self.terms, self.prepared.shift
        m.submodules.shifter = shifter = Shifter(32)
        ones = control.one_a + control.one_b + control.one_c
        m.d.comb += [
            shifter.word.eq(Mux(control.pair, Cat(prepared.c[:32][::-1], prepared.a[:31]),
                                Cat(prepared.a[:32], plan.fill.replicate(31)))),
            shifter.amount.eq(plan.amount),
            terms.x.eq(self._first(logic, sum_of_two, _gated(shifter.moved, plan.counts & ~control.left)
                                   | _gated(shifter.moved[::-1], plan.counts & control.left))),
            terms.y.eq(_gated(prepared.b, control.add_b) | _gated(prepared.c[:32], control.add_c)),
            terms.plus.eq(control.plus_one | (control.add_carry & prepared.conditions.carry) | (ones > 1))]

    def _first(self, logic: Value, sum_of_two: Value, shifted: Value) -> Value:
        """The first term of what passes all lanes. What it is not is 0, logic by its table."""
        control, low = self.control, self.prepared.products[0][:32]
        product, high = control.product == ProductPart.HALVES, control.result_high
        first = ((logic & Mux(control.as_one, ONE, ~0)) | _gated(sum_of_two, control.first == FirstTerm.SUM)
                 | _gated(shifted, control.first == FirstTerm.SHIFT) | _gated(low, product & ~high)
                 | Cat(Const(0, 16), _gated(low[:16], product & high)))
        return Cat(first[:31], first[31] & ~control.floating.real, first[32:])

    def _complemented(self) -> Value:
        """A, its bytes complemented where they are to be."""
        opposite = self.prepared.opposite
        return self.prepared.a ^ Cat(*(one.replicate(8) for one in opposite), opposite[-1].replicate(2))

    def _sum_of_two(self) -> Value:
        """A and b: one sum, or four, of bytes. A byte that one is added to and that has a carry has a zero for its
        ninth bit, where the carry stays."""
        prepared, terms, a = self.prepared, ([], []), self._complemented()
        for place in range(WORD_BYTES):
            for term, word in zip(terms, (a, prepared.b), strict=True):
                term.append(word[8 * place:8 * place + 8])
            if place < WORD_BYTES - 1:
                terms[0].append(prepared.between[place])
                terms[1].append(Const(0, 1))
        return together(sum_with_carry(Cat(*terms[0], a[32:]), Cat(*terms[1], Const(0, 2)),
                                       prepared.one_more), 9)

    def _distances(self) -> tuple[Value, Value]:
        """The sum of the distances of four bytes, but for one that may have to be added; that one."""
        prepared, a = self.prepared, self._complemented()
        last = [*prepared.between, a[32]]
        numbers = [Cat(a[8 * place:8 * place + 8], ninth) for place, ninth in enumerate(last)]
        ones = [prepared.b[8 * place] for place in range(WORD_BYTES)]
        first, second = (sum_with_carry(numbers[at], numbers[at + 1], ones[at]) for at in (0, 2))
        return sum_with_carry(first, second, ones[1]), ones[3]

    def _terms(self, m: Module, sum_of_two: Signal, logic: Signal, whole: Value) -> None:
        """The terms of a full lane."""
        control, prepared, terms, unbounded = self.control, self.prepared, self.terms, self.unbounded
        product, low_zero = self._product(m, whole)
        distances, one_more = self._distances()
        shifted = self._shifted(m)
        m.d.comb += [
            terms.x.eq(self._first(logic, sum_of_two, shifted)),
            terms.y.eq((prepared.b & control.add_b.replicate(32)) | Cat(
                prepared.c[:32] & kept_bytes(control), prepared.c[32] & control.three)),
            terms.plus.eq(control.plus_one | (control.add_carry & prepared.conditions.carry)
                          | (control.complete & low_zero) | ((control.first == FirstTerm.DISTANCES) & one_more)),
            unbounded.terms.eq(terms)]

        m.submodules.permuter = permuter = BytePermuter()
        first, negative, beyond = Signal(32), unbounded.negative, unbounded.beyond
        m.d.comb += [permuter.picks.eq(prepared.picks), permuter.low.eq(prepared.a), permuter.high.eq(prepared.c)]
        with m.Switch(control.first):
            with m.Case(FirstTerm.LOGIC):
                m.d.comb += [first.eq(logic),
                             negative.eq(Mux(terms.decision, prepared.negative_a, prepared.negative_b))]
            with m.Case(FirstTerm.SHIFT):
                m.d.comb += [first.eq(shifted), negative.eq(prepared.negative_a),
                             beyond.eq(control.left & loses_bits(
                                 m, prepared.shift, prepared.a[:32], prepared.negative_a))]
            with m.Case(FirstTerm.PERMUTATION):
                m.d.comb += first.eq(permuter.result)
            with m.Case(FirstTerm.PRODUCT):
                m.d.comb += [first.eq(product), negative.eq(self._total[64] ^ control.complement),
                             beyond.eq(self._product_beyond())]
            with m.Case(FirstTerm.DISTANCES):
                m.d.comb += first.eq(distances)
            with m.Case(FirstTerm.SUM):
                m.d.comb += [negative.eq(sum_of_two[33]), beyond.eq(sum_of_two[32] != sum_of_two[33])]
                with m.Switch(control.sum_shift):
                    with m.Case(SumShift.RS):
                        m.d.comb += first.eq(sum_of_two[16:33])
                    with m.Default():
                        m.d.comb += first.eq(sum_of_two)
        m.d.comb += unbounded.terms.x.eq(Cat(
            first, Mux(control.three & (control.sum_shift == SumShift.NONE), sum_of_two[32:], 0)))

    def _decided(self, verdict: Verdict) -> Value:
        """What of it is true."""
        less, equal = self.prepared.less, self.prepared.equal
        return (verdict.less & less) | (verdict.equal & equal) | (verdict.greater & ~less & ~equal)

    def _multiply(self, m: Module) -> Value:
        """The product of whole words, 64 bits, to which a full lane adds c; of mantissas, 48, in an ordinary lane."""
        control, prepared = self.control, self.prepared
        low, upper_b, upper_a, high = prepared.products
        if not self._full:
            upper = Signal(32)
            m.d.comb += upper.eq(Cat(low[16:32], high[:16]) + (upper_a[:24] + upper_b[:24]))
            return Cat(low[:16], upper)
        outer = sum_with_carry(Cat(low[:32], high[:33]), Cat(prepared.addend, prepared.addend[32].replicate(32)),
                               prepared.one_more & control.add_to_product)[:65]
        m.d.comb += self._total.eq(Cat(outer[:16], (outer[16:] + (upper_a + upper_b))[:49]))
        return self._total[:64]

    def _product(self, m: Module, whole: Value) -> tuple[Signal, Signal]:
        """The part of the product, or of its complement; whether the product's low word is zero."""
        control, low, upper = self.control, self.prepared.products[0], whole[16:]
        product, low_zero = Signal(32), Signal()
        m.d.comb += low_zero.eq(~whole[:32].any())
        complement = control.complement.replicate(32)
        with m.Switch(control.product):
            with m.Case(ProductPart.LOW):
                m.d.comb += product.eq(whole[:32] ^ complement)
            with m.Case(ProductPart.HIGH):
                m.d.comb += product.eq(upper[16:] ^ complement)
            with m.Case(ProductPart.HALVES):
                m.d.comb += product.eq(low)
            with m.Case(ProductPart.SCALED_7):
                m.d.comb += product.eq(whole[7:39] ^ complement)
            with m.Case(ProductPart.SCALED_15):
                m.d.comb += product.eq(whole[15:47] ^ complement)
        return product, low_zero

    def _product_beyond(self) -> Value:
        """Whether a product with c, scaled, is beyond 32 bits and a sign."""
        part, same = self.control.product, self._total[32:64] ^ self._total[64].replicate(32)
        seven, fifteen = part == ProductPart.SCALED_7, part == ProductPart.SCALED_15
        return same[15:].any() | (~fifteen & same[7:15].any()) | (~fifteen & ~seven & same[:7].any())

    def _shifted(self, m: Module) -> Signal:
        """The outcome of the planned shift; makes the low byte of a shifted pair, too."""
        control, plan, a = self.control, self.prepared.shift, self.prepared.a
        m.submodules.shifter = shifter = Shifter(33)
        m.submodules.low_shifter = low_shifter = Shifter(8)
        result, mask = Signal(32), Signal(32)
        fill = (control.negate_a & ~control.one_a).replicate(7)
        m.d.comb += [
            shifter.word.eq(plan.pair), shifter.amount.eq(plan.amount), low_shifter.word.eq(Cat(fill, a[:32])),
            low_shifter.amount.eq(plan.amount), self.terms.low_byte.eq(low_shifter.moved),
            mask.eq(plan.mask & ~plan.outside.replicate(32)),
            result.eq((Mux(control.left, shifter.moved[1:], shifter.moved[:32]) & mask) | (plan.other & ~mask))]
        return result


def _gated(value: Value, holds: Value) -> Value:
    return value & holds.replicate(len(value))


def _looked_up(table: Value, prepared: Prepared) -> Value:
    """The function with this truth table of a, b and c, bit by bit."""
    a, b, c = prepared.a[:32], prepared.b, prepared.c[:32]
    words = [bit.replicate(32) for bit in table]
    for selector in (c, b, a):
        words = [(one & selector) | (zero & ~selector) for zero, one in zip(words[::2], words[1::2], strict=True)]
    return words[0]
