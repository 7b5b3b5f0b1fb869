"""PTX in single precision: compiled code against the PTX interpreter and NVIDIA's assembler, bit
for bit; functions within the errors that PTX permits.
"""

from collections.abc import Iterator

import numpy as np
import pytest

from rtl.params import PRESETS
from sim.engine import ENGINES
from sim.launch import Buffer, Scalar, prepare
from sim.machine.hardware import Hardware
from sim.model.ptx.launch import place
from sim.model.ptx.run import run as interpret
from sim.toolchain.ptx.front_end import parse_ptx
from testbench.compiler.runs import compiled
from testbench.compiler.singles import (
    DIRECTIONS,
    assembled_by_nvidia,
    check_same,
    computed,
    meant,
    of_nvidia_if_there,
    operands,
)
from testbench.ended import in_lockstep, on_warps
from testbench.ptx.text import HEADER

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
_FLUSHES = ("", ".ftz")
_THREADS = 128


def _arithmetic() -> Iterator[str]:
    for direction in ("", *(f".{name}" for name in DIRECTIONS)):
        for flush in _FLUSHES:
            for saturation in ("", ".sat"):
                for name in ("add", "sub", "mul"):
                    yield f"{name}{direction}{flush}{saturation}.f32 d, a, b"
                if direction:
                    yield f"{'mad' if flush else 'fma'}{direction}{flush}{saturation}.f32 d, a, b, c"
    for number in ("1.0", "-3.0", "0f3f801234", "0.0", "-0.0"):
        for line in (
            "add.f32 d, a, N",
            "mul.f32 d, a, N",
            "sub.f32 d, N, a",
            "fma.rn.f32 d, a, N, b",
            "fma.rn.f32 d, a, b, N",
            "mul.rz.f32 d, a, N",
            "neg.f32 d, a; mul.f32 d, d, N",
        ):
            yield line.replace("N", number)
    yield from (
        "neg.f32 d, a; fma.rn.f32 d, d, b, c",
        "neg.f32 d, b; abs.f32 d, d; add.f32 d, a, d",
        "abs.f32 d, a; neg.f32 d, d; mul.f32 d, d, b",
        "neg.f32 d, a; neg.f32 e, b; mul.f32 d, d, e",
        "neg.f32 d, c; neg.f32 e, b; fma.rz.f32 d, a, e, d",
        "neg.ftz.f32 d, a; add.f32 d, d, b",
        "setp.lt.f32 p, a, b; @p neg.f32 a, b; mov.b32 d, a",
        "neg.f32 d, a; neg.f32 a, d; add.f32 d, d, a",
    )


def _choices() -> Iterator[str]:
    for flush in _FLUSHES:
        yield from (f"{name}{flush}.f32 d, a, b" for name in ("min", "max"))
        yield from (f"{name}{flush}.f32 d, a" for name in ("abs", "neg"))
        for relation in _RELATIONS:
            yield f"setp.{relation}{flush}.f32 p|q, a, b; selp.f32 d, 1.0, 0.5, p; @q add.f32 d, d, 2.0"
            yield f"set.{relation}{flush}.f32.f32 d, a, b"
            yield f"setp.gt.f32 p, c, 0.0; set.{relation}.xor{flush}.u32.f32 i, a, b, p; mov.b32 d, i"
        yield f"slct{flush}.f32.f32 d, a, b, c"
    yield from (
        "slct.f32.s32 d, a, b, c",
        "copysign.f32 d, a, b",
        "abs.f32 d, a; setp.lt.f32 p, d, b; selp.f32 d, a, b, p",
        "set.lt.f32.s32 d, a, b",
        "mov.b64 l, {a, b}; set.ge.f32.u64 d, l, 5",
        "min.f32 d, a, 0.5",
        "mov.b64 l, {a, b}; slct.b64.f32 l, l, 7, c; mov.b64 {e, d}, l",
        "setp.ge.f32 p, 1.0, a; selp.b32 d, a, b, p",
    )
    for test in ("finite", "infinite", "number", "notanumber", "normal", "subnormal"):
        yield f"testp.{test}.f32 p, a; selp.f32 d, 1.0, 0.0, p"


def _divisions() -> Iterator[str]:
    for direction in DIRECTIONS:
        for flush in _FLUSHES:
            yield f"div.{direction}{flush}.f32 d, a, b"
            yield from (f"{name}.{direction}{flush}.f32 d, a" for name in ("rcp", "sqrt"))
    yield from (
        "setp.lt.f32 p, a, b; mov.b32 d, c; @p div.rn.f32 d, a, b",
        "div.rn.f32 d, 1.0, b",
        "div.rn.f32 d, a, 3.0; @!p sqrt.rn.f32 d, d",
    )


