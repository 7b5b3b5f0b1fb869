"""Single precision in both models against MPFR, which rounds the exact result once, and against the host."""

import random
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from rtl.isa.kinds import FloatCompare, FloatFlush, FloatRounding, ProductScale
from rtl.isa.table import BY_NAME
from sim.model.thread.run import Before, step_together
from sim.model.warp.vector.lanes import ALL_THREADS, Condition, Sources
from sim.model.warp.vector.operations import OPERATIONS
from testbench.execute.singles import SINGLES, singles
from testbench.handmade import alone, vector
from testbench.toolchain.test_words import assembled

gmpy2: Any = import_module("gmpy2")  # it has no type annotations
BATCHES = 40
"""Number of batches of 32 threads for each instruction and rounding."""
_ROUNDINGS = {
    FloatRounding.RN: gmpy2.RoundToNearest,
    FloatRounding.RM: gmpy2.RoundDown,
    FloatRounding.RP: gmpy2.RoundUp,
    FloatRounding.RZ: gmpy2.RoundToZero,
}
_NAN, _SIGN = 0x7FFF_FFFF, 0x8000_0000


def word_of(name: str, **fields: int) -> int:
    """Encodes the register form: R4 (P1, P2) from R1, R2, R3 and P3."""
    form = next(form for form in BY_NAME[name] if form.variant == "r")
    word, places = form.default, {"Rd": 4, "Ra": 1, "Rb": 2, "Rc": 3, "Pd": 1, "Pd2": 2, "Pc": 3}
    for field, value in (places | fields).items():
        if field in form.fields:
            word = form.fields[field].put(word, value)
    return word


def both(
    word: int, name: str, operands: list[list[int]], x: int = ALL_THREADS
) -> tuple[list[int], list[int]]:
    """Returns the results of the thread model and the warp model: a register, or predicate p."""
    form = next(form for form in BY_NAME[name] if form.variant == "r")
    columns = list(zip(*operands, strict=True))
    steps = step_together(
        word,
        [
            Before({1: a, 2: b, 3: c}, [0, 0, 0, x >> thread & 1, 0, 0, 0])
            for thread, (a, b, c) in enumerate(columns)
        ],
    )
    sources = Sources(ALL_THREADS, [0] * 8, Condition())
    sources.a, sources.b, sources.c = (np.array(operand, np.uint32) for operand in operands)
    sources.x = x
    outcome = OPERATIONS[name](sources, form.values(word))
    if outcome.value is not None:
        return [step.registers[4] for step in steps], outcome.value.tolist()[: len(columns)]
    assert outcome.p is not None
    return [step.predicates[1] for step in steps], [
        outcome.p >> thread & 1 for thread in range(len(columns))
    ]


def as_single(bits: int) -> float:
    return float(np.array(bits, np.uint32).view(np.float32))


def bits_of(number: Any) -> int:
    """Returns the bits of a number that single precision can represent."""
    return (
        _NAN if gmpy2.is_nan(number) else int(np.array(float(number), np.float32).view(np.uint32))
    )


def flushed(bits: int, flush: bool) -> int:
    return bits & _SIGN if flush and not bits & 0x7F80_0000 else bits


def expected(a: int, b: int, c: int, rounding: FloatRounding, flush: bool, power: int = 0) -> int:
    """Returns MPFR's result of a * b * 2**power + c, in single precision."""
    a, b, c = (flushed(bits, flush) for bits in (a, b, c))
    if power:
        with gmpy2.context(precision=100):
            scaled = gmpy2.mpfr(as_single(b)) * gmpy2.exp2(power)
    else:
        scaled = gmpy2.mpfr(as_single(b))
    with gmpy2.context(
        precision=24, emin=-148, emax=128, subnormalize=True, round=_ROUNDINGS[rounding]
    ):
        return flushed(
            bits_of(gmpy2.fma(gmpy2.mpfr(as_single(a)), scaled, gmpy2.mpfr(as_single(c)))), flush
        )


@pytest.mark.parametrize("rounding", FloatRounding)
@pytest.mark.parametrize("flush", [False, True])
@pytest.mark.parametrize("name", ["FADD", "FMUL", "FFMA"])
def test_arithmetic_is_rounded_once(name, flush, rounding):
    source = random.Random(f"{name}{flush}{rounding.value}")
    word = word_of(name, round=rounding.value, flush=int(flush))
    for _ in range(BATCHES):
        operands = singles(source, 32)
        exact = [
            expected(a, 0x3F80_0000, b, rounding, flush)
            if name == "FADD"
            else expected(a, b, (a ^ b) & _SIGN if name == "FMUL" else c, rounding, flush)
            for a, b, c in zip(*operands, strict=True)
        ]
        thread, warp = both(word, name, operands)
        for a, b, c, *results in zip(*operands, exact, thread, warp, strict=True):
            assert results[1:] == results[:1] * 2, (
                f"{a:#x} {b:#x} {c:#x}: {[hex(result) for result in results]}"
            )


