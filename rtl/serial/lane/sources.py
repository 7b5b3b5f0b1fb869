"""The operands of a lane that computes a byte in a cycle."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.execute.bounds import kept_bytes
from rtl.execute.control import FirstTerm, LaneControl, Part
from rtl.execute.permute import fixed_picks
from rtl.execute.stages import WORD_BYTES, Operands
from rtl.isa.kinds import PermuteMode

from .step import Step

__all__ = ["OperandBytes", "beyond_pair"]


class OperandBytes(wiring.Component):
    """In each step a byte of each operand: of its part, complemented where that is asked for.

    Members
    -------
    control : In(LaneControl)
    operands : In(Operands)
    step : In(Step)
    a : Out(8)
        Of a, turned round if asked; of c where that is the low word of a pair; what is picked of a permutation.
    b : Out(8)
        While operands are prepared 0 unless there is a sum or a difference of a and b; of a product what it is
        multiplied by; in the final sum what is added with c.
    c : Out(8)
        Of the addend of a product or of the final sum, without what video instructions replace.
    raw_b, raw_c : Out(8)
        As they are.
    inside_b : Out(1)
        The byte is one of the part of b, not of its sign.
    negative_a, negative_b : Out(1)
        The sign of what is signed, up to here; it stays after the last byte.
    """

    control: In(LaneControl)
    operands: In(Operands)
    step: In(Step)
    a: Out(8)
    b: Out(8)
    c: Out(8)
    raw_b: Out(8)
    raw_c: Out(8)
    inside_b: Out(1)
    negative_a: Out(1)
    negative_b: Out(1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        control, step = self.control, self.step
        pick = self._pick(m)
        permutes = Signal()
        m.d.comb += permutes.eq(step.makes & (control.first == FirstTerm.PERMUTATION))
        self._take_a(m, pick, permutes)
        self._take_b(m, permutes)
        self._take_c(m, pick, permutes)
        return m

    def _pick(self, m: Module) -> Signal:
        """Of a permutation: the number of the byte's source, and whether only its sign is wanted."""
        control, place = self.control, self.step.place
        pick = Signal(4)
        codes = 1 << Value.cast(control.permute).shape().width - 1
        known = {kind.value: kind for kind in PermuteMode}
        fixed = Array(Const(fixed_picks(known[code], amount)[at] if code in known else 0, 3)
                      for code in range(codes) for amount in range(WORD_BYTES) for at in range(WORD_BYTES))
        m.d.comb += pick.eq(Mux(
            control.permute == PermuteMode.INDEX, self.raw_b.word_select(place[0], 4),
            fixed[Cat(place, self.operands.b[:2], Value.cast(control.permute)[:-1])]))
        return pick

    def _take_a(self, m: Module, pick: Signal, permutes: Signal) -> None:
        control, step, pair_shift = self.control, self.step, self.control.first == FirstTerm.SHIFT
        raw = Signal(8)
        turned = Signal(8)
        index = Signal(2)
        inside = Signal()
        reverse = control.part_a == Part.REVERSED
        invert = Signal()
        sign = Signal()
        part_index, part_inside = _part(control.part_a, step.place)
        m.d.comb += [
            index.eq(Mux(permutes, pick[:2], part_index)), inside.eq(part_inside & (step.prepares | step.low)),
            invert.eq(control.negate_a & ((control.first == FirstTerm.LOGIC) | (control.first == FirstTerm.SUM))),
            raw.eq(self.operands.a.word_select(index, 8)),
            turned.eq(Mux(reverse, raw[::-1], raw) ^ invert.replicate(8))]
        self._sign(m, "a", self.negative_a, step.prepares & inside, control.signed_a & turned[7])
        # One of two bytes, or only zeros or ones.
        only = Signal()
        other = Signal()
        far = Signal()
        m.d.comb += [
            sign.eq(Mux(pick[2], self.raw_c[7], raw[7])),
            far.eq(pair_shift & control.pair & ~control.left & control.wide & beyond_pair(control, self.operands.b)),
            only.eq(Mux(permutes, pick[3], ~inside)),
            other.eq(Mux(only, Mux(permutes, sign, self.negative_a ^ invert), Mux(permutes, pick[2], far))),
            self.a.eq(Mux(only, other.replicate(8), Mux(other, self.raw_c, turned)))]

    def _take_b(self, m: Module, permutes: Signal) -> None:
        control, step, operands, inside = self.control, self.step, self.operands, self.inside_b
        place, raw = step.place, self.raw_b
        index = Signal(2)
        part_index, part_inside = _part(control.part_b, place)
        m.d.comb += [
            index.eq(Mux(permutes, place[1], Mux(
                step.concludes, Cat(place[0], place[1] & ~control.halves), part_index))),
            inside.eq(part_inside), raw.eq(operands.b.word_select(index, 8))]
        self._sign(m, "b", self.negative_b, step.prepares & inside, control.signed_b & raw[7])

        # What a product of halves has too much in its high half, if it is one of two middle ones.
        first = Signal()
        second = Signal()
        correction = Signal(2)
        m.d.comb += [
            first.eq(self.negative_a & operands.b[:16].any()), second.eq(self.negative_b & operands.a[:16].any()),
            correction.eq(Cat((first | second) ^ (first & second & ~place[0]), first | second))]
        of_logic = control.first == FirstTerm.LOGIC
        opened = Signal()
        other = Signal()
        lowest = Signal()
        m.d.comb += lowest.eq(other)
        with m.If(step.prepares):
            added = (control.first != FirstTerm.SHIFT) & (control.first != FirstTerm.PRODUCT)
            m.d.comb += [opened.eq(added & inside), other.eq(added & (
                Mux(control.three, control.negate_b, ~control.adds) ^ (self.negative_b & ~inside)))]
        with m.Elif(step.makes):
            within = inside & step.low
            m.d.comb += [opened.eq(within), other.eq(
                Mux(of_logic, control.negate_b, 0) ^ (self.negative_b & ~within & (of_logic | step.low)))]
        with m.Else():
            m.d.comb += [
                opened.eq(control.add_b | (control.add_high_b & place[1])),
                other.eq((control.add_b & control.negate_b) | (control.correct & place[1] & correction[1]))]
            with m.If(control.correct):
                m.d.comb += lowest.eq(place[1] & correction[0])
        m.d.comb += self.b.eq((raw & opened.replicate(8)) ^ Cat(lowest, other.replicate(7)))

    def _take_c(self, m: Module, pick: Signal, permutes: Signal) -> None:
        control, step, place, raw = self.control, self.step, self.step.place, self.raw_c
        chooses, high = control.smaller | control.larger, control.part_c == Part.HIGH
        index = Signal(2)
        opened = Signal()
        other = Signal()
        kept = Signal()
        m.d.comb += [
            index.eq(Mux(permutes, pick[:2], Cat(
                place[0] ^ (step.concludes & chooses), (place[1] ^ (step.concludes & chooses)) | high))),
            raw.eq(self.operands.c.word_select(index, 8)),
            kept.eq(kept_bytes(control).word_select(place, 8)[0])]
        with m.If(step.concludes):
            whole = (control.part_c == Part.WORD) | ~place[1]
            m.d.comb += [opened.eq(kept & whole), other.eq(kept & control.negate_c)]
        with m.Else():
            sign = ~step.low & control.signed_result & self.operands.c[31]
            m.d.comb += [opened.eq(step.low), other.eq(control.negate_c ^ control.complement ^ sign)]
        m.d.comb += self.c.eq((raw & opened.replicate(8)) ^ other.replicate(8))

    def _sign(self, m: Module, name: str, negative: Signal, inside: Value, sign: Value) -> None:
        """The sign of the highest byte inside that was met."""
        known = Signal(name=f"known_{name}")
        m.d.comb += negative.eq(Mux(inside, sign, known))
        m.d.sync += known.eq(negative)


def _part(part: Value, place: Value) -> tuple[Value, Value]:
    """Which byte of a word is this one of a part of it; whether the part has it."""
    code, reverse, high = Value.cast(part), part == Part.REVERSED, part == Part.HIGH
    index = Cat(Mux(code[2], code[0], place[0] ^ reverse), Mux(code[2], code[1], (place[1] ^ reverse) | high))
    return index, Mux(code[2], ~place.any(), (code[0] == code[1]) | ~place[1])


def beyond_pair(control: LaneControl, count: Value) -> Value:
    """Whether the shift of a pair begins with its high word, or is beyond that as well."""
    return count[5] | (~control.wrap & count[6:].any())
