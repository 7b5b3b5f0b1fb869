"""Subnormal numbers on targets before sm_20: single precision reads them as zeros and generates
none.
"""

import pytest

from sim.launch import Buffer, prepare
from sim.model.ptx.launch import place
from sim.model.ptx.run import run as interpret
from sim.toolchain.module import Module
from sim.toolchain.ptx.front_end import parse_ptx
from testbench.compiler.runs import compiled
from testbench.compiler.singles import assembled_by_nvidia
from testbench.ended import on_warps
from testbench.words import contents

_ZERO, _MINUS_ZERO, _ONE, _TWO, _INFINITY = 0, 0x8000_0000, 0x3F80_0000, 0x4000_0000, 0x7F80_0000
_HALF_LEAST, _LEAST = 0x0040_0000, 0x0080_0000
"""2^-127, a subnormal number, and 2^-126, the smallest normal one."""
CASES = [
    # The instruction; its results if subnormal numbers are zeros, and if they are not. s is 2^-127,
    # m is -s, b is 1.5 * 2^-126, e is 2^-127 in double precision.
    ("add.f32 d, s, s", _ZERO, _LEAST),
    ("sub.f32 d, b, 0f00800000", _ZERO, _HALF_LEAST),
    ("sub.f32 d, 0f00800000, b", _MINUS_ZERO, 0x8040_0000),
    ("mul.f32 d, b, 0f3f000000", _ZERO, 0x0060_0000),
    ("mul.rz.f32 d, s, 0f40800000", _ZERO, 0x0100_0000),
    ("add.sat.f32 d, s, s", _ZERO, _LEAST),
    ("min.f32 d, s, 0f3f800000", _ZERO, _HALF_LEAST),
    ("max.f32 d, m, 0fbf800000", _MINUS_ZERO, 0x8040_0000),
    ("abs.f32 d, m", _ZERO, _HALF_LEAST),
    ("neg.f32 d, s", _MINUS_ZERO, 0x8040_0000),
    ("rcp.approx.f32 d, s", _INFINITY, 0x7F00_0000),
    ("rsqrt.approx.f32 d, 0f00200000", _INFINITY, 0x5F80_0000),
    ("sqrt.approx.f32 d, 0f00200000", _ZERO, 0x1F80_0000),
    ("lg2.approx.f32 d, s", 0xFF80_0000, 0xC2FE_0000),
    ("ex2.approx.f32 d, 0fc2fe0000", _ZERO, _HALF_LEAST),
    ("div.full.f32 d, b, 0f40000000", _ZERO, 0x0060_0000),
    ("div.approx.f32 d, 0f3f800000, m", 0xFF80_0000, 0xFF00_0000),
    ("setp.eq.f32 p, s, 0f00000000; selp.f32 d, 0f3f800000, 0f40000000, p", _ONE, _TWO),
    ("set.gt.u32.f32 i, s, 0f00000000; mov.b32 d, i", _ZERO, 0xFFFF_FFFF),
    ("set.gt.f32.f32 d, s, m", _ZERO, _ONE),
    ("slct.f32.f32 d, 0f3f800000, 0f40000000, m", _ONE, _TWO),
    ("slct.u32.f32 i, 5, 6, m; mov.b32 d, i", 5, 6),
    ("slct.f32.s32 d, s, 0f40000000, 1", _HALF_LEAST, _HALF_LEAST),
    ("cvt.f32.f32 d, s", _ZERO, _HALF_LEAST),
    ("cvt.sat.f32.f32 d, s", _ZERO, _HALF_LEAST),
    ("cvt.rpi.s32.f32 i, s; mov.b32 d, i", 0, 1),
    ("cvt.rni.f32.f32 d, m", _MINUS_ZERO, _MINUS_ZERO),
    ("mov.f32 d, s", _HALF_LEAST, _HALF_LEAST),
    ("setp.ne.u32 p, 0, 0; selp.f32 d, 0f3f800000, s, p", _HALF_LEAST, _HALF_LEAST),
    ("add.f64 f, e, e; mov.b64 {i, j}, f; mov.b32 d, j", 0x3810_0000, 0x3810_0000),
]
LONG_CASES = [
    # From and to 64 bits: since PTX 1.5
    ("cvt.rn.f32.f64 d, e", _ZERO, _HALF_LEAST),
    ("cvt.rn.sat.f32.f64 d, e", _ZERO, _HALF_LEAST),
    ("cvt.rz.f32.f64 d, e", _ZERO, _HALF_LEAST),
    ("cvt.f64.f32 f, m; mov.b64 {i, j}, f; mov.b32 d, j", 0x8000_0000, 0xB800_0000),
    ("cvt.rpi.u64.f32 l, s; cvt.u32.u64 i, l; mov.b32 d, i", 0, 1),
]


def text(version: str, target: str, lines: list[str]) -> str:
    stores = "\n".join(
        f"{line}; st.global.f32 [x+{32 + 4 * at}], d;" for at, line in enumerate(lines)
    )
    return f""".version {version}
.target {target}
.entry k(.param .u64 o)
{{ .reg .f32 s, m, b, d; .reg .f64 e, f; .reg .u64 x, l; .reg .u32 i, j; .reg .pred p;
  ld.param.u64 x, [o]; ld.global.f32 s, [x]; ld.global.f32 m, [x+4]; ld.global.f32 b, [x+8]; ld.global.f64 e, [x+16];
  {stores} exit; }}
"""


def _buffer(count: int) -> Buffer:
    words = [_HALF_LEAST, 0x8040_0000, 0x00C0_0000, 0, 0, 0x3800_0000, 0, 0]
    return Buffer("o", b"".join(word.to_bytes(4, "little") for word in words) + bytes(4 * count))


def left(module: Module, count: int) -> list[int]:
    return contents(on_warps(prepare(module, [_buffer(count)], block=(1, 1, 1))), "o")[8:]


@pytest.mark.parametrize(
    ("version", "target", "flushes", "flushes_long"),
    [
        ("1.4", "sm_13", True, False),
        ("1.5", "sm_13", True, True),
        ("3.0", "sm_13", True, True),
        ("2.0", "sm_20", False, False),
    ],
)
def test_subnormal_numbers_are_zeros_before_sm_20(version, target, flushes, flushes_long, tmp_path):
    cases = [(line, flushed if flushes else kept) for line, flushed, kept in CASES]
    cases += [(line, flushed if flushes_long else kept) for line, flushed, kept in LONG_CASES]
    program = text(version, target, [line for line, _ in cases])
    expected = dict(cases)
    assert dict(zip(expected, left(compiled(program), len(cases)), strict=True)) == expected
    launch = place(parse_ptx(program, "t.ptx"), [_buffer(len(cases))], block=(1, 1, 1))
    interpret(launch)
    assert dict(zip(expected, contents(launch, "o")[8:], strict=True)) == expected
    theirs = assembled_by_nvidia(program, tmp_path)
    assert dict(zip(expected, left(theirs, len(cases)), strict=True)) == expected
