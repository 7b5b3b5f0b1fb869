"""The final sum and the result, in a lane that computes a byte in a cycle."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.execute.bounds import size_of, taken_bytes
from rtl.execute.conclude import is_inside
from rtl.execute.control import FirstTerm, PredicateResult
from rtl.execute.stages import WORD_BYTES, LaneResult
from rtl.structs import struct_value
from rtl.sums import sum_with_carry

from .stages import ByteOperands, FirstTermResult, ThreadDecision, ThreadWork
from .step import Step

__all__ = ["ResultBytes"]


class _BitsBelow:
    """The bits of a byte below a bit of the word. Its number is up to 32."""

    def __init__(self, m: Module, name: str, place: Value, number: Value, counts: Value) -> None:
        self.is_whole = Signal(name=f"{name}_is_whole")
        """All of the byte."""
        self.count = Signal(3, name=f"{name}_count")
        """Otherwise, how many of its lowest bits."""
        self.mask = Signal(8, name=f"{name}_mask")
        with m.If(counts):
            m.d.comb += self.is_whole.eq(number[5] | (number[3:5] > place))
            with m.If(number[3:5] == place):
                m.d.comb += self.count.eq(number[:3])
        m.d.comb += self.mask.eq(Cat(self.is_whole | (self.count > bit) for bit in range(8)))


class _ByteTerms(data.Struct):
    """The terms of a byte of the result, a step before it is written."""

    x: unsigned(8)
    """The byte of the first term."""
    y: unsigned(9)
    """The byte of b + c, with its carry."""
    raw_b: unsigned(8)
    """The byte of b, unchanged."""
    place: unsigned(2)
    """The byte's place in its word."""
    is_first: unsigned(1)
    """It is the first byte that is written."""
    is_last: unsigned(1)
    is_written: unsigned(1)


