"""Kernels in double precision on both models, against NumPy and MPFR, and on the hardware in
lockstep with the warp model.
"""

import random
from collections.abc import Sequence
from importlib import import_module
from math import copysign, isnan, nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rtl.isa.kinds import FloatRounding
from rtl.params import PRESETS
from sim.engine import ENGINES
from sim.launch import Argument, Buffer, Launch, Scalar, prepare
from sim.machine.hardware import Hardware
from sim.run import main
from sim.toolchain.cubin.loader import read_cubin
from testbench.double.numbers import EDGES, SIGN, doubles, fused
from testbench.ended import in_lockstep, on_threads, on_warps
from testbench.engine.designs import needs_compiled
from testbench.handmade import launch
from testbench.words import encode

gmpy2: Any = import_module("gmpy2")  # it has no type annotations
FOLDER = Path(__file__).parent
LIMIT = 200_000
BLOCK = 64


def launch_of(kernel: str, level: str, arguments: Sequence[Argument], blocks: int) -> Launch:
    return prepare(
        read_cubin(FOLDER / f"{kernel}.{level}.cubin"),
        arguments,
        grid=(blocks, 1, 1),
        block=(BLOCK, 1, 1),
    )


def left_by(launch: Launch) -> np.ndarray:
    """Returns the words of the first buffer."""
    return np.frombuffer(launch.memory.read(*next(iter(launch.buffers.values()))), np.uint64)


def buffer(name: str, numbers: np.ndarray) -> Buffer:
    return Buffer(name, numbers.tobytes())


def ordered(*numbers: float) -> list[float]:
    """Returns the arguments except NaNs in ascending order, -0 before +0; a NaN if all are NaNs."""
    return sorted(
        (each for each in numbers if not isnan(each)), key=lambda each: (each, copysign(1, each))
    ) or [nan]


def daxpy(source: random.Random, count: int) -> tuple[list[Argument], np.ndarray]:
    """Returns the arguments and the expected results, except NaNs."""
    x, y, _ = (np.array(column, np.uint64) for column in doubles(source, count))
    a = 0x3FF8_0000_0000_0001
    one = 0x3FF << 52
    rn, rm, rp, rz = FloatRounding
    rows = []
    for p, q in zip(x.tolist(), y.tolist(), strict=True):
        f, g, h = (float(np.array(bits, np.uint64).view(np.float64)) for bits in (p, q, a))
        rows.append(
            [
                fused(a, p, q, rn),
                fused(p, one, a, rn),
                fused(p, one, q, rm),
                fused(p, q, (p ^ q) & SIGN, rp),
                fused(p, q, a, rz),
                fused(p, one, 0xBFF8 << 48, rn) if f < g else fused(q, a, (q ^ a) & SIGN, rn),
                *(
                    np.array(each, np.float64).view(np.uint64).item()
                    for each in (ordered(f, -abs(g))[0], ordered(f, h)[-1])
                ),
            ]
        )
    out = np.zeros((count, 8), np.uint64)
    return [buffer("out", out), buffer("x", x), buffer("y", y), Scalar(a, 8)], np.array(
        rows, np.uint64
    )


def same(found: np.ndarray, exact: np.ndarray) -> None:
    """Checks that words are equal, except the bits of NaNs."""
    numbers = [words.view(np.float64).ravel() for words in (found, exact)]
    wrong = np.flatnonzero(
        (found.ravel() != exact.ravel()) & ~(np.isnan(numbers[0]) & np.isnan(numbers[1]))
    )
    assert not wrong.size, [(i, hex(found.ravel()[i]), hex(exact.ravel()[i])) for i in wrong[:5]]


def dot(source: np.random.Generator, count: int) -> tuple[list[Argument], float]:
    x, y = (source.normal(0, 1, count) for _ in range(2))
    return [buffer("out", np.zeros(1)), buffer("x", x), buffer("y", y), Scalar(count, 4)], float(
        x @ y
    )


