"""The operands of a lane that computes a byte in a cycle."""

from typing import NamedTuple

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.execute.bounds import kept_bytes
from rtl.execute.control import FirstTerm, LaneControl, Part
from rtl.execute.permute import fixed_picks
from rtl.execute.stages import WORD_BYTES
from rtl.isa.kinds import PermuteMode

from .stages import ByteOperands, ThreadWork
from .step import Step

__all__ = ["OperandBytes", "starts_in_high_word"]

_PICK_BITS = 4


class _PartByte(NamedTuple):
    """A byte of a part of a word."""

    index: Value
    """Its place in the word."""
    is_inside: Value
    """The part has the byte; otherwise the byte is its sign."""


def _byte_of_part(part: Value, place: Value) -> _PartByte:
    """The byte at a place of a part, by the code of Part: from 4 on a single byte."""
    code = Value.cast(part)
    is_reversed = part == Part.REVERSED
    is_high = part == Part.HIGH
    is_byte = code[2]
    is_word = code[0] == code[1]
    index = Cat(
        Mux(is_byte, code[0], place[0] ^ is_reversed),
        Mux(is_byte, code[1], (place[1] ^ is_reversed) | is_high))
    return _PartByte(index, Mux(is_byte, ~place.any(), is_word | ~place[1]))


def starts_in_high_word(control: LaneControl, count: Value) -> Value:
    """Whether the shift of a pair by 64 bits begins in its high word, or above it."""
    return count[5] | (~control.wrap & count[6:].any())


