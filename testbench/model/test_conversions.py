"""Conversions between formats, and half-precision arithmetic, in the warp model, against MPFR and
NumPy.

Sources of 16 bits or less are tested exhaustively, others at the limits of their ranges and at
random. The thread model is tested with a sample of them.
"""

from importlib import import_module
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest

from rtl.convert.instruction import ConversionOperation
from rtl.isa.kinds import FloatFormat
from sim.model.thread.run import step
from testbench.convert import cases
from testbench.convert.cases import edges, random_pattern
from testbench.handmade import encode

gmpy2: Any = import_module("gmpy2")  # it has no type annotations

F2F, F2I, I2F = (
    ConversionOperation.FLOAT_TO_FLOAT,
    ConversionOperation.FLOAT_TO_INTEGER,
    ConversionOperation.INTEGER_TO_FLOAT,
)
HALF, SINGLE, DOUBLE = FloatFormat.F16, FloatFormat.F32, FloatFormat.F64
TYPES: dict[FloatFormat, Any] = {
    HALF: (np.uint16, np.float16),
    SINGLE: (np.uint32, np.float32),
    DOUBLE: (np.uint64, np.float64),
}
"""For each format: the NumPy types of its words and of its numbers."""
BITS = {HALF: (10, 5), SINGLE: (23, 8), DOUBLE: (52, 11)}
DIRECTIONS = (gmpy2.RoundToNearest, gmpy2.RoundDown, gmpy2.RoundUp, gmpy2.RoundToZero)
WHOLE = {4: np.rint, 5: np.floor, 6: np.ceil, 7: np.trunc}
INTEGERS = [(size, signed) for size in (8, 16, 32, 64) for signed in (0, 1)]
SIGNS = list(product((0, 1), repeat=2))


def all_halves() -> Any:
    return np.arange(1 << 16, dtype=np.uint64)


def some(form: FloatFormat, count: int) -> Any:
    source = Random(count)
    return np.array(
        [*edges(form), *(random_pattern(source, form) for _ in range(count))], np.uint64
    )


def converted(operation: ConversionOperation, patterns: Any, **fields: int) -> Any:
    """Returns the warp model's results for sources of up to 64 bits, as numbers of 64 bits."""
    chosen = {"part": 0, "flush": 0, "saturate": 0, "absolute_b": 0, "negate_b": 0} | fields
    return np.array(cases.converted(operation, patterns.tolist(), chosen), np.uint64)


def numbers(patterns: Any, form: FloatFormat, absolute: int = 0, negate: int = 0) -> Any:
    """Returns NumPy's values of the sources, with the sign operations applied, as doubles."""
    word, kind = TYPES[form]
    with np.errstate(invalid="ignore"):
        values = patterns.astype(word).view(kind).astype(np.float64)
    values = np.where(np.isnan(values), np.nan, values)  # without signalling NaNs
    values = np.abs(values) if absolute else values
    return -values if negate else values


def words(values: Any, form: FloatFormat, saturate: int = 0) -> Any:
    """Returns the words of doubles that the format can represent, with the machine's NaN."""
    word, kind = TYPES[form]
    if saturate:
        values = np.where(values > 0, np.minimum(values, 1.0), 0.0)
    nan = 0x7FF8 << 48 if form is FloatFormat.F64 else (1 << sum(BITS[form])) - 1
    return np.where(np.isnan(values), word(nan), values.astype(kind).view(word)).astype(np.uint64)


def rounded(values: Any, form: FloatFormat, direction: int) -> Any:
    """Returns doubles or integers rounded to a format by MPFR, as doubles."""
    fraction, exponent = BITS[form]
    most = 1 << exponent - 1
    exact = [gmpy2.mpfr(value, 64) for value in values.tolist()]
    with gmpy2.context(
        precision=fraction + 1,
        emin=3 - most - fraction,
        emax=most,
        subnormalize=True,
        round=DIRECTIONS[direction],
    ):
        return np.array([float(gmpy2.mul(value, 1)) for value in exact], np.float64)


def flushed(values: Any) -> Any:
    """Flushes the subnormal numbers of single precision to zero."""
    return np.where(np.abs(values) < 2.0**-126, np.copysign(0.0, values), values)


def same(found: Any, expected: Any, patterns: Any) -> None:
    wrong = np.flatnonzero(found != expected)
    assert not len(wrong), [
        (hex(patterns[at]), hex(found[at]), hex(expected[at])) for at in wrong[:4]
    ]


@pytest.mark.parametrize(("form", "saturate"), list(product((SINGLE, DOUBLE), (0, 1))))
def test_every_half_in_a_wider_format(form, saturate):
    for (absolute, negate), flush, mode in product(SIGNS, (0, 1), range(4)):
        found = converted(
            F2F,
            all_halves(),
            source=1,
            destination=form.value,
            round=mode,
            flush=flush,
            absolute_b=absolute,
            negate_b=negate,
            saturate=saturate,
        )
        same(
            found,
            words(numbers(all_halves(), HALF, absolute, negate), form, saturate),
            all_halves(),
        )


