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
    """The next value of the accumulator."""

    HOLD = 0
    CLEAR = 1
    SUM = 2
    """``total``."""
    WORD = 3
    """``word``."""
    AND = 4
    """The bitwise operation of accumulator and ``word``; OR and XOR likewise."""
    OR = 5
    XOR = 6


class Accumulator(Component):
    """A register of 32 bits, and its sum with an addend. The register has the new value in the
    cycle after ``update``.

    Members
    -------
    update : In(Update)
    word : In(32)
    add_word, invert, term, carry_in : In(1), In(1), In(32), In(1)
        The addend is ``(word if add_word else 0) ^ (~0 if invert else 0) | term``. ``term`` must be
        0 if ``add_word`` or ``invert`` is 1.
    set_low, clear_low : In(4), In(4)
        In the sum, but not in the register, the accumulator's low bits in ``set_low`` are replaced
        by 1; then those in ``clear_low`` by 0.
    value, total, carry_out : Out(32), Out(32), Out(1)
        The register; the sum of the register, the addend and ``carry_in``, and its carry:
        combinational.
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
