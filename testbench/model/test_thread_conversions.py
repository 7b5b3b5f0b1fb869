"""Conversions and the reciprocal of the thread oracle, against exact fractions and Python's own floats."""

import math
import struct
from fractions import Fraction

import pytest
from hypothesis import example
from hypothesis import strategies as st

from rtl.isa.kinds import FloatFormat, MultiFunction
from sim.model.scalar.state import FaultError
from sim.model.thread import step
from testbench.properties import for_many
from testbench.words import encode

WORD, LONG = (1 << 32) - 1, (1 << 64) - 1
F32, F64 = FloatFormat.F32.value, FloatFormat.F64.value
NEAREST, DOWN, UP, ZERO = range(4)
CODES = {"F32": ("<f", "<I"), "F64": ("<d", "<Q")}
numbers = st.sampled_from([0, 1, 2, 3, 0x7FFFFF, 0xFFFFFF, 0x1000000, 0x1000001, 0x1000003, 0x7FFFFFFF, 0x80000000,
                           0x80000001, 0xFFFFFF7F, 0xFFFFFF80, 0xFFFFFFFF]) | st.integers(0, WORD)
longs = st.sampled_from([0, 1, 0xFFFFFFFF, 1 << 53, (1 << 53) + 1, (1 << 63) - 1, 1 << 63, LONG, LONG - 1023]
                        ) | st.integers(0, LONG)


def signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value


def integer_type(bits: int, is_signed: bool) -> int:
    return {8: 0, 16: 1, 32: 2, 64: 3}[bits] | is_signed << 2


def as_float(bits: int, form: str) -> float:
    code, same_size = CODES[form]
    return struct.unpack(code, struct.pack(same_size, bits))[0]


def as_bits(value: float, form: str) -> int:
    code, same_size = CODES[form]
    return struct.unpack(same_size, struct.pack(code, value))[0]


def from_integer(value: int, bits: int, is_signed: bool, form: str, rounding: int) -> int:
    """The bits that I2F makes of a register or pair."""
    content = encode("I2F", "r", Rd=4, Rb=2, source=integer_type(bits, is_signed), round=rounding,
                     destination=F64 if form == "F64" else F32)
    left = step(content, {2: value & WORD, 3: value >> 32}).registers
    return left[4] | left[5] << 32


def neighbours(bits: int, form: str) -> tuple[Fraction, Fraction, Fraction]:
    """The next lower, the number itself, the next higher one; for finite numbers that are not 0."""
    values = [Fraction(as_float(near, form)) for near in (bits - 1, bits, bits + 1)]
    low, middle, high = sorted(values)
    return low, middle, high


def assert_rounded(exact: Fraction, bits: int, form: str, rounding: int) -> None:
    if exact == 0:
        assert bits == 0
        return
    low, value, high = neighbours(bits, form)
    match rounding:
        case 0:
            assert abs(value - exact) <= min(abs(low - exact), abs(high - exact))
            if abs(value - exact) in (abs(low - exact), abs(high - exact)):
                assert bits % 2 == 0
        case 1:
            assert value <= exact < high
        case 2:
            assert low < exact <= value
        case _:
            assert abs(value) <= abs(exact) < max(abs(low), abs(high))


@for_many(numbers, st.sampled_from([NEAREST, DOWN, UP, ZERO]), st.booleans())
def test_integers_become_the_float_that_the_rounding_asks_for(value, rounding, is_signed):
    exact = Fraction(signed(value, 32) if is_signed else value)
    assert_rounded(exact, from_integer(value, 32, is_signed, "F32", rounding), "F32", rounding)
    assert from_integer(value, 32, is_signed, "F64", rounding) == as_bits(float(exact), "F64")


@for_many(longs, st.sampled_from([NEAREST, DOWN, UP, ZERO]), st.booleans())
@example(LONG, UP, False)
def test_long_integers_become_floats_too(value, rounding, is_signed):
    exact = Fraction(signed(value, 64) if is_signed else value)
    for form in CODES:
        assert_rounded(exact, from_integer(value, 64, is_signed, form, rounding), form, rounding)


@pytest.mark.parametrize(("bits", "part", "is_signed", "expected"), [
    (8, 0, False, 0xEF), (8, 1, False, 0xCD), (8, 3, True, -0x77), (16, 0, True, signed(0xCDEF, 16)),
    (16, 2, False, 0x89AB)])
def test_parts_of_a_register_become_floats(bits, part, is_signed, expected):
    content = encode("I2F", "r", Rd=0, Rb=1, source=integer_type(bits, is_signed), destination=F32, part=part)
    assert as_float(step(content, {1: 0x89ABCDEF}).registers[0], "F32") == expected


def to_integer(bits: int, form: str, size: int, is_signed: bool, rounding: int, **fields: int) -> int:
    """What F2I makes of a float: all of the result's registers."""
    content = encode("F2I", "r", Rd=4, Rb=2, source=F64 if form == "F64" else F32, round=rounding,
                     destination=integer_type(size, is_signed), **fields)
    left = step(content, {2: bits & WORD, 3: bits >> 32, 5: 0}).registers
    return left[4] | left[5] << 32


ROUND = {NEAREST: round, DOWN: math.floor, UP: math.ceil, ZERO: math.trunc}
floats = st.floats(allow_nan=False, width=32) | st.sampled_from([0.5, 1.5, 2.5, -0.5, -1.5, 4294967295.0, 2.0 ** 31,
                                                                  -(2.0 ** 31), 2.0 ** 63, 1e30, -1e30, 65535.5])


