"""An integer's bytes as those of the result."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.convert.formats import DOUBLE, SINGLE
from rtl.convert.instruction import DOUBLE_BITS, SHIFT_BITS, WORD_BITS, Rounding, size_code
from rtl.pick import pick
from rtl.sums import sum_with_carry

from .instruction import BYTE, EXPONENT, STEP, SerialConversion

__all__ = ["SerialResult"]

_WORD, _DOUBLE = size_code(WORD_BITS), size_code(DOUBLE_BITS)


class SerialResult(wiring.Component):
    """Shifts by less than a byte, rounds, adds the exponent, and keeps an integer within its type: then the bytes have
    to be given once more, where ``again`` says so.

    Members
    -------
    instruction : In(SerialConversion)
    before, behind : In(8)
        Bytes of the integer, the second one above the first one.
    places : In(3)
        By how much they are shifted down.
    scans, gives, fills : In(1)
        The source is looked at; the result is given; it is given once more, at the end of its type.
    step : In(STEP)
        The number of the result's byte.
    negative, sign, found, position, exponent, none, excess, infinite, empty : In
        See SourceInteger and SerialExponents.
    shifted : Out(8)
        ``before`` shifted. When the source is looked at, by one.
    byte : Out(8)
    again : Out(1)
        After the last byte.
    """

    instruction: In(SerialConversion)
    before: In(BYTE)
    behind: In(BYTE)
    places: In(3)
    scans: In(1)
    gives: In(1)
    fills: In(1)
    step: In(STEP)
    negative: In(1)
    sign: In(1)
    found: In(1)
    position: In(SHIFT_BITS)
    exponent: In(EXPONENT)
    none: In(1)
    excess: In(1)
    infinite: In(1)
    empty: In(1)
    one: In(1)
    shifted: Out(BYTE)
    byte: Out(BYTE)
    again: Out(1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        instruction, step = self.instruction, self.step
        converts, to_integer = instruction.converts, instruction.to_integer
        calculates, finds = instruction.calculates, instruction.finds
        negated = to_integer & self.sign

        # Shifted; then what is cut off, and whether it rounds up.
        wide = Cat(self.before, self.behind[:-1])
        for bit, steps in ((2, 4), (1, 2), (0, 1)):
            moves = self.places[bit] | (self.scans if steps == 1 else 0)
            kept = len(wide) - steps
            wide = Mux(moves, wide[steps:], wide[:kept])
        m.d.comb += self.shifted.eq(wide)
        half, rest, up = Signal(), Signal(), Signal()
        with m.If(~self.gives):
            m.d.sync += [half.eq(0), rest.eq(0)]
        with m.Elif(step[-1]):
            m.d.sync += [half.eq(self.shifted[-1]), rest.eq(rest | half | self.shifted[:-1].any())]
        with m.Switch(instruction.round):
            with m.Case(Rounding.NEAREST):
                m.d.comb += up.eq(half & (rest | self.shifted[0]))
            with m.Case(Rounding.DOWN):
                m.d.comb += up.eq((half | rest) & self.sign)
            with m.Case(Rounding.UP):
                m.d.comb += up.eq((half | rest) & ~self.sign)

        # Rounded and negated: -(n + 1) is ~n, -n is ~n + 1.
        carry, total = Signal(), Signal(BYTE + 1)
        m.d.comb += total.eq(sum_with_carry(
            self.shifted ^ negated.replicate(BYTE), self._added(m), Mux(step == 0, up ^ negated, carry)))
        m.d.sync += carry.eq(total[-1])

        # Bits above the type are like its highest one, or 0. If they should not be, it is at its nearest bound.
        inside, last, above, top, wrong, below = (Signal(name=name) for name in (
            "inside", "last", "above", "top", "wrong", "below"))
        ends = (step == 0, step == 1, step == 3, step == 7)
        m.d.comb += [inside.eq(pick([step[:4] < 1, step[:4] < 2, step[:4] < 4, step[:4] < 8], instruction.to_size)),
                     last.eq(pick(ends, instruction.to_size)), above.eq(instruction.to_signed & top)]
        with m.If(self.gives & ~step[-1]):
            m.d.sync += below.eq(total[BYTE - 1])
            with m.If(inside):
                m.d.sync += [top.eq(total[BYTE - 1]), wrong.eq(0)]
            with m.Else():
                m.d.sync += wrong.eq(wrong | (total[:BYTE] ^ above.replicate(BYTE)).any())
        negative, none, marked = Signal(), Signal(), Signal()
        m.d.comb += [
            negative.eq(Mux(to_integer & self.excess, self.sign, below)), none.eq(to_integer & self.none),
            marked.eq((instruction.size == _DOUBLE) | (instruction.to_size == _DOUBLE)),
            self.again.eq(converts & instruction.saturate & wrong | to_integer & (wrong | self.excess | self.none)
                          | calculates & self.none & ~instruction.saturate | finds & ~self.found)]
        low, high, beyond = Signal(), Signal(), Signal()
        m.d.comb += [
            low.eq(finds | calculates | ~none & ~negative),
            high.eq(finds | ~calculates & Mux(none, marked, negative ^ ~instruction.to_signed)),
            beyond.eq(instruction.to_signed & Mux(none, marked, negative))]
        taken, instead = Signal(), Signal()
        m.d.comb += [taken.eq(inside & ~self.fills), instead.eq(Mux(self.fills, Mux(inside, low, beyond), above)),
                     self.byte.eq(Mux(taken, total[:BYTE], Cat(
                         instead.replicate(BYTE - 1), Mux(self.fills & last, high, instead))))]
        return m

    def _added(self, m: Module) -> Signal:
        """What is added to a byte: a part of the exponent, the sign, the whole result of POPC and FLO."""
        instruction, step, exponent = self.instruction, self.step, self.exponent
        calculates, finds, counts = instruction.calculates, instruction.finds, instruction.counts
        to_float, double = instruction.to_float, instruction.to_size[0] & instruction.to_float
        stored, sign, has = Signal(16), Signal(), Signal()
        filled = exponent | Mux(self.infinite & calculates, 0b11, 0)
        m.d.comb += [
            has.eq(to_float & (self.found | self.negative) | calculates & ~self.empty),
            sign.eq(self.sign & (to_float & (self.found | self.negative) | calculates & ~instruction.saturate)
                    ^ (has & calculates & exponent[SINGLE.exponent])),
            stored.eq(Mux(double, filled[:DOUBLE.exponent] << DOUBLE.fraction % BYTE,
                          filled[:SINGLE.exponent] << SINGLE.fraction % BYTE) & has.replicate(16) | sign << 15)]
        added = Signal(BYTE)
        with m.If((step[:2] == 3) & (step[2] == double)):
            m.d.comb += added.eq(stored[BYTE:])
        with m.Elif((step[:2] == 2) & (step[2] == double)):
            m.d.comb += added.eq(stored[:BYTE])
        with m.Elif((step == 0) & (finds | counts)):
            # There are no more than 32 bits, so only POPC has the highest bit of a count.
            m.d.comb += added.eq(Cat(self.position[:5] ^ (finds & ~instruction.from_top).replicate(5),
                                     self.position[5] & counts))
        return added
