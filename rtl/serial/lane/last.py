"""The final sum and the result, in a lane that computes a byte in a cycle."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.execute.bounds import size_of, taken_bytes
from rtl.execute.conclude import is_inside
from rtl.execute.control import FirstTerm, LaneControl, PredicateResult
from rtl.execute.stages import WORD_BYTES, LaneResult, Operands
from rtl.sums import sum_with_carry

from .step import Step

__all__ = ["ResultBytes"]

class ResultBytes(wiring.Component):
    """Takes the bytes of the first term, cuts fields out of them or puts them within bounds, and adds. What is chosen
    of the term and c is compared from the highest byte down, everything else goes from the lowest one up.

    Members
    -------
    control : In(LaneControl)
    operands : In(Operands)
    step : In(Step)
    executes : In(1)
        Otherwise the value is 0.
    b, c, raw_b, raw_c : In(8)
        See OperandBytes.
    term, low_byte, negative, beyond, low_zero : In
        See FirstBytes.
    decision, opposite, less, equal : In(1)
        See Decision.
    result : Out(LaneResult)
        After the last step.
    """

    control: In(LaneControl)
    operands: In(Operands)
    step: In(Step)
    executes: In(1)
    b: In(8)
    c: In(8)
    raw_b: In(8)
    raw_c: In(8)
    term: In(34)
    low_byte: In(8)
    negative: In(1)
    beyond: In(1)
    low_zero: In(1)
    decision: In(1)
    opposite: In(1)
    less: In(1)
    equal: In(1)
    result: Out(LaneResult)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        control, step, flags = self.control, self.step, self.operands.conditions
        chooses = Signal()
        place = Signal(2)
        source = Signal(2)
        raw = Signal(8)
        m.d.comb += [
            chooses.eq(control.smaller | control.larger), place.eq(step.place ^ chooses.replicate(2)),
            source.eq(Cat(place[0], place[1] & ~control.result_high)), raw.eq(self.term[:32].word_select(source, 8))]

        # Both terms, a step before their sum.
        x = Signal(8)
        y = Signal(9)
        other = Signal(8)
        at = Signal(2)
        begins = Signal()
        ends = Signal()
        writes = Signal()
        one = control.one_c | (control.three & control.add_carry & flags.overflow)
        m.d.sync += [
            x.eq(self._cut(m, raw, place)), y.eq(sum_with_carry(self.b, self.c, Mux(step.first_place, one, y[8]))),
            other.eq(self.raw_b), at.eq(place), begins.eq(step.first_place), ends.eq(step.last_place),
            writes.eq(step.concludes)]

        # The sum; or byte by byte the difference of the term and c.
        total = Signal(9)
        carry = Signal()
        plus = control.plus_one | (control.add_carry & flags.carry) | (control.complete & self.low_zero)
        m.d.comb += total.eq(sum_with_carry(x, y[:8], Mux(begins | chooses, plus, carry)))
        m.d.sync += carry.eq(total[8])

        # A byte of the result; of all bytes the highest or the lowest number, if there was a signed overflow.
        takes_x = self._chosen(m, begins, x, y, total)
        merges = control.merge & at[1]
        overflow = Signal()
        bounded = Signal()
        byte = Signal(8)
        m.d.comb += [
            overflow.eq((x[7] == y[7]) & (total[7] != x[7])), bounded.eq(control.saturate & overflow & ends),
            byte.eq((Mux(takes_x, x, ~y[:8]) & chooses.replicate(8))
                    | (total[:8] & (~chooses & ~merges & ~bounded).replicate(8))
                    | (other & merges.replicate(8)) | (bounded & ~x[7]).replicate(8))]
        value = self.result.value
        nonzero = Signal()
        top = Signal(2)
        overflowed = Signal()
        with m.If(step.makes):
            m.d.sync += [value.eq(0), nonzero.eq(0)]
        with m.If(writes):
            m.d.sync += [
                nonzero.eq(nonzero | byte.any() | bounded), overflowed.eq(overflow),
                top.eq(self.term[32:] + total[8] + (control.three & y[8]))]
            for number in range(WORD_BYTES):
                with m.If(self.executes & ((at == number) | bounded)):
                    m.d.sync += value.word_select(number, 8).eq(byte)
            with m.If(self.executes & bounded):
                m.d.sync += value[31].eq(x[7])
        self._conclude(m, nonzero, top, overflowed)
        return m

    def _cut(self, m: Module, byte: Signal, place: Signal) -> Value:
        """The byte with what is not of the field, is packed into it or has no place there. Of a number that is beyond
        the bounds of the result's type the bound."""
        control, selector, insert = self.control, self.operands.b[:16], Signal()
        opened, beyond, highest_beyond = self._bounds(m, place)
        marks = Signal(8)
        mask = Signal(8)
        fill = Signal()
        before = Signal()
        m.d.comb += insert.eq(control.insert & (control.first == FirstTerm.SHIFT))
        kept, dropped = self._field(m, insert, opened, place)
        packed = control.which_byte == place
        m.d.comb += [
            fill.eq(control.signed_a & Cat(before, byte[:7]).bit_select(kept.bits, 1)),
            marks.eq(Mux(control.of_condition, self.operands.conditions.as_value(),
                         Cat(self.operands.predicates, Const(1, 1)))),
            mask.eq(kept.byte & ~Mux(control.pack, selector[:8] & packed.replicate(8), dropped.byte))]
        m.d.sync += before.eq(self.step.concludes & Mux(kept.whole, byte[7], fill))
        rest = Cat(Mux(opened, fill, beyond).replicate(7), Mux(opened, fill, highest_beyond))
        return (byte & mask) | (Mux(insert, self.raw_c, Mux(control.pack, marks, rest)) & ~mask)

    def _field(self, m: Module, insert: Value, opened: Value, place: Value) -> tuple["_Below", "_Below"]:
        """What of the byte is below the end of the field, if any of it counts; what is below its begin."""
        control, selector = self.control, self.operands.b[:16]
        field = control.field & (control.first == FirstTerm.SHIFT)
        length, position = selector[8:], selector[:8] & insert.replicate(8)
        end = Signal(9)
        m.d.comb += end.eq(length + position)
        return (_Below(m, "kept", place, Cat(end[:5], ~field | end[5:].any()), opened),
                _Below(m, "dropped", place, Cat(position[:5], position[5:].any()), Const(1)))

    def _bounds(self, m: Module, place: Value) -> tuple[Signal, Value, Value]:
        """Whether a byte of the term has its place there and is within the bounds of the result's type; otherwise the
        bits there, and the highest one of them."""
        control, word, negative, to_signed = self.control, self.term[:32], self.negative, self.control.signed_result
        exceeds = Signal()
        taken = Signal()
        opened = Signal()
        last = Signal()
        high, half, small = size_of(control)
        sign = Mux(small, word[7], Mux(half, word[15], word[31]))
        m.d.comb += [
            exceeds.eq(control.bound & Mux(to_signed, self.beyond | (negative ^ sign), self.beyond | negative)),
            taken.eq(Cat(taken_bytes(control)).bit_select(place, 1)), opened.eq(taken & ~exceeds),
            last.eq(Cat(small & ~high, half & ~high, small & high, ~small).bit_select(place, 1))]
        # The highest bit of a bound is that of a negative number only if the type has a sign.
        return opened, taken & ~negative, taken & Mux(last, negative == to_signed, ~negative)

    def _chosen(self, m: Module, begins: Signal, x: Signal, y: Signal, total: Signal) -> Value:
        """Whether the first term is taken, not c: by the highest bytes that differ."""
        control = self.control
        less = Signal()
        decided = Signal()
        takes = Signal()
        now = Signal()
        signs_differ = control.signed_result & begins & (x[7] == y[7])
        m.d.comb += [less.eq(Mux(signs_differ, x[7], ~total[8])),
                     now.eq(Mux(decided & ~begins, takes, less ^ control.larger))]
        m.d.sync += [takes.eq(now), decided.eq((decided & ~begins) | total[:8].any())]
        return now

    def _conclude(self, m: Module, nonzero: Signal, top: Signal, overflowed: Signal) -> None:
        """Flags and predicates."""
        control, result, old, selector = self.control, self.result, self.operands.conditions, self.operands.b
        flags, value = result.conditions, result.value
        zero = Signal()
        m.d.comb += [
            zero.eq(~nonzero & (~control.chain_zero | old.zero)), flags.zero.eq(zero), flags.sign.eq(value[31]),
            flags.carry.eq(control.carries & top.any()),
            flags.overflow.eq(control.carries & Mux(control.three, top[1], overflowed))]
        with m.If(control.verdict):
            m.d.comb += [flags.zero.eq(self.equal), flags.carry.eq(~self.less)]
        with m.If(control.unpack):
            m.d.comb += flags.eq((old.as_value() & ~selector[:4]) | (value[:4] & selector[:4]))
        m.d.comb += [
            result.q.eq(self.opposite),
            result.predicates_written.eq(Mux(control.unpack & ~control.of_condition, selector, 0))]
        with m.Switch(control.predicate):
            with m.Case(PredicateResult.TRUE):
                m.d.comb += result.p.eq(1)
            with m.Case(PredicateResult.ZERO):
                m.d.comb += result.p.eq(zero)
            with m.Case(PredicateResult.NONZERO):
                m.d.comb += result.p.eq(~zero)
            with m.Case(PredicateResult.DECISION):
                m.d.comb += result.p.eq(self.decision)
            with m.Case(PredicateResult.OUTSIDE):
                m.d.comb += result.p.eq(~is_inside(value[24:]))
            with m.Case(PredicateResult.OUTSIDE_HIGH):
                m.d.comb += result.p.eq(~zero | ~is_inside(self.low_byte))


class _Below:
    """The bits of a byte that are below a bit of the word, whose number is up to 32: all, or the lowest ``bits``; none
    if it does not count."""

    def __init__(self, m: Module, name: str, place: Value, number: Value, counts: Value) -> None:
        self.whole, self.bits, self.byte = (
            Signal(width, name=f"{name}_{what}") for what, width in (("whole", 1), ("bits", 3), ("byte", 8)))
        m.d.comb += [
            self.whole.eq(counts & (number[5] | (number[3:5] > place))),
            self.bits.eq(Mux(counts & (number[3:5] == place), number[:3], 0)),
            self.byte.eq(Cat(self.whole | (self.bits > bit) for bit in range(8)))]