@pytest.mark.parametrize("level", ["O0", "O3"])
def test_all_that_compiled_code_has(level):
    arguments, exact = daxpy(random.Random(level), 8 * BLOCK)
    for run in (on_warps, on_threads):
        same(left_by(run(launch_of("daxpy", level, arguments, 8))), exact)


@pytest.mark.parametrize("level", ["O0", "O3"])
def test_a_dot_product(level):
    arguments, exact = dot(np.random.default_rng(1), 500)
    for run in (on_warps, on_threads):
        assert np.isclose(
            left_by(run(launch_of("dot", level, arguments, 1))).view(np.float64)[0],
            exact,
            rtol=1e-12,
        )


@needs_compiled
@pytest.mark.parametrize("level", ["O0", "O3"])
def test_the_hardware_keeps_step(level):
    hardware = Hardware(PRESETS["default"], ENGINES["compiled"], check=True)
    arguments, exact = daxpy(random.Random(level), 2 * BLOCK)
    same(left_by(in_lockstep(hardware, launch_of("daxpy", level, arguments, 2), LIMIT)), exact)
    hardware = Hardware(PRESETS["default"], ENGINES["compiled"], check=True)
    arguments, product = dot(np.random.default_rng(2), 130)
    found = left_by(in_lockstep(hardware, launch_of("dot", level, arguments, 1), LIMIT))
    assert np.isclose(found.view(np.float64)[0], product, rtol=1e-12)


@pytest.mark.parametrize("preset", ["tiny", "small"])
def test_a_machine_without_it_refuses_it(preset, capsys):
    kernel = str(FOLDER / "dot.O3.cubin")
    with pytest.raises(SystemExit) as error:
        main(
            [
                kernel,
                "--preset",
                preset,
                "--engine",
                "model",
                *["--arg=buf:X=u32[256]"] * 3,
                "--arg=u32:4",
            ]
        )
    assert error.value.code == 2
    assert f"preset {preset} has no double precision" in capsys.readouterr().err


def pairs(source: random.Random, count: int) -> np.ndarray:
    """Returns pairs of edge values, followed by random numbers."""
    first, second, _ = doubles(source, count)
    edges = [(a, b) for a in EDGES for b in EDGES][:count]
    return np.array([*edges, *zip(first, second, strict=True)][:count], np.uint64)


def exact_quotient(a: float, b: float) -> float:
    with gmpy2.context(precision=53, emin=-1073, emax=1024, subnormalize=True):
        return float(gmpy2.div(gmpy2.mpfr(a), gmpy2.mpfr(b)))


def exact_root(a: float) -> float:
    return float(gmpy2.sqrt(gmpy2.mpfr(a))) if a >= 0 else nan