class OperandBytes(wiring.Component):
    """Selects in each step a byte of each operand.

    Members
    -------
    work : In(ThreadWork)
    step : In(Step)
    selected : Out(ByteOperands)
    """

    work: In(ThreadWork)
    step: In(Step)
    selected: Out(ByteOperands)

    def __init__(self) -> None:
        super().__init__()
        self._permutes = Signal(name="permutes")
        self._pick = Signal(_PICK_BITS, name="pick")
        """Of a permutation: the number of the source byte, in a and c, and whether only its sign is
        repeated."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._pick_byte(m)
        self._select_a(m)
        self._select_raw_b(m)
        self._modify_b(m)
        self._select_raw_c(m)
        self._modify_c(m)
        return m

    def _pick_byte(self, m: Module) -> None:
        """The source of a byte of a permutation: a digit of b, or by a table."""
        control = self.work.control
        place = self.step.place
        mode = Value.cast(control.permute)
        table_modes = [kind for kind in PermuteMode if kind != PermuteMode.INDEX]
        kinds = {kind.value: kind for kind in table_modes}
        picks = Array(
            Const(fixed_picks(kinds[code], amount)[at] if code in kinds else 0, 3)
            for code in range(1 << len(mode) - 1)
            for amount in range(WORD_BYTES) for at in range(WORD_BYTES))
        m.d.comb += self._permutes.eq(
            self.step.makes & (control.first == FirstTerm.PERMUTATION))
        with m.If(control.permute == PermuteMode.INDEX):
            m.d.comb += self._pick.eq(self.selected.raw_b.word_select(place[0], _PICK_BITS))
        with m.Else():
            m.d.comb += self._pick.eq(picks[Cat(place, self.work.operands.b[:2], mode[:-1])])

    def _select_a(self, m: Module) -> None:
        control = self.work.control
        step = self.step
        pick = self._pick
        selected = self.selected
        part = _byte_of_part(control.part_a, step.place)
        index = Signal(2)
        raw = Signal(8)
        modified = Signal(8)
        is_inside = Signal()
        complements = Signal()
        m.d.comb += index.eq(Mux(self._permutes, pick[:2], part.index))
        m.d.comb += raw.eq(self.work.operands.a.word_select(index, 8))
        m.d.comb += is_inside.eq(part.is_inside & (step.prepares | step.low))
        m.d.comb += complements.eq(
            control.negate_a
            & ((control.first == FirstTerm.LOGIC) | (control.first == FirstTerm.SUM)))
        in_order = Mux(control.part_a == Part.REVERSED, raw[::-1], raw)
        m.d.comb += modified.eq(in_order ^ complements.replicate(8))
        self._hold_sign(
            m, "a", selected.a_is_negative, step.prepares & is_inside,
            control.signed_a & modified[7])

        takes_c = Signal()
        is_sign = Signal()
        sign = Signal()
        with m.If(self._permutes):
            m.d.comb += takes_c.eq(pick[2])
            m.d.comb += is_sign.eq(pick[3])
            m.d.comb += sign.eq(Mux(takes_c, selected.raw_c[7], raw[7]))
        with m.Else():
            shifts_pair_right = (
                (control.first == FirstTerm.SHIFT) & control.pair & ~control.left & control.wide)
            m.d.comb += takes_c.eq(
                shifts_pair_right & starts_in_high_word(control, self.work.operands.b))
            m.d.comb += is_sign.eq(~is_inside)
            m.d.comb += sign.eq(selected.a_is_negative ^ complements)
        with m.If(is_sign):
            m.d.comb += selected.a.eq(sign.replicate(8))
        with m.Elif(takes_c):
            m.d.comb += selected.a.eq(selected.raw_c)
        with m.Else():
            m.d.comb += selected.a.eq(modified)

    def _select_raw_b(self, m: Module) -> None:
        """A permutation has two digits in a byte of b; the final sum takes b's low half twice where
        the instruction works on halves."""
        control = self.work.control
        step = self.step
        place = step.place
        selected = self.selected
        part = _byte_of_part(control.part_b, place)
        index = Signal(2)
        with m.If(self._permutes):
            m.d.comb += index.eq(place[1])
        with m.Elif(step.concludes):
            m.d.comb += index.eq(Cat(place[0], place[1] & ~control.halves))
        with m.Else():
            m.d.comb += index.eq(part.index)
        m.d.comb += selected.raw_b.eq(self.work.operands.b.word_select(index, 8))
        m.d.comb += selected.b_is_inside.eq(part.is_inside)
        self._hold_sign(
            m, "b", selected.b_is_negative, step.prepares & part.is_inside,
            control.signed_b & selected.raw_b[7])

    def _modify_b(self, m: Module) -> None:
        """Operand b as the step needs it: its byte or zeros, complemented or not."""
        control = self.work.control
        step = self.step
        place = step.place
        selected = self.selected
        is_logic = control.first == FirstTerm.LOGIC
        is_inside = selected.b_is_inside
        keeps_byte = Signal()
        complements = Signal()
        complements_lowest = Signal()       # bit 0 differs in a correction alone
        correction = self._correction(m)
        m.d.comb += complements_lowest.eq(complements)
        with m.If(step.prepares):
            is_term = (control.first != FirstTerm.SHIFT) & (control.first != FirstTerm.PRODUCT)
            subtracts = Mux(control.three, control.negate_b, ~control.adds)
            m.d.comb += keeps_byte.eq(is_term & is_inside)
            m.d.comb += complements.eq(
                is_term & (subtracts ^ (selected.b_is_negative & ~is_inside)))
        with m.Elif(step.makes):
            is_word = is_inside & step.low
            repeats_sign = ~is_word & (is_logic | step.low)
            m.d.comb += keeps_byte.eq(is_word)
            m.d.comb += complements.eq(
                (is_logic & control.negate_b) ^ (selected.b_is_negative & repeats_sign))
        with m.Else():
            in_high_half = place[1]
            m.d.comb += keeps_byte.eq(control.add_b | (control.add_high_b & in_high_half))
            m.d.comb += complements.eq(
                (control.add_b & control.negate_b)
                | (control.correct & in_high_half & correction[1]))
            with m.If(control.correct):
                m.d.comb += complements_lowest.eq(in_high_half & correction[0])
        m.d.comb += selected.b.eq(
            (selected.raw_b & keeps_byte.replicate(8))
            ^ Cat(complements_lowest, complements.replicate(7)))

    def _correction(self, m: Module) -> Value:
        """What corrects the high half of a product of halves that is one of two middle ones, as the
        low bits of a byte: -1 for each factor that is negative while the other is not 0."""
        operands = self.work.operands
        of_a = Signal()
        of_b = Signal()
        correction = Signal(2)
        m.d.comb += of_a.eq(self.selected.a_is_negative & operands.b[:16].any())
        m.d.comb += of_b.eq(self.selected.b_is_negative & operands.a[:16].any())
        with m.If(of_a & of_b & ~self.step.place[0]):
            m.d.comb += correction.eq(-2)
        with m.Elif(of_a | of_b):
            m.d.comb += correction.eq(-1)
        return correction

    def _select_raw_c(self, m: Module) -> None:
        """The final choice of the smaller or the larger term proceeds from the highest byte
        down."""
        control = self.work.control
        place = self.step.place
        is_descending = self.step.concludes & (control.smaller | control.larger)
        index = Signal(2)
        with m.If(self._permutes):
            m.d.comb += index.eq(self._pick[:2])
        with m.Else():
            m.d.comb += index[0].eq(place[0] ^ is_descending)
            m.d.comb += index[1].eq((place[1] ^ is_descending) | (control.part_c == Part.HIGH))
        m.d.comb += self.selected.raw_c.eq(self.work.operands.c.word_select(index, 8))

    def _modify_c(self, m: Module) -> None:
        """The byte of c or of its part, or zeros, complemented or not."""
        control = self.work.control
        step = self.step
        keeps_byte = Signal()
        complements = Signal()
        with m.If(step.concludes):
            is_kept = kept_bytes(control).word_select(step.place, 8)[0]
            in_part = (control.part_c == Part.WORD) | ~step.place[1]
            m.d.comb += keeps_byte.eq(is_kept & in_part)
            m.d.comb += complements.eq(is_kept & control.negate_c)
        with m.Else():
            sign = ~step.low & control.signed_result & self.work.operands.c[31]
            m.d.comb += keeps_byte.eq(step.low)
            m.d.comb += complements.eq(control.negate_c ^ control.complement ^ sign)
        m.d.comb += self.selected.c.eq(
            (self.selected.raw_c & keeps_byte.replicate(8)) ^ complements.replicate(8))

    def _hold_sign(
            self, m: Module, name: str, is_negative: Value, is_inside: Value, sign: Value) -> None:
        """The sign of the highest byte so far that is inside the part."""
        held = Signal(name=f"{name}_sign")
        m.d.comb += is_negative.eq(Mux(is_inside, sign, held))
        m.d.sync += held.eq(is_negative)