@pytest.mark.parametrize("saturate", [0, 1])
def test_every_half_within_its_format(saturate):
    for (absolute, negate), whole in product(SIGNS, (0, *WHOLE)):
        found = converted(
            F2F,
            all_halves(),
            source=1,
            destination=1,
            whole=whole,
            absolute_b=absolute,
            negate_b=negate,
            saturate=saturate,
        )
        expected = WHOLE.get(whole, np.positive)(numbers(all_halves(), HALF, absolute, negate))
        same(found, words(expected, HALF, saturate), all_halves())


@pytest.mark.parametrize(("size", "signed"), INTEGERS[2:])
def test_every_half_as_an_integer(size, signed):
    highest = (1 << size - signed) - 1
    lowest, mask = -highest - 1 if signed else 0, (1 << max(size, 32)) - 1
    for (absolute, negate), mode in product(SIGNS, range(4)):
        found = converted(
            F2I,
            all_halves(),
            source=1,
            destination=size.bit_length() - 4 | signed << 2,
            round=mode,
            absolute_b=absolute,
            negate_b=negate,
        )
        values = WHOLE[4 + mode](numbers(all_halves(), HALF, absolute, negate))
        nothing = lowest or 1 << 63 if size == 64 else 0
        expected = [
            nothing
            if value != value
            else highest
            if value > highest
            else lowest
            if value < lowest
            else int(value)
            for value in values.tolist()
        ]
        same(found, np.array([value & mask for value in expected], np.uint64), all_halves())


@pytest.mark.parametrize(("size", "signed"), INTEGERS[:4])
def test_every_small_integer_in_every_format(size, signed):
    source = np.arange(1 << size, dtype=np.uint64)
    values = (
        source.astype(np.int64)
        - (source >> np.uint64(size - 1) << np.uint64(size)).astype(np.int64) * signed
    )
    code = size.bit_length() - 4 | signed << 2
    for form, mode in product(FloatFormat, range(4)):
        exact = values.astype(np.float64) if form is not HALF else rounded(values, HALF, mode)
        same(
            converted(I2F, source, source=code, destination=form.value, round=mode),
            words(exact, form),
            source,
        )


@pytest.mark.parametrize(("size", "signed"), INTEGERS[4:])
def test_integers_in_half_precision(size, signed):
    source = Random(size)
    given = [source.getrandbits(64) >> source.randrange(40, 64) for _ in range(2000)]
    given += [
        bound + offset
        for bound in (2048, 65504, 65520, 65536, 1 << 31)
        for offset in range(-20, 20)
    ]
    given += [(-value) % (1 << size) for value in given] if signed else []
    values = [value - (1 << size) if signed and value >> size - 1 else value for value in given]
    for mode in range(4):
        found = converted(
            I2F,
            np.array(given, np.uint64),
            source=size.bit_length() - 4 | signed << 2,
            destination=1,
            round=mode,
        )
        same(found, words(rounded(np.array(values, object), HALF, mode), HALF), given)


@pytest.mark.parametrize(
    ("form", "to"), [(SINGLE, HALF), (DOUBLE, HALF), (DOUBLE, SINGLE), (SINGLE, DOUBLE)]
)
def test_numbers_in_another_format(form, to):
    patterns = some(form, 1500)
    for mode, flush, saturate, (absolute, negate) in product(range(4), (0, 1), (0, 1), SIGNS):
        found = converted(
            F2F,
            patterns,
            source=form.value,
            destination=to.value,
            round=mode,
            flush=flush,
            saturate=saturate,
            absolute_b=absolute,
            negate_b=negate,
        )
        values = numbers(patterns, form, absolute, negate)
        if flush and form is SINGLE:
            values = flushed(values)
        values = rounded(values, to, mode)
        if flush and to is SINGLE:
            values = flushed(values)
        same(found, words(values, to, saturate), patterns)


@pytest.mark.parametrize("form", [SINGLE, DOUBLE])
def test_numbers_within_their_format(form):
    patterns = some(form, 10_000)
    for whole, saturate, (absolute, negate) in product((0, *WHOLE), (0, 1), SIGNS):
        found = converted(
            F2F,
            patterns,
            source=form.value,
            destination=form.value,
            whole=whole,
            saturate=saturate,
            absolute_b=absolute,
            negate_b=negate,
        )
        expected = WHOLE.get(whole, np.positive)(numbers(patterns, form, absolute, negate))
        same(found, words(expected, form, saturate), patterns)


@pytest.mark.parametrize(("form", "to"), list(product(FloatFormat, repeat=2)))
def test_the_thread_model_has_the_same(form, to):
    source, patterns = Random(form.value), some(form, 60)
    for mode, flush, saturate in product(range(4), (0, 1), (0, 1)):
        fields: dict[str, int] = {
            "source": form.value,
            "destination": to.value,
            "flush": flush,
            "saturate": saturate,
        }
        fields |= {"whole": 4 + mode} if form is to else {"round": mode}
        sample = np.array(source.sample(patterns.tolist(), 24), np.uint64)
        for pattern, expected in zip(
            sample.tolist(), converted(F2F, sample, **fields).tolist(), strict=True
        ):
            done = step(
                encode("F2F", "r", Rd=4, Rb=2, **fields),
                {2: pattern & 0xFFFF_FFFF, 3: pattern >> 32},
            )
            assert (
                done.registers[4] | (done.registers[5] << 32 if to is DOUBLE else 0) == expected
            ), hex(pattern)
