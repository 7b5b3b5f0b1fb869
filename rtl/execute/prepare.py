"""The first stage of a lane: its operands, as the second one wants them."""

from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.isa.kinds import Boolean
from rtl.params import QUAD
from rtl.sums import sum_is_zero, sum_with_carry

from .control import LaneControl, Part, Truth
from .float_unit import FloatAligned, FloatPrepare
from .permute import byte_picks
from .shift_plan import ShiftPlanner, WordShiftPlanner
from .stages import WORD_BYTES, Operands, Prepared, together

__all__ = ["OperandStage", "joined"]

_PITCH = 10
"""From a byte to the next one in a difference that can be four: two places are between them."""


def joined(operation: Value, first: Value, second: Value) -> Value:
    """Two predicates joined by a code of Boolean."""
    return Mux(operation == Boolean.OR, first | second,
               Mux(operation == Boolean.XOR, first ^ second, first & second))


class OperandStage(wiring.Component):
    """Parts, complements and factors; the difference of a and b, and what the thread decides by it; plans for shifts
    and permutations; combinational.

    Parameters
    ----------
    place : int
        The number of its threads in their quads.
    full : bool
        Of a full lane.
    floats : bool
        With floating point.

    Members
    -------
    control : In(LaneControl)
    operands : In(Operands)
    prepared : Out(Prepared)
    aligned : Out(FloatAligned)
    """

    control: In(LaneControl)
    operands: In(Operands)
    prepared: Out(Prepared)
    aligned: Out(FloatAligned)

    def __init__(self, place: int, *, full: bool, floats: bool) -> None:
        self._place, self._full = place, full
        self.floats = FloatPrepare() if floats else None
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        control, operands, prepared = self.control, self.operands, self.prepared
        a, b, c, flags = operands.a, operands.b, operands.c, operands.conditions
        negative_a, negative_b = control.signed_a & a[31], control.signed_b & b[31]
        if self._full:
            a, negative_a = _selected(m, "a", a, control.part_a, control.signed_a)
            b, negative_b = _selected(m, "b", b, control.part_b, control.signed_b)
        factors = self._factors(m, a, b)
        term_a = self._terms(m, a, b, factors) if self._full else self._simple_terms(m)

        # How a and b, or c and zero, relate.
        difference = Signal(34)
        minuend, subtrahend = Cat(a, negative_a.replicate(2)), Cat(b, negative_b.replicate(2))
        carry = Mux(control.extended, flags.carry, 1)
        if self._full:
            below, ninth = self._differences(m, difference, minuend, subtrahend)
        else:
            m.d.comb += difference.eq(sum_with_carry(minuend, ~subtrahend, carry))
        less, equal, undecided = Signal(), Signal(), ~control.continues | flags.zero
        same = sum_is_zero(minuend, ~subtrahend, carry) if self._full else ~difference.any()
        m.d.comb += [less.eq(Mux(undecided, difference[33], ~flags.carry)),
                     equal.eq(same & undecided & (~control.extended | flags.zero))]
        if self._full:
            with m.If(control.truth == Truth.SIGN):
                m.d.comb += [less.eq(control.signed_a & c[31]), equal.eq(~c.any())]
        m.d.comb += [prepared.less.eq(less), prepared.equal.eq(equal), prepared.conditions.eq(flags)]
        given = self._decide(m)
        if self.floats is not None:
            m.submodules.floats = real = self.floats
            m.d.comb += [
                real.control.eq(control.floating), real.operands.eq(operands),
                real.swizzle.eq(control.floating.swizzle.word_select(QUAD - 1 - self._place, 2)),
                real.below.eq(difference[31] ^ a[31] ^ b[31]), real.same.eq(~difference[:31].any()),
                self.aligned.eq(real.aligned)]
            with m.If(control.floating.decides):
                m.d.comb += given.eq(real.holds)

        m.submodules.shifts = shifts = ShiftPlanner() if self._full else WordShiftPlanner()
        m.d.comb += [shifts.control.eq(control), shifts.a.eq(term_a), shifts.b.eq(b), prepared.shift.eq(shifts.plan)]
        if isinstance(shifts, ShiftPlanner):
            whole = ~control.bytes & (control.opposite | (control.distance & difference[33]))
            m.d.comb += [
                prepared.a.eq(Mux(control.differs, difference, term_a)),
                prepared.opposite.eq(Cat(whole | (control.bytes & less) for less in below)),
                prepared.between.eq(~control.bytes.replicate(len(ninth)) | (Cat(ninth) ^ Cat(below[:-1]))),
                prepared.b.eq(Mux(control.differs, Cat(Cat(control.bytes & ~less, Const(0, 7)) for less in below),
                                  b ^ control.negate_b.replicate(32))),
                prepared.one_more.eq(control.one_b | (control.distance & difference[33])),
                prepared.negative_a.eq(negative_a), prepared.negative_b.eq(negative_b),
                prepared.picks.as_value().eq(byte_picks(control.permute, operands.b)), shifts.c.eq(prepared.c),
                shifts.operands.eq(operands), shifts.negative.eq(
                    Mux(control.part_a == Part.REVERSED, control.signed_a & operands.a[0], negative_a)),
                shifts.marks.eq(Mux(control.of_condition, flags.as_value(), Cat(operands.predicates, 1)))]
        else:
            m.d.comb += prepared.a.eq(term_a)
        return m

    def _decide(self, m: Module) -> Signal:
        """What the thread decides where a is less, equal or greater; returns what it decides by if that does not
        matter, to which a predicate is joined."""
        control, operands, prepared, given = self.control, self.operands, self.prepared, Signal()
        x, y, z = operands.sources[0], operands.sources[1], operands.sources[2]
        tested = control.condition.bit_select(operands.conditions.as_value(), 1) if self._full else Const(0)
        of_predicates = control.truth == Truth.PREDICATES
        related = (control.truth == Truth.RELATION) | (control.truth == Truth.SIGN)
        m.d.comb += given.eq(Mux(of_predicates, joined(control.combine_first, x, y), tested))
        for holds, decision, opposite in zip(control.compare.as_value(), prepared.decision.as_value(),
                                             prepared.opposite_decision.as_value(), strict=True):
            holds, joins = Mux(related, holds, given), Mux(of_predicates, z, x)
            m.d.comb += [decision.eq(joined(control.combine, holds, joins)),
                         opposite.eq(joined(control.combine, ~holds, joins))]
        return given

    def _differences(self, m: Module, difference: Signal, a: Value, b: Value) -> tuple[list[Value], list[Value]]:
        """The difference of a and b, or their sum. It is one chain of carries, with two places between two bytes, which
        a carry passes; or four chains, a byte and its sign each, where the first of the two places is the ninth of the
        difference, and the other one is left with the carry. Of the bytes: whether a is below b, by which they are
        complemented; and the ninth places but the last one.
        """
        control, apart, subtracts, spread = self.control, self.control.bytes, ~self.control.adds, Signal(40)
        terms, signs = ([], []), []
        for place in range(WORD_BYTES):
            for term, word in zip(terms, (a, b ^ subtracts.replicate(34)), strict=True):
                term.append(word[8 * place:8 * place + 8])
            if place < WORD_BYTES - 1:
                last = 8 * place + 7
                ninth = [Signal(name=f"sign_{name}{place}") for name in "ab"]
                m.d.comb += [ninth[0].eq(~apart | (control.signed_a & a[last])),
                             ninth[1].eq(apart & ~(control.signed_b & b[last]))]
                terms[0].append(Cat(ninth[0], ~apart))
                terms[1].append(Cat(ninth[1], Const(0, 1)))
                signs.append(ninth[0] ^ ninth[1])
        terms[0].append(a[32:])
        terms[1].append(b[32:] ^ subtracts.replicate(2))
        carry = Mux(control.extended, self.operands.conditions.carry, subtracts & ~apart)
        m.d.comb += [
            spread.eq(sum_with_carry(Cat(terms[0]), Cat(terms[1]), carry)), difference.eq(together(spread, _PITCH))]
        below = [sign ^ spread[_PITCH * place + 9] for place, sign in enumerate(signs)]
        return [*below, difference[33]], [spread[_PITCH * place + 8] for place in range(WORD_BYTES - 1)]

    def _terms(self, m: Module, a: Signal, b: Signal, factors: tuple[Signal, Signal]) -> Signal:
        """The three terms, of the parts of a and b, but for b itself; returns a, with its carry."""
        control, operands, prepared = self.control, self.operands, self.prepared
        c, part_a, part_c, term_a, one_more = operands.c, Signal(32), Signal(32), Signal(33), Signal()
        low, high = control.part_c == Part.LOW, control.part_c == Part.HIGH
        m.d.comb += [
            part_a.eq(Mux(control.part_a == Part.REVERSED, operands.a[::-1], a)),
            part_c.eq(Cat(Mux(high, c[16:], c[:16]), c[16:] & ~(low | high).replicate(16))),
            term_a.eq((part_a ^ control.negate_a.replicate(32)) + control.one_a),
            prepared.low_b.eq(operands.b),
            prepared.addend.eq(Mux(control.add_to_product, Cat(
                prepared.c[:32], control.signed_result & prepared.c[31]), 0)),
            one_more.eq(control.one_c | (control.pair_negative & ~operands.a.any())
                        | (control.three & control.add_carry & operands.conditions.overflow)),
            prepared.c.eq(sum_with_carry(part_c ^ control.negate_c.replicate(32),
                                         Cat(Const(0, 16), self._correction(m, factors)), one_more))]
        return term_a

    def _simple_terms(self, m: Module) -> Signal:
        """The same of an ordinary lane: a may come in the opposite order, for shifts to the left too; one is added to
        no more than two of the terms, one to the sum of a and b and one to that of all."""
        control, operands, prepared = self.control, self.operands, self.prepared
        a, b, c = operands.a, operands.b, operands.c
        part_a, part_c, term_a = Signal(32), Signal(32), Signal(32)
        high = control.part_c == Part.HIGH
        ones = Cat(control.one_a, control.one_b, control.one_c)
        m.d.comb += [
            part_a.eq(Mux((control.part_a == Part.REVERSED) ^ control.left, a[::-1], a)),
            part_c.eq(Cat(Mux(high, c[16:], c[:16]), c[16:] & (control.part_c == Part.WORD).replicate(16))
                      ^ control.negate_c.replicate(32)),
            term_a.eq(part_a ^ control.negate_a.replicate(32)), prepared.b.eq(b ^ control.negate_b.replicate(32)),
            prepared.c.eq(Cat(part_c[:16], (part_c[16:] + (b[:16] & control.add_high_b.replicate(16)))[:16])),
            prepared.one_more.eq(ones.any() | (control.three & control.add_carry & operands.conditions.overflow))]
        return term_a

    def _factors(self, m: Module, a: Value, b: Value) -> tuple[Signal, Signal]:
        """The low factors, which may be any halves; makes the products."""
        control, pairs = self.control, []
        for index, (name, word, part, is_signed) in enumerate((
                ("a", a, control.part_a, control.signed_a), ("b", b, control.part_b, control.signed_b))):
            low_factor, low, upper = Signal(17, name=f"low_factor_{name}"), word[:16], word[16:]
            high_factor: Value = Cat(upper, is_signed & word[31])
            if self.floats is not None:
                mantissa = self.floats.factors[index]
                low = Mux(control.floating.real, mantissa[:16], low)
                high_factor = Mux(control.floating.real, mantissa[16:], high_factor) if self._full else mantissa[16:]
            half = low if self._full else Mux(part == Part.HIGH, upper, low)
            m.d.comb += low_factor.eq(Cat(half, control.halves & is_signed & half[15]))
            pairs.append((low_factor.as_signed(), high_factor.as_signed() if self._full else high_factor))
        products = [factor_a * factor_b for factor_a in pairs[0] for factor_b in pairs[1]]
        if not self._full and self.floats is None:
            products = products[:1]
        m.d.comb += [stored.eq(product) for stored, product in zip(self.prepared.products, products, strict=False)]
        return pairs[0][0], pairs[1][0]

    def _correction(self, m: Module, factors: tuple[Signal, Signal]) -> Signal:
        """What is added to c's high half: minus one for each negative middle product, or b."""
        control, a, b = self.control, self.operands.a, self.operands.b
        first, second = factors[0][16] & b[:16].any(), factors[1][16] & a[:16].any()
        correction = Signal(16)
        with m.If(control.correct):
            m.d.comb += correction.eq(Cat(first ^ second, (first | second).replicate(15)))
        with m.Elif(control.add_high_b):
            m.d.comb += correction.eq(b[:16])
        return correction


