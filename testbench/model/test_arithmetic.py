"""Sums and products of several words on the warp model, against Python numbers."""

import random
from collections.abc import Callable

import pytest

from testbench.handmade import ALL, alone, encode, machine, vector, warp_of

WORD = (1 << 32) - 1
EDGES = [0, 1, 2, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 0x18000, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFF0000,
         0xFFFFFFFE, WORD]


def numbers(seed: int) -> list[int]:
    """A value for each thread, half of them at the edges."""
    source = random.Random(seed)
    return [source.choice(EDGES) if thread % 2 else source.getrandbits(32) for thread in range(32)]


A, B, C = (numbers(seed) for seed in (1, 2, 3))
CARRIES, OVERFLOWS, ZEROS = 0x0F0F3355, 0x12345678, 0x00FF0F33


def signed(value: int, bits: int = 32) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value


def run(word: int, **kind):
    """The instruction on A, B and C in R1, R2 and R3, result in R4, with flags set before; warp and record."""
    made = machine([word], **kind)
    warp = warp_of(made)
    for number, values in ((1, A), (2, B), (3, C), (4, C)):
        warp.registers[number] = values
    warp.condition.carry, warp.condition.overflow, warp.condition.zero = CARRIES, OVERFLOWS, ZEROS
    return warp, made.retire(0)


def compare(found: list[int], formula: Callable[[int, int, int, int], int]) -> None:
    """Compares a register with a formula of a, b, c and the carry of each thread."""
    expected = [formula(a, b, c, CARRIES >> thread & 1) & WORD
                for thread, (a, b, c) in enumerate(zip(A, B, C, strict=True))]
    assert found == expected


@pytest.mark.parametrize("negate", [(0, 0, 0), (1, 0, 0), (0, 1, 1), (1, 1, 0)])
def test_three_numbers_of_two_words_add_exactly(negate):
    """The low sum carries up to two, which reach the high one through CC."""
    fields = dict(zip(("negate_a", "negate_b", "negate_c"), negate, strict=True))
    low, _ = run(encode("IADD3", "r", Rd=4, Ra=1, Rb=2, Rc=3, cc=1, **fields))
    made = machine([encode("IADD3", "r", Rd=5, Ra=6, Rb=7, Rc=8, extended=1, **fields)])
    warp = warp_of(made)
    warp.condition = low.condition
    highs = [numbers(seed) for seed in (4, 5, 6)]
    for number, values in zip((6, 7, 8), highs, strict=True):
        warp.registers[number] = values
    made.retire(0)
    for thread, high in enumerate(vector(warp, 5)):
        terms = [(upper[thread] << 32 | lower[thread]) * (-1 if minus else 1)
                 for upper, lower, minus in zip(highs, (A, B, C), negate, strict=True)]
        assert (high << 32 | vector(low, 4)[thread]) == sum(terms) & (1 << 64) - 1


def test_the_signed_high_product_of_halves():
    """Five instructions, as NVIDIA's assembler makes them."""
    steps = [encode("XMAD", "r", Rd=5, Ra=1, Rb=2, Rc=255),
             encode("XMAD", "r", Rd=6, Ra=1, Rb=2, Rc=5, high_a=1, signs=1, addend=2),
             encode("XMAD", "r", Rd=7, Ra=1, Rb=2, Rc=255, high_b=1, signs=2),
             encode("XMAD", "r", Rd=8, Ra=1, Rb=2, Rc=255, high_a=1, high_b=1, signs=3, addend=3),
             encode("IADD3", "r", Rd=4, Ra=6, Rb=7, Rc=8, shift=1)]
    made = machine(steps)
    warp = warp_of(made)
    for number, values in ((1, A), (2, B)):
        warp.registers[number] = values
    for _ in steps:
        made.retire(0)
    compare(vector(warp, 4), lambda a, b, c, carry: signed(a) * signed(b) >> 32)


@pytest.mark.parametrize("negate", [0, 1])
def test_a_product_of_two_words_and_its_addend_are_exact(negate):
    """The low words and their carry, then the high words."""
    fields = {"Ra": 1, "Rb": 2, "signs": 0, "negate_ab": negate}
    made = machine([encode("IMAD", "r", Rd=4, Rc=3, cc=1, **fields),
                    encode("IMAD", "r", Rd=5, Rc=6, high=1, extended=1, **fields)])
    warp = warp_of(made)
    highs = numbers(7)
    for number, values in ((1, A), (2, B), (3, C), (6, highs)):
        warp.registers[number] = values
    warp.registers[1][:2] = 0
    made.retire(0)
    made.retire(0)
    for t in range(32):
        total = (-1 if negate else 1) * (A[t] if t > 1 else 0) * B[t] + (highs[t] << 32 | C[t])
        assert vector(warp, 5)[t] << 32 | vector(warp, 4)[t] == total & (1 << 64) - 1


def test_only_threads_that_execute_write():
    warp, record = alone(encode("IADD", "r", Rd=4, Ra=1, Rb=2, cc=1, guard=0), {1: 5, 2: WORD - 4, 4: 99},
                         active=0xFF, predicates={0: 0xF0F})
    assert vector(warp, 4) == [0] * 4 + [99] * 28
    assert (warp.condition.zero, warp.condition.carry) == (0xF, 0xF)
    assert record.registers == {4: (0xF, (0,) * 4 + (99,) * 28)}
    assert record.condition == (0xF, (0b0101,) * 4 + (0,) * 28)
    warp, record = alone(encode("IADD", "r", Rd=4, Ra=1, Rb=2, cc=1, guard=0), {1: 5})
    assert (record.registers, record.condition, record.next_pc) == ({}, None, 0x10)


def test_rz_and_pt_are_never_written():
    warp, record = alone(encode("IADD", "r", Rd=255, Ra=1, Rb=2, cc=1), {1: 5})
    assert (vector(warp, 255), record.registers, warp.condition.zero) == ([0] * 32, {}, 0)
    assert record.condition == (ALL, (0,) * 32)
    warp, record = alone(encode("ISETP", "r", Pd=7, Pd2=7, Ra=1, Rb=2, compare=5), {1: 5})
    assert (warp.predicates[7], record.predicates) == (ALL, {})
