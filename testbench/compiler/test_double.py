"""PTX in double precision: compiled code against the PTX interpreter and NVIDIA's assembler, bit
for bit; quotients and roots against NumPy.
"""

from collections.abc import Iterator

import numpy as np
import pytest

from testbench.compiler.doubles import DOUBLE, doubles
from testbench.compiler.singles import (
    BLOCK,
    DIRECTIONS,
    check_same,
    computed,
    meant,
    of_nvidia_if_there,
)

_THREADS = 128
_RELATIONS = (
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "equ",
    "neu",
    "ltu",
    "leu",
    "gtu",
    "geu",
    "num",
    "nan",
)


def _arithmetic() -> Iterator[str]:
    for direction in ("", *(f".{name}" for name in DIRECTIONS)):
        yield from (f"{name}{direction}.f64 d, a, b" for name in ("add", "sub", "mul"))
        if direction:
            yield from (f"fma{direction}.f64 d, a, b, c", f"mad{direction}.f64 d, a, 1.5, c")
    yield from (
        "min.f64 d, a, b",
        "max.f64 d, a, b",
        "abs.f64 d, a",
        "neg.f64 d, a",
        "copysign.f64 d, a, b",
        "add.f64 d, a, 0d3ff0000000000001",
        "sub.f64 d, 2.0, a",
        "sub.f64 d, a, 1.5",
        "selp.f64 d, a, 1.0, p",
        "slct.f64.s32 d, a, b, t",
        "@p neg.f64 d, a",
        "neg.f64 d, a; fma.rn.f64 d, d, b, c",
    )
    for relation in _RELATIONS:
        yield f"setp.{relation}.f64 p|q, a, b; selp.f64 d, 1.0, 0.5, p; @q add.f64 d, d, 2.0"
        yield f"setp.gt.f64 p, c, 0.0; set.{relation}.xor.u32.f64 i, a, b, p; cvt.u64.u32 d, i"
        yield f"set.{relation}.f32.f64 i, a, b; cvt.u64.u32 d, i"
    for test in ("finite", "infinite", "number", "notanumber", "normal", "subnormal"):
        yield f"testp.{test}.f64 p, a; selp.f64 d, 1.0, 0.0, p"


def _divisions() -> Iterator[str]:
    for direction in DIRECTIONS:
        yield from (
            f"div.{direction}.f64 d, a, b",
            f"rcp.{direction}.f64 d, a",
            f"sqrt.{direction}.f64 d, a",
        )
    yield "@p div.rn.f64 d, a, b"


def _integers() -> Iterator[str]:
    for rounding in ("rni", "rzi", "rmi", "rpi"):
        yield from (
            f"cvt.{rounding}.{kind}.f64 i, a; cvt.u64.u32 d, i"
            for kind in ("u8", "s8", "u16", "s16", "u32", "s32")
        )
        yield from (
            f"cvt.{rounding}.{kind}.f64 l, a; mov.b64 d, l" for kind in ("u64", "s64", "s16")
        )
    for direction in DIRECTIONS:
        yield from (
            f"cvt.{direction}.f64.{kind} d, {'i' if kind[1:] == '32' else 'w'}"
            for kind in ("u8", "s8", "u16", "s16", "u32", "s32")
        )
        yield from (f"mov.b64 l, a; cvt.{direction}.f64.{kind} d, l" for kind in ("u64", "s64"))
    yield "cvt.rn.sat.f64.s32 d, i"


def _formats() -> Iterator[str]:
    for flush in ("", ".ftz"):
        for saturation in ("", ".sat"):
            yield from (
                f"cvt.{direction}{flush}{saturation}.f32.f64 i, a; cvt.u64.u32 d, i"
                for direction in DIRECTIONS
            )
            yield f"cvt{flush}{saturation}.f64.f32 d, i"
    for saturation in ("", ".sat"):
        yield from (
            f"cvt.{rounding}{saturation}.f64.f64 d, a" for rounding in ("rni", "rzi", "rmi", "rpi")
        )
    yield "cvt.sat.f64.f64 d, a"


_GROUPS = {
    "arithmetic": _arithmetic,
    "divisions": _divisions,
    "integers": _integers,
    "formats": _formats,
}