def _selected(m: Module, name: str, word: Value, part: Value, is_signed: Value) -> tuple[Signal, Signal]:
    """A part of a word, extended to one, and whether it is signed and below zero."""
    code, selected, negative = Value.cast(part), Signal(32, name=f"selected_{name}"), Signal(name=f"negative_{name}")
    is_byte, high, whole = code[2], part == Part.HIGH, ~code[2] & (code[0] == code[1])
    bytes_ = [is_byte & (code[:2] == place) for place in range(WORD_BYTES)]
    # The word's bytes that may be the lowest one, the next one, and the one with the sign: of each one at most.
    lowest = (bytes_[0] | (~is_byte & ~high), bytes_[1], bytes_[2] | high, bytes_[3])
    second = (Const(0), ~is_byte & ~high, Const(0), high)
    signs = (bytes_[0], bytes_[1] | (part == Part.LOW), bytes_[2], bytes_[3] | high | whole)

    def taken(chosen: tuple[Value, ...]) -> Value:
        words = (word.word_select(place, 8) & one.replicate(8) for place, one in enumerate(chosen))
        return reduce(or_, words)

    narrow = negative & ~whole
    m.d.comb += [
        negative.eq(taken(tuple(sign & is_signed for sign in signs))[7]),
        selected.eq(Cat(taken(lowest), taken(second) | (negative & is_byte).replicate(8),
                        (word[16:] & whole.replicate(16)) | narrow.replicate(16)))]
    return selected, negative
