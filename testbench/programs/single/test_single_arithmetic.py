"""Single-precision arithmetic of compiled code, on numbers of every kind, against NumPy and exact
results.
"""

import random
import re
from dataclasses import replace

import numpy as np
import pytest

from rtl.isa.kinds import FloatFormat
from testbench.convert.cases import edges, random_pattern
from testbench.engine.designs import needs_compiled
from testbench.execute.singles import EDGES, singles
from testbench.model.test_conversions import numbers, rounded
from testbench.model.test_conversions import words as form_words
from testbench.programs.single import rounding
from testbench.programs.single.rounding import exact_quotients, exact_roots
from testbench.programs.single.runs import MADE, on_both_models, on_hardware

PAIRS = 2 * 1024
"""Number of pairs that are divided."""


@pytest.mark.parametrize("level", MADE)
def test_quotients_are_rounded_to_the_nearest(level):
    """Compiled division of numbers of every kind takes its fast path, its slow path, and the check
    between them.
    """
    source, count = random.Random(level), PAIRS
    first, second, _ = singles(source, count - len(EDGES) ** 2)
    numbers = np.array(
        [*((a, b) for a in EDGES for b in EDGES), *zip(first, second, strict=True)], np.uint32
    )
    exact = exact_quotients(numbers)
    out = np.zeros((count, 4), np.float32)
    for left in on_both_models(
        "quotients", level, {"out": out, "in": numbers}, (count // 64, 1, 1), (64, 1, 1)
    ):
        wrong = np.flatnonzero((left.reshape(count, 4) != exact).any(axis=1))
        assert not wrong.size, [
            (hex(numbers[i][0]), hex(numbers[i][1]), left.reshape(count, 4)[i], exact[i])
            for i in wrong[:5]
        ]


@pytest.mark.parametrize("level", MADE)
def test_roots_and_reciprocals_are_rounded_to_the_nearest(level):
    """Compiled sqrt.rn and rcp.rn take numbers of every exponent, edge values, and arbitrary words."""
    source = random.Random(level)
    powers = [
        exponent << 23 | source.choice([0, 1, 0x7F_FFFF, source.getrandbits(23)])
        for exponent in range(255)
    ]
    first, second, _ = singles(source, 3 * 1024 - len(EDGES) - len(powers))
    numbers = np.array(
        [*EDGES, *powers, *first[::2], *(word & 0x7FFF_FFFF for word in second[1::2])], np.uint32
    )
    numbers = numbers[: len(numbers) // 64 * 64]
    exact, count = exact_roots(numbers), len(numbers)
    out = np.zeros((count, 2), np.float32)
    for left in on_both_models(
        "roots", level, {"out": out, "in": numbers}, (count // 64, 1, 1), (64, 1, 1)
    ):
        wrong = np.flatnonzero((left.reshape(count, 2) != exact).any(axis=1))
        assert not wrong.size, [
            (hex(numbers[i]), left.reshape(count, 2)[i], exact[i]) for i in wrong[:5]
        ]


def test_the_command_says_how_many_are_wrong(capsys, monkeypatch):
    arguments = ["--count", "2000", "--seed", "1"]
    for size, more in ((32, []), (64, ["--double"])):
        assert rounding.main([*arguments, *more]) == 0
        assert capsys.readouterr().out.splitlines() == [
            f"{kernel} of {size} bits, O3: 2,048 checked, 0 wrong"
            for kernel in ("quotients", "roots")
        ]
    monkeypatch.setattr(
        rounding,
        "SINGLE",
        replace(
            rounding.SINGLE,
            exact={
                **rounding.SINGLE.exact,
                "roots": lambda numbers: exact_roots(numbers) ^ (numbers == 1)[:, None],
            },
        ),
    )
    assert rounding.main(arguments) == 1
    assert re.search(r"2,048 checked, \d+ wrong: 0x00000001; ", capsys.readouterr().out)


def _near(
    found: np.ndarray, exact: np.ndarray, *, relative: float = 0.0, absolute: float = 0.0
) -> None:
    """Checks that results are within the larger of two errors or a subnormal's last bit; non-finite
    ones must be equal.
    """
    with np.errstate(all="ignore"):
        rounded = exact.astype(np.float32)
        finite = np.isfinite(rounded) & np.isfinite(found)
        bound = np.maximum(np.maximum(relative * np.abs(exact), absolute), 2.0**-149)
        good = np.where(
            finite,
            np.abs(found.astype(np.float64) - exact) <= bound,
            (found == rounded) | np.isnan(found) & np.isnan(rounded),
        )
    wrong = np.flatnonzero(~good)
    assert not wrong.size, [(found[i], exact[i]) for i in wrong[:5]]


@pytest.mark.parametrize("level", MADE)
def test_functions_are_as_near_as_the_manual_says(level):
    """Inputs include subnormal numbers, which compiled code scales, angles up to pi, and exponents
    up to 80.
    """
    source = np.random.default_rng(3)
    edges = np.array(EDGES, np.uint32).view(np.float32)
    small = source.uniform(-np.pi, np.pi, 512).astype(np.float32)
    large = np.concatenate(
        [
            edges,
            source.integers(0, 1 << 32, 470, np.uint32).view(np.float32),
            np.exp2(source.uniform(-149, 127, 512)).astype(np.float32),
        ]
    )
    x = np.concatenate([small, source.uniform(-80, 80, 512).astype(np.float32), large])
    x = x[: len(x) // 64 * 64]
    for left in on_both_models(
        "functions",
        level,
        {"out": np.zeros((len(x), 8), np.float32), "in": x},
        (len(x) // 64, 1, 1),
        (64, 1, 1),
    ):
        found = left.view(np.float32).reshape(-1, 8).T
        with np.errstate(all="ignore"):
            a = x.astype(np.float64)
            _near(found[0][:512], np.sin(a[:512]), absolute=2**-20.9)
            _near(found[1][:512], np.cos(a[:512]), absolute=2**-20.9)
            _near(found[2], np.exp2(a), relative=2**-22)
            _near(found[3], np.log2(a), relative=2**-22, absolute=2**-22.6)
            _near(found[4], 1 / np.sqrt(a), relative=2**-22.9)
            _near(found[5], np.sqrt(a), relative=2**-23)
            usual = (np.abs(a) >= 2.0**-126) & (np.abs(a) < 2.0**126)
            _near(found[6][usual], 1 / a[usual], relative=2**-22)
            usual = np.abs(a) <= 80
            _near(found[7][usual], np.exp(a[usual]), relative=2**-16)


@pytest.mark.parametrize("level", MADE)
def test_integers_beside_numbers(level):
    """F2F rounds numbers of every kind to integers, among them halves."""
    first, _, _ = singles(random.Random(level), 512)
    x = np.array([*EDGES, *first], np.uint32).view(np.float32)[:512]
    x[256:384] = np.arange(-64, 64, dtype=np.float32) / 2
    with np.errstate(all="ignore"):
        exact = np.array(
            [
                np.floor(x),
                np.ceil(x),
                np.trunc(x),
                np.rint(x),
                np.where(x > 0, np.minimum(x, 1), 0),
                np.floor(-x),
                np.ceil(np.abs(x)),
                x - np.floor(x),
            ],
            np.float32,
        ).T
    for left in on_both_models(
        "whole", level, {"out": np.zeros((512, 8), np.float32), "in": x}, (8, 1, 1), (64, 1, 1)
    ):
        found = left.view(np.float32).reshape(512, 8)
        assert np.array_equal(found, exact, equal_nan=True)
        kept = ~np.isnan(exact)
        assert np.array_equal(np.signbit(found)[kept], np.signbit(exact)[kept])


def _of_other_formats(given: np.ndarray) -> np.ndarray:
    """Returns the results of kernel ``formats`` in their order: an array for each number."""
    double, single, half = (
        numbers(given, form) for form in (FloatFormat.F64, FloatFormat.F32, FloatFormat.F16)
    )
    to_zero, upwards = 3, 2
    with np.errstate(all="ignore"):
        of_integers = given.astype(np.int32).astype(np.float32).astype(np.float64)
        integers = np.where(np.isnan(half), 0, np.clip(np.rint(half), -(2.0**31), 2.0**31 - 1))
    return np.array(
        [
            form_words(rounded(single, FloatFormat.F16, 0), FloatFormat.F16),
            form_words(rounded(single, FloatFormat.F16, to_zero), FloatFormat.F16),
            form_words(rounded(double, FloatFormat.F16, 0), FloatFormat.F16),
            form_words(rounded(of_integers, FloatFormat.F16, 0), FloatFormat.F16),
            form_words(half, FloatFormat.F32),
            form_words(rounded(double, FloatFormat.F32, 0), FloatFormat.F32),
            form_words(rounded(double, FloatFormat.F32, upwards), FloatFormat.F32),
            integers.astype(np.int64).astype(np.uint32),
            form_words(half, FloatFormat.F64),
            form_words(single, FloatFormat.F64),
            form_words(np.floor(double), FloatFormat.F64),
        ],
        np.uint64,
    )


def _numbers_to_convert(seed: object) -> np.ndarray:
    source = random.Random(str(seed))
    patterns = [
        pattern
        for form in FloatFormat
        for pattern in (*edges(form), *(random_pattern(source, form) for _ in range(200)))
    ]
    return np.array(patterns[: len(patterns) // 64 * 64], np.uint64)


@pytest.mark.parametrize("level", ["O0", "O3"])
def test_numbers_of_other_formats(level):
    """Compiled code converts doubles to half precision by way of singles that are rounded to odd."""
    given = _numbers_to_convert(level)
    exact = _of_other_formats(given)
    for left in on_both_models(
        "formats",
        level,
        {"out": np.zeros((len(given), 8), np.uint64), "in": given},
        (len(given) // 64, 1, 1),
        (64, 1, 1),
    ):
        rows = left.reshape(-1, 16)
        found = [rows[:, place // 2] >> 16 * (place % 2) & 0xFFFF for place in range(4)]
        found += [rows[:, place] for place in (2, 3, 4, 5)]
        found += [left.view(np.uint64).reshape(-1, 8)[:, place] for place in (3, 4, 5)]
        for place, (results, right) in enumerate(zip(found, exact, strict=True)):
            wrong = np.flatnonzero(results != right)
            assert not wrong.size, [
                (place, hex(given[i]), hex(results[i]), hex(right[i])) for i in wrong[:5]
            ]


@needs_compiled
@pytest.mark.parametrize("kernel", ["roots", "functions", "whole", "formats"])
def test_the_hardware_keeps_step_with_any_number(kernel):
    """The numbers include some that take the slow paths of sqrt.rn and rcp.rn."""
    given = np.array(singles(random.Random(6), 128)[0], np.uint32)
    if kernel == "formats":
        given = np.random.default_rng(6).choice(_numbers_to_convert(6), 128)
    on_hardware(
        kernel, "O3", {"out": np.zeros((128, 16), np.float32), "in": given}, (2, 1, 1), (64, 1, 1)
    )
