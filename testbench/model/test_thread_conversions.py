"""Conversions that the thread model refuses."""

import pytest

from rtl.isa.kinds import FloatFormat, MultiFunction
from sim.model.scalar.state import FaultError
from sim.model.thread import step
from testbench.words import encode


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
