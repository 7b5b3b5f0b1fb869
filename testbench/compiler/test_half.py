"""Conversions from and to half precision: compiled code, the PTX interpreter and NVIDIA's code,
against NumPy's halves and exact fractions.
"""

from bisect import bisect_right
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from sim.launch import Buffer, prepare
from sim.model.ptx.launch import place
from sim.model.ptx.run import run as interpret
from sim.toolchain.module import Module
from sim.toolchain.ptx.front_end import parse_ptx
from testbench.compiler.runs import compiled
from testbench.compiler.singles import assembled_by_nvidia
from testbench.ended import on_warps
from testbench.ptx.text import HEADER
from testbench.words import contents

_DIRECTIONS = ("rn", "rz", "rm", "rp")
HALVES = [
    0,
    1,
    2,
    0x3FF,
    0x400,
    0x401,
    0x7BFF,
    0x7C00,
    0x3C00,
    0x3BFF,
    0x3E00,
    0x3800,
    0x4100,
    0x5BF0,
    0x57F8,
    0x6800,
    0x7001,
    0x3555,
    0x2E66,
    0x7E00,
    0x7C01,
]
HALVES = HALVES + [half | 0x8000 for half in HALVES[:-2]]
"""Edge values of half precision, followed by their negatives; two of them are NaNs."""


def _near(half: float) -> list[float]:
    """Returns a number and some close to it, for which rounding twice would be wrong."""
    return [
        half,
        half * (1 + 2**-11),
        half * (1 + 2**-11 + 2**-30),
        half * (1 + 2**-11 - 2**-30),
        half * (1 + 2**-11 + 2**-50),
        half * (1 - 2**-12 - 2**-40),
        half + 2.0**-26,
    ]


_BASES = (
    1.0,
    0.1,
    65504.0,
    65519.99,
    65520.0,
    2.0**-24,
    2.0**-25,
    3 * 2.0**-25,
    6.1e-5,
    1e-30,
    1e30,
    1e300,
    5e-324,
    3.0,
)
DOUBLES = [sign * number for base in _BASES for number in _near(base) for sign in (1, -1)]
DOUBLES += [0.0, -0.0, np.inf, -np.inf, np.nan]
SINGLES = [
    float(np.float32(number)) for number in DOUBLES if abs(number) < 1e38 or number != number
]


_FINITE = [float(half) for half in np.arange(0x7C00, dtype=np.uint16).view(np.float16)] + [2.0**16]
"""All nonnegative halves, in order; the number after them represents infinity."""


def half_of(number: float | int, direction: str) -> int:
    """Returns the half to which a number is rounded: one of its two neighbours."""
    if number != number:
        return 0x7FFF
    negative = number < 0 or (isinstance(number, float) and np.signbit(number))
    sign = 0x8000 if negative else 0
    if isinstance(number, float) and np.isinf(number):
        return sign | 0x7C00
    size = abs(Fraction(number))
    below = min(bisect_right(_FINITE, size) - 1, len(_FINITE) - 2)
    low, high = Fraction(_FINITE[below]), Fraction(_FINITE[below + 1])
    match direction:
        case "rn":
            up = size - low > high - size or (size - low == high - size and below % 2 == 1)
        case "rz":
            up = False
        case _:
            up = size != low and negative == (direction == "rm")
    return sign | below + up


def of_half(half: int) -> float:
    return float(np.array(half, np.uint16).view(np.float16))


def bits_of(number: float, kind: type) -> int:
    """Returns the bits of a number; a NaN is the one that the machine generates."""
    if number != number:
        return 0x7FFF_FFFF if kind is np.float32 else 0x7FF8_0000_0000_0000
    return int(np.array(number, kind).view({4: np.uint32, 8: np.uint64}[kind().nbytes]))


def integer_of(half: int, direction: str, kind: str) -> int:
    """Returns the integer of a type to which a half is rounded."""
    number, bits, signed = of_half(half), int(kind[1:]), kind[0] == "s"
    least = -(1 << bits - 1) if signed else 0
    largest = least + (1 << bits) - 1
    if number != number:
        return 1 << 63 if bits == 64 else 0
    if np.isinf(number):
        found = largest if number > 0 else least
    else:
        exact = Fraction(number)
        below = exact.numerator // exact.denominator
        found = {
            "rmi": below,
            "rpi": -(-exact.numerator // exact.denominator),
            "rni": round(exact),
            "rzi": int(exact),
        }[direction]
    return min(max(found, least), largest) & (1 << 64) - 1


def run(text: str, words: list[int], results: int, module: Module | None = None) -> list[list[int]]:
    """Returns the results of threads, each of which has a 64-bit number."""

    def buffer() -> Buffer:
        return Buffer(
            "o", b"".join(word.to_bytes(8, "little") + bytes(8 * results) for word in words)
        )

    if module is None:
        launch = place(parse_ptx(text, "t.ptx"), [buffer()], block=(len(words), 1, 1))
        interpret(launch)
        found = contents(launch, "o")
    else:
        found = contents(on_warps(prepare(module, [buffer()], block=(len(words), 1, 1))), "o")
    longs = [low | high << 32 for low, high in zip(found[::2], found[1::2], strict=True)]
    return [longs[at + 1 : at + 1 + results] for at in range(0, len(longs), results + 1)]


def text_of(lines: list[str]) -> str:
    """Returns a kernel whose threads load x, of which f, w and h are the lower bits, and store y
    after each line.
    """
    stores = "\n".join(
        f"{{ {line}; st.global.b64 [a+{8 + 8 * at}], y; }}" for at, line in enumerate(lines)
    )
    return (
        HEADER
        + f""".visible .entry k(.param .u64 o)
{{ .reg .b64 a, x, y; .reg .b32 f, w, t; .reg .f16 h, g; .reg .b16 v; .reg .f64 d; .reg .u16 u, z; .reg .s32 i;
  ld.param.u64 a, [o]; mov.u32 t, %tid.x; mul.wide.u32 x, t, {8 + 8 * len(lines)}; add.u64 a, a, x;
  ld.global.b64 x, [a]; cvt.u32.u64 f, x; cvt.u32.u64 w, x; cvt.u16.u64 v, x; mov.b16 h, v; mov.b64 d, x;
  mov.b16 u, v; mov.b16 z, 0; mov.b32 i, f; {stores} ret; }}
"""
    )


_BACK = "mov.b16 z, g; cvt.u64.u16 y, z"
Case = tuple[str, Callable[[int], int]]


def _whole(number: float, direction: str) -> float:
    """Returns the integer to which a number is rounded."""
    whole = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}[direction]
    return number if number != number else float(whole(number))


