"""Shifts, logic, bit fields, permutes and moves.

Choices of this project, where no public page has a rule: all of these set CC's zero and sign from
the result and clear carry and overflow. The predicate result of a logic operation without a test is
false. MOV's lane mask names the threads of a quad (thread number modulo 4) that move.

A logic operation with .X continues a number of several words: the zero condition, for the test and
for CC, includes CC's zero flag of the lower words. Compiled code tests 64-bit values with a LOP
into RZ.CC followed by such an operation with a test, and does not use the CC of the latter (ours).
"""

from collections.abc import Callable

from rtl.isa.kinds import FunnelWidth, Logic, PermuteMode, PredicateTest
from sim.model.bits import logic_of_three, permuted_bytes

from .decode import Result, ThreadInstruction, result_of, semantics
from .integers import FLAGS, WORD, ZERO, flags_of_result, signed
from .state import DISCARD_PREDICATE, Operation, Thread

__all__ = ["reversed_bits"]

_QUAD = 4


def reversed_bits(value: int) -> int:
    """Returns the bits of a register in reverse order."""
    return int(f"{value:032b}"[::-1], 2)


@result_of("SHL")
def _shift_left(i: ThreadInstruction) -> Result:
    a, b, wrap = i.source("a"), i.source("b"), i["wrap"]

    def compute(thread: Thread) -> int:
        values = thread.values
        count = values[b]
        count = count & 31 if wrap else min(count, 32)
        return values[a] << count & WORD

    return compute


@result_of("SHR")
def _shift_right(i: ThreadInstruction) -> Result:
    a, b, wrap = i.source("a"), i.source("b"), i["wrap"]
    arithmetic, reverse = i["signed"], i["reverse"]

    def compute(thread: Thread) -> int:
        values = thread.values
        value, count = values[a], values[b]
        if reverse:
            value = reversed_bits(value)
        if arithmetic:
            value = signed(value)
        return value >> (count & 31 if wrap else min(count, 32)) & WORD

    return compute


@result_of("SHF.L", "SHF.R")
def _funnel_shift(i: ThreadInstruction) -> Result:
    """Shifts the pair {c, a}; gives the upper word of a left shift, the lower word of a right
    shift.
    """
    a, b, c = i.source("a"), i.source("b"), i.source("c")
    left, wrap = i.name == "SHF.L", i["wrap"]
    width = FunnelWidth(i["width"])
    most = 32 if width is FunnelWidth.B32 else 64

    def compute(thread: Thread) -> int:
        values = thread.values
        count = values[b]
        count = count & most - 1 if wrap else min(count, most)
        pair = values[c] << 32 | values[a]
        if width is FunnelWidth.S64:
            pair = signed(pair, 64)
        return (pair << count >> 32 if left else pair >> count) & WORD

    return compute


@result_of("BFE")
def _extract(i: ThreadInstruction) -> Result:
    """Extracts b[15:8] bits of a from bit b[7:0] on, zero-extended, or sign-extended from the
    highest bit of the field inside a.
    """
    a, b = i.source("a"), i.source("b")
    reverse, extend = i["reverse"], i["signed"]

    def compute(thread: Thread) -> int:
        values = thread.values
        value, field = values[a], values[b]
        first, length = field & 0xFF, field >> 8 & 0xFF
        if reverse:
            value = reversed_bits(value)
        bits = value >> first & (1 << length) - 1
        if extend and length:
            top = min(first + length - 1, 31)
            if value >> top & 1:
                bits |= -1 << max(top + 1 - first, 0)
        return bits & WORD

    return compute


@result_of("BFI")
def _insert(i: ThreadInstruction) -> Result:
    """Replaces b[15:8] bits of c from bit b[7:0] on with the lowest bits of a."""
    a, b, c = i.source("a"), i.source("b"), i.source("c")

    def compute(thread: Thread) -> int:
        values = thread.values
        field = values[b]
        mask = (1 << (field >> 8 & 0xFF)) - 1
        first = field & 0xFF
        return (values[c] & ~(mask << first) | (values[a] & mask) << first) & WORD

    return compute


_TESTED: dict[PredicateTest, Callable[[bool], int]] = {
    PredicateTest.Z: lambda zero: int(zero),
    PredicateTest.NZ: lambda zero: int(not zero),
    PredicateTest.T: lambda zero: 1,
    PredicateTest.NONE: lambda zero: 0,
}
"""The predicate result of a logic operation, from whether its result is zero."""


