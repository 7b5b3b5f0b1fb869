"""Double precision in both models against MPFR, which rounds the exact result once, and against the host."""

import random

import numpy as np
import pytest

from rtl.isa.kinds import FloatCompare, FloatRounding
from rtl.isa.table import BY_NAME
from sim.model.thread.integers import SIGN as NEGATIVE
from sim.model.thread.integers import ZERO
from sim.model.thread.run import Before, step_together
from sim.model.warp.vector.lanes import ALL_THREADS, Condition, Sources
from sim.model.warp.vector.operations import OPERATIONS
from testbench.double.numbers import EDGES, NAN, SIGN, as_double, doubles, fused
from testbench.model.test_single import word_of

BATCHES = 40
"""Number of batches of 32 threads for each instruction and rounding."""
_LOW = (1 << 32) - 1
_ONE = 0x3FF << 52
_PLACES = {"Rd": 8, "Ra": 2, "Rb": 4, "Rc": 6}


def both(
    name: str, operands: list[list[int]], x: int = ALL_THREADS, **fields: int
) -> tuple[list[int], list[int]]:
    """Returns the results of the thread model and the warp model: a pair of registers, or predicate
    p.
    """
    word = word_of(name, **_PLACES, **fields)
    form = next(form for form in BY_NAME[name] if form.variant == "r")
    columns = list(zip(*operands, strict=True))
    steps = step_together(
        word,
        [
            Before(
                {
                    2 * place + half: number >> 32 * half & _LOW
                    for place, number in enumerate(column, 1)
                    for half in (0, 1)
                },
                [0, 0, 0, x >> thread & 1, 0, 0, 0],
            )
            for thread, column in enumerate(columns)
        ],
    )
    sources = Sources(ALL_THREADS, [0] * 8, Condition())
    for role, operand in zip("abc", operands, strict=True):
        for half, part in (("", 0), ("_high", 32)):
            setattr(
                sources,
                f"{role}{half}",
                np.array([number >> part & _LOW for number in operand], np.uint32),
            )
    sources.x = x
    outcome = OPERATIONS[name](sources, form.values(word))
    if outcome.value is None:
        assert outcome.p is not None
        return (
            [step.predicates[1] for step in steps],
            [outcome.p >> thread & 1 for thread in range(len(columns))],
        )
    low = [step.registers[8] for step in steps]
    if outcome.value_high is None:
        return low, outcome.value.tolist()[: len(columns)]
    return (
        [word | step.registers[9] << 32 for word, step in zip(low, steps, strict=True)],
        [
            word | high << 32
            for word, high in zip(outcome.value.tolist(), outcome.value_high.tolist(), strict=True)
        ],
    )


@pytest.mark.parametrize("rounding", FloatRounding)
@pytest.mark.parametrize("name", ["DADD", "DMUL", "DFMA"])
def test_arithmetic_is_rounded_once(name, rounding):
    source = random.Random(f"{name}{rounding.value}")
    for _ in range(BATCHES):
        operands = doubles(source, 32)
        exact = [
            fused(a, _ONE, b, rounding)
            if name == "DADD"
            else fused(a, b, (a ^ b) & SIGN if name == "DMUL" else c, rounding)
            for a, b, c in zip(*operands, strict=True)
        ]
        thread, warp = both(name, operands, round=rounding.value)
        for a, b, c, *results in zip(*operands, exact, thread, warp, strict=True):
            assert results[1:] == results[:1] * 2, (
                f"{a:#x} {b:#x} {c:#x}: {[hex(result) for result in results]}"
            )


@pytest.mark.parametrize(
    ("fields", "number", "other", "result"),
    [
        ({"negate_a": 1}, 1.5, 0.5, -1.0),
        ({"absolute_a": 1}, -1.5, 0.5, 2.0),
        ({"negate_b": 1}, 1.5, 0.5, 1.0),
        ({"absolute_b": 1}, 1.5, -0.5, 2.0),
        ({"absolute_a": 1, "negate_a": 1}, -1.5, 0.5, -1.0),
    ],
)
def test_signs_of_terms(fields, number, other, result):
    bits = [int(np.array(value, np.float64).view(np.uint64)) for value in (number, other, result)]
    thread, warp = both("DADD", [[bits[0]] * 32, [bits[1]] * 32, [0] * 32], **fields)
    assert (thread, warp) == ([bits[2]] * 32, [bits[2]] * 32)


def test_every_relation_of_two_doubles_is_as_the_host_compares_them():
    """Every relation of every two edge values is compared with the host's result."""
    numbers = [number | sign for number in EDGES for sign in (0, SIGN)]
    for compare in FloatCompare:
        for a in numbers:
            exact = []
            for b in EDGES:
                x, y = as_double(a), as_double(b)
                held = (x < y, x == y, x > y, x != x or y != y)
                exact.append(
                    int(any(bit and compare.value >> place & 1 for place, bit in enumerate(held)))
                )
            rest = [0] * (32 - len(EDGES))
            got = both("DSETP", [[a] * 32, [*EDGES, *rest], [0] * 32], compare=compare.value)
            assert [column[: len(EDGES)] for column in got] == [exact, exact]


@pytest.mark.parametrize(("one", "word"), [(0, 0xFFFF_FFFF), (1, 0x3F80_0000)])
def test_a_relation_as_a_register(one, word):
    operands = [[_ONE, 0] * 16, [2 << 52] * 32, [0] * 32]
    expected = [0, word] * 16
    assert both("DSET", operands, compare=FloatCompare.LT.value, one=one) == (expected, expected)


@pytest.mark.parametrize(
    ("a", "b", "lesser", "greater"),
    [
        (_ONE, 0x4000 << 48, _ONE, 0x4000 << 48),
        (0, SIGN, SIGN, 0),
        (NAN | 1, _ONE, _ONE, _ONE),
        (_ONE | SIGN, NAN | SIGN, _ONE | SIGN, _ONE | SIGN),
        (NAN | 5, 0xFFF0 << 48 | 1, NAN, NAN),
        (0xFFF0 << 48, 1, 0xFFF0 << 48, 1),
    ],
)
def test_lesser_and_greater(a, b, lesser, greater):
    for operands in ([[a] * 32, [b] * 32, [0] * 32], [[b] * 32, [a] * 32, [0] * 32]):
        assert both("DMNMX", operands) == ([lesser] * 32, [lesser] * 32)
        assert both("DMNMX", operands, x=0) == ([greater] * 32, [greater] * 32)


@pytest.mark.parametrize(
    ("number", "flags"),
    [(0, ZERO), (1, 0), (SIGN, NEGATIVE), (_ONE | SIGN, NEGATIVE), (1 << 32, 0)],
)
def test_cc_is_that_of_both_words(number, flags):
    word = word_of("DADD", **_PLACES, cc=1)
    (step,) = step_together(
        word, [Before({2: number & _LOW, 3: number >> 32, 4: 0, 5: SIGN >> 32}, [0] * 7)]
    )
    assert step.condition == flags