def _from_halves() -> list[Case]:
    cases: list[Case] = [
        ("cvt.f32.f16 t, h; cvt.u64.u32 y, t", lambda half: bits_of(of_half(half), np.float32)),
        ("cvt.ftz.f32.f16 t, h; cvt.u64.u32 y, t", lambda half: bits_of(of_half(half), np.float32)),
        (
            "cvt.sat.f32.f16 t, h; cvt.u64.u32 y, t",
            lambda half: bits_of(_unit(of_half(half)), np.float32),
        ),
        ("cvt.f64.f16 y, h", lambda half: bits_of(of_half(half), np.float64)),
        ("cvt.sat.f64.f16 y, h", lambda half: bits_of(_unit(of_half(half)), np.float64)),
        (f"cvt.sat.f16.f16 g, h; {_BACK}", lambda half: half_of(_unit(of_half(half)), "rn")),
    ]
    for direction in ("rni", "rzi", "rmi", "rpi"):
        cases += [
            (
                f"cvt.{direction}.{kind}.f16 y, h",
                lambda half, direction=direction, kind=kind: integer_of(half, direction, kind),
            )
            for kind in ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64")
        ]
        cases.append(
            (
                f"cvt.{direction}.f16.f16 g, h; {_BACK}",
                lambda half, direction=direction: half_of(_whole(of_half(half), direction), "rn"),
            )
        )
    return cases


def _single(bits: int) -> float:
    return float(np.array(bits & 0xFFFF_FFFF, np.uint32).view(np.float32))


def _double(bits: int) -> float:
    return float(np.array(bits, np.uint64).view(np.float64))


def _signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value


def _unit(number: float) -> float:
    """Returns the number clamped to 0 to 1."""
    return 0.0 if number != number or number <= 0 else min(number, 1.0)


_SHORT_INTEGERS = ("u8", "s8", "u16", "s16")
"""Types for which NVIDIA's assembler saturates with F2F.F16.F16.PASS, which this machine does not
have.
"""


def _to_halves(source: str, register: str, read: Callable[[int], float | int]) -> list[Case]:
    return [
        (
            f"cvt.{direction}{sat}.f16.{source} g, {register}; {_BACK}",
            lambda bits, direction=direction, sat=sat: half_of(
                _unit(read(bits)) if sat else read(bits), direction
            ),
        )
        for direction in _DIRECTIONS
        for sat in ("", *([".sat"] if source not in _SHORT_INTEGERS else []))
    ]


INTEGERS = [
    0,
    1,
    2047,
    2048,
    2049,
    2051,
    4097,
    4099,
    65503,
    65504,
    65519,
    65520,
    65535,
    65536,
    1 << 24 | 1,
    0x7FFF_FFFF,
    0x8000_0000,
    0xFFFF_FFFF,
    0xFFFF,
    0x8000,
    0xF7FD,
    0xFF,
    0x80,
    1 << 40,
    (1 << 63) - 1,
    1 << 63,
    (1 << 64) - 1,
    (1 << 64) - 4099,
    (1 << 64) - 65520,
]
GROUPS = {
    "from halves": (_from_halves(), HALVES),
    "from single precision": (
        _to_halves("f32", "f", _single),
        [bits_of(number, np.float32) for number in SINGLES],
    ),
    "from double precision": (
        _to_halves("f64", "d", _double),
        [bits_of(number, np.float64) for number in DOUBLES],
    ),
    "from integers": (
        [
            case
            for kind, register in (
                ("u8", "v"),
                ("s8", "v"),
                ("u16", "u"),
                ("s16", "u"),
                ("u32", "w"),
                ("s32", "i"),
                ("u64", "x"),
                ("s64", "x"),
            )
            for case in _to_halves(
                kind,
                register,
                lambda bits, kind=kind: (
                    _signed(bits, int(kind[1:]))
                    if kind[0] == "s"
                    else bits & (1 << int(kind[1:])) - 1
                ),
            )
        ],
        INTEGERS,
    ),
}


@pytest.mark.parametrize("group", GROUPS)
def test_conversions_of_halves_are_rounded_once(group, tmp_path):
    cases, numbers = GROUPS[group]
    text = text_of([line for line, _ in cases])
    expected = [[mean(bits) for _, mean in cases] for bits in numbers]
    origins = {
        "the interpreter": None,
        "compiled code": compiled(text),
        "NVIDIA's code": assembled_by_nvidia(text, tmp_path),
    }
    for origin, module in origins.items():
        for bits, found, wanted in zip(
            numbers, run(text, numbers, len(cases), module), expected, strict=True
        ):
            for (line, _), one, other in zip(cases, found, wanted, strict=True):
                assert one == other, f"{origin}: {line} of {bits:#x} is {one:#x}, not {other:#x}"