def _conversions() -> Iterator[str]:
    for direction in ("rni", "rzi", "rmi", "rpi"):
        for flush in _FLUSHES:
            yield from (
                f"cvt.{direction}{flush}{saturation}.f32.f32 d, a" for saturation in ("", ".sat")
            )
            yield from (
                f"cvt.{direction}{flush}.{kind}.f32 i, a; mov.b32 d, i"
                for kind in ("u8", "s8", "u16", "s16", "u32", "s32")
            )
            yield from (
                f"cvt.{direction}{flush}.{kind}.f32 l, a; mov.b64 {{e, d}}, l; xor.b32 d, d, e"
                for kind in ("u64", "s64", "s16", "u32")
            )
    yield from (
        "cvt.ftz.f32.f32 d, a",
        "cvt.sat.f32.f32 d, a",
        "cvt.ftz.sat.f32.f32 d, a",
        "cvt.f32.f32 d, a",
    )
    for direction in DIRECTIONS:
        yield from (
            f"cvt.{direction}.f32.{kind} d, {'a' if kind[1:] == '32' else 'w'}"
            for kind in ("u8", "s8", "u16", "s16", "u32", "s32")
        )
        yield f"cvt.{direction}.sat.f32.s32 d, a"
        yield from (
            f"mov.b64 l, {{a, b}}; cvt.{direction}.f32.{kind} d, l" for kind in ("u64", "s64")
        )


_GROUPS = {
    "sums and products": _arithmetic,
    "choices": _choices,
    "divisions": _divisions,
    "conversions": _conversions,
}


@pytest.mark.parametrize("group", _GROUPS)
def test_results_are_those_of_the_model(group):
    operations, numbers = [*_GROUPS[group]()], operands(_THREADS, 1)
    check_same(
        operations,
        numbers,
        computed(operations, numbers),
        meant(operations, numbers),
        any_nan=False,
    )


@pytest.mark.parametrize("group", _GROUPS)
def test_results_are_those_of_nvidias_assembler(group, tmp_path):
    """NVIDIA's code omits a product with 1, so that a NaN is not changed."""
    operations, numbers = [*_GROUPS[group]()], operands(_THREADS, 2)
    theirs = of_nvidia_if_there(operations, numbers, tmp_path)
    check_same(operations, numbers, computed(operations, numbers), theirs, any_nan=True)


_FUNCTIONS = [
    f"{name}.approx{flush}.f32 d, {'a, b' if name == 'div' else 'a'}"
    for flush in _FLUSHES
    for name in ("sin", "cos", "ex2", "lg2", "rsqrt", "sqrt", "rcp", "div")
]
_FUNCTIONS += [f"div.full{flush}.f32 d, a, b" for flush in _FLUSHES]
_ERRORS = {
    "sin": (0, 2**-20.9),
    "cos": (0, 2**-20.9),
    "ex2": (2**-22, 0),
    "lg2": (2**-22, 2**-22.6),
    "rsqrt": (2**-22.9, 0),
    "sqrt": (2**-23 + 2**-24, 0),
    "rcp": (2**-23, 0),
    "div": (2**-22, 0),
}
"""Errors that PTX permits, relative and absolute; half a unit more for a root, because the
reference is rounded.
"""


def test_functions_are_as_near_as_the_manual_says():
    numbers = operands(_THREADS, 3)
    found, exact = (
        table.view(np.float32).astype(np.float64)
        for table in (computed(_FUNCTIONS, numbers), meant(_FUNCTIONS, numbers))
    )
    angle = np.abs(numbers[:, 0].copy().view(np.float32)) <= np.pi
    for column, operation in enumerate(_FUNCTIONS):
        x, y = found[:, column], exact[:, column]
        name = operation.split(".")[0]
        relative, absolute = _ERRORS[name]
        with np.errstate(all="ignore"):
            good = np.isclose(x, y, rtol=relative, atol=max(absolute, 2.0**-149), equal_nan=True)
        wrong = np.flatnonzero(~good & (angle | (name not in ("sin", "cos"))))
        assert not wrong.size, (
            operation,
            [hex(word) for word in numbers[wrong[0]]],
            x[wrong[0]],
            y[wrong[0]],
        )


def test_functions_are_those_of_nvidias_assembler(tmp_path):
    numbers = operands(_THREADS, 4)
    theirs = of_nvidia_if_there(_FUNCTIONS, numbers, tmp_path)
    check_same(_FUNCTIONS, numbers, computed(_FUNCTIONS, numbers), theirs, any_nan=False)


_TINY_SUMS = (
    HEADER
    + """
.global .align 4 .b32 held[4] = {3, 3, 3, 3};
.visible .entry k(.param .u64 out)
{ .reg .f32 f; .reg .b32 a; .reg .b64 x, g, s; .shared .align 4 .b32 own[4];
  ld.param.u64 x, [out]; mov.b32 f, 5; mov.b32 a, 3; cvta.global.u64 g, held; cvta.shared.u64 s, own;
  st.shared.b32 [own], a; st.shared.b32 [own+4], a; st.shared.b32 [own+8], a; st.shared.b32 [own+12], a;
  atom.global.add.f32 f, [held], f; mov.b32 f, 5; red.global.add.f32 [held+4], f;
  atom.add.f32 f, [g+8], f; mov.b32 f, 5; atom.shared.add.f32 f, [own], f;
  mov.b32 f, 5; red.shared.add.f32 [own+4], f; red.add.f32 [s+8], f;
  ld.global.b32 a, [held]; st.global.b32 [x], a; ld.global.b32 a, [held+4]; st.global.b32 [x+4], a;
  ld.global.b32 a, [held+8]; st.global.b32 [x+8], a; ld.shared.b32 a, [own]; st.global.b32 [x+12], a;
  ld.shared.b32 a, [own+4]; st.global.b32 [x+16], a; ld.shared.b32 a, [own+8]; st.global.b32 [x+20], a; ret; }
"""
)


