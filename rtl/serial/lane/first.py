"""The first term of the final sum, in a lane that computes a byte in a cycle."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.execute.bounds import ONE, size_of
from rtl.execute.control import FirstTerm, ProductPart, ShiftCount, Truth
from rtl.execute.shifter import moved_down
from rtl.execute.stages import WORD_BYTES
from rtl.isa.kinds import SumShift
from rtl.sums import sum_with_carry

from .sources import starts_in_high_word
from .stages import ByteOperands, Difference, FirstTermResult, ThreadWork
from .step import Step

__all__ = ["FirstTermBytes"]

_FACTOR_BITS = 9
"""A byte with a sign."""
_PRODUCT_BITS = 8 * WORD_BYTES + 1 + _FACTOR_BITS
_LATENCY = 3
"""Steps from the bytes that are multiplied to one of their product."""
_PRODUCT_STARTS = {
    ProductPart.HIGH: 8 * WORD_BYTES,
    ProductPart.SCALED_7: 7,
    ProductPart.SCALED_15: 15,
}
"""The first bit of a part of a product; of other parts 0."""
_WINDOW_BITS = 5 * 8
"""The first term, and a byte below it."""
_TABLE_OF_A = 0xF0
"""The logic function, by {a, b, c}, that is a."""


class FirstTermBytes(wiring.Component):
    """Sums, shifts, permutations, logic and products: each makes a stream of bytes, lowest first,
    up to eight and what is above them. The first term is a window of the stream, which begins at
    any bit. ::

        a, b  --> difference --> pair --> number --+
        a, b  --> product -----------------^       +--> stream --> window --> result
        a, b, c -----------------------> logic ----+

    While operands are prepared, a and b are added or subtracted, or a passes unchanged; the result
    becomes the low word of the pair. The high word is c or a in shifts, else the sign. Then the
    pair is shifted out, a byte in a step.

    Members
    -------
    work : In(ThreadWork)
    step : In(Step)
    selected : In(ByteOperands)
    decision : In(1)
    difference : Out(Difference)
        When the operands are prepared.
    result : Out(FirstTermResult)
        When the first term is made.
    """

    work: In(ThreadWork)
    step: In(Step)
    selected: In(ByteOperands)
    decision: In(1)
    difference: Out(Difference)
    result: Out(FirstTermResult)

    def __init__(self) -> None:
        super().__init__()
        self._is_shift = Signal(name="is_shift")
        self._is_product = Signal(name="is_product")
        self._is_sum = Signal(name="is_sum")
        self._is_distances = Signal(name="is_distances")
        self._sum = Signal(_FACTOR_BITS, name="sum")
        """A byte of the sum or difference of a and b, or of a, with its carry."""
        self._signs = Signal(WORD_BYTES, name="signs")
        """The differences of the last four bytes, this one's last: whether they are below zero. The
        last one is the word's."""
        self._ninths = Signal(WORD_BYTES, name="ninths")
        """Their ninth bits."""
        self._low = Signal(32, name="low")
        """The pair. Its low word is a factor of a product."""
        self._high = Signal(32, name="high")
        self._product = Signal(_PRODUCT_BITS, name="product")
        """Its lowest byte is the product's next one."""
        self._number = Signal(8, name="number")
        """A byte of the pair or product, negated or with an addend."""
        self._distances_high = Signal(3, name="distances_high")
        """The sum of distances above its low byte."""
        self._logic = Signal(8, name="logic")
        self._stream = Signal(8, name="stream")
        self._start = Signal(6, name="start")
        """The bit of the stream with which the window begins."""
        self._shift = Signal(6, name="shift")
        """The same of a shift."""
        self._window = Signal(_WINDOW_BITS, name="window")
        self._aligned = Signal(8, name="aligned")
        """The stream, shifted to the window's first bit."""
        self._starts_window = Signal(name="starts_window")
        self._in_window = Signal(WORD_BYTES, name="in_window")
        """In its second to fifth byte."""
        self._top = Signal(2, name="top")
        """The bits above the window, of a sum of three words."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        first = self.work.control.first
        m.d.comb += self._is_shift.eq(first == FirstTerm.SHIFT)
        m.d.comb += self._is_product.eq(first == FirstTerm.PRODUCT)
        m.d.comb += self._is_sum.eq(first == FirstTerm.SUM)
        m.d.comb += self._is_distances.eq(first == FirstTerm.DISTANCES)
        self._subtract(m)
        self._compare(m)
        self._shift_pair(m)
        self._multiply(m)
        self._make_number(m)
        self._make_logic(m)
        self._make_stream(m)
        self._count_shift(m)
        self._find_start(m)
        self._keep_window(m)
        self._check_type(m)
        return m

    def _subtract(self, m: Module) -> None:
        """The sum or difference of a and b, of words or byte by byte; or a."""
        control = self.work.control
        step = self.step
        selected = self.selected
        carry = Signal()
        first_carry = Signal()
        carry_in = Signal()
        with m.If(self._is_shift | self._is_product):
            m.d.comb += first_carry.eq(0)
        with m.Elif(control.extended):
            m.d.comb += first_carry.eq(self.work.operands.conditions.carry)
        with m.Elif(control.three):
            m.d.comb += first_carry.eq(control.one_a)
        with m.Else():
            m.d.comb += first_carry.eq(~control.adds)
        begins = step.first_place | control.bytes
        m.d.comb += carry_in.eq(Mux(begins, first_carry, carry))
        m.d.comb += self._sum.eq(sum_with_carry(selected.a, selected.b, carry_in))
        m.d.sync += carry.eq(self._sum[8])

        # The ninth bit is the sum of both signs and the carry.
        a_sign = selected.a_is_negative
        b_sign = ~control.three & (selected.b_is_negative ^ ~control.adds)
        ninth = Signal()
        sign = Signal()
        m.d.comb += ninth.eq(a_sign ^ b_sign ^ self._sum[8])
        m.d.comb += sign.eq(Mux(a_sign == b_sign, b_sign, ~self._sum[8]))
        with m.If((step.prepares & step.runs) | (step.makes & control.bytes)):
            m.d.sync += self._signs.eq(Cat(self._signs[1:], sign))
            m.d.sync += self._ninths.eq(Cat(self._ninths[1:], ninth))

    def _compare(self, m: Module) -> None:
        """Whether a - b, or c, is below zero, or zero."""
        step = self.step
        compares_c = self.work.control.truth == Truth.SIGN
        compared = Mux(compares_c, self.selected.raw_c, self._sum[:8])
        is_nonzero = Signal()
        with m.If(step.prepares & step.runs):
            m.d.sync += is_nonzero.eq(compared.any() | (is_nonzero & ~step.first_place))
        with m.If(compares_c):
            m.d.comb += self.difference.is_below_zero.eq(
                self.work.control.signed_a & self.work.operands.c[31])
            m.d.comb += self.difference.is_zero.eq(~is_nonzero)
        with m.Else():
            m.d.comb += self.difference.is_below_zero.eq(self._signs[-1])
            m.d.comb += self.difference.is_zero.eq(
                ~is_nonzero & ~self._signs[-1] & ~self._ninths[-1])

    def _shift_pair(self, m: Module) -> None:
        """Takes the pair, then shifts it down. Above it is its sign. The factor of a product stays
        in place."""
        control = self.work.control
        step = self.step
        low = self._low
        high = self._high
        has_high_word = control.pair & ~(
            control.wide & starts_in_high_word(control, self.work.operands.b))
        pair_sign = Mux(
            control.pair, self.work.operands.c[31] & control.signed_a, self.selected.a_is_negative)
        fill = Signal(8)
        into_low = Signal(8)
        into_high = Signal(8)
        m.d.comb += fill.eq(pair_sign.replicate(8))
        with m.If(step.prepares):
            # A shift to the left has its word in the pair's high one.
            starts_high = self._is_shift & control.left & ~has_high_word
            m.d.comb += into_low.eq(Mux(starts_high, 0, self._sum[:8]))
            m.d.comb += into_high.eq(Mux(has_high_word, self.selected.raw_c, self.selected.a))
        with m.Else():
            m.d.comb += into_high.eq(fill)
            with m.If(self._is_shift):
                m.d.comb += into_low.eq(Mux(control.left | has_high_word, high[:8], fill))
            with m.Elif(~control.bytes):
                sign = self._signs[-1]
                lowest = Mux(step.first_place & step.low, self._ninths[-1], sign)
                m.d.comb += into_low.eq(Cat(lowest, sign.replicate(7)))
        with m.If(step.runs & (step.prepares | (step.makes & ~self._is_product))):
            m.d.sync += low.eq(Cat(low[8:], into_low))
            m.d.sync += high.eq(Cat(high[8:], into_high))
        with m.If(step.concludes):
            m.d.sync += low.eq(0)

    def _multiply(self, m: Module) -> None:
        """Multiplies a by a byte of b in each step. The halves of a are multiplied in the step
        after the byte arrives, and added to the rest of the product in the next one."""
        step = self.step
        product = self._product
        factor = Signal(_FACTOR_BITS)
        low = Signal(signed(16 + _FACTOR_BITS))
        high = Signal(signed(17 + _FACTOR_BITS))
        b_sign = step.last_place & step.low & self.selected.b_is_negative
        m.d.sync += factor.eq(Cat(self.selected.b, b_sign))
        m.d.sync += low.eq(self._low[:16] * factor.as_signed())
        m.d.sync += high.eq(
            Cat(self._low[16:], self.selected.a_is_negative).as_signed() * factor.as_signed())
        rest = (product.as_signed() >> 8) + low
        is_nonzero = Signal()
        m.d.comb += self.result.product_is_zero.eq(~is_nonzero)
        with m.If(step.prepares):
            m.d.sync += product.eq(0)
            m.d.sync += is_nonzero.eq(0)
        with m.Elif(step.makes):
            m.d.sync += product.eq(Cat(rest[:16], (rest >> 16) + high))
            with m.If(step.low | (step.high & (step.place < _LATENCY))):
                m.d.sync += is_nonzero.eq(is_nonzero | product[:8].any())

    def _make_number(self, m: Module) -> None:
        """A byte of the pair, which may be negated; of a product with its addend; or of the sum of
        four distances, which adds each to the ones before."""
        control = self.work.control
        step = self.step
        total = Signal(9)
        addend = Signal(8)
        addends = Signal(8 * (_LATENCY - 1))        # those of later bytes of a product
        carry = Signal()
        carry_in = Signal()
        complements = Signal()
        adds_one = Signal()
        negates = ((control.distance & self._signs[-1])
                   | (control.bytes & self._signs[0]))
        m.d.comb += complements.eq(
            control.complement | control.opposite | negates
            | (self._is_shift & control.negate_a))
        m.d.comb += adds_one.eq(
            control.one_b | (control.complement & control.add_to_product) | negates
            | (self._is_shift & control.one_a))
        first_place = Mux(self._is_product, _LATENCY, 0)
        is_first_byte = step.prepares | control.bytes | (step.low & (step.place <= first_place))
        m.d.comb += carry_in.eq(Mux(is_first_byte, adds_one, carry))
        byte = Mux(self._is_product, self._product[:8], self._low[:8])
        m.d.comb += total.eq(
            sum_with_carry(byte ^ complements.replicate(8), addend, carry_in))
        m.d.comb += self._number.eq(total[:8])
        m.d.sync += carry.eq(total[8])

        next_addend = self.selected.c & (step.makes & control.add_to_product).replicate(8)
        m.d.sync += Cat(addend, addends).eq(Cat(addends, next_addend))
        with m.If(~step.makes):
            m.d.sync += self._distances_high.eq(0)
        with m.Elif(step.low & self._is_distances):
            ninth = self._ninths[0] ^ self._signs[0]
            m.d.sync += self._distances_high.eq(self._distances_high + total[8] + ninth)
            with m.If(~step.last_place):
                m.d.sync += addend.eq(total[:8])

    def _make_logic(self, m: Module) -> None:
        """A function of a, b and c; or the byte that a permutation picks, which is in place of a.
        All ones may be replaced by another word."""
        control = self.work.control
        step = self.step
        table = Signal(8)
        is_permutation = control.first == FirstTerm.PERMUTATION
        m.d.comb += table.eq(
            Mux(self.decision, control.table, control.table_otherwise)
            | Mux(is_permutation, _TABLE_OF_A, 0))
        words = [bit.replicate(8) for bit in table]
        for operand in (self.selected.c, self.selected.b, self.selected.a):
            words = [
                (if_one & operand) | (if_zero & ~operand)
                for if_zero, if_one in zip(words[::2], words[1::2], strict=True)]
        mask = Signal(8)
        with m.If(control.as_one):
            m.d.comb += mask.eq(Mux(step.low, Const(ONE, 32).word_select(step.place, 8), 0))
        with m.Elif(control.as_bit):
            m.d.comb += mask.eq(step.low & step.first_place)
        with m.Else():
            m.d.comb += mask.eq(0xFF)
        m.d.comb += self._logic.eq(words[0] & mask)

    def _make_stream(self, m: Module) -> None:
        """Numbers or logic: an instruction that makes numbers has a logic function of zeros."""
        step = self.step
        is_number = Signal()
        m.d.comb += is_number.eq(
            self._is_shift | self._is_product | self._is_sum | self._is_distances)
        # A sum of two words that is shifted right by a half keeps 33 bits.
        is_cut = self._is_sum & (self.work.control.sum_shift == SumShift.RS) & ~step.low
        mask = Cat(is_number, is_number & ~is_cut, is_number.replicate(6))
        above_distances = self._distances_high & (step.high & step.first_place).replicate(3)
        m.d.comb += self._stream.eq((self._number & mask) | self._logic | above_distances)

    def _count_shift(self, m: Module) -> None:
        """The bit of the pair with which a shift begins, and whether that is beyond the word. A
        shift to the left begins below the high word: at 32 less its count."""
        control = self.work.control
        step = self.step
        raw = self.selected.raw_b
        low_count = Signal(5)
        count_exceeds_word = Signal()
        takes_byte = control.count == ShiftCount.BYTE
        takes_count = control.count != ShiftCount.FIXED
        with m.If(step.prepares):
            with m.If(step.first_place):
                m.d.sync += low_count.eq(raw)
                m.d.sync += count_exceeds_word.eq(raw[6:].any() | (raw[5] & ~control.wide))
            with m.Elif(self.selected.b_is_inside & ~takes_byte & raw.any()):
                m.d.sync += count_exceeds_word.eq(1)

        count = Signal(5)
        exceeds_word = Signal()
        m.d.comb += exceeds_word.eq(takes_count & count_exceeds_word & ~control.wrap)
        with m.If(~takes_count):
            m.d.comb += count.eq(control.shift)
        with m.Elif(~exceeds_word):
            m.d.comb += count.eq(low_count)
        with m.If(control.left):
            # Negated: bits above the lowest one that is set are inverted.
            m.d.comb += self._shift[:5].eq(
                Cat(bit ^ count[:place].any() for place, bit in enumerate(count)))
            m.d.comb += self._shift[5].eq(~exceeds_word & ~count.any())
        with m.Else():
            m.d.comb += self._shift.eq(Cat(count, exceeds_word))

    def _find_start(self, m: Module) -> None:
        """The bit of the stream with which the first term begins."""
        control = self.work.control
        start = self._start
        with m.If(self._is_shift):
            m.d.comb += start.eq(self._shift)
        with m.Elif(self._is_product):
            starts = Array(
                Const(8 * _LATENCY + _PRODUCT_STARTS.get(part, 0), len(start))
                for part in ProductPart)
            m.d.comb += start.eq(starts[Value.cast(control.product)])
        with m.Elif(self._is_distances):
            m.d.comb += start.eq(8 * (WORD_BYTES - 1))
        with m.Elif(self._is_sum & (control.sum_shift == SumShift.RS)):
            m.d.comb += start.eq(4 * WORD_BYTES)

    def _keep_window(self, m: Module) -> None:
        """Keeps five bytes of the stream, the lowest of which is below the first term."""
        step = self.step
        start = self._start
        previous = Signal(8)
        m.d.sync += previous.eq(self._stream)
        m.d.comb += self._aligned.eq(
            moved_down(Cat(previous, self._stream[:7]), start, range(3), 8))
        m.d.comb += self._starts_window.eq(
            (step.place == start[3:5]) & Mux(start[5], step.high, step.low))
        m.d.sync += self._in_window.eq(Cat(self._starts_window, self._in_window[:-1]))
        with m.If(step.makes & (self._starts_window | self._in_window.any())):
            m.d.sync += self._window.eq(Cat(self._window[8:], self._aligned))

        keeps_top = self.work.control.three & (self.work.control.sum_shift == SumShift.NONE)
        with m.If(step.prepares):
            m.d.sync += self._top.eq(0)
        with m.If(step.high & step.first_place & keeps_top):
            m.d.sync += self._top.eq(self._stream)
        m.d.comb += self.result.term.eq(Cat(self._window[8:], self._top))
        m.d.comb += self.result.low_byte.eq(self._window[:8])

    def _check_type(self, m: Module) -> None:
        """Whether the bytes above those of the term's type, in the window and above it, are all
        zeros, or ones if the term is negative. The last byte is checked with the result."""
        step = self.step
        size = size_of(self.work.control)
        is_negative = self.result.is_negative
        last = Signal(8)
        last_is_above = Signal()
        window_is_over = Signal()
        has_one = Signal()
        has_zero = Signal()
        with m.If(step.prepares):
            m.d.sync += window_is_over.eq(0)
            m.d.sync += last_is_above.eq(0)
            m.d.sync += has_one.eq(0)
            m.d.sync += has_zero.eq(0)
        with m.If(step.makes):
            above_half = (size.is_half | size.is_byte) & self._in_window[2:].any()
            above_byte = size.is_byte & self._in_window[1]
            m.d.sync += is_negative.eq(self._stream[7])
            m.d.sync += last.eq(self._aligned)
            m.d.sync += last_is_above.eq(window_is_over | above_half | above_byte)
            with m.If(self._in_window[-1]):
                m.d.sync += window_is_over.eq(1)
            with m.If(last_is_above):
                m.d.sync += has_one.eq(has_one | last.any())
                m.d.sync += has_zero.eq(has_zero | ~last.all())
        exceeds_below = has_zero | (last_is_above & ~last.all())
        exceeds_above = has_one | (last_is_above & last.any())
        m.d.comb += self.result.exceeds_type.eq(
            Mux(is_negative, exceeds_below, exceeds_above))
