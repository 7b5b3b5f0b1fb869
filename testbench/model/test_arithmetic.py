"""Sums and products of the reference machine against plain numbers."""

import random
from collections.abc import Callable

import pytest

from sim.launch import LOCAL_WINDOW, SHARED_WINDOW
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


def clamp(value: int) -> int:
    return max(-1 << 31, min((1 << 31) - 1, value))


def run(word: int, **kind):
    """The instruction on A, B and C in R1, R2 and R3, result in R4, with flags set before; warp and record."""
    made = machine([word], **kind)
    warp = warp_of(made)
    for number, values in ((1, A), (2, B), (3, C), (4, C)):
        warp.registers[number] = values
    warp.condition.carry, warp.condition.overflow, warp.condition.zero = CARRIES, OVERFLOWS, ZEROS
    return warp, made.retire(0)


def results(word: int, **kind) -> list[int]:
    return vector(run(word, **kind)[0], 4)


def compare(found: list[int], formula: Callable[[int, int, int, int], int]) -> None:
    """Compares a register with a formula of a, b, c and the carry of each thread."""
    expected = [formula(a, b, c, CARRIES >> thread & 1) & WORD
                for thread, (a, b, c) in enumerate(zip(A, B, C, strict=True))]
    assert found == expected


SUMS = {
    "plain": ({}, lambda a, b, c, carry: a + b),
    "minus b": ({"plus_one": 1}, lambda a, b, c, carry: a - b),
    "minus a": ({"plus_one": 2}, lambda a, b, c, carry: b - a),
    "plus one": ({"plus_one": 3}, lambda a, b, c, carry: a + b + 1),
    "extended": ({"extended": 1}, lambda a, b, c, carry: a + b + carry),
    "extended minus b": ({"extended": 1, "plus_one": 1}, lambda a, b, c, carry: a - b - 1 + carry),
    "extended minus a": ({"extended": 1, "plus_one": 2}, lambda a, b, c, carry: b - a - 1 + carry),
    "extended plus one": ({"extended": 1, "plus_one": 3}, lambda a, b, c, carry: a + b + carry),
    "saturated": ({"saturate": 1}, lambda a, b, c, carry: clamp(signed(a) + signed(b))),
    "saturated minus b": ({"saturate": 1, "plus_one": 1}, lambda a, b, c, carry: clamp(signed(a) - signed(b))),
}


@pytest.mark.parametrize("fields,formula", SUMS.values(), ids=SUMS)
def test_iadd(fields, formula):
    compare(results(encode("IADD", "r", Rd=4, Ra=1, Rb=2, **fields)), formula)


def test_operand_b_comes_from_everywhere():
    compare(results(encode("IADD", "i", Rd=4, Ra=1, imm=-0x12345)), lambda a, b, c, carry: a - 0x12345)
    compare(results(encode("IADD32I", Rd=4, Ra=1, imm32=0x12345678)), lambda a, b, c, carry: a + 0x12345678)
    compare(results(encode("IADD32I", Rd=4, Ra=1, imm32=-5, plus_one=2)), lambda a, b, c, carry: -5 - a)
    compare(results(encode("IADD32I", Rd=4, Ra=1, imm32=-5, plus_one=3)), lambda a, b, c, carry: a - 4)
    compare(results(encode("IADD", "c", Rd=4, Ra=1, bank=2, offset=4), constants={2: bytes(4) + b"\x78\x56\x34\x12"}),
            lambda a, b, c, carry: a + 0x12345678)
    compare(results(encode("IADD", "r", Rd=4, Ra=1, Rb=255)), lambda a, b, c, carry: a)


FLAGGED = {
    "plain": ({}, lambda a, b, carry: (a, b)),
    "minus b": ({"plus_one": 1}, lambda a, b, carry: (a, ~b & WORD, 1)),
    "extended": ({"extended": 1}, lambda a, b, carry: (a, b, carry)),
    "extended minus b": ({"extended": 1, "plus_one": 1}, lambda a, b, carry: (a, ~b & WORD, carry)),
}


@pytest.mark.parametrize("fields,terms", FLAGGED.values(), ids=FLAGGED)
def test_the_flags_of_a_sum(fields, terms):
    warp, record = run(encode("IADD", "r", Rd=4, Ra=1, Rb=2, cc=1, **fields))
    assert record.condition is not None
    for thread, (a, b) in enumerate(zip(A, B, strict=True)):
        parts = terms(a, b, CARRIES >> thread & 1)
        total = sum(parts)
        exact = sum(signed(part) for part in parts)
        flags = (total & WORD == 0, total >> 31 & 1, total >> 32 & 1, exact != signed(total))
        found = [flag >> thread & 1 for flag in (warp.condition.zero, warp.condition.sign, warp.condition.carry,
                                                  warp.condition.overflow)]
        assert found == [int(flag) for flag in flags], (thread, hex(a), hex(b))
        assert record.condition[1][thread] == sum(flag << place for place, flag in enumerate(found))


