"""The one adder of the serial memory unit: addresses, bounds, atomic operations."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import enum
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.pick import pick
from rtl.sums import sum_with_carry

__all__ = ["Accumulator", "Combination", "Step"]


class Step(enum.Enum, shape=2):
    """What becomes of the accumulator."""

    STAY = 0
    CLEAR = 1
    SUM = 2
    COMBINE = 3


class Combination(enum.Enum, shape=2):
    """What is made of it and of a word."""

    AND = 0
    OR = 1
    XOR = 2
    TAKE = 3
    """The word."""


class Accumulator(Component):
    """A word, and its sum with another one.

    Members
    -------
    step, combination : In(Step), In(Combination)
        What it becomes in the next cycle.
    word : In(32)
    adds, inverts, term, carry : In(1), In(1), In(32), In(1)
        What is added: the word if it ``adds``, else 0; all bits of that inverted; the term, where that is 0; the carry.
    value, total, above : Out(32), Out(32), Out(1)
        The word that it holds, the sum, and its carry.
    set_low, clear_low : In(4)
        Bits that are 1, and then those that are 0, in place of its lowest ones in the sum.
    """

    def __init__(self) -> None:
        super().__init__({
            "step": In(Step), "combination": In(Combination), "word": In(32), "adds": In(1), "inverts": In(1),
            "term": In(32), "carry": In(1), "set_low": In(4), "clear_low": In(4), "value": Out(32), "total": Out(32),
            "above": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        value, word, total = self.value, self.word, Signal(33)
        own = Cat((value[:4] | self.set_low) & ~self.clear_low, value[4:])
        addend = (Mux(self.adds, word, 0) ^ self.inverts.replicate(32)) | self.term
        m.d.comb += [
            total.eq(sum_with_carry(own, addend, self.carry)), self.total.eq(total[:32]),
            self.above.eq(total[32])]
        with m.Switch(self.step):
            with m.Case(Step.CLEAR):
                m.d.sync += value.eq(0)
            with m.Case(Step.SUM):
                m.d.sync += value.eq(self.total)
            with m.Case(Step.COMBINE):
                m.d.sync += value.eq(pick((value & word, value | word, value ^ word, word),
                                          self.combination.as_value()))
        return m
