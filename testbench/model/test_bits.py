"""Shifts, fields, logic, permutations and counts of the reference machine against plain numbers."""

import random
from collections.abc import Callable

import pytest

from rtl.isa.errors import WarpError
from rtl.isa.kinds import PredicateTest
from testbench.handmade import ALL, alone, encode, machine, vector, warp_of

WORD = (1 << 32) - 1


def numbers(seed: int, edges: list[int]) -> list[int]:
    """A value for each thread, half of them at the edges."""
    source = random.Random(seed)
    return [source.choice(edges) if thread % 2 else source.getrandbits(32) for thread in range(32)]


A = numbers(1, [0, 1, 0x80000000, WORD, 0x7FFFFFFF, 0xF0F0F0F0])
C = numbers(2, [0, 1, 0x80000000, WORD, 0x12345678])
COUNTS = numbers(3, [0, 1, 5, 31, 32, 33, 63, 64, 65, 255, 256])
FIELDS = [position | length << 8 for position, length in [
    (0, 0), (0, 32), (3, 7), (31, 1), (28, 8), (32, 4), (40, 40), (255, 255), (0, 255), (0, 33), (16, 16), (5, 0),
    (1, 31), (1, 32), (8, 63), (8, 64)] * 2]


def signed(value: int, bits: int = 32) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value


def check(word: int, b: list[int], formula: Callable[[int, int, int], int]) -> None:
    """Compares R4 with a formula of a (R1), b (R2) and c (R3) of each thread."""
    warp, record = alone(word, {1: A, 2: b, 3: C})
    assert record.error is WarpError.NONE
    assert vector(warp, 4) == [formula(*sources) & WORD for sources in zip(A, b, C, strict=True)]


def reverse(value: int) -> int:
    return int(f"{value:032b}"[::-1], 2)


def encoded(name: str, variant: str = "r", **fields: int) -> int:
    """An instruction from R1, R2 and R3 to R4."""
    registers = {"Rd": 4, "Ra": 1, "Rb": 2}
    return encode(name, variant, **registers, **fields)


def test_shl():
    check(encoded("SHL"), COUNTS, lambda a, b, c: a << min(b, 32))
    check(encoded("SHL", wrap=1), COUNTS, lambda a, b, c: a << b % 32)


@pytest.mark.parametrize("is_signed", [0, 1])
@pytest.mark.parametrize("turned", [0, 1])
def test_shr(is_signed, turned):
    def of(a: int) -> int:
        a = reverse(a) if turned else a
        return signed(a) if is_signed else a

    check(encoded("SHR", signed=is_signed, reverse=turned), COUNTS, lambda a, b, c: of(a) >> min(b, 32))
    check(encoded("SHR", signed=is_signed, reverse=turned, wrap=1), COUNTS, lambda a, b, c: of(a) >> b % 32)


@pytest.mark.parametrize("width,most,is_signed", [(0, 32, False), (2, 64, False), (3, 64, True)])
@pytest.mark.parametrize("wrap", [0, 1])
def test_shf(width, most, is_signed, wrap):
    def count(b: int) -> int:
        return b % most if wrap else min(b, most)

    def pair(a: int, c: int) -> int:
        return signed(c << 32 | a, 64) if is_signed else c << 32 | a

    fields = {"Rc": 3, "width": width, "wrap": wrap}
    check(encoded("SHF.R", **fields), COUNTS, lambda a, b, c: pair(a, c) >> count(b))
    check(encoded("SHF.L", **fields), COUNTS, lambda a, b, c: (pair(a, c) << count(b)) >> 32)
    check(encode("SHF.L", "i", Rd=4, Ra=1, imm6=37, **fields), COUNTS, lambda a, b, c: pair(a, c) << count(37) >> 32)


@pytest.mark.parametrize("is_signed", [0, 1])
def test_bfe(is_signed):
    def extract(a: int, b: int) -> int:
        position, length = b & 255, b >> 8 & 255
        top = a >> min(position + length - 1, 31) & 1 if is_signed and length else 0
        bits = [a >> position + at & 1 if at < length and position + at <= 31 else top for at in range(32)]
        return sum(bit << at for at, bit in enumerate(bits))

    check(encoded("BFE", signed=is_signed), FIELDS, lambda a, b, c: extract(a, b))
    check(encoded("BFE", signed=is_signed, reverse=1), FIELDS, lambda a, b, c: extract(reverse(a), b))


