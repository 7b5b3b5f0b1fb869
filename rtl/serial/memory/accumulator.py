"""The one adder of the serial memory unit: addresses, bounds, atomic operations."""

from amaranth.hdl import Cat, Module, Mux
from amaranth.lib import enum
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.syntax import WORD_BITS
from rtl.sums import sum_with_carry

__all__ = ["REGISTER_BITS", "Accumulator", "Update"]

REGISTER_BITS = WORD_BITS // 2
"""Width of a register, and of the accumulator."""
_LOW_BITS = 4


class Update(enum.Enum, shape=3):
    """What the accumulator becomes in the next cycle."""

    HOLD = 0
    CLEAR = 1
    SUM = 2
    """Its sum with the addend."""
    WORD = 3
    """The word."""
    AND = 4
    """The accumulator and the word, bit by bit; likewise below."""
    OR = 5
    XOR = 6


class Accumulator(Component):
    """A word, and its sum with another one.

    Members
    -------
    update : In(Update)
    word : In(32)
    add_word, invert, term, carry_in : In(1), In(1), In(32), In(1)
        The addend: ``word`` if ``add_word``, else 0; then all bits inverted if ``invert``; or the
        ``term``, which is 0 if the word is added or inverted.
    set_low, clear_low : In(4), In(4)
        In the sum these bits among the lowest ones of the accumulator are 1, or else 0.
    value, total, carry_out : Out(32), Out(32), Out(1)
        The accumulator; the sum, without registers.
    """

    def __init__(self) -> None:
        super().__init__({
            "update": In(Update),
            "word": In(REGISTER_BITS),
            "add_word": In(1),
            "invert": In(1),
            "term": In(REGISTER_BITS),
            "carry_in": In(1),
            "set_low": In(_LOW_BITS),
            "clear_low": In(_LOW_BITS),
            "value": Out(REGISTER_BITS),
            "total": Out(REGISTER_BITS),
            "carry_out": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._add(m)
        with m.Switch(self.update):
            with m.Case(Update.CLEAR):
                m.d.sync += self.value.eq(0)
            with m.Case(Update.SUM):
                m.d.sync += self.value.eq(self.total)
            with m.Case(Update.WORD):
                m.d.sync += self.value.eq(self.word)
            with m.Case(Update.AND):
                m.d.sync += self.value.eq(self.value & self.word)
            with m.Case(Update.OR):
                m.d.sync += self.value.eq(self.value | self.word)
            with m.Case(Update.XOR):
                m.d.sync += self.value.eq(self.value ^ self.word)
        return m

    def _add(self, m: Module) -> None:
        low = (self.value[:_LOW_BITS] | self.set_low) & ~self.clear_low
        augend = Cat(low, self.value[_LOW_BITS:])
        word = Mux(self.add_word, self.word, 0) ^ self.invert.replicate(REGISTER_BITS)
        m.d.comb += Cat(self.total, self.carry_out).eq(
            sum_with_carry(augend, word | self.term, self.carry_in))
