"""A source's bytes as an integer."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.convert.formats import DOUBLE, SINGLE
from rtl.convert.instruction import DOUBLE_BITS, SHIFT_BITS, size_code
from rtl.population import population
from rtl.sums import sum_with_carry

from .instruction import BYTE, HEAD_BYTES, INDEX, STEP, SerialConversion

__all__ = ["SourceInteger"]

_DOUBLE = size_code(DOUBLE_BITS)


class SourceInteger(wiring.Component):
    """Takes a source's bytes, the lowest first, and gives those of an integer: negated, if that is due; of a
    floating-point number its fraction with the bit above it. For a look at the source there is neither of both.

    Members
    -------
    instruction : In(SerialConversion)
    index, byte : In(INDEX), In(8)
        A byte, and its number.
    added : In(8)
        MUFU.RCP: what is added to it.
    scans, gives : In(1)
        The source is looked at; there are results.
    parabola, hidden, empty : In(1)
        Of results: the byte is that of a parabola's constant; a floating-point number is normal; it is a zero.
    step : In(STEP)
        The number of the byte in ``before``, when a source is looked at.
    before, behind : Out(8)
        A byte of the integer, and the one above it, a cycle after that has come.
    between : In(8)
        Eight bits from the second bit of ``before`` on.
    head : Out(32)
        The highest bytes of the source.
    negative, sign : Out(1)
        The source is a negative integer; the sign of its magnitude, after the modifiers.
    found, position : Out(1), Out(6)
        Whether the integer has a bit that is not its sign, and the complement of the highest one's place, which is -1
        without one; of POPC, how many bits are 1.
    """

    instruction: In(SerialConversion)
    index: In(INDEX)
    byte: In(BYTE)
    added: In(BYTE)
    scans: In(1)
    gives: In(1)
    parabola: In(1)
    hidden: In(1)
    empty: In(1)
    step: In(STEP)
    before: Out(BYTE)
    behind: Out(BYTE)
    between: In(BYTE)
    head: Out(BYTE * HEAD_BYTES)
    negative: Out(1)
    sign: Out(1)
    found: Out(1)
    position: Out(SHIFT_BITS)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        instruction, index, head = self.instruction, self.index, self.head
        real, double, top = Signal(), instruction.size == _DOUBLE, head[-1]
        below, inside, above = index[-1], Signal(), Signal()
        m.d.comb += [
            real.eq(instruction.to_integer | instruction.calculates),
            inside.eq(~below & ~index[3] & (double | ~index[2]) & (instruction.size[1] | (
                ~index[1] & (instruction.size[0] | ~index[0])))),
            above.eq(~below & ~inside)]
        # The highest bytes stay.
        with m.If(self.scans & inside):
            m.d.sync += head.eq(Cat(head[BYTE:], self.byte))
        # Sign, and whether all bits are inverted.
        fill, flip = Signal(), Signal()
        m.d.comb += [
            self.negative.eq(instruction.signed & top),
            self.sign.eq((top & (instruction.signed | real) & ~instruction.absolute) ^ instruction.negate),
            fill.eq(~real & Mux(instruction.signed & ~instruction.counts, top, instruction.finds & instruction.invert)),
            flip.eq(Mux(self.scans, instruction.counts & instruction.invert, instruction.to_float & self.negative | (
                instruction.converts & (self.negative ^ self.sign))))]
        # The bytes of a floating-point number's exponent.
        high, exponent, boundary = Signal(), Signal(), Signal()
        m.d.comb += [high.eq(real & ~self.parabola & inside & index[1] & (index[2] == double)),
                     exponent.eq(high & index[0]), boundary.eq(high & ~index[0])]
        kept, other = Signal(), Signal()
        constant = (index == -1) | (index[2:] == 0) & ~(index[0] & index[1])
        nothing = self.gives & (self.empty | instruction.counts | instruction.finds)
        m.d.comb += [kept.eq(Mux(self.parabola, constant, inside & ~exponent) & ~nothing),
                     other.eq(above & fill)]
        bits = []
        for place in range(BYTE):
            keeps, instead = kept, other
            if place >= DOUBLE.fraction % BYTE:
                at = DOUBLE if place == DOUBLE.fraction % BYTE else SINGLE if place == SINGLE.fraction % BYTE else None
                keeps = kept & ~(boundary & (double if place < SINGLE.fraction % BYTE else 1))
                if at is not None:
                    instead = other | boundary & self.hidden & (double == (at is DOUBLE))
            bits.append(Mux(keeps, self.byte[place], instead) ^ flip)
        carry, total = Signal(), Signal(BYTE + 1)
        m.d.comb += total.eq(sum_with_carry(Cat(bits), self.added, carry))
        with m.If(self.scans | self.gives):
            m.d.sync += [self.behind.eq(total), self.before.eq(self.behind)]
        with m.Else():
            m.d.sync += [self.behind.eq(0), self.before.eq(0)]
        m.d.sync += [carry.eq(Mux(self.gives, total[-1], flip & ~self.scans))]

        # The highest bit that is not like the one above it; or how many are 1.
        changes, place = self.before ^ self.between, Signal(3)
        for bit in range(BYTE):
            with m.If(changes[bit]):
                m.d.comb += place.eq(bit)
        with m.If(self.scans & ~self.step[-1]):
            with m.If(instruction.counts & ~self.step[2]):
                m.d.sync += self.position.eq(self.position + population(self.before))
            with m.If(~instruction.counts & changes.any()):
                m.d.sync += [self.position.eq(~Cat(place, self.step[:3])), self.found.eq(1)]
        with m.Elif(self.scans):
            m.d.sync += [self.position.eq(0), self.found.eq(0)]
        return m