@pytest.mark.parametrize("rounding", FloatRounding)
@pytest.mark.parametrize("flush", [0, 1])
def test_a_quad_adds_with_the_signs_of_its_threads(flush, rounding):
    """Signs are in the order in which NVIDIA's disassembler prints them, the first thread's first."""
    source = random.Random(2 * rounding.value + flush)
    for _ in range(BATCHES):
        signs = [source.choice(["PP", "NP", "PN", "ZP"]) for _ in range(4)]
        mode = f"{'.FTZ' * flush}{'' if rounding is FloatRounding.RN else f'.{rounding.name}'}"
        word = assembled(f"FSWZADD{mode} R4, R1, R2, {''.join(signs)}")
        first, second, _ = singles(source, 32)
        with_signs = {"P": lambda bits: bits, "N": lambda bits: bits ^ _SIGN, "Z": lambda _: 0}
        exact = [
            expected(
                with_signs[signs[thread % 4][0]](a),
                0x3F80_0000,
                with_signs[signs[thread % 4][1]](b),
                rounding,
                bool(flush),
            )
            for thread, (a, b) in enumerate(zip(first, second, strict=True))
        ]
        steps = step_together(
            word, [Before({1: a, 2: b}, [0] * 7) for a, b in zip(first, second, strict=True)]
        )
        warp, _ = alone(word, {1: first, 2: second})
        assert [step.registers[4] for step in steps] == vector(warp, 4) == exact, (
            signs,
            first,
            second,
        )


@pytest.mark.parametrize("scale", ProductScale)
def test_a_product_is_scaled_before_it_is_rounded(scale):
    source, word = random.Random(scale.value), word_of("FMUL", scale=scale.value)
    power = {"D2": -1, "D4": -2, "D8": -3, "M8": 3, "M4": 2, "M2": 1}.get(scale.name, 0)
    for _ in range(BATCHES):
        operands = singles(source, 32)
        exact = [
            expected(a, b, (a ^ b) & _SIGN, FloatRounding.RN, False, power)
            for a, b, _ in zip(*operands, strict=True)
        ]
        assert both(word, "FMUL", operands) == (exact, exact)


@pytest.mark.parametrize("name", ["FMUL", "FFMA"])
def test_a_zero_factor_wins_over_everything_with_fmz(name):
    for other in SINGLES:
        for a, b in ((0, other), (other, 0), (_SIGN, other), (other, 1), (0x8000_0003, other)):
            operands = [[a], [b], [0x4040_0000]]
            exact = [0 if name == "FMUL" else 0x4040_0000]
            assert both(word_of(name, flush=FloatFlush.FMZ.value), name, operands) == (exact, exact)


@pytest.mark.parametrize(
    ("number", "kept"),
    [
        (0x3F00_0000, 0x3F00_0000),
        (0x3F80_0001, 0x3F80_0000),
        (0x7F80_0000, 0x3F80_0000),
        (0xFF80_0000, 0),
        (0x8000_0000, 0),
        (0xBF00_0000, 0),
        (0x7FC0_0000, 0),
        (1, 1),
    ],
)
def test_saturation_keeps_a_result_between_0_and_1(number, kept):
    assert both(word_of("FADD", saturate=1), "FADD", [[number], [0x8000_0000], [0]]) == (
        [kept],
        [kept],
    )


def test_every_relation_of_two_floats_is_as_the_host_compares_them():
    """Every relation of every two edge values is compared with the host's result."""
    for compare in FloatCompare:
        for a in (number | sign for number in SINGLES for sign in (0, _SIGN)):
            pairs = [[a] * len(SINGLES), list(SINGLES), [0] * len(SINGLES)]
            exact = []
            for b in SINGLES:
                x, y = as_single(a), as_single(b)
                held = (x < y, x == y, x > y, x != x or y != y)
                exact.append(
                    int(any(bit and compare.value >> place & 1 for place, bit in enumerate(held)))
                )
            pairs = [column + [0] * (32 - len(column)) for column in pairs]
            got = both(word_of("FSETP", compare=compare.value), "FSETP", pairs)
            assert [column[: len(SINGLES)] for column in got] == [exact, exact]


@pytest.mark.parametrize(
    ("a", "b", "lesser", "greater"),
    [
        (0x3F80_0000, 0x4000_0000, 0x3F80_0000, 0x4000_0000),
        (0, 0x8000_0000, 0x8000_0000, 0),
        (0x7FC0_0000, 0x3F80_0000, 0x3F80_0000, 0x3F80_0000),
        (0xBF80_0000, 0xFFC0_0000, 0xBF80_0000, 0xBF80_0000),
        (0x7FC0_0000, 0xFF80_0001, _NAN, _NAN),
        (0xFF80_0000, 1, 0xFF80_0000, 1),
    ],
)
def test_lesser_and_greater(a, b, lesser, greater):
    for operands in ([[a], [b], [0]], [[b], [a], [0]]):
        assert both(word_of("FMNMX"), "FMNMX", operands) == ([lesser], [lesser])
        assert both(word_of("FMNMX"), "FMNMX", operands, x=0) == ([greater], [greater])


_EXPONENTS = (0, 1, 2, 28, 29, 30, 31, 64, 124, 125, 126, 127, 128, 129, 130, 153, 154, 155, 156)
_EXPONENTS += (200, 250, 251, 252, 253, 254, 255)


def test_a_division_is_long_at_the_ends_of_the_exponents():
    """The fast path takes finite dividends from 2**-97 on, normal divisors below 2**126, and
    quotients with exponents from -124 to 125.
    """
    pairs = [(a, b) for a in _EXPONENTS for b in _EXPONENTS]
    word, fractions = word_of("FCHK"), [0, 0x7F_FFFF, 0x8000_0001]
    for first in range(0, len(pairs), 32):
        part = pairs[first : first + 32]
        part += part[:1] * (32 - len(part))
        exact = [
            int(not (30 <= a <= 254 and 1 <= b <= 252 and -124 <= a - b <= 125)) for a, b in part
        ]
        fraction = fractions[first // 32 % 3]
        operands = [[pair[at] << 23 | fraction for pair in part] for at in (0, 1)]
        thread, warp = both(word, "FCHK", [*operands, [0] * 32])
        assert thread == warp == exact, part
