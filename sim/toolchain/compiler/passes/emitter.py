"""A builder for the operations that replace a pseudo-instruction."""

from dataclasses import dataclass, replace
from typing import Any

from rtl.isa.kinds import ProductAddend, SumShift
from sim.toolchain.compiler.ir import (
    RZ,
    WORD,
    ConstantWord,
    Op,
    RegisterPart,
    Source,
    Value,
    number,
)
from sim.toolchain.compiler.opcodes import opcode

__all__ = ["Emitter"]

_UNSIGNED, _SIGNED_A, _SIGNED_B = 0, 1, 2
"""Codes of the signed factors of XMAD."""


@dataclass
class Emitter:
    """Builds the operations that replace a pseudo-instruction."""

    origin: Op
    ops: list[Op]
    count: int = 0

    def op(
        self,
        name: str,
        results: list[Value | None],
        *sources: Source,
        sets_carry: bool = False,
        takes_carry: bool = False,
        **fields: Any,
    ) -> None:
        """Adds an operation. One that writes a result of the original operation gets its guard."""
        made = Op(
            opcode(name, tuple(fields.items())),
            results,
            list(sources),
            sets_carry,
            takes_carry,
            line=self.origin.line,
            column=self.origin.column,
        )
        if self.origin.guard is not None and any(
            value in self.origin.results for value in made.writes()
        ):
            made.guard, made.fresh = self.origin.guard, self.origin.fresh
        self.ops.append(made)

    def value(self, predicate: bool = False) -> Value:
        """Returns a new virtual register."""
        return Value("e", predicate)

    def compute(self, name: str, *sources: Source, **fields: Any) -> Source:
        """Adds an operation with one new result, and returns the result."""
        result = self.value()
        self.op(name, [result], *sources, **fields)
        return Source(result)

    def products(self, x: Source, y: Source) -> tuple[Source, Source]:
        """Returns the factors of a product, the first one in a register. The second may be a number
        or a constant.
        """
        if not isinstance(x.operand, Value):
            x, y = y, x
        return (x if isinstance(x.operand, Value) else self.compute("MOV", x)), y

    # Products of words

    def low_product(self, result: Value, x: Source, y: Source, addend: Source) -> None:
        """Adds result = x * y + addend, lower word."""
        x, y = self.products(x, y)
        factor = y.number
        if not (addend.number is not None or addend.value is not None):
            addend = self.compute("MOV", addend)
        if factor is not None:
            self._product_with_number(result, x, factor, addend)
            return
        if isinstance(y.operand, ConstantWord):
            y = Source(y.operand)
        cross = self.compute("XMAD", x, replace(y, part=RegisterPart.H1), RZ, merge=True)
        low = self.compute("XMAD", x, y, addend)
        self.op(
            "XMAD",
            [result],
            replace(x, part=RegisterPart.H1),
            replace(cross, part=RegisterPart.H1),
            low,
            product_high=True,
            addend=ProductAddend.CBCC,
        )

    def _product_with_number(self, result: Value, x: Source, factor: int, addend: Source) -> None:
        if factor & factor - 1 == 0:
            if not factor:
                self.op("MOV", [result], addend)
            elif addend == RZ:
                self.op("SHL", [result], x, number(factor.bit_length() - 1))
            elif factor > 1:
                self.op("ISCADD", [result], x, addend, shift=factor.bit_length() - 1)
            else:
                self.op("IADD", [result], x, addend)
            return
        opposite = -factor & WORD
        if opposite & opposite - 1 == 0:
            self.op("ISCADD", [result], x.negate(), addend, shift=opposite.bit_length() - 1)
            return
        low, high = factor & 0xFFFF, factor >> 16
        if addend.number not in (None, 0):
            addend = self.compute("MOV", addend)
        parts = [
            (x, number(low), False),
            (replace(x, part=RegisterPart.H1), number(low), True),
            (x, number(high), True),
        ]
        parts = [part for part in parts if part[1].operand]
        for at, (one, other, shifted) in enumerate(parts):
            if at == len(parts) - 1:
                self.op("XMAD", [result], one, other, addend, product_high=shifted)
            else:
                addend = self.compute("XMAD", one, other, addend, product_high=shifted)

    def high_product(
        self, result: Value, x: Source, y: Source, signed: bool, addend: Source = RZ
    ) -> None:
        """Adds result = (x * y >> 32) + addend."""
        assert not signed or addend == RZ, "CSFU takes no addend"
        x, y = self.products(x, y)
        if not (
            isinstance(y.operand, Value) or (isinstance(y.operand, ConstantWord) and not signed)
        ):
            y = self.compute("MOV", y)
        x_high, y_high = replace(x, part=RegisterPart.H1), replace(y, part=RegisterPart.H1)
        low = self.compute("XMAD", x, y, RZ)
        cross = self.compute("XMAD", x, y_high, RZ, signs=_SIGNED_B if signed else _UNSIGNED)
        high = self.compute(
            "XMAD",
            x_high,
            y_high,
            addend,
            signs=_SIGNED_A | _SIGNED_B if signed else _UNSIGNED,
            addend=ProductAddend.CSFU if signed else ProductAddend.C,
        )
        middle = self.compute(
            "XMAD",
            x_high,
            y,
            low,
            signs=_SIGNED_A if signed else _UNSIGNED,
            addend=ProductAddend.CHI,
        )
        self.op("IADD3", [result], middle, cross, high, shift=SumShift.RS)