def test_iscadd():
    compare(results(encode("ISCADD", "r", Rd=4, Ra=1, Rb=2, shift=5)), lambda a, b, c, carry: (a << 5) + b)
    compare(results(encode("ISCADD", "r", Rd=4, Ra=1, Rb=2, shift=5, plus_one=2)), lambda a, b, c, carry: b - (a << 5))
    compare(results(encode("ISCADD", "r", Rd=4, Ra=1, Rb=2, shift=5, plus_one=1)), lambda a, b, c, carry: (a << 5) - b)
    compare(results(encode("ISCADD32I", Rd=4, Ra=1, imm32=-7, shift=31)), lambda a, b, c, carry: (a << 31) - 7)
    warp, _ = run(encode("ISCADD", "r", Rd=4, Ra=1, Rb=2, shift=3, cc=1))
    assert warp.condition.carry == sum(((A[t] << 3 & WORD) + B[t] >> 32) << t for t in range(32))


SUMS_OF_THREE = {
    "plain": ({}, lambda a, b, c: a + b + c),
    "all negated": ({"negate_a": 1, "negate_b": 1, "negate_c": 1}, lambda a, b, c: -a - b - c),
    "halves": ({"half_a": 1, "half_b": 2, "half_c": 2}, lambda a, b, c: (a & 0xFFFF) + (b >> 16) + (c >> 16)),
    "to the right": ({"shift": 1}, lambda a, b, c: (a + b >> 16) + c),
    "to the left": ({"shift": 2}, lambda a, b, c: (a + b << 16) + c),
    "to the left, minus c": ({"shift": 2, "negate_c": 1}, lambda a, b, c: (a + b << 16) - c),
}


@pytest.mark.parametrize("fields,formula", SUMS_OF_THREE.values(), ids=SUMS_OF_THREE)
def test_iadd3(fields, formula):
    compare(results(encode("IADD3", "r", Rd=4, Ra=1, Rb=2, Rc=3, **fields)), lambda a, b, c, carry: formula(a, b, c))


def test_33_bits_of_a_sum_are_shifted():
    fields = {"Rd": 4, "Ra": 1, "Rb": 2, "Rc": 3, "shift": 1}
    warp, _ = alone(encode("IADD3", "r", **fields, negate_a=1, negate_b=1), {1: 0, 2: 0, 3: 5})
    assert vector(warp, 4) == [5] * 32
    warp, _ = alone(encode("IADD3", "r", **fields), {1: WORD, 2: WORD, 3: 5})
    assert vector(warp, 4) == [0x1FFFF + 5] * 32


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


def test_lea():
    compare(results(encode("LEA", "r", Rd=4, Ra=1, Rb=2, shift=7)), lambda a, b, c, carry: (a << 7) + b)
    compare(results(encode("LEA", "r", Rd=4, Ra=1, Rb=2, shift=7, negate_a=1)), lambda a, b, c, carry: b - (a << 7))
    compare(results(encode("LEA", "r", Rd=4, Ra=1, Rb=2, extended=1)), lambda a, b, c, carry: a + b + carry)


def test_lea_high():
    compare(results(encode("LEA.HI", "r", Rd=4, Ra=1, Rb=2, Rc=3, shift=27)),
            lambda a, b, c, carry: ((c << 32 | a) << 27 >> 32) + b)
    compare(results(encode("LEA.HI", "r", Rd=4, Ra=1, Rb=2, Rc=3, shift=4, extended=1)),
            lambda a, b, c, carry: ((c << 32 | a) << 4 >> 32) + b + carry)
    compare(results(encode("LEA.HI", "r", Rd=4, Ra=1, Rb=2, Rc=3, shift=4, negate_a=1)),
            lambda a, b, c, carry: (-((c << 32 | a) << 4) >> 32) + b)


@pytest.mark.parametrize("low,high,outside", [
    (SHARED_WINDOW, 0, False), (SHARED_WINDOW + 0xFFFFFF, 0, False), (LOCAL_WINDOW, 0, False),
    (LOCAL_WINDOW + 0x1000000, 0, True), (SHARED_WINDOW - 1, 0, True), (SHARED_WINDOW, 1, True), (0, 2, True)])
def test_lea_tells_addresses_outside_the_windows(low, high, outside):
    _, record = alone(encode("LEA.HI", "r", Rd=4, Ra=1, Rb=255, Rc=3, Pd=2, extended=1), {1: low, 3: high})
    assert record.predicates == {2: (ALL, ALL if outside else 0)}