@pytest.mark.parametrize(
    "who", ["the interpreter", "our code", "our code on the hardware", "NVIDIA's code"]
)
def test_global_sums_take_subnormal_numbers_for_zeros_and_shared_ones_keep_them(who, tmp_path):
    """The additions are atom, red and a generic address in each space, of 3 and 5 times the
    smallest number.
    """
    arguments = [Buffer("out", bytes(24))]
    if who == "the interpreter":
        meaning = place(parse_ptx(_TINY_SUMS, "t.ptx"), arguments, block=(1, 1, 1))
        interpret(meaning)
        left = meaning.memory.read(*meaning.buffers["out"])
    else:
        module = (
            assembled_by_nvidia(_TINY_SUMS, tmp_path)
            if who == "NVIDIA's code"
            else compiled(_TINY_SUMS)
        )
        launch = prepare(module, arguments, block=(1, 1, 1))
        if who == "our code on the hardware":
            in_lockstep(
                Hardware(PRESETS["default"], ENGINES["compiled"], check=True), launch, 10_000
            )
        else:
            launch = on_warps(launch)
        left = launch.memory.read(*launch.buffers["out"])
    assert np.frombuffer(left, np.uint32).tolist() == [0, 0, 0, 8, 8, 8]


_PROGRAM = (
    HEADER
    + """
.const .f32 table[4] = {1.5, -2.25, 0f40490fdb, 1.0e-3};
.global .align 8 .f32 held[2] = {0.5, 3.0};
.func (.param .f32 r) twice (.param .f32 a, .param .f32 b)
{ .reg .f32 x, y; ld.param.f32 x, [a]; ld.param.f32 y, [b]; fma.rn.f32 x, x, 2.0, y; st.param.f32 [r], x; ret; }
.visible .entry k(.param .u64 out, .param .f32 scale)
{ .reg .f32 f<9>; .reg .v2 .f32 v; .reg .b32 t, b, s; .reg .b64 x, y, l; .reg .pred p; .shared .f32 sums[4];
  .local .f32 own[2];
  mov.u32 t, %tid.x; ld.param.u64 x, [out]; mul.wide.u32 y, t, 32; add.u64 x, x, y; ld.param.f32 f0, [scale];
  and.b32 b, t, 3; shl.b32 b, b, 2; mov.u32 s, table; add.u32 s, s, b; ld.const.f32 f1, [s];
  mov.u32 s, sums; add.u32 s, s, b; st.shared.f32 [s], 0.0; bar.sync 0;
  cvt.rn.f32.u32 f2, t; { .param .f32 m, n, q; st.param.f32 [m], f2; st.param.f32 [n], f1; call (q), twice, (m, n);
  ld.param.f32 f3, [q]; } st.local.f32 [own+4], f3; ld.local.b32 b, [own+4]; st.global.b32 [x], b;
  atom.shared.add.f32 f4, [s], f2; red.shared.add.f32 [s], 0.25; setp.lt.u32 p, t, 7;
  @p red.global.add.f32 [held], f0; cvta.shared.u64 l, 0; cvt.u64.u32 y, s; add.u64 l, l, y;
  atom.add.f32 f5, [l], 1.0; bar.sync 0; ld.shared.f32 f5, [s]; ld.global.v2.f32 v, [held];
  mul.f32 f6, v.x, f0; max.f32 f6, f6, v.y; st.global.v4.f32 [x+4-4+16], {f5, f6, v.x, v.y}; ret; }
"""
)


def test_numbers_in_every_space_and_call():
    """Sums are exact in any order."""
    arguments = [Buffer("out", bytes(32 * 40)), Scalar(0x3FA0_0000, 4)]
    meaning = place(parse_ptx(_PROGRAM, "t.ptx"), arguments, entry="k", block=(40, 1, 1))
    interpret(meaning)
    launch = on_warps(prepare(compiled(_PROGRAM), arguments, entry="k", block=(40, 1, 1)))
    left = launch.memory.read(*launch.buffers["out"])
    assert left == meaning.memory.read(*meaning.buffers["out"])
    row = np.frombuffer(left, np.float32).reshape(40, 8)[5]
    sums = sum(range(1, 40, 4)) + 10 * 1.25
    assert row.tolist() == [2 * 5 - 2.25, 0, 0, 0, sums, 11.5625, 9.25, 3]
