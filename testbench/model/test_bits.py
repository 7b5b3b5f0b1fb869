"""Moves, modes that are refused, and tests of several words, on the warp model."""

import random

import pytest

from rtl.isa.errors import WarpError
from rtl.isa.kinds import PredicateTest
from testbench.handmade import alone, encode, machine, vector, warp_of


def encoded(name: str, variant: str = "r", **fields: int) -> int:
    """An instruction from R1, R2 and R3 to R4."""
    registers = {"Rd": 4, "Ra": 1, "Rb": 2}
    return encode(name, variant, **registers, **fields)


LOGIC = [lambda a, b: a & b, lambda a, b: a | b, lambda a, b: a ^ b, lambda a, b: b]


def test_threads_that_are_not_active_keep_their_registers():
    warp, record = alone(encode("MOV", "r", Rd=1, Rb=2, lanes=0b0101), {1: 7, 2: 9}, active=0xFF)
    assert vector(warp, 1) == [9, 7] * 4 + [7] * 24
    assert record.registers[1][0] == 0x55


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