class ResultBytes(wiring.Component):
    """Cuts a field out of the first term or saturates it to its type, adds the second term, and
    writes the bytes of the result. ::

        step n      a byte of the first term is cut       -> x
                    b and c are added                     -> y
        step n + 1  x + y, or the comparison of x and c   -> a byte of the result

    Bytes are processed from the lowest one up. Where the smaller or the larger one of the first
    term and c is chosen, from the highest one down: the highest bytes that differ decide.

    Members
    -------
    work : In(ThreadWork)
    step : In(Step)
    selected : In(ByteOperands)
    first : In(FirstTermResult)
    decision : In(ThreadDecision)
    result : Out(LaneResult)
        After the last step.
    """

    work: In(ThreadWork)
    step: In(Step)
    selected: In(ByteOperands)
    first: In(FirstTermResult)
    decision: In(ThreadDecision)
    result: Out(LaneResult)

    def __init__(self) -> None:
        super().__init__()
        self._chooses = Signal(name="chooses")
        """The smaller or the larger one of the first term and c is chosen."""
        self._place = Signal(2, name="place")
        """The place of the byte that is cut."""
        self._term_byte = Signal(8, name="term_byte")
        self._is_in_place = Signal(name="is_in_place")
        """The first term has a byte at this place."""
        self._is_kept = Signal(name="is_kept")
        """That byte is also within the bounds of the term's type."""
        self._bound = Signal(8, name="bound")
        """The byte of a bound; 0 where the first term has no byte."""
        self._field = Signal(8, name="field")
        """The bits that are within the field."""
        self._fill = Signal(name="fill")
        """The sign of a field, for the bits above it."""
        self._cut_byte = Signal(8, name="cut_byte")

        self._terms: Any = Signal(_ByteTerms, name="terms")
        """The byte that is written."""

        self._total = Signal(9, name="total")
        """A byte of the sum, with its carry; or the difference of the first term and c."""
        self._takes_x = Signal(name="takes_x")
        """The first term is chosen."""
        self._overflows = Signal(name="overflows")
        """The sum has a signed overflow, if the byte is the last one."""
        self._is_bounded = Signal(name="is_bounded")
        """So the result is the nearest bound."""
        self._byte = Signal(8, name="byte")
        """A byte of the result."""
        self._is_nonzero = Signal(name="is_nonzero")
        self._carries = Signal(2, name="carries")
        """The sum above 32 bits."""
        self._overflowed = Signal(name="overflowed")

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._select_byte(m)
        self._check_bounds(m)
        self._find_field(m)
        self._cut(m)
        self._register_terms(m)
        self._add(m)
        self._choose(m)
        self._make_byte(m)
        self._write_byte(m)
        zero = self._find_zero(m)
        self._set_conditions(m, zero)
        self._set_predicates(m, zero)
        return m

    def _select_byte(self, m: Module) -> None:
        """The byte of the first term, whose low half may take the place of its high one."""
        control = self.work.control
        place = self._place
        m.d.comb += self._chooses.eq(control.smaller | control.larger)
        m.d.comb += place.eq(self.step.place ^ self._chooses.replicate(2))
        source = Cat(place[0], place[1] & ~control.result_high)
        m.d.comb += self._term_byte.eq(self.first.term[:32].word_select(source, 8))

    def _check_bounds(self, m: Module) -> None:
        """Whether the byte is one of the first term and within the bounds of its type, and the byte
        of the bound. The highest bound has ones, the lowest one none; for a signed type the highest
        bit is inverted."""
        control = self.work.control
        place = self._place
        size = size_of(control)
        word = self.first.term[:32]
        is_negative = self.first.is_negative
        half_sign = Mux(size.is_half, word[15], word[31])
        sign = Mux(size.is_byte, word[7], half_sign)
        wrong_sign = Mux(control.signed_result, is_negative ^ sign, is_negative)
        exceeds = Signal()
        m.d.comb += exceeds.eq(control.bound & (self.first.exceeds_type | wrong_sign))
        m.d.comb += self._is_in_place.eq(Cat(taken_bytes(control)).bit_select(place, 1))
        m.d.comb += self._is_kept.eq(self._is_in_place & ~exceeds)

        has_top_bit = Signal()
        m.d.comb += has_top_bit.eq(
            Cat(
                size.is_byte & ~size.is_high,
                size.is_half & ~size.is_high,
                size.is_byte & size.is_high,
                ~size.is_byte,
            ).bit_select(place, 1))
        with m.If(self._is_in_place):
            m.d.comb += self._bound[:7].eq((~is_negative).replicate(7))
            m.d.comb += self._bound[7].eq(
                Mux(has_top_bit, is_negative == control.signed_result, ~is_negative))

    def _find_field(self, m: Module) -> None:
        """The bits of the byte within the field: below its end, and, where the field is inserted
        into c, not below its position. b has the position and the length."""
        control = self.work.control
        is_shift = control.first == FirstTerm.SHIFT
        length = self.work.operands.b[8:16]
        position = Signal(8)
        end = Signal(9)
        with m.If(is_shift & control.insert):
            m.d.comb += position.eq(self.work.operands.b[:8])
        m.d.comb += end.eq(length + position)
        has_no_end = ~(is_shift & control.field)
        end_bit = Cat(end[:5], has_no_end | end[5:].any())
        position_bit = Cat(position[:5], position[5:].any())
        below_end = _BitsBelow(m, "below_end", self._place, end_bit, self._is_kept)
        below_field = _BitsBelow(m, "below_field", self._place, position_bit, Const(1))
        packs_byte = control.which_byte == self._place
        with m.If(control.pack):
            packed = self.work.operands.b[:8] & packs_byte.replicate(8)
            m.d.comb += self._field.eq(below_end.mask & ~packed)
        with m.Else():
            m.d.comb += self._field.eq(below_end.mask & ~below_field.mask)

        # The sign of a field is its highest bit: bit 0 of these is the bit of the byte below.
        sign_below = Signal()
        byte = self._term_byte
        signs = Cat(sign_below, byte[:7])
        m.d.comb += self._fill.eq(control.signed_a & signs.bit_select(below_end.count, 1))
        with m.If(~self.step.concludes):
            m.d.sync += sign_below.eq(0)
        with m.Elif(below_end.is_whole):
            m.d.sync += sign_below.eq(byte[7])
        with m.Else():
            m.d.sync += sign_below.eq(self._fill)

    def _cut(self, m: Module) -> None:
        """The byte, where it is within the field. Elsewhere it is c's bit, into which a field is
        inserted; predicates or CC, which are packed; the sign of the field; or a bound."""
        control = self.work.control
        other = Signal(8)
        with m.If(control.insert & (control.first == FirstTerm.SHIFT)):
            m.d.comb += other.eq(self.selected.raw_c)
        with m.Elif(control.pack & control.of_condition):
            m.d.comb += other.eq(self.work.operands.conditions.as_value())
        with m.Elif(control.pack):
            m.d.comb += other.eq(Cat(self.work.operands.predicates, Const(1, 1)))
        with m.Elif(self._is_kept):
            m.d.comb += other.eq(self._fill.replicate(8))
        with m.Else():
            m.d.comb += other.eq(self._bound)
        m.d.comb += self._cut_byte.eq(
            (self._term_byte & self._field) | (other & ~self._field))

    def _register_terms(self, m: Module) -> None:
        """Both terms, a step before their sum."""
        control = self.work.control
        step = self.step
        selected = self.selected
        adds_one = control.one_c | (
            control.three & control.add_carry & self.work.operands.conditions.overflow)
        carry = Mux(step.first_place, adds_one, self._terms.y[8])
        m.d.sync += self._terms.eq(struct_value(
            _ByteTerms,
            x=self._cut_byte,
            y=sum_with_carry(selected.b, selected.c, carry),
            raw_b=selected.raw_b,
            place=self._place,
            is_first=step.first_place,
            is_last=step.last_place,
            is_written=step.concludes))

    def _add(self, m: Module) -> None:
        """A byte of the sum. Differences of bytes that are compared have no carry between them."""
        terms = self._terms
        control = self.work.control
        total = self._total
        x_sign = terms.x[7]
        carry = Signal()
        adds_one = (
            control.plus_one
            | (control.add_carry & self.work.operands.conditions.carry)
            | (control.complete & self.first.product_is_zero))
        carry_in = Mux(terms.is_first | self._chooses, adds_one, carry)
        m.d.comb += total.eq(sum_with_carry(terms.x, terms.y[:8], carry_in))
        m.d.sync += carry.eq(total[8])
        m.d.comb += self._overflows.eq((x_sign == terms.y[7]) & (total[7] != x_sign))
        m.d.comb += self._is_bounded.eq(control.saturate & self._overflows & terms.is_last)

    def _choose(self, m: Module) -> None:
        """Whether the first term is chosen, not c: by the highest bytes that differ, the highest of
        all with its sign. y is the complement of c."""
        terms = self._terms
        control = self.work.control
        x_sign = terms.x[7]
        signs_differ = terms.is_first & (x_sign == terms.y[7])
        is_less = Signal()
        was_decided = Signal()
        took_x = Signal()
        m.d.comb += is_less.eq(
            Mux(control.signed_result & signs_differ, x_sign, ~self._total[8]))
        is_decided = was_decided & ~terms.is_first
        m.d.comb += self._takes_x.eq(Mux(is_decided, took_x, is_less ^ control.larger))
        m.d.sync += took_x.eq(self._takes_x)
        m.d.sync += was_decided.eq(is_decided | self._total[:8].any())

    def _make_byte(self, m: Module) -> None:
        """A byte of the result: of the chosen term, of b's low half in place of the high one, or of
        the sum. If the result is bounded, that is all but its highest bit; it is written to all
        bytes."""
        terms = self._terms
        merges = self.work.control.merge & terms.place[1]
        chosen = Signal(8)
        sum_byte = Signal(8)
        merged = Signal(8)
        bound = Signal(8)
        with m.If(self._chooses):
            m.d.comb += chosen.eq(Mux(self._takes_x, terms.x, ~terms.y[:8]))
        with m.If(~self._chooses & ~merges & ~self._is_bounded):
            m.d.comb += sum_byte.eq(self._total[:8])
        with m.If(merges):
            m.d.comb += merged.eq(terms.raw_b)
        with m.If(self._is_bounded & ~terms.x[7]):
            m.d.comb += bound.eq(0xFF)
        m.d.comb += self._byte.eq(chosen | sum_byte | merged | bound)

    def _write_byte(self, m: Module) -> None:
        """Writes the byte, and notes what flags depend on."""
        terms = self._terms
        value = self.result.value
        with m.If(self.step.makes):
            m.d.sync += value.eq(0)
            m.d.sync += self._is_nonzero.eq(0)
        with m.If(terms.is_written):
            y_carry = self.work.control.three & terms.y[8]
            term_above = self.first.term[32:]
            m.d.sync += self._is_nonzero.eq(
                self._is_nonzero | self._byte.any() | self._is_bounded)
            m.d.sync += self._overflowed.eq(self._overflows)
            m.d.sync += self._carries.eq(term_above + self._total[8] + y_carry)
        with m.If(terms.is_written & self.work.executes):
            for number in range(WORD_BYTES):
                with m.If((terms.place == number) | self._is_bounded):
                    m.d.sync += value.word_select(number, 8).eq(self._byte)
            with m.If(self._is_bounded):
                # The highest bit of a bound is the sign of the true sum.
                m.d.sync += value[31].eq(terms.x[7])

    def _find_zero(self, m: Module) -> Value:
        """Whether the result counts as zero."""
        zero = Signal(name="zero")
        lower_are_zero = ~self.work.control.chain_zero | self.work.operands.conditions.zero
        m.d.comb += zero.eq(~self._is_nonzero & lower_are_zero)
        return zero

    def _set_conditions(self, m: Module, zero: Value) -> None:
        """CC: of the result; of a comparison, how a and b relate; or some of its bits are the
        result's."""
        control = self.work.control
        flags = self.result.conditions
        old = self.work.operands.conditions
        value = self.result.value
        named = self.work.operands.b[:4]
        with m.If(control.unpack):
            m.d.comb += flags.eq((old.as_value() & ~named) | (value[:4] & named))
        with m.Else():
            m.d.comb += flags.zero.eq(zero)
            m.d.comb += flags.sign.eq(value[31])
            m.d.comb += flags.carry.eq(control.carries & self._carries.any())
            m.d.comb += flags.overflow.eq(
                control.carries & Mux(control.three, self._carries[1], self._overflowed))
            with m.If(control.verdict):
                m.d.comb += flags.zero.eq(self.decision.equal)
                m.d.comb += flags.carry.eq(~self.decision.less)

    def _set_predicates(self, m: Module, zero: Value) -> None:
        """The predicate results, p and q, and the predicates that take bits of the result."""
        control = self.work.control
        result = self.result
        value = result.value
        m.d.comb += result.q.eq(self.decision.opposite)
        with m.If(control.unpack & ~control.of_condition):
            m.d.comb += result.predicates_written.eq(self.work.operands.b)
        with m.Switch(control.predicate):
            with m.Case(PredicateResult.TRUE):
                m.d.comb += result.p.eq(1)
            with m.Case(PredicateResult.ZERO):
                m.d.comb += result.p.eq(zero)
            with m.Case(PredicateResult.NONZERO):
                m.d.comb += result.p.eq(~zero)
            with m.Case(PredicateResult.DECISION):
                m.d.comb += result.p.eq(self.decision.decision)
            with m.Case(PredicateResult.OUTSIDE):
                m.d.comb += result.p.eq(~is_inside(value[24:]))
            with m.Case(PredicateResult.OUTSIDE_HIGH):
                m.d.comb += result.p.eq(~zero | ~is_inside(self.first.low_byte))
