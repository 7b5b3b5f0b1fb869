"""Conversions and the reciprocal of the reference machine."""

import math
import random
import struct
from fractions import Fraction

import numpy as np
import pytest

from rtl.isa.errors import WarpError
from testbench.handmade import alone, encode, vector

SIZES = {0: 8, 1: 16, 2: 32, 3: 64}
FORMATS = {2: (23, 8, np.float32), 3: (52, 11, np.float64)}
EDGES = [0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x01000001,
         0x01000003, 0x7FFFFFC0]


def numbers(seed: int, bits: int = 32) -> list[int]:
    source = random.Random(seed)
    return [EDGES[thread // 2 % len(EDGES)] if thread % 2 else source.getrandbits(bits) >> source.randrange(bits)
            for thread in range(32)]


VALUES, HIGHS = numbers(1), numbers(2)


def typed(pattern: int, size: int, is_signed: int) -> int:
    pattern &= (1 << size) - 1
    return pattern - (1 << size) if is_signed and pattern >> size - 1 else pattern


@pytest.mark.parametrize("source", [0, 1, 2, 4, 5, 6])
@pytest.mark.parametrize("destination", [0, 1, 2, 4, 5, 6])
def test_i2i(source, destination):
    size, to_size, to_signed = SIZES[source & 3], SIZES[destination & 3], destination >> 2
    lowest, highest = (-1 << to_size - 1, (1 << to_size - 1) - 1) if to_signed else (0, (1 << to_size) - 1)
    for part in {8: (0, 1, 2, 3), 16: (0, 2), 32: (0, 3)}[size]:
        for negate, absolute, saturate in ((0, 0, 0), (1, 0, 0), (0, 1, 0), (1, 1, 1), (0, 0, 1)):
            word = encode("I2I", "r", Rd=4, Rb=1, source=source, destination=destination, part=part, negate_b=negate,
                          absolute_b=absolute, saturate=saturate)
            warp, _ = alone(word, {1: VALUES})
            for found, pattern in zip(vector(warp, 4), VALUES, strict=True):
                value = typed(pattern >> (8 * part if size < 32 else 0), size, source >> 2)
                value = abs(value) if absolute else value
                value = -value if negate else value
                value = min(max(value, lowest), highest) if saturate else typed(value, to_size, to_signed)
                assert found == value & 0xFFFFFFFF, (hex(pattern), part, negate, absolute, saturate)


def rounded(value: Fraction, mode: int) -> int:
    """To nearest (even), down, up, to zero."""
    down = math.floor(value)
    match mode:
        case 0:
            return round(value)
        case 1:
            return down
        case 2:
            return math.ceil(value)
        case _:
            return down if value >= 0 else math.ceil(value)


def as_float(value: int, mode: int, fraction: int, exponent: int) -> int:
    """The pattern of an integer in a format."""
    if value == 0:
        return 0
    bias = (1 << exponent - 1) - 1
    unit = max(abs(value).bit_length() - 1 - fraction, -fraction)
    significand = rounded(Fraction(value) / Fraction(2) ** unit, mode)
    if abs(significand) >> fraction + 1:
        significand, unit = significand // 2, unit + 1
    power = unit + fraction + bias
    sign = (value < 0) << fraction + exponent
    return sign | power << fraction | abs(significand) & (1 << fraction) - 1


@pytest.mark.parametrize("source", range(8))
@pytest.mark.parametrize("mode", range(4))
@pytest.mark.parametrize("destination", FORMATS)
def test_i2f(source, mode, destination):
    fraction, exponent, _ = FORMATS[destination]
    size, is_signed = SIZES[source & 3], source >> 2
    word = encode("I2F", "r", Rd=4, Rb=6, source=source, destination=destination, round=mode)
    warp, record = alone(word, {6: VALUES, 7: HIGHS})
    assert record.error is WarpError.NONE
    for thread in range(32):
        value = typed(HIGHS[thread] << 32 | VALUES[thread], size, is_signed)
        found = vector(warp, 4)[thread] | (vector(warp, 5)[thread] << 32 if destination == 3 else 0)
        assert found == as_float(value, mode, fraction, exponent), (hex(value), mode)


def patterns(destination: int) -> list[int]:
    """Numbers of a format: halves, edges of integer types, tiny ones, infinities and none."""
    fraction, exponent, kind = FORMATS[destination]
    values = [0.0, -0.0, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.75, -0.75, 255.5, -128.5, 32767.5, 65504.0, 1e-7, -1e-7]
    values += [2.0**31, -2.0**31, 2.0**32, 2.0**63, -2.0**63, 2.0**64, 1e30, -1e30]
    result = [int(np.array(value, kind).view(f"u{np.dtype(kind).itemsize}")) for value in values]
    infinity = (1 << exponent) - 1 << fraction
    result += [infinity, infinity | 1 << fraction + exponent, infinity | 1, 1, 1 << fraction + exponent | 1]
    return (result + result)[:32]


def exact(pattern: int, fraction: int, exponent: int) -> Fraction | None:
    """The value of a pattern; None for what is not finite."""
    power = pattern >> fraction & (1 << exponent) - 1
    significand = pattern & (1 << fraction) - 1
    if power == (1 << exponent) - 1:
        return None
    value = Fraction(significand | (1 << fraction if power else 0))
    value *= Fraction(2) ** (max(power, 1) - ((1 << exponent - 1) - 1) - fraction)
    return -value if pattern >> fraction + exponent & 1 else value


@pytest.mark.parametrize("source", FORMATS)
@pytest.mark.parametrize("destination", [1, 2, 3, 5, 6, 7])
@pytest.mark.parametrize("mode", range(4))
@pytest.mark.parametrize("flush", [0, 1])
def test_f2i(source, destination, mode, flush):
    fraction, exponent, _ = FORMATS[source]
    size, is_signed = SIZES[destination & 3], destination >> 2
    lowest, highest = (-1 << size - 1, (1 << size - 1) - 1) if is_signed else (0, (1 << size) - 1)
    given = patterns(source)
    word = encode("F2I", "r", Rd=4, Rb=6, source=source, destination=destination, round=mode, flush=flush)
    halves = {6: [pattern & 0xFFFFFFFF for pattern in given], 7: [pattern >> 32 for pattern in given]}
    warp, record = alone(word, halves)
    assert record.error is WarpError.NONE
    for thread, pattern in enumerate(given):
        value = exact(pattern, fraction, exponent)
        negative = pattern >> fraction + exponent & 1
        if value is None:
            is_nan = pattern & (1 << fraction) - 1
            no_number = 1 << size - 1 if size == 64 or source == 3 else 0
            expected = typed(no_number, size, is_signed) if is_nan else lowest if negative else highest
        else:
            if flush and not pattern >> fraction & (1 << exponent) - 1:
                value = Fraction(0)
            expected = min(max(rounded(value, mode), lowest), highest)
        found = vector(warp, 4)[thread] | (vector(warp, 5)[thread] << 32 if size == 64 else 0)
        assert found == expected & (1 << max(size, 32)) - 1, (hex(pattern), mode)


def test_parts_and_signs_of_sources():
    warp, _ = alone(encode("F2I", "r", Rd=4, Rb=6, source=2, destination=6, negate_b=1), {6: 0x40000000})
    assert vector(warp, 4)[0] == 0xFFFFFFFE
    warp, _ = alone(encode("F2I", "r", Rd=4, Rb=6, source=2, destination=6, absolute_b=1), {6: 0xC0000000})
    assert vector(warp, 4)[0] == 2
    warp, _ = alone(encode("I2F", "r", Rd=4, Rb=6, source=4, destination=2, part=3, negate_b=1), {6: 0x80000000})
    assert vector(warp, 4)[0] == 0x43000000
    warp, _ = alone(encode("I2F", "i", Rd=4, imm=-2, source=7, destination=2))
    assert vector(warp, 4)[0] == 0xC0000000


def reciprocal(pattern: int, **fields: int) -> int:
    warp, _ = alone(encode("MUFU", "", Rd=4, Ra=1, function=4, **fields), {1: pattern})
    return vector(warp, 4)[0]


@pytest.mark.parametrize("pattern,expected", [
    (0x3F800000, 0x3F800000), (0x40000000, 0x3F000000), (0x40400000, 0x3EAAAAAB), (0, 0x7F800000),
    (0x80000000, 0xFF800000), (0x7F800000, 0), (0xFF800000, 0x80000000), (0x7FC00000, 0x7FFFFFFF),
    (0x00000001, 0x7F800000), (0x807FFFFF, 0xFF800000), (0x7F000000, 0x00000000), (0x7E800000, 0x00800000)])
def test_the_reciprocal(pattern, expected):
    assert hex(reciprocal(pattern)) == hex(expected)


def test_the_reciprocal_is_rounded_to_nearest():
    source = random.Random(3)
    for _ in range(20):
        pattern = source.randrange(0x3F000000, 0x42000000)
        value = struct.unpack("<f", struct.pack("<I", pattern))[0]
        assert reciprocal(pattern) == struct.unpack("<I", struct.pack("<f", 1 / value))[0]


def test_signs_and_saturation_of_the_reciprocal():
    assert reciprocal(0x40000000, negate_a=1) == 0xBF000000
    assert reciprocal(0xC0000000, negate_a=1) == 0x3F000000
    assert reciprocal(0xC0000000, absolute_a=1) == 0x3F000000
    assert reciprocal(0xC0000000, absolute_a=1, negate_a=1) == 0xBF000000
    assert reciprocal(0x3F000000, saturate=1) == 0x3F800000
    assert [reciprocal(pattern, saturate=1) for pattern in (0xC0000000, 0xFF800000, 0xFF000000)] == [0] * 3
    assert reciprocal(0x7FC00000, saturate=1) == 0


@pytest.mark.parametrize("function", [0, 1, 2, 3, 5, 6, 7])
def test_other_functions_are_floating_point_only(function):
    assert alone(encode("MUFU", Rd=4, Ra=1, function=function))[1].error is WarpError.ILLEGAL_INSTR_ENCODING


@pytest.mark.parametrize("word", [
    encode("I2F", "r", Rd=4, Rb=6, source=2, destination=1), encode("F2I", "r", Rd=4, Rb=6, source=1, destination=2),
    encode("F2I", "r", Rd=4, Rb=6, source=2, destination=2, part=1)])
def test_half_precision_is_refused(word):
    assert alone(word)[1].error is WarpError.ILLEGAL_INSTR_ENCODING


def test_flags_of_a_conversion_to_two_words():
    word = encode("F2I", "r", Rd=4, Rb=6, source=2, destination=7, cc=1)
    warp, _ = alone(word, {6: [0, 0x4F800000, 0xBF800000, 0x3F800000] * 8})  # 0, 2**32, -1, 1
    assert (warp.condition.zero, warp.condition.sign) == (0x11111111, 0x44444444)


def test_the_zero_that_tests_of_64_bits_begin_with():
    """Of RZ alone: from other registers it is floating point."""
    word = encode("F2F.F32.F32", Rd=4, cc=1)
    warp, record = alone(word, {4: [7] * 32}, active=0xFFFF)
    assert vector(warp, 4) == [0] * 16 + [7] * 16
    assert record.condition == (0xFFFF, (1,) * 16 + (0,) * 16)
    assert alone(word ^ 0xF0 << 20)[1].error is WarpError.ILLEGAL_INSTR_ENCODING
