"""Video instructions: subword operands, an exact result, saturation, and a second operation or a
merge.

Where the PTX manual is silent (ours): saturation sees the bits that a left shift drops, and a
second operation takes the low 32 bits of the first result.
"""

from collections.abc import Callable, Mapping

from sim.toolchain.ptx.module import Comparison, PtxInstruction, PtxSubword, Type

from .numbers import Compute, number_of, saturated

__all__ = ["VIDEO"]

_WORD_BITS = 32
_WORD = (1 << _WORD_BITS) - 1


def _number(value: int, kind: Type, part: PtxSubword | None) -> int:
    """Returns the number in a subword of a register, or in the whole register."""
    first, bits = (part.first_bit, part.bits) if part is not None else (0, _WORD_BITS)
    value = value >> first & (1 << bits) - 1
    return value - (1 << bits) if kind.signed and value >> bits - 1 else value


def _within(value: int, signed: bool, bits: int) -> int:
    """Clamps a number to the range of ``bits`` bits."""
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
    """Completes a scalar instruction: applies ``first`` to the subwords, saturates, then merges the
    result into c or combines it with c.
    """

    def make(instruction: PtxInstruction) -> Compute:
        kinds, (into, *parts) = instruction.types[-2:], instruction.subwords
        kind = instruction.type if len(instruction.types) > len(kinds) else Type.U32
        bits = into.bits if into is not None else _WORD_BITS
        combine = {"": lambda x, c: x, "add": lambda x, c: x + c, "min": min, "max": max}[
            instruction.operation
        ]
        of_two = first(instruction)

        def compute(a: int, b: int, c: int = 0) -> int:
            result = of_two(_number(a, kinds[0], parts[0]), _number(b, kinds[1], parts[1]))
            if instruction.saturate:
                result = _within(result, kind.signed, bits)
            if into is not None:
                mask = (1 << bits) - 1 << into.first_bit
                return c & ~mask | result << into.first_bit & mask
            return combine(number_of(result, kind), number_of(c, kind))

        return compute

    return make


def _average(a: int, b: int) -> int:
    """Rounds halves away from zero for sums >= 0, and down for negative sums."""
    return (a + b + 1 if a + b >= 0 else a + b) >> 1


def _several(first: Callable[[PtxInstruction], Compute]) -> Callable[[PtxInstruction], Compute]:
    """Completes an instruction on two or four lanes: adds the sum of the results to c, or merges
    each result into its subword of c.
    """

    def make(instruction: PtxInstruction) -> Compute:
        lanes, kinds = instruction.lanes, instruction.types[-2:]
        assert lanes is not None
        kind = instruction.type if len(instruction.types) > len(kinds) else Type.U32
        of_two = first(instruction)

        def compute(a: int, b: int, c: int) -> int:
            results = {}
            for lane in lanes.written:
                numbers = (
                    _number((a, b)[number // lanes.count], of, lanes.subword(number % lanes.count))
                    for number, of in zip((lanes.a[lane], lanes.b[lane]), kinds, strict=True)
                )
                results[lanes.subword(lane)] = of_two(*numbers)
            if instruction.operation:
                return c + sum(results.values()) & _WORD
            for into, result in results.items():
                result = _within(result, kind.signed, into.bits) if instruction.saturate else result
                mask = (1 << into.bits) - 1 << into.first_bit
                c = c & ~mask | result << into.first_bit & mask
            return c

        return compute

    return make


def _product_and_sum(instruction: PtxInstruction) -> Compute:
    """vmad: the result is signed if a factor is signed or a term is negated; c is then signed, too."""
    _, *kinds = instruction.types
    _, minus_a, minus_b, minus_c = instruction.negated
    minus = minus_a != minus_b
    signed = any(kind.signed for kind in kinds) or minus or minus_c

    def compute(a: int, b: int, c: int) -> int:
        _, of_a, of_b, _ = instruction.subwords
        product = _number(a, kinds[0], of_a) * _number(b, kinds[1], of_b)
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