def test_bfi():
    def insert(a: int, b: int, c: int) -> int:
        position, length = b & 255, b >> 8 & 255
        for at in range(min(length, max(0, 32 - position))):
            c = c & ~(1 << position + at) | (a >> at & 1) << position + at
        return c

    check(encoded("BFI", Rc=3), FIELDS, insert)
    word, bank = encode("BFI", "rc", Rd=4, Ra=1, Rc=2, bank=2), (0x87654321).to_bytes(4, "little")
    warp, _ = alone(word, {1: A, 2: FIELDS}, constants={2: bank})
    assert vector(warp, 4) == [insert(a, b, 0x87654321) for a, b in zip(A, FIELDS, strict=True)]


LOGIC = [lambda a, b: a & b, lambda a, b: a | b, lambda a, b: a ^ b, lambda a, b: b]


@pytest.mark.parametrize("operation", range(4))
@pytest.mark.parametrize("invert_a,invert_b", [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_lop(operation, invert_a, invert_b):
    def formula(a: int, b: int, c: int) -> int:
        return LOGIC[operation](~a if invert_a else a, ~b if invert_b else b)

    fields = {"operation": operation, "invert_a": invert_a, "invert_b": invert_b}
    check(encoded("LOP", **fields), C, formula)
    check(encode("LOP32I", Rd=4, Ra=1, imm32=-0x1234, **fields), C, lambda a, b, c: formula(a, -0x1234, c))


@pytest.mark.parametrize("test,expected", [(0, 0), (1, ALL), (2, 0xFF), (3, ALL & ~0xFF)])
def test_the_predicate_of_logic(test, expected):
    values = [0] * 8 + [4] * 24
    for word in (encode("LOP", "r", Rd=4, Ra=1, Rb=255, operation=1, Pd=3, predicate_test=test),
                 encode("LOP3.LUT", "r", Rd=4, Ra=1, Rb=255, Rc=255, lut=0xF0, Pd=3, predicate_test=test)):
        _, record = alone(word, {1: values}, predicates={3: 0x55555555})
        assert record.predicates == {3: (ALL, expected)}


@pytest.mark.parametrize("lut", [0x00, 0xFF, 0xF0, 0xCC, 0xAA, 0x96, 0xE8, 0xCA, 0x1B])
def test_lop3(lut):
    def formula(a: int, b: int, c: int) -> int:
        return sum((lut >> (a >> at & 1) * 4 + (b >> at & 1) * 2 + (c >> at & 1) & 1) << at for at in range(32))

    check(encoded("LOP3.LUT", Rc=3, lut=lut), COUNTS, formula)
    check(encode("LOP3.LUT", "i", Rd=4, Ra=1, imm=0x1234, Rc=3, lut=lut), COUNTS, lambda a, b, c: formula(a, 0x1234, c))


PICKS = {1: ["3210", "4321", "5432", "6543"], 2: ["5670", "6701", "7012", "0123"], 3: ["0000", "1111", "2222", "3333"],
         4: ["3210", "3211", "3222", "3333"], 5: ["0000", "1110", "2210", "3210"], 6: ["1010", "3232", "1010", "3232"]}


@pytest.mark.parametrize("mode", PICKS)
def test_prmt_modes(mode):
    def formula(a: int, b: int, c: int) -> int:
        return int.from_bytes([(c << 32 | a) >> 8 * int(digit) & 255 for digit in PICKS[mode][b & 3]], "big")

    check(encoded("PRMT", Rc=3, mode=mode), numbers(5, [0, 1, 2, 3]), formula)


def test_prmt_by_index():
    def formula(a: int, b: int, c: int) -> int:
        result = 0
        for place in range(4):
            number = b >> 4 * place & 15
            byte = (c << 32 | a) >> 8 * (number & 7) & 255
            result |= (255 * (byte >> 7) if number & 8 else byte) << 8 * place
        return result

    check(encoded("PRMT", Rc=3), numbers(6, [0x3210, 0x7654, 0xFEDC, 0x0123]), formula)


def test_counts():
    check(encode("POPC", "r", Rd=4, Rb=1), COUNTS, lambda a, b, c: a.bit_count())
    check(encode("POPC", "r", Rd=4, Rb=1, invert_b=1), COUNTS, lambda a, b, c: 32 - a.bit_count())
    check(encode("FLO", "r", Rd=4, Rb=1, signed=0), COUNTS, lambda a, b, c: a.bit_length() - 1)
    check(encode("FLO", "r", Rd=4, Rb=1, signed=0, invert_b=1), COUNTS, lambda a, b, c: (~a & WORD).bit_length() - 1)
    check(encode("FLO", "r", Rd=4, Rb=1, signed=1), COUNTS,
          lambda a, b, c: (a if signed(a) >= 0 else ~a & WORD).bit_length() - 1)
    check(encode("FLO", "r", Rd=4, Rb=1, signed=0, shift=1), COUNTS, lambda a, b, c: 32 - a.bit_length() if a else -1)


def test_moves():
    check(encode("MOV", "r", Rd=4, Rb=1), COUNTS, lambda a, b, c: a)
    check(encode("MOV32I", Rd=4, imm32=-0x1234568), COUNTS, lambda a, b, c: -0x1234568)
    warp, record = alone(encode("MOV", "r", Rd=4, Rb=1, lanes=0b0101), {1: A, 4: 7})
    assert vector(warp, 4) == [7 if thread % 2 else value for thread, value in enumerate(A)]
    assert record.registers[4][0] == 0x55555555
    warp, _ = alone(encode("MOV", "r", Rd=1, Rb=2), {1: A, 2: C}, active=0xFF)
    assert vector(warp, 1) == C[:8] + A[8:]


@pytest.mark.parametrize("word", [
    encoded("SHL", extended=1), encoded("SHR", part=2), encoded("SHF.L", part=1), encoded("SHF.R", part=3),
    encode("LOP32I", extended=1), encode("LOP3.LUT", "r", extended=1)])
def test_modes_without_a_public_meaning_are_refused(word):
    assert alone(word)[1].error is WarpError.ILLEGAL_INSTR_ENCODING


@pytest.mark.parametrize("operation", range(4))
@pytest.mark.parametrize("test", [PredicateTest.Z, PredicateTest.NZ])
def test_a_test_of_several_words(operation, test):
    """Three of them: the lowest goes to CC, the middle one from and to it, the top one has the test."""
    source = random.Random(operation)
    words = [[source.choice([0, 0, 0, 0, 1, 0x80000000]) for _ in range(32)] for _ in range(6)]
    fields = {"Rd": 255, "operation": operation}
    made = machine([encode("LOP", "r", Ra=1, Rb=2, cc=1, **fields),
                    encode("LOP", "r", Ra=3, Rb=4, cc=1, extended=1, **fields),
                    encode("LOP", "r", Ra=5, Rb=6, extended=1, Pd=2, predicate_test=test.value, **fields)])
    warp = warp_of(made)
    for number, values in enumerate(words, 1):
        warp.registers[number] = values
    for _ in range(3):
        made.retire(0)
    zeros = [not any(LOGIC[operation](a, b) for a, b in zip(parts[::2], parts[1::2], strict=True))
             for parts in zip(*words, strict=True)]
    assert 0 < sum(zeros) < 32
    expected = sum(1 << thread for thread, zero in enumerate(zeros) if zero == (test is PredicateTest.Z))
    assert warp.predicates[2] == expected


def test_logic_clears_carry_and_overflow():
    word = encode("LOP", "r", Rd=4, Ra=1, Rb=255, operation=1, cc=1)
    warp, record = alone(word, {1: [0, 0x80000000] * 16})
    assert (warp.condition.zero, warp.condition.sign) == (0x55555555, 0xAAAAAAAA)
    assert record.condition == (ALL, (0b0001, 0b0010) * 16)
