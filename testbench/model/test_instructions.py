"""Single instructions on the models: which threads write, and what is refused. For results see
``testbench.instructions``.
"""

from itertools import product

import pytest

from rtl.isa.errors import WarpError
from rtl.isa.kinds import FloatFormat, MultiFunction
from rtl.isa.legality import encoding_error
from rtl.isa.syntax import RZ
from sim.model.thread.run import step
from sim.model.thread.state import FaultError
from testbench.handmade import ALL, alone, encode, vector

WORD = (1 << 32) - 1


def encoded(name: str, variant: str = "r", **fields: int) -> int:
    """Encodes an instruction from R1, R2 and R3 to R4."""
    registers = {"Rd": 4, "Ra": 1, "Rb": 2}
    return encode(name, variant, **registers, **fields)


def test_only_threads_that_execute_write():
    warp, record = alone(
        encode("IADD", "r", Rd=4, Ra=1, Rb=2, cc=1, guard=0),
        {1: 5, 2: WORD - 4, 4: 99},
        active=0xFF,
        predicates={0: 0xF0F},
    )
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


def test_threads_that_are_not_active_keep_their_registers():
    warp, record = alone(encode("MOV", "r", Rd=1, Rb=2, lanes=0b0101), {1: 7, 2: 9}, active=0xFF)
    assert vector(warp, 1) == [9, 7] * 4 + [7] * 24
    assert record.registers[1][0] == 0x55


@pytest.mark.parametrize(
    "word",
    [
        encoded("SHL", extended=1),
        encoded("SHR", part=2),
        encoded("SHF.L", part=1),
        encoded("SHF.R", part=3),
        encode("LOP32I", extended=1),
        encode("LOP3.LUT", "r", extended=1),
    ],
)
def test_modes_without_a_public_meaning_are_refused(word):
    assert alone(word)[1].error is WarpError.ILLEGAL_INSTR_ENCODING


@pytest.mark.parametrize("function", MultiFunction)
def test_functions_but_the_reciprocal_are_floating_point_only(function):
    word = encode("MUFU", Rd=4, Ra=1, function=function.value)
    doubles = function in (MultiFunction.RCP64H, MultiFunction.RSQ64H)
    assert (encoding_error(word, RZ, doubles=False) is WarpError.ILLEGAL_INSTR_ENCODING) == doubles
    assert alone(word)[1].error is WarpError.NONE
    assert (encoding_error(word, RZ, floats=False) is WarpError.NONE) == (
        function is MultiFunction.RCP
    )
    assert (
        encoding_error(encode("RRO", "r", Rd=4, Rb=1), RZ, floats=False)
        is WarpError.ILLEGAL_INSTR_ENCODING
    )


@pytest.mark.parametrize(
    "word",
    [
        encode("I2F", "r", Rd=4, Rb=6, source=2, destination=1),
        encode("F2I", "r", Rd=4, Rb=6, source=1, destination=2),
        *(
            encode("F2F", "r", Rd=4, Rb=6, source=source, destination=destination)
            for source, destination in product((1, 2, 3), repeat=2)
        ),
    ],
)
def test_half_precision_and_formats_are_floating_point_only(word):
    assert alone(word)[1].error is WarpError.NONE
    assert encoding_error(word, RZ, floats=False) is WarpError.ILLEGAL_INSTR_ENCODING


@pytest.mark.parametrize(
    "word",
    [
        encode("F2I", "r", Rd=4, Rb=6, source=2, destination=2, no_part=1),
        encode("F2I", "i", Rd=4, source=1, destination=2, part=1),
        encode("F2F", "i", Rd=4, source=1, destination=2, part=1),
        *(
            encode("F2F", "r", Rd=4, Rb=6, source=size, destination=size, whole=code)
            for size, code in product((1, 2, 3), repeat=2)
        ),
    ],
)
def test_halves_that_are_none_and_passing_are_refused(word):
    assert alone(word)[1].error is WarpError.ILLEGAL_INSTR_ENCODING


_ZERO = {"Rd": 4, "Rb": RZ, "source": 2, "destination": 2}


def test_the_zero_that_tests_of_64_bits_begin_with():
    """The comparison of RZ is accepted without floating-point support; other registers and formats
    are not.
    """
    word = encode("F2F", "r", **_ZERO, cc=1)
    warp, record = alone(word, {4: [7] * 32}, active=0xFFFF)
    assert vector(warp, 4) == [0] * 16 + [7] * 16
    assert record.condition == (0xFFFF, (1,) * 16 + (0,) * 16)
    assert encoding_error(word, RZ, floats=False) is WarpError.NONE
    for other in (
        word ^ 0xF0 << 20,
        word ^ 1 << 45,
        word ^ 1 << 8,
        word ^ 1 << 10,
        encode("F2F", "c", Rd=4, source=2, destination=2),
        encode("F2F", "i", Rd=4, source=2, destination=2),
    ):
        assert encoding_error(other, RZ, floats=False) is WarpError.ILLEGAL_INSTR_ENCODING


@pytest.mark.parametrize(
    "content",
    [
        encode("F2I", "r", Rd=0, Rb=1, source=FloatFormat.F32.value, no_part=1, destination=2),
        encode(
            "F2F",
            "r",
            Rd=0,
            Rb=1,
            source=FloatFormat.F32.value,
            destination=FloatFormat.F32.value,
            whole=1,
        ),
    ],
)
def test_other_functions_and_halves_that_are_none_are_not_of_this_machine(content):
    with pytest.raises(FaultError, match="not an instruction of this machine"):
        step(content)


def test_the_zero_that_tests_of_64_bits_begin_with_on_the_thread_model():
    content = encode("F2F", "r", **_ZERO, cc=1)
    done = step(content, {4: 9}, condition=0b1110)
    assert (done.registers[4], done.condition) == (0, 1)
    assert step(encode("F2F", "r", **_ZERO), {4: 9}, condition=0b1110).condition == 0b1110