@pytest.mark.parametrize("group", _GROUPS)
def test_results_are_those_of_the_model(group):
    operations, numbers = [*_GROUPS[group]()], doubles(_THREADS, 1)
    check_same(
        operations,
        numbers,
        computed(operations, numbers, DOUBLE),
        meant(operations, numbers, DOUBLE),
        any_nan=False,
        precision=DOUBLE,
    )


@pytest.mark.parametrize("group", _GROUPS)
def test_results_are_those_of_nvidias_assembler(group, tmp_path):
    operations, numbers = [*_GROUPS[group]()], doubles(_THREADS, 2)
    theirs = of_nvidia_if_there(operations, numbers, tmp_path, DOUBLE)
    check_same(
        operations,
        numbers,
        computed(operations, numbers, DOUBLE),
        theirs,
        any_nan=True,
        precision=DOUBLE,
    )


def test_quotients_and_roots_are_rounded_to_the_nearest():
    """The operands are random numbers, divisors with significands of nearly all ones, and numbers
    close to squares.
    """
    source, count = np.random.default_rng(5), 16 * BLOCK
    numbers = np.zeros((count, 3), np.uint64)
    for column in (0, 1):
        numbers[:, column] = source.integers(0, 1 << 52, count, np.uint64) | (
            source.integers(1, 2047, count, np.uint64) << np.uint64(52)
        )
    few = count // 4
    numbers[:few, 1] = np.uint64(0x3FEF_FFFF_FFFF_FFFF) - source.integers(0, 64, few, np.uint64)
    numbers[few : 2 * few, 0] = (source.uniform(1, 2, few) ** 2).view(np.uint64) + source.integers(
        0, 3, few, np.uint64
    )
    operations = ["div.rn.f64 d, a, b", "rcp.rn.f64 d, b", "sqrt.rn.f64 d, a"]
    a, b = (numbers[:, column].copy().view(np.float64) for column in (0, 1))
    with np.errstate(all="ignore"):
        exact = np.array([a / b, 1 / b, np.sqrt(a)]).T.copy().view(np.uint64)
    check_same(
        operations,
        numbers,
        computed(operations, numbers, DOUBLE),
        exact,
        any_nan=False,
        precision=DOUBLE,
    )


_GROSS = [
    "rcp.approx.ftz.f64 d, a",
    "rsqrt.approx.ftz.f64 d, a",
    "abs.f64 d, a; rsqrt.approx.ftz.f64 d, d",
]
_INVERSE_ROOTS = [
    "rsqrt.approx.f64 d, a",
    "abs.f64 d, a; rsqrt.approx.f64 d, d",
    "neg.f64 d, b; rsqrt.approx.f64 d, d",
]


def test_gross_approximations_are_of_upper_words(tmp_path):
    """They are those of the float unit, as in NVIDIA's code, and close to the model's, which are
    the nearest.
    """
    numbers = doubles(_THREADS, 3)
    found = computed(_GROSS, numbers, DOUBLE)
    assert not (found & np.uint64(0xFFFF_FFFF)).any()
    exact = meant(_GROSS, numbers, DOUBLE)
    assert (
        np.abs(
            (found >> np.uint64(32)).astype(np.int64) - (exact >> np.uint64(32)).astype(np.int64)
        ).max()
        <= 1
    )
    with np.errstate(all="ignore"):
        upper = (numbers[:, 0] & ~np.uint64(0xFFFF_FFFF)).view(np.float64)
        normal = (np.abs(upper) >= 2.0**-1022) & (np.abs(upper) < 2.0**1022)
        error = found[:, 0].copy().view(np.float64) * upper - 1
    assert normal.sum() > 50 and np.abs(error[normal]).max() < 2**-19.9
    theirs = of_nvidia_if_there(_GROSS, numbers, tmp_path, DOUBLE)
    check_same(_GROSS, numbers, found, theirs, any_nan=False, precision=DOUBLE)


def test_inverse_roots_are_those_of_nvidias_assembler(tmp_path):
    numbers = doubles(_THREADS, 4)
    found, exact = (run(_INVERSE_ROOTS, numbers, DOUBLE) for run in (computed, meant))
    differ = np.abs(found.astype(np.int64) - exact.astype(np.int64))
    assert differ.max() <= 1
    theirs = of_nvidia_if_there(_INVERSE_ROOTS, numbers, tmp_path, DOUBLE)
    check_same(_INVERSE_ROOTS, numbers, found, theirs, any_nan=True, precision=DOUBLE)
