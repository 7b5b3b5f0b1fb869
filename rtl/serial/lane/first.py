"""The first term of the final sum, in a lane that computes a byte in a cycle."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.execute.bounds import ONE, size_of
from rtl.execute.control import FirstTerm, LaneControl, ProductPart, ShiftCount, Truth
from rtl.execute.shifter import moved_down
from rtl.execute.stages import WORD_BYTES, Operands
from rtl.isa.kinds import SumShift
from rtl.sums import sum_with_carry

from .sources import beyond_pair
from .step import Step

__all__ = ["FirstBytes"]

_PRODUCT_BITS = 8 * WORD_BYTES + 1 + 9
_LATE = 3
"""Steps from the bytes that are multiplied to one of their product."""
_PRODUCT_PARTS = tuple(8 * _LATE + {
    ProductPart.HIGH: 32, ProductPart.SCALED_7: 7, ProductPart.SCALED_15: 15}.get(part, 0) for part in ProductPart)
"""From which bit on a part of a product is."""
_WINDOW_BITS = 5 * 8
"""The bits that are kept of a shift: the first term, and a byte below it."""


class FirstBytes(wiring.Component):
    """Sums, shifts, permutations, logic, products: all of them give bytes one after the other, lowest first, up to
    eight and what is above them. A window of these is kept, which begins at any bit.

    While operands are prepared the sum or the difference of a and b is made, or a is taken as it is; then that is the
    low word of what is gone through. The high word is c or a in shifts, otherwise the sign.

    Members
    -------
    control : In(LaneControl)
    operands : In(Operands)
    step : In(Step)
    a, b, c, raw_b, raw_c, inside_b, negative_a, negative_b : In
        See OperandBytes.
    decision : In(1)
    below, same : Out(1)
        The difference of a and b is below zero, or zero; of c, if that is compared with zero.
    term : Out(34)
        The first term, when all its steps are done.
    low_byte : Out(8)
        What is below it.
    negative, beyond : Out(1)
        Before it was cut to a word it was below zero, or had other bits above the word than its sign.
    low_zero : Out(1)
        The low word of the product is zero.
    """

    control: In(LaneControl)
    operands: In(Operands)
    step: In(Step)
    a: In(8)
    b: In(8)
    c: In(8)
    raw_b: In(8)
    raw_c: In(8)
    inside_b: In(1)
    negative_a: In(1)
    negative_b: In(1)
    decision: In(1)
    below: Out(1)
    same: Out(1)
    term: Out(34)
    low_byte: Out(8)
    negative: Out(1)
    beyond: Out(1)
    low_zero: Out(1)

    def __init__(self) -> None:
        super().__init__()
        self._low, self._high = Signal(32), Signal(32)
        """The pair that is gone through."""
        self._signs, self._ninths = Signal(WORD_BYTES), Signal(WORD_BYTES)
        """Of the differences of bytes: whether they are below zero; their ninth bits. Of whole words the last ones."""
        self._product = Signal(_PRODUCT_BITS)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        first = self.control.first
        shifts, multiplies = first == FirstTerm.SHIFT, first == FirstTerm.PRODUCT
        difference = self._difference(m, shifts, multiplies)
        self._pair(m, difference, shifts, multiplies)
        self._multiply(m)
        number, above = self._number(m, shifts, multiplies)
        of_numbers = shifts | multiplies | (first == FirstTerm.SUM) | (first == FirstTerm.DISTANCES)
        stream = Signal(8)
        # A sum of two words that goes down by a half keeps 33 bits.
        cut = (first == FirstTerm.SUM) & (self.control.sum_shift == SumShift.RS) & ~self.step.low
        m.d.comb += stream.eq((number & Cat(of_numbers, of_numbers & ~cut, of_numbers.replicate(6)))
                              | (self._logic(m) & self._truth_mask()) | above)
        self._window(m, stream, shifts, multiplies)
        return m

    def _difference(self, m: Module, shifts: Value, multiplies: Value) -> Signal:
        """The sum or difference of a and b, as one or byte by byte; or a."""
        control, step = self.control, self.step
        total = Signal(9)
        carry = Signal()
        carry_in = Signal()
        alone = shifts | multiplies
        subtracts = ~control.adds & ~control.three
        other = ~control.three & (self.negative_b ^ ~control.adds)
        rest = Signal()
        ninth = Signal()
        sign = Signal()
        m.d.comb += [
            carry_in.eq(Mux(
                step.first_place | control.bytes,
                Mux(control.extended, self.operands.conditions.carry, Mux(control.three, control.one_a, subtracts))
                & ~alone, carry)),
            total.eq(sum_with_carry(self.a, self.b, carry_in)),
            ninth.eq(self.negative_a ^ other ^ total[8]),
            sign.eq(Mux(self.negative_a == other, other, ~total[8]))]
        m.d.sync += carry.eq(total[8])
        signed_c = control.truth == Truth.SIGN
        with m.If(step.prepares & step.runs):
            m.d.sync += rest.eq(Mux(signed_c, self.raw_c, total[:8]).any() | (rest & ~step.first_place))
        with m.If((step.prepares & step.runs) | (step.makes & control.bytes)):
            m.d.sync += [self._signs.eq(Cat(self._signs[1:], sign)), self._ninths.eq(Cat(self._ninths[1:], ninth))]
        m.d.comb += [
            self.below.eq(Mux(signed_c, control.signed_a & self.operands.c[31], self._signs[-1])),
            self.same.eq(~rest & (signed_c | (~self._signs[-1] & ~self._ninths[-1])))]
        return total

    def _pair(self, m: Module, difference: Signal, shifts: Value, multiplies: Value) -> None:
        """Takes the pair, then moves it down; the product's factor stays. What is above it is its sign."""
        control, step, low, high = self.control, self.step, self._low, self._high
        near = control.pair & ~(control.wide & beyond_pair(control, self.operands.b))
        taken = Signal(8)
        following = Signal(8)
        fill = Signal()
        m.d.comb += fill.eq(Mux(control.pair, self.operands.c[31] & control.signed_a, self.negative_a))
        with m.If(step.prepares):
            m.d.comb += [
                taken.eq(Mux(shifts & control.left & ~near, 0, difference[:8])),
                following.eq(Mux(near, self.raw_c, self.a))]
        with m.Else():
            m.d.comb += following.eq(fill.replicate(8))
            with m.If(shifts):
                m.d.comb += taken.eq(Mux(control.left | near, high[:8], fill.replicate(8)))
            with m.Elif(~control.bytes):
                m.d.comb += taken.eq(Cat(
                    Mux(step.first_place & step.low, self._ninths[-1], self._signs[-1]), self._signs[-1].replicate(7)))
        with m.If(step.runs & (step.prepares | (step.makes & ~multiplies))):
            m.d.sync += [low.eq(Cat(low[8:], taken)), high.eq(Cat(high[8:], following))]
        with m.If(step.concludes):
            m.d.sync += low.eq(0)

    def _multiply(self, m: Module) -> None:
        """Each step a byte of b is taken; in the next one a is multiplied by it; the sum's lowest byte is one of the
        product, _LATE steps after the first."""
        step, product = self.step, self._product
        nonzero = Signal()
        other = Signal(9)
        m.d.sync += other.eq(Cat(self.b, step.last_place & step.low & self.negative_b))
        m.d.comb += self.low_zero.eq(~nonzero)
        halves = self._low[:16], Cat(self._low[16:], self.negative_a).as_signed()
        low = Signal(signed(16 + len(other)))
        high = Signal(signed(17 + len(other)))
        m.d.sync += [made.eq(half * other.as_signed()) for made, half in zip((low, high), halves, strict=True)]
        rest = (product.as_signed() >> 8) + low
        with m.If(step.prepares):
            m.d.sync += [product.eq(0), nonzero.eq(0)]
        with m.Elif(step.makes):
            m.d.sync += product.eq(Cat(rest[:16], (rest >> 16) + high))
            with m.If(step.low | (step.high & (step.place < _LATE))):
                m.d.sync += nonzero.eq(nonzero | product[:8].any())

    def _number(self, m: Module, shifts: Value, multiplies: Value) -> tuple[Value, Value]:
        """The bytes of a number, which may be negated, of a product with its addend, or of the sum of distances; what
        of the latter is above its low byte."""
        control, step, product = self.control, self.step, self._product
        distances = control.first == FirstTerm.DISTANCES
        total = Signal(9)
        addend = Signal(8)
        carry = Signal()
        carry_in = Signal()
        inverts = Signal()
        one = Signal()
        begins = Signal()
        apart = Signal()
        m.d.comb += [
            apart.eq(control.bytes & self._signs[0]),
            inverts.eq(control.complement | control.opposite | (control.distance & self._signs[-1])
                       | (shifts & control.negate_a) | apart),
            one.eq(control.one_b | (control.complement & control.add_to_product)
                   | (control.distance & self._signs[-1]) | (shifts & control.one_a) | apart),
            begins.eq(step.prepares | control.bytes
                      | (step.low & (step.place <= Mux(multiplies, _LATE, 0)))),
            carry_in.eq(Mux(begins, one, carry)),
            total.eq(sum_with_carry(Mux(multiplies, product[:8], self._low[:8]) ^ inverts.replicate(8), addend,
                                    carry_in))]
        waits = Signal(8 * (_LATE - 1))
        taken = self.c & (step.makes & control.add_to_product).replicate(8)
        m.d.sync += [carry.eq(total[8]), Cat(addend, waits).eq(Cat(waits, taken))]
        high = Signal(3)
        with m.If(~step.makes):
            m.d.sync += high.eq(0)
        with m.Elif(step.low & distances):
            m.d.sync += high.eq(high + total[8] + (self._ninths[0] ^ self._signs[0]))
            with m.If(~step.last_place):
                m.d.sync += addend.eq(total[:8])
        return total[:8], high & (step.high & step.first_place).replicate(3)

    def _logic(self, m: Module) -> Signal:
        """A function of a, b and c; what is picked of a permutation, which comes in place of a."""
        control, of_a = self.control, 0xF0
        table = Signal(8)
        logic = Signal(8)
        m.d.comb += table.eq(Mux(self.decision, control.table, control.table_otherwise)
                             | Mux(control.first == FirstTerm.PERMUTATION, of_a, 0))
        words = [bit.replicate(8) for bit in table]
        for selector in (self.c, self.b, self.a):
            words = [(one & selector) | (zero & ~selector) for zero, one in zip(words[::2], words[1::2], strict=True)]
        m.d.comb += logic.eq(words[0])
        return logic

    def _truth_mask(self) -> Value:
        """Where logic counts: all ones may stand for another one."""
        control, step = self.control, self.step
        as_one = Mux(step.low, Const(ONE, 32).word_select(step.place, 8), 0)
        return Mux(control.as_one, as_one, Mux(control.as_bit, step.low & step.first_place, 0xFF))

    def _window(self, m: Module, stream: Signal, shifts: Value, multiplies: Value) -> None:
        """Keeps five bytes, from bit ``amount`` on less a byte, and looks at what is above them, or above the number of
        them that the result has."""
        step, amount, (_, half, small) = self.step, self._amount(m, shifts, multiplies), size_of(self.control)
        before = Signal(8)
        moved = Signal(8)
        kept = Signal(_WINDOW_BITS)
        begins = Signal()
        under_way = Signal(WORD_BYTES)
        passed = Signal()
        last = Signal(8)
        counts = Signal()
        ones = Signal()
        zeros = Signal()
        top = Signal(2)
        m.d.comb += [
            moved.eq(moved_down(Cat(before, stream[:7]), amount, range(3), 8)),
            begins.eq((step.place == amount[3:5]) & Mux(amount[5], step.high, step.low)),
            self.term.eq(Cat(kept[8:], top)), self.low_byte.eq(kept[:8]),
            self.beyond.eq(Mux(self.negative, zeros | (counts & ~last.all()), ones | (counts & last.any())))]
        m.d.sync += [before.eq(stream), under_way.eq(Cat(begins, under_way[:-1]))]
        with m.If(step.prepares):
            m.d.sync += [passed.eq(0), counts.eq(0), ones.eq(0), zeros.eq(0), top.eq(0)]
        with m.If(step.makes):
            m.d.sync += [
                passed.eq(passed | under_way[-1]), self.negative.eq(stream[7]), last.eq(moved),
                counts.eq(passed | ((half | small) & under_way[2:].any()) | (small & under_way[1]))]
            with m.If(begins | under_way.any()):
                m.d.sync += kept.eq(Cat(kept[8:], moved))
            with m.If(counts):
                m.d.sync += [ones.eq(ones | last.any()), zeros.eq(zeros | ~last.all())]
            with m.If(step.high & step.first_place & self.control.three & (self.control.sum_shift == SumShift.NONE)):
                m.d.sync += top.eq(stream)

    def _amount(self, m: Module, shifts: Value, multiplies: Value) -> Signal:
        """How far the window is from the lowest bit. A shift to the left begins below the high word."""
        control, step, raw = self.control, self.step, self.raw_b
        amount = Signal(6)
        wraps_at = Signal(5)
        over = Signal()
        count = Signal(5)
        shift = Signal(6)
        by_byte, counted = control.count == ShiftCount.BYTE, control.count != ShiftCount.FIXED
        with m.If(step.prepares):
            with m.If(step.first_place):
                m.d.sync += [wraps_at.eq(raw), over.eq(raw[6:].any() | (raw[5] & ~control.wide))]
            with m.Elif(self.inside_b & ~by_byte & raw.any()):
                m.d.sync += over.eq(1)
        beyond = counted & over & ~control.wrap
        # 32 less the count: bits above the lowest one that is set are inverted.
        m.d.comb += [
            count.eq(Mux(counted, wraps_at & ~beyond.replicate(5), control.shift)),
            shift.eq(Cat(*(bit ^ (control.left & count[:place].any()) for place, bit in enumerate(count)),
                         Mux(control.left, ~beyond & ~count.any(), beyond)))]
        with m.If(shifts):
            m.d.comb += amount.eq(shift)
        with m.Elif(multiplies):
            m.d.comb += amount.eq(Array(Const(part, 6) for part in _PRODUCT_PARTS)[Value.cast(control.product)])
        with m.Elif(control.first == FirstTerm.DISTANCES):
            m.d.comb += amount.eq(8 * (WORD_BYTES - 1))
        with m.Elif((control.first == FirstTerm.SUM) & (control.sum_shift == SumShift.RS)):
            m.d.comb += amount.eq(4 * WORD_BYTES)
        return amount