@pytest.mark.parametrize("level", ["O0", "O3"])
@pytest.mark.parametrize("run", [on_warps, on_threads])
def test_quotients_are_rounded_to_the_nearest(run, level):
    """Compiled division: Newton's method starting from MUFU.RCP64H, its slow path, and the check
    between them.
    """
    numbers = pairs(random.Random(level), 16 * BLOCK if run is on_warps else 9 * BLOCK)
    exact = np.array([exact_quotient(a, b) for a, b in numbers.view(np.float64)]).view(np.uint64)
    arguments = [buffer("out", np.zeros(len(numbers))), buffer("in", numbers)]
    same(left_by(run(launch_of("quotients", level, arguments, len(numbers) // BLOCK))), exact)


@pytest.mark.parametrize("level", ["O0", "O3"])
@pytest.mark.parametrize("run", [on_warps, on_threads])
def test_roots_and_reciprocals_are_rounded_to_the_nearest(run, level):
    source = random.Random(level)
    numbers = np.array(
        [
            *EDGES,
            *(edge | SIGN for edge in EDGES),
            *(exponent << 52 | source.getrandbits(52) for exponent in range(0, 2047, 16)),
            *doubles(source, 600)[0],
            *(word % SIGN for word in doubles(source, 300)[1]),
        ],
        np.uint64,
    )[: 16 * BLOCK]
    exact = np.array(
        [[exact_root(a), exact_quotient(1.0, a)] for a in numbers.view(np.float64)]
    ).view(np.uint64)
    arguments = [buffer("out", np.zeros((len(numbers), 2))), buffer("in", numbers)]
    same(left_by(run(launch_of("roots", level, arguments, len(numbers) // BLOCK))), exact)


@needs_compiled
@pytest.mark.parametrize(("kernel", "words"), [("quotients", 2), ("roots", 1)])
def test_the_hardware_keeps_step_in_division(kernel, words):
    """The numbers include some that take slow paths."""
    hardware = Hardware(PRESETS["default"], ENGINES["compiled"], check=True)
    numbers = pairs(random.Random(kernel), 2 * BLOCK)[:, :words].copy()
    arguments = [buffer("out", np.zeros((len(numbers), 2))), buffer("in", numbers)]
    in_lockstep(hardware, launch_of(kernel, "O3", arguments, 2), LIMIT)


CONVERSIONS = [
    ("F2F", {"source": 3, "destination": 2}),
    ("F2F", {"source": 3, "destination": 3, "whole": 5, "negate_b": 1}),
    ("F2I", {"source": 3, "destination": 7, "round": 3}),
    ("I2F", {"source": 7, "destination": 3}),
    ("I2F", {"source": 3, "destination": 2, "round": 2, "cc": 1}),
]
"""Conversions of 64-bit constants: within the range of single precision and beyond it, with and
without a sign.
"""


@needs_compiled
@pytest.mark.parametrize(
    ("preset", "chosen"), [("default", CONVERSIONS), ("tiny", CONVERSIONS[2:])]
)
def test_conversions_of_constants_of_64_bits(preset, chosen):
    """Every fourth word of a bank is used, so that the last one has no upper half. Between them a
    sum and a product in double precision read other constants, which need upper words as well.
    """
    bank = np.array([-2.75, 1e18, -(1 << 53) - 1.0, 3e300], np.float64).tobytes() + bytes(
        range(0xF0, 0xFC)
    )
    words = []
    for at, (name, fields) in enumerate(chosen):
        words += [
            encode(name, "c", Rd=8 + 2 * at, bank=2, offset=offset, **fields)
            for offset in range(0, len(bank), 4)
        ]
        if preset == "default":
            words += [
                encode("DADD", "c", Rd=4, Ra=2, bank=2, offset=8),
                encode("DMUL", "c", Rd=6, Ra=2, bank=2, offset=16),
            ]
    hardware = Hardware(PRESETS[preset], ENGINES["compiled"], check=True)
    result = hardware.run(launch([*words, encode("EXIT")], constants={2: bank}), LIMIT)
    assert hardware.lockstep is not None
    assert hardware.lockstep.difference is None
    assert result.status == "ok"


@needs_compiled
@pytest.mark.parametrize(
    ("word", "error"),
    [
        (encode("I2F", "c", Rd=4, source=3, destination=3, bank=2, offset=0x10), True),
        (encode("I2F", "c", Rd=4, source=3, destination=3, bank=2, offset=0xC), False),
        (encode("DADD", "c", Rd=4, Ra=8, bank=2, offset=0x10), True),
        (encode("DADD", "c", Rd=4, Ra=8, bank=2, offset=0x10, guard_not=1), False),
        (encode("DSETP", "c", Pd=1, Ra=8, bank=2, offset=0xC, compare=1), False),
        (encode("DFMA", "rc", Rd=4, Ra=8, Rc=8, bank=2, offset=0x4), False),
    ],
    ids=hex,
)
def test_constants_at_the_end_of_their_bank(word, error):
    """It is an error if the first word is beyond the end and some thread executes it; a second word
    beyond it is 0.
    """
    hardware = Hardware(PRESETS["default"], ENGINES["compiled"], check=True)
    result = hardware.run(
        launch(
            [encode("MOV32I", Rd=9, imm32=0x3FF), word, encode("EXIT")],
            constants={2: bytes(range(1, 17))},
        ),
        LIMIT,
        report_mask=0x00FF_FFFF,
    )
    assert hardware.lockstep is not None
    assert hardware.lockstep.difference is None
    assert result.status == ("error" if error else "ok")