def half(value: int, high: int, is_signed: int) -> int:
    part = value >> 16 * high & 0xFFFF
    return signed(part, 16) if is_signed else part


@pytest.mark.parametrize("signs", range(4))
@pytest.mark.parametrize("high_a,high_b", [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize("product_high", [0, 1])
def test_xmad(signs, high_a, high_b, product_high):
    fields = {"signs": signs, "high_a": high_a, "high_b": high_b, "product_high": product_high}

    def product(a: int, b: int) -> int:
        return half(a, high_a, signs & 1) * half(b, high_b, signs & 2) << 16 * product_high

    addends = {0: lambda b, c: c, 1: lambda b, c: c & 0xFFFF, 2: lambda b, c: c >> 16, 4: lambda b, c: c + (b << 16)}
    for addend, of_c in addends.items():
        for merge, extended in ((0, 0), (1, 0), (0, 1)):
            word = encode("XMAD", "r", Rd=4, Ra=1, Rb=2, Rc=3, addend=addend, merge=merge, extended=extended, **fields)

            def formula(a, b, c, carry, of_c=of_c, merge=merge, extended=extended):
                total = product(a, b) + of_c(b, c) + (carry if extended else 0)
                return total & 0xFFFF | b << 16 if merge else total

            compare(results(word), formula)


def test_xmad_of_immediates_and_constants():
    bank = {2: (0x8765FFFE).to_bytes(4, "little")}
    compare(results(encode("XMAD", "i", Rd=4, Ra=1, imm16=0xFFFE, Rc=3)),
            lambda a, b, c, carry: (a & 0xFFFF) * 0xFFFE + c)
    compare(results(encode("XMAD", "i", Rd=4, Ra=1, imm16=0xFFFE, Rc=3, signs=2)),
            lambda a, b, c, carry: (a & 0xFFFF) * -2 + c)
    compare(results(encode("XMAD", "c", Rd=4, Ra=1, bank=2, Rc=3, high_b=1, merge=1), constants=bank),
            lambda a, b, c, carry: ((a & 0xFFFF) * 0x8765 + c) & 0xFFFF | 0xFFFE << 16)
    compare(results(encode("XMAD", "rc", Rd=4, Ra=1, Rc=2, bank=2), constants=bank),
            lambda a, b, c, carry: (a & 0xFFFF) * (b & 0xFFFF) + 0x8765FFFE)


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


@pytest.mark.parametrize("signs", range(4))
@pytest.mark.parametrize("high", [0, 1])
def test_imul_and_imad(signs, high):
    def product(a: int, b: int) -> int:
        return (signed(a) if signs & 1 else a) * (signed(b) if signs & 2 else b)

    fields = {"signs": signs, "high": high}
    down = 32 * high
    compare(results(encode("IMUL", "r", Rd=4, Ra=1, Rb=2, **fields)), lambda a, b, c, carry: product(a, b) >> down)
    imad = {
        (): lambda a, b, c, carry: (product(a, b) >> down) + c,
        ("negate_c",): lambda a, b, c, carry: (product(a, b) >> down) - c,
        ("negate_ab",): lambda a, b, c, carry: (-product(a, b) >> down) + c,
        ("negate_c", "negate_ab"): lambda a, b, c, carry: (product(a, b) >> down) + c + 1,
        ("extended",): lambda a, b, c, carry: (product(a, b) >> down) + c + carry,
        ("extended", "negate_ab"): lambda a, b, c, carry: (~product(a, b) >> down) + c + carry,
        ("extended", "negate_c", "negate_ab"): lambda a, b, c, carry: (product(a, b) >> down) + c + carry,
        ("saturate",): lambda a, b, c, carry: clamp(signed(product(a, b) >> down) + signed(c)),
    }
    for flags, formula in imad.items():
        word = encode("IMAD", "r", Rd=4, Ra=1, Rb=2, Rc=3, **fields, **dict.fromkeys(flags, 1))
        compare(results(word), formula)


def test_products_with_32_bit_immediates():
    compare(results(encode("IMUL32I", Rd=4, Ra=1, imm32=-3, signs=3)), lambda a, b, c, carry: signed(a) * -3)
    compare(results(encode("IMUL32I", Rd=4, Ra=1, imm32=-3, signs=0, high=1)),
            lambda a, b, c, carry: a * (WORD - 2) >> 32)
    # The addend is the destination, which holds C as well.
    compare(results(encode("IMAD32I", Rd=4, Ra=1, imm32=77, signs=0)), lambda a, b, c, carry: a * 77 + c)
    compare(results(encode("IMAD32I", Rd=4, Ra=1, imm32=77, signs=0, negate_c=1)), lambda a, b, c, carry: a * 77 - c)


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