@for_many(floats, st.sampled_from([16, 32, 64]), st.booleans(), st.sampled_from(list(ROUND)))
def test_floats_become_integers_rounded_and_clamped(value, size, is_signed, rounding):
    low, high = (-1 << size - 1, (1 << size - 1) - 1) if is_signed else (0, (1 << size) - 1)
    rounded = (ROUND[rounding](value) if math.isfinite(value) else 1 << 99 if value > 0 else -1 << 99)
    expected = max(low, min(rounded, high)) & (LONG if size == 64 else WORD)
    for form in CODES:
        assert to_integer(as_bits(value, form), form, size, is_signed, rounding) == expected


@pytest.mark.parametrize(("form", "size", "expected"), [
    ("F32", 32, 0), ("F32", 16, 0), ("F32", 64, 1 << 63), ("F64", 32, 1 << 31), ("F64", 64, 1 << 63),
    ("F64", 16, 0xFFFF8000)])
def test_no_number_becomes_what_ptx_says(form, size, expected):
    assert to_integer(as_bits(math.nan, form), form, size, True, ZERO) == expected


def test_subnormal_floats_count_as_zero_only_when_flushed():
    assert to_integer(1, "F32", 32, True, UP) == 1
    assert to_integer(1, "F32", 32, True, UP, flush=1) == 0
    assert to_integer(0x80000001, "F32", 32, True, DOWN) == WORD
    assert to_integer(0x80000001, "F32", 32, True, DOWN, flush=1) == 0


def test_signs_of_a_float_are_changed_before_conversion():
    bits = as_bits(-7.0, "F32")
    assert to_integer(bits, "F32", 32, True, ZERO, negate_b=1) == 7
    assert to_integer(bits, "F32", 32, True, ZERO, absolute_b=1) == 7
    assert to_integer(bits, "F32", 32, True, ZERO, absolute_b=1, negate_b=1) == -7 & WORD


@for_many(numbers, st.sampled_from([8, 16, 32]), st.booleans(), st.sampled_from([8, 16, 32]), st.booleans())
def test_integers_become_narrower_by_cutting_or_clamping(value, source, from_signed, size, to_signed):
    number = signed(value, source) if from_signed else value & (1 << source) - 1
    low, high = (-1 << size - 1, (1 << size - 1) - 1) if to_signed else (0, (1 << size) - 1)
    fields = {"Rd": 0, "Rb": 1, "source": integer_type(source, from_signed),
              "destination": integer_type(size, to_signed)}

    def converted(**more: int) -> int:
        return step(encode("I2I", "r", **fields, **more), {1: value}).registers[0]
    assert converted(saturate=1) == max(low, min(number, high)) & WORD
    assert converted() == (signed(number, size) & WORD if to_signed else number & high)
    assert converted(saturate=1, absolute_b=1) == max(low, min(abs(number), high)) & WORD
    assert converted(saturate=1, negate_b=1) == max(low, min(-number, high)) & WORD


def reciprocal(bits: int, **fields: int) -> int:
    return step(encode("MUFU", Rd=0, Ra=1, function=MultiFunction.RCP.value, **fields), {1: bits}).registers[0]


@for_many(st.integers(0x00800000, 0x7E800000), st.booleans())
def test_reciprocal_is_the_nearest_float(bits, negative):
    bits |= negative << 31
    assert_rounded(1 / Fraction(as_float(bits, "F32")), reciprocal(bits), "F32", NEAREST)


@pytest.mark.parametrize(("bits", "expected"), [
    (0x00000000, 0x7F800000), (0x80000000, 0xFF800000), (0x7F800000, 0), (0xFF800000, 0x80000000),
    (0x7FC00000, 0x7FFFFFFF), (0x00000001, 0x7F800000), (0x807FFFFF, 0xFF800000), (0x7E800000, 0x00800000),
    (0x7E800001, 0), (0xFF000000, 0x80000000)])
def test_reciprocal_at_the_ends(bits, expected):
    assert reciprocal(bits) == expected


def test_reciprocal_with_changed_sign_and_saturation():
    four = as_bits(4.0, "F32")
    assert as_float(reciprocal(four, negate_a=1), "F32") == -0.25
    assert as_float(reciprocal(as_bits(-4.0, "F32"), absolute_a=1), "F32") == 0.25
    assert as_float(reciprocal(as_bits(0.25, "F32"), saturate=1), "F32") == 1.0
    assert reciprocal(four, negate_a=1, saturate=1) == 0
    assert reciprocal(0x7FC00000, saturate=1) == 0


@pytest.mark.parametrize("content", [
    encode("MUFU", Rd=0, Ra=1, function=MultiFunction.SIN.value),
    encode("MUFU", Rd=0, Ra=1, function=MultiFunction.RCP64H.value),
    encode("F2I", "r", Rd=0, Rb=1, source=FloatFormat.F32.value, part=1, destination=2),
    encode("I2F", "r", Rd=0, Rb=1, source=2, destination=FloatFormat.F16.value),
    encode("F2I", "r", Rd=0, Rb=1, source=FloatFormat.F16.value, destination=2)])
def test_other_functions_and_half_floats_are_not_of_this_machine(content):
    with pytest.raises(FaultError, match="not an instruction of this machine"):
        step(content)


def test_the_zero_that_tests_of_64_bits_begin_with():
    content = encode("F2F.F32.F32", Rd=0, cc=1)
    done = step(content, {0: 9}, condition=0b1110)
    assert (done.registers[0], done.condition) == (0, 1)
    assert step(encode("F2F.F32.F32", Rd=0), {0: 9}, condition=0b1110).condition == 0b1110
    with pytest.raises(FaultError, match="not an instruction of this machine"):
        step(content ^ 0xF0 << 20)
