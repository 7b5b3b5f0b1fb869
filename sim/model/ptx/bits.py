"""Logic, shifts and bit fields: for each instruction, a function of unsigned operands."""

from collections.abc import Callable, Mapping

from rtl.isa.kinds import PermuteMode
from sim.model.bits import logic_of_three, permuted_bytes
from sim.toolchain.ptx.module import PtxInstruction, Type

from .numbers import Compute, number_of

__all__ = ["BITS"]


def _left(instruction: PtxInstruction) -> Compute:
    bits = instruction.type.bits
    return lambda a, b: a << min(b, bits)


def _right(instruction: PtxInstruction) -> Compute:
    kind = instruction.type
    return lambda a, b: number_of(a, kind) >> min(b, kind.bits)


def _funnel(instruction: PtxInstruction) -> Compute:
    left = instruction.operation == "l"

    def compute(a: int, b: int, c: int) -> int:
        count = min(c, 32) if instruction.clamp else c & 31
        both = b << 32 | a
        return both << count >> 32 if left else both >> count

    return compute


def _extract(instruction: PtxInstruction) -> Compute:
    kind = instruction.type

    def compute(a: int, b: int, c: int) -> int:
        first, length = b & 0xFF, c & 0xFF
        if not length:
            return 0
        field = a >> first & (1 << length) - 1
        if kind.signed and a >> min(first + length, kind.bits) - 1 & 1:
            field |= -1 << max(min(length, kind.bits - first), 0)
        return field

    return compute


def _insert(instruction: PtxInstruction) -> Compute:
    def compute(a: int, b: int, c: int, d: int) -> int:
        first, length = c & 0xFF, d & 0xFF
        mask = (1 << length) - 1 << first
        return b & ~mask | a << first & mask

    return compute


def _leading(instruction: PtxInstruction) -> Compute:
    bits = instruction.type.bits
    return lambda a: bits - a.bit_length()


def _find(instruction: PtxInstruction) -> Compute:
    kind = instruction.type

    def compute(a: int) -> int:
        number = number_of(a, kind)
        at = (number if number >= 0 else ~number).bit_length() - 1
        return kind.bits - 1 - at if instruction.operation == "shiftamt" and at >= 0 else at

    return compute


def _reversed(instruction: PtxInstruction) -> Compute:
    bits = instruction.type.bits
    return lambda a: int(f"{a:0{bits}b}"[::-1], 2)


def _table(instruction: PtxInstruction) -> Compute:
    return lambda a, b, c, table: logic_of_three(table, a, b, c)


def _find_nth_set(mask: int, base: int, offset: int) -> int:
    """Returns the position of the nth set bit of ``mask`` from ``base`` on (PTX's fns).

    The search goes upwards, or downwards for a negative ``offset``. An ``offset`` of 0 tests the
    bit at ``base`` itself. A ``base`` outside of the mask finds no bit.
    """
    if base >= Type.B32.bits:
        return -1
    count = number_of(offset, Type.S32)
    places = (
        range(base, base + 1)
        if not count
        else range(base, 32)
        if count > 0
        else range(base, -1, -1)
    )
    found = [place for place in places if mask >> place & 1]
    wanted = max(abs(count), 1)
    return found[wanted - 1] if len(found) >= wanted else -1


def _permuted(instruction: PtxInstruction) -> Compute:
    mode = PermuteMode[(instruction.operation or "index").upper()]
    return lambda a, b, c: permuted_bytes(mode, a, b, c)


def _same(compute: Compute) -> Callable[[PtxInstruction], Compute]:
    """Returns a maker whose computation does not depend on the instruction's type."""
    return lambda instruction: compute


BITS: Mapping[str, Callable[[PtxInstruction], Compute]] = {
    "and": _same(lambda a, b: a & b),
    "or": _same(lambda a, b: a | b),
    "xor": _same(lambda a, b: a ^ b),
    "not": _same(lambda a: ~a),
    "cnot": _same(lambda a: int(not a)),
    "lop3": _table,
    "shl": _left,
    "shr": _right,
    "shf": _funnel,
    "bfe": _extract,
    "bfi": _insert,
    "fns": _same(_find_nth_set),
    "popc": _same(int.bit_count),
    "clz": _leading,
    "bfind": _find,
    "brev": _reversed,
    "prmt": _permuted,
}
"""Makers of computations, by opcode."""
