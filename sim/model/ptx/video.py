"""Video instructions: a part of each source, an exact result, bounds, and a second operation or a place for its bits.

What the description of PTX leaves open is ours: what a shift to the left drops counts for the bounds, and a second
operation takes the low 32 bits of the first.
"""

from collections.abc import Callable, Mapping

from sim.toolchain.ptx.module import Comparison, PtxInstruction, Type

from .numbers import Compute, number_of, saturated

__all__ = ["VIDEO"]

_PLACES = {
    "": (0, 32),
    "b0": (0, 8),
    "b1": (8, 8),
    "b2": (16, 8),
    "b3": (24, 8),
    "h0": (0, 16),
    "h1": (16, 16),
}
"""Where a part of a register begins, and how many bits it has."""
_WORD = 0xFFFF_FFFF


def _number(value: int, kind: Type, part: str) -> int:
    """The number in a part of a register."""
    first, bits = _PLACES[part]
    value = value >> first & (1 << bits) - 1
    return value - (1 << bits) if kind.signed and value >> bits - 1 else value


def _within(value: int, signed: bool, bits: int) -> int:
    """The nearest number of so many bits."""
    least = -(1 << bits - 1) if signed else 0
    return min(max(value, least), least + (1 << bits) - 1)


def _sum(sign: int) -> Callable[[PtxInstruction], Compute]:
    return lambda instruction: lambda a, b: a + sign * b


def _shift(left: bool) -> Callable[[PtxInstruction], Compute]:
    def make(instruction: PtxInstruction) -> Compute:
        def compute(a: int, b: int) -> int:
            count = min(b, 32) if instruction.clamp else b % 32
            return a << count if left else a >> count

        return compute

    return make


def _compared(instruction: PtxInstruction) -> Compute:
    holds = {
        Comparison.EQ: (0,),
        Comparison.NE: (-1, 1),
        Comparison.LT: (-1,),
        Comparison.LE: (-1, 0),
        Comparison.GT: (1,),
        Comparison.GE: (0, 1),
    }[Comparison(instruction.compare)]
    return lambda a, b: int((a > b) - (a < b) in holds)


def _video(first: Callable[[PtxInstruction], Compute]) -> Callable[[PtxInstruction], Compute]:
    """A first operation, and what is made of its result."""

    def make(instruction: PtxInstruction) -> Compute:
        kinds, (into, *parts) = instruction.types[-2:], instruction.parts
        kind = instruction.type if len(instruction.types) > len(kinds) else Type.U32
        place, bits = _PLACES[into]
        combine = {"": lambda x, c: x, "add": lambda x, c: x + c, "min": min, "max": max}[
            instruction.operation
        ]
        of_two = first(instruction)

        def compute(a: int, b: int, c: int = 0) -> int:
            result = of_two(_number(a, kinds[0], parts[0]), _number(b, kinds[1], parts[1]))
            if instruction.saturate:
                result = _within(result, kind.signed, bits)
            if into:
                mask = (1 << bits) - 1
                return c & ~(mask << place) | (result & mask) << place
            return combine(number_of(result, kind), number_of(c, kind))

        return compute

    return make


def _average(a: int, b: int) -> int:
    """Halves are rounded away from zero in positive sums, and down in negative ones."""
    return (a + b + 1 if a + b >= 0 else a + b) >> 1


def _several(first: Callable[[PtxInstruction], Compute]) -> Callable[[PtxInstruction], Compute]:
    """Two results, or four: their sum is added to the third number, or each takes the place of a part of it."""

    def make(instruction: PtxInstruction) -> Compute:
        kinds, (into, *selected, _) = instruction.types[-2:], instruction.parts
        kind = instruction.type if len(instruction.types) > len(kinds) else Type.U32
        count, of_two = int(instruction.opcode[-1]), first(instruction)
        letter, size = into[0], _WORD.bit_length() // count
        written = [int(digit) for digit in into[1:]]
        taken = [[int(digit) for digit in reversed(digits[1:])] for digits in selected]

        def compute(a: int, b: int, c: int) -> int:
            results = {}
            for place in written:
                numbers = (
                    _number((a, b)[at[place] >= count], of, f"{letter}{at[place] % count}")
                    for at, of in zip(taken, kinds, strict=True)
                )
                results[place] = of_two(*numbers)
            if instruction.operation:
                return c + sum(results.values()) & _WORD
            for place, result in results.items():
                result = _within(result, kind.signed, size) if instruction.saturate else result
                mask = (1 << size) - 1 << size * place
                c = c & ~mask | result << size * place & mask
            return c

        return compute

    return make


def _product_and_sum(instruction: PtxInstruction) -> Compute:
    """vmad: there is a sign if a factor has one, or if something is negated; c has one then, too."""
    _, *kinds = instruction.types
    _, minus_a, minus_b, minus_c = instruction.negated
    minus = minus_a != minus_b
    signed = any(kind.signed for kind in kinds) or minus or minus_c

    def compute(a: int, b: int, c: int) -> int:
        product = _number(a, kinds[0], instruction.parts[1]) * _number(
            b, kinds[1], instruction.parts[2]
        )
        addend = number_of(c, Type.S32 if signed else Type.U32)
        total = (
            (-product if minus else product)
            + (-addend if minus_c else addend)
            + instruction.plus_one
        )
        total >>= instruction.scale
        return (
            saturated(total, Type.S32 if signed else Type.U32)
            if instruction.saturate
            else total & _WORD
        )

    return compute


_FIRST: Mapping[str, Callable[[PtxInstruction], Compute]] = {
    "vadd": _sum(1),
    "vsub": _sum(-1),
    "vabsdiff": lambda instruction: lambda a, b: abs(a - b),
    "vmin": lambda instruction: min,
    "vmax": lambda instruction: max,
    "vset": _compared,
}
VIDEO: Mapping[str, Callable[[PtxInstruction], Compute]] = {
    **{opcode: _video(first) for opcode, first in _FIRST.items()},
    "vshl": _video(_shift(left=True)),
    "vshr": _video(_shift(left=False)),
    "vmad": _product_and_sum,
    **{
        f"{opcode}{count}": _several(first)
        for count in (2, 4)
        for opcode, first in (*_FIRST.items(), ("vavrg", lambda instruction: _average))
    },
}
"""Makers of computations, by opcode."""
