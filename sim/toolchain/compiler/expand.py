"""Operations that stand for several instructions, taken apart.

===========  =======================================================================================
``ADD64``    sum of two pairs
``SETP64``   comparison of two pairs
``MAD``      a * b + c, lower word
``MULHI``    a * b, upper word
``MULWIDE``  a * b, both words
``DIV REM``  quotient and remainder of words
===========  =======================================================================================
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from . import division
from .ir import PT, RZ, WORD, Constant, Function, Op, Source, Value, number

__all__ = ["Emitter", "expand"]


@dataclass
class Emitter:
    """Makes the operations that take the place of one."""

    origin: Op
    ops: list[Op]
    count: int = 0

    def op(self, name: str, results: list[Value | None], *sources: Source, mods: str = "", sets_carry: bool = False,
           takes_carry: bool = False, text: str = "") -> None:
        """Adds an operation. What the original one writes is written under its guard."""
        made = Op(name, results, list(sources), mods, sets_carry, takes_carry, text=text, line=self.origin.line,
                  column=self.origin.column)
        if self.origin.guard is not None and any(value in self.origin.results for value in made.writes()):
            made.guard, made.fresh = self.origin.guard, self.origin.fresh
        self.ops.append(made)

    def value(self, predicate: bool = False) -> Value:
        """A new virtual register."""
        return Value("e", predicate)

    def compute(self, name: str, *sources: Source, mods: str = "", text: str = "") -> Source:
        """Adds an operation with one new result, and returns that."""
        result = self.value()
        self.op(name, [result], *sources, mods=mods, text=text)
        return Source(result)

    def compare(self, mods: str, *sources: Source, with_: Source = PT) -> Source:
        """A new predicate that tells how two words compare."""
        result = self.value(True)
        self.op("ISETP", [result, None], *sources, with_, mods=mods)
        return Source(result)

    def products(self, x: Source, y: Source) -> tuple[Source, Source]:
        """A factor in a register, and the other one, which may be a number or a constant."""
        if not isinstance(x.what, Value):
            x, y = y, x
        return (x if isinstance(x.what, Value) else self.compute("MOV", x)), y

    # Products of words

    def low_product(self, result: Value, x: Source, y: Source, addend: Source) -> None:
        """Result = x * y + addend."""
        x, y = self.products(x, y)
        factor = y.number
        if not (addend.number is not None or addend.value is not None):
            addend = self.compute("MOV", addend)
        if factor is not None:
            self._product_with_number(result, x, factor, addend)
            return
        if isinstance(y.what, Constant):
            y = Source(y.what)
        cross = self.compute("XMAD", x, replace(y, part=".H1"), RZ, mods=".MRG")
        low = self.compute("XMAD", x, y, addend)
        self.op("XMAD", [result], replace(x, part=".H1"), replace(cross, part=".H1"), low, mods=".PSL.CBCC")

    def _product_with_number(self, result: Value, x: Source, factor: int, addend: Source) -> None:
        if factor & factor - 1 == 0:
            if not factor:
                self.op("MOV", [result], addend)
            elif addend == RZ:
                self.op("SHL", [result], x, number(factor.bit_length() - 1))
            else:
                self.op("ISCADD" if factor > 1 else "IADD", [result], x, addend,
                        text=f"{factor.bit_length() - 1:#x}" if factor > 1 else "")
            return
        opposite = -factor & WORD
        if opposite & opposite - 1 == 0:
            self.op("ISCADD", [result], x.negate(), addend, text=f"{opposite.bit_length() - 1:#x}")
            return
        low, high = factor & 0xFFFF, factor >> 16
        if addend.number not in (None, 0):
            addend = self.compute("MOV", addend)
        parts = [(x, number(low), ""), (replace(x, part=".H1"), number(low), ".PSL"), (x, number(high), ".PSL")]
        parts = [part for part in parts if part[1].what]
        for at, (one, other, mods) in enumerate(parts):
            if at == len(parts) - 1:
                self.op("XMAD", [result], one, other, addend, mods=mods)
            else:
                addend = self.compute("XMAD", one, other, addend, mods=mods)

    def high_product(self, result: Value, x: Source, y: Source, signed: bool, addend: Source = RZ) -> None:
        """Result = (x * y >> 32) + addend."""
        x, y = self.products(x, y)
        if not (isinstance(y.what, Value) or (isinstance(y.what, Constant) and not signed)):
            y = self.compute("MOV", y)
        x_high, y_high = replace(x, part=".H1"), replace(y, part=".H1")
        low = self.compute("XMAD", x, y, RZ)
        cross = self.compute("XMAD", x, y_high, RZ, mods=".U16.S16" if signed else "")
        high = self.compute("XMAD", x_high, y_high, addend, mods=".S16.S16.CSFU" if signed else "")
        if signed and addend != RZ:
            raise AssertionError("CSFU takes no addend")
        middle = self.compute("XMAD", x_high, y, low, mods=".S16.U16.CHI" if signed else ".CHI")
        self.op("IADD3", [result], middle, cross, high, mods=".RS")


_Rule = Callable[[Emitter, Op], None]


def _add_pairs(e: Emitter, op: Op) -> None:
    low, high, *_ = op.results
    x_low, x_high, y_low, y_high = op.sources
    if high is None:
        e.op("IADD", [low], x_low, y_low)
        return
    if y_low.number == 0 and x_low.plain:
        first = Source(e.value()) if low in (x_high.value, y_high.value) else Source(low) if low is not None else RZ
        if low is not None:
            e.op("MOV", [first.value], x_low)
        e.op("IADD", [high], x_high, y_high)
        if low is not None and first.value is not low:
            e.op("MOV", [low], first)
        return
    kept = e.value() if low is not None and low in (x_high.value, y_high.value) else low
    e.op("IADD", [kept], x_low, y_low, sets_carry=True)
    e.op("IADD", [high], x_high, y_high, takes_carry=True)
    if kept is not low and kept is not None:
        e.op("MOV", [low], Source(kept))


def _compare_pairs(e: Emitter, op: Op) -> None:
    x_low, x_high, y_low, y_high = op.sources
    if op.mods in (".LT", ".GE") and (y_low.number, y_high.number) == (0, 0):
        e.op("ISETP", [op.results[0], None], x_high, RZ, PT, mods=f"{op.mods}.AND")
        return
    if x_high.number is not None and x_high.number == y_high.number:
        relation = op.mods.removesuffix(".U32")
        e.op("ISETP", [op.results[0], None], x_low, y_low, PT, mods=f"{relation}.U32.AND")
        return
    e.op("IADD", [None], x_low, y_low.negate(), sets_carry=True)
    e.op("ISETP", [op.results[0], None], x_high, y_high, PT, mods=f"{op.mods}.X.AND", takes_carry=True)


def _multiply_add(e: Emitter, op: Op) -> None:
    result = op.results[0]
    if result is not None:
        x, y, addend = op.sources
        if x.number is not None and y.number is not None:
            e.op("IADD", [result], addend, number(x.number * y.number))
        else:
            e.low_product(result, x, y, addend)


def _multiply_high(e: Emitter, op: Op) -> None:
    result = op.results[0]
    if result is not None:
        e.high_product(result, *op.sources, signed=op.mods == ".S32")


def _multiply_wide(e: Emitter, op: Op) -> None:
    low, high = op.results
    x, y = op.sources
    if y.number is None and x.number is not None:
        x, y = y, x
    signed = op.mods == ".S32"
    factor = y.number
    if factor is not None and not factor >> 31 and factor & factor - 1 == 0 and factor:
        shift = factor.bit_length() - 1
        kept = e.value() if low is not None and high is not None and low is x.value else low
        if kept is not None:
            e.op("SHL" if shift else "MOV", [kept], x, *([number(shift)] if shift else []))
        if high is not None:
            if shift or signed:
                e.op("SHR", [high], x, number(min(32 - shift, 31) if signed else 32 - shift),
                     mods="" if signed else ".U32")
            else:
                e.op("MOV", [high], RZ)
        if kept is not low and kept is not None:
            e.op("MOV", [low], Source(kept))
        return
    kept = e.value() if high is not None and low is not None and low in (x.value, y.value) else low
    if kept is not None:
        e.low_product(kept, x, y, RZ)
    if high is not None:
        e.high_product(high, x, y, signed)
    if kept is not low and kept is not None:
        e.op("MOV", [low], Source(kept))


_RULES: dict[str, _Rule] = {"ADD64": _add_pairs, "SETP64": _compare_pairs, "MAD": _multiply_add,
                            "MULHI": _multiply_high, "MULWIDE": _multiply_wide, "DIV": division.divide,
                            "REM": division.divide}


def expand(function: Function) -> None:
    """Takes apart all such operations of a function."""
    for block in function.blocks:
        ops: list[Op] = []
        for op in block.ops:
            if op.name in _RULES:
                _RULES[op.name](Emitter(op, ops), op)
            else:
                ops.append(op)
        block.ops = ops
