"""Integer arithmetic: for each instruction, a function of its operands.

Operands are unsigned and cut to their width; results are cut where they are stored. Where the PTX
manual leaves a result undefined, it is as in NVIDIA's compiled code (ours): division by 0 gives all
ones, and so does its remainder.
"""

from collections.abc import Callable, Mapping

from sim.toolchain.ptx.module import PtxHalf, PtxInstruction, Type

from .site import Maker, Site
from .state import Operation, PtxThread

__all__ = ["ARITHMETIC", "CARRYING", "Compute", "number_of", "saturated"]

Compute = Callable[..., int]
"""Computes a result from the values of the operands."""


def number_of(value: int, kind: Type) -> int:
    """Interprets the bits of a value as a number of the type."""
    value &= (1 << kind.bits) - 1
    return value - (1 << kind.bits) if kind.signed and value >> kind.bits - 1 else value


def saturated(number: int, kind: Type) -> int:
    """Clamps a number to the range of the type."""
    least = -(1 << kind.bits - 1) if kind.signed else 0
    return min(max(number, least), least + (1 << kind.bits) - 1)


def _of_numbers(compute: Compute) -> Callable[[PtxInstruction], Compute]:
    """A computation on operands interpreted as numbers of the instruction's type."""

    def make(instruction: PtxInstruction) -> Compute:
        kind = instruction.type
        if not kind.signed:
            return compute
        return lambda *values: compute(*(number_of(value, kind) for value in values))

    return make


def _sum(sign: int) -> Callable[[PtxInstruction], Compute]:
    def make(instruction: PtxInstruction) -> Compute:
        kind = instruction.type
        if instruction.saturate:
            return lambda a, b: saturated(number_of(a, kind) + sign * number_of(b, kind), kind)
        return lambda a, b: a + sign * b

    return make


def _quotient(a: int, b: int) -> int:
    if not b:
        return -1
    return abs(a) // abs(b) * (-1 if (a < 0) != (b < 0) else 1)


def _remainder(a: int, b: int) -> int:
    return a - b * _quotient(a, b) if b else -1


def _half_of_product(instruction: PtxInstruction) -> Callable[[int], int]:
    """Returns a function that selects the half of a product that the instruction keeps."""
    shift = instruction.type.bits if instruction.half is PtxHalf.HI else 0
    return lambda product: product >> shift


def _product(instruction: PtxInstruction) -> Compute:
    kind, half = instruction.type, _half_of_product(instruction)
    return lambda a, b: half(number_of(a, kind) * number_of(b, kind))


def _product_and_sum(instruction: PtxInstruction) -> Compute:
    kind, product = instruction.type, _product(instruction)
    if instruction.saturate:
        return lambda a, b, c: saturated(product(a, b) + number_of(c, kind), kind)
    return lambda a, b, c: product(a, b) + c


def _short(value: int, signed: bool) -> int:
    """Returns the low 24 bits as a number."""
    value &= 0xFF_FFFF
    return value - (1 << 24) if signed and value >> 23 else value


def _short_product(instruction: PtxInstruction) -> Compute:
    signed, shift = instruction.type.signed, 16 if instruction.half is PtxHalf.HI else 0
    return lambda a, b: _short(a, signed) * _short(b, signed) >> shift


def _short_product_and_sum(instruction: PtxInstruction) -> Compute:
    kind, product = instruction.type, _short_product(instruction)
    if instruction.saturate:
        return lambda a, b, c: saturated(product(a, b) + number_of(c, kind), kind)
    return lambda a, b, c: product(a, b) + c


ARITHMETIC: Mapping[str, Callable[[PtxInstruction], Compute]] = {
    "add": _sum(1),
    "sub": _sum(-1),
    "mul": _product,
    "mad": _product_and_sum,
    "mul24": _short_product,
    "mad24": _short_product_and_sum,
    "sad": lambda instruction: (
        lambda a, b, c: c + abs(number_of(a, instruction.type) - number_of(b, instruction.type))
    ),
    "div": _of_numbers(_quotient),
    "rem": _of_numbers(_remainder),
    "min": _of_numbers(min),
    "max": _of_numbers(max),
    "abs": _of_numbers(lambda a: abs(a)),
    "neg": lambda instruction: lambda a: -a,
}
"""Makers of computations, by opcode."""


# With the thread's carry flag. A subtraction adds the complement, as NVIDIA's code does, so that a
# set carry means no borrow (ours; it matters to programs that mix additions and subtractions).


def _carrying_sum(negative: bool, takes: bool) -> Maker:
    def make(site: Site) -> Operation:
        bits, carries = site.instruction.type.bits, site.instruction.carry_out
        mask = (1 << bits) - 1
        flip = mask if negative else 0
        d, a, b = site.operand_slots

        def run(thread: PtxThread, values: list[int]) -> None:
            total = values[a] + (values[b] ^ flip) + (thread.carry if takes else int(negative))
            if carries:
                thread.carry = total >> bits
            values[d] = total & mask

        return run

    return make


def _carrying_product(takes: bool) -> Maker:
    def make(site: Site) -> Operation:
        bits, carries = site.instruction.type.bits, site.instruction.carry_out
        product, mask = _product(site.instruction), (1 << bits) - 1
        d, a, b, c = site.operand_slots

        def run(thread: PtxThread, values: list[int]) -> None:
            total = (
                (product(values[a], values[b]) & mask) + values[c] + (thread.carry if takes else 0)
            )
            if carries:
                thread.carry = total >> bits
            values[d] = total & mask

        return run

    return make


CARRYING: Mapping[str, Maker] = {
    "add": _carrying_sum(negative=False, takes=False),
    "addc": _carrying_sum(negative=False, takes=True),
    "sub": _carrying_sum(negative=True, takes=False),
    "subc": _carrying_sum(negative=True, takes=True),
    "mad": _carrying_product(takes=False),
    "madc": _carrying_product(takes=True),
}
"""Makers of operations that set the carry flag or read it."""
