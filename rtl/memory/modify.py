"""What an atomic operation leaves in memory."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.kinds import AtomicOperation

__all__ = ["AtomicArithmetic"]

_BITS = 64


class AtomicArithmetic(Component):
    """An atomic operation on one number; combinational.

    Numbers are unsigned patterns of 32 or 64 bits, the upper half of narrow ones is 0.

    Members
    -------
    operation, compare, signed, wide : In
        As in the instruction; ``wide`` ones have 64 bits.
    old, operand, swap : In(64)
        ``swap`` is the second operand of a compare and swap.
    new : Out(64)
    """

    def __init__(self) -> None:
        super().__init__({
            "operation": In(AtomicOperation), "compare": In(1), "signed": In(1), "wide": In(1), "old": In(_BITS),
            "operand": In(_BITS), "swap": In(_BITS), "new": Out(_BITS)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        old, operand, less, equal, total = self.old, self.operand, Signal(), Signal(), Signal(_BITS)
        m.d.comb += [less.eq(self._ordered(old) < self._ordered(operand)), equal.eq(old == operand)]
        up, down = less, old.any() & (less | equal)
        addend = Mux(self.operation == AtomicOperation.INC, 1, Mux(
            self.operation == AtomicOperation.DEC, (1 << _BITS) - 1, operand))
        m.d.comb += total.eq(old + addend)
        with m.If(self.compare):
            m.d.comb += self.new.eq(Mux(equal, self.swap, old))
        with m.Else(), m.Switch(self.operation):
            with m.Case(AtomicOperation.ADD):
                m.d.comb += self.new.eq(total)
            with m.Case(AtomicOperation.MIN):
                m.d.comb += self.new.eq(Mux(less, old, operand))
            with m.Case(AtomicOperation.MAX):
                m.d.comb += self.new.eq(Mux(less, operand, old))
            with m.Case(AtomicOperation.INC):
                m.d.comb += self.new.eq(Mux(up, total, 0))
            with m.Case(AtomicOperation.DEC):
                m.d.comb += self.new.eq(Mux(down, total, operand))
            with m.Case(AtomicOperation.AND):
                m.d.comb += self.new.eq(old & operand)
            with m.Case(AtomicOperation.OR):
                m.d.comb += self.new.eq(old | operand)
            with m.Case(AtomicOperation.XOR):
                m.d.comb += self.new.eq(old ^ operand)
            with m.Default():
                m.d.comb += self.new.eq(operand)
        return m

    def _ordered(self, number: Value) -> Value:
        """The number, signed or not, as one without sign and in the same order. INC and DEC are never signed."""
        plain = (self.operation == AtomicOperation.INC) | (self.operation == AtomicOperation.DEC)
        flip = self.signed & ~plain
        return number ^ Cat(Const(0, 31), flip & ~self.wide, Const(0, 31), flip & self.wide)