def _logic_result(i: ThreadInstruction, destination: int) -> Operation | None:
    """Returns an operation that writes the predicate and CC of a logic operation; None if it writes
    neither.
    """
    set_cc, test = i["cc"], _TESTED[PredicateTest(i["predicate_test"])]
    predicate = i.predicate_destination("p") if "p" in i.form.operands else DISCARD_PREDICATE
    if not set_cc and predicate == DISCARD_PREDICATE:
        return None

    def finish(thread: Thread) -> int:
        result = thread.values[destination]
        thread.predicates[predicate] = test(result == 0)
        if set_cc:
            thread.condition = flags_of_result(result)
        return 0

    def finish_extended(thread: Thread) -> int:
        result, condition = thread.values[destination], thread.condition
        thread.predicates[predicate] = test(result == 0 and bool(condition & ZERO))
        if set_cc:
            thread.condition = flags_of_result(result) & (condition | ~ZERO)
        return 0

    return finish_extended if i["extended"] else finish


@semantics("LOP", "LOP32I")
def _logic(i: ThreadInstruction) -> Operation:
    d, a, b = i.destination(), i.source("a"), i.source("b")
    invert_a, invert_b = (WORD if i[name] else 0 for name in ("invert_a", "invert_b"))
    finish = _logic_result(i, d)
    kind = Logic(i["operation"])

    def operation(thread: Thread) -> None:
        values = thread.values
        x, y = values[a] ^ invert_a, values[b] ^ invert_b
        if kind is Logic.AND:
            y &= x
        elif kind is Logic.OR:
            y |= x
        elif kind is Logic.XOR:
            y ^= x
        values[d] = y
        if finish is not None:
            finish(thread)

    return operation


@semantics("LOP3.LUT")
def _logic_of_three(i: ThreadInstruction) -> Operation:
    d, a, b, c, lut = i.destination(), i.source("a"), i.source("b"), i.source("c"), i["lut"]
    finish = _logic_result(i, d)

    def operation(thread: Thread) -> None:
        values = thread.values
        values[d] = logic_of_three(lut, values[a], values[b], values[c]) & WORD
        if finish is not None:
            finish(thread)

    return operation


@result_of("PRMT")
def _permute(i: ThreadInstruction) -> Result:
    """Selects four of the eight bytes of {c, a} by b; the modes are those of PTX's prmt."""
    a, b, c = i.source("a"), i.source("b"), i.source("c")
    mode = PermuteMode(i["mode"])

    def compute(thread: Thread) -> int:
        values = thread.values
        return permuted_bytes(mode, values[a], values[c], values[b])

    return compute


@semantics("MOV", "MOV32I")
def _move(i: ThreadInstruction) -> Operation:
    d, b, lanes = i.destination(), i.source("b"), i["lanes"]

    def operation(thread: Thread) -> None:
        values = thread.values
        values[d] = values[b]

    def some(thread: Thread) -> None:
        if lanes >> thread.lane % _QUAD & 1:
            operation(thread)

    return operation if lanes == (1 << _QUAD) - 1 else some


@result_of("P2R")
def _predicates_to_register(i: ThreadInstruction) -> Result:
    """Copies a, with the masked bits of one byte replaced by the predicates or CC's flags.

    Mask bit 0 is the byte's lowest bit; bit 7 of the predicates is PT (ours).
    """
    a, b, shift = i.source("a"), i.source("b"), 8 * i["byte"]
    condition = i["which"] == 1

    def compute(thread: Thread) -> int:
        values = thread.values
        if condition:
            bits = thread.condition
        else:
            bits = sum(thread.predicates[number] << number for number in range(8))
        mask = values[b] & 0xFF
        return (values[a] & ~(mask << shift) | (bits & mask) << shift) & WORD

    return compute


@semantics("R2P")
def _register_to_predicates(i: ThreadInstruction) -> Operation:
    """Writes the masked predicates, or flags of CC, from one byte of a."""
    a, b, shift, condition = i.source("a"), i.source("b"), 8 * i["byte"], i["which"] == 1

    def operation(thread: Thread) -> None:
        values = thread.values
        bits, mask = values[a] >> shift, values[b]
        if condition:
            mask &= FLAGS
            thread.condition = thread.condition & ~mask | bits & mask
        else:
            for number in range(7):
                if mask >> number & 1:
                    thread.predicates[number] = bits >> number & 1

    return operation
