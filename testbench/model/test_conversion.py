"""Conversions that the warp model refuses."""

import pytest

from rtl.isa.errors import WarpError
from testbench.handmade import alone, encode, vector


@pytest.mark.parametrize("function", [0, 1, 2, 3, 5, 6, 7])
def test_other_functions_are_floating_point_only(function):
    assert alone(encode("MUFU", Rd=4, Ra=1, function=function))[1].error is WarpError.ILLEGAL_INSTR_ENCODING


@pytest.mark.parametrize("word", [
    encode("I2F", "r", Rd=4, Rb=6, source=2, destination=1), encode("F2I", "r", Rd=4, Rb=6, source=1, destination=2),
    encode("F2I", "r", Rd=4, Rb=6, source=2, destination=2, part=1)])
def test_half_precision_is_refused(word):
    assert alone(word)[1].error is WarpError.ILLEGAL_INSTR_ENCODING


def test_the_zero_that_tests_of_64_bits_begin_with():
    """Of RZ alone: from other registers it is floating point."""
    word = encode("F2F.F32.F32", Rd=4, cc=1)
    warp, record = alone(word, {4: [7] * 32}, active=0xFFFF)
    assert vector(warp, 4) == [0] * 16 + [7] * 16
    assert record.condition == (0xFFFF, (1,) * 16 + (0,) * 16)
    assert alone(word ^ 0xF0 << 20)[1].error is WarpError.ILLEGAL_INSTR_ENCODING
