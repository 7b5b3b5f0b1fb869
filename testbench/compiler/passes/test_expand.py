"""Expansion of pseudo-instructions: 64-bit sums and comparisons, products of 16-bit halves,
divisions by constants.

Factors and shifts of divisions are those of the tables in Hacker's Delight, chapter 10.
"""

from itertools import product

import pytest

from sim.toolchain.compiler.analysis.definitions import Definitions
from sim.toolchain.compiler.ir import Block, Function, Op, Source, Value, number
from sim.toolchain.compiler.opcodes import opcode
from sim.toolchain.compiler.passes.constant_propagation import propagate
from sim.toolchain.compiler.passes.dead_code import remove_dead_code
from sim.toolchain.compiler.passes.expand import expand
from sim.toolchain.compiler.passes.simplify_cfg import simplify_cfg
from sim.toolchain.compiler.passes.webs import reaching_webs
from testbench.compiler.passes import after

_KNOWN = "ld.shared.v4.u32 {a, b, c, i}, [16]; ld.shared.v2.u64 {e, f}, [32]; "
"""Defines %v1 and the following registers: those of a, b, c, i, e and f that the body reads."""


def _propagate(function: Function) -> bool:
    return propagate(function, Definitions(function))


def expanded(body: str, stored: str) -> list[str]:
    """Returns the operations of a body without its loads and stores."""
    passes = (simplify_cfg, reaching_webs, _propagate, expand, remove_dead_code)
    lines = after(f"{_KNOWN}{body} {stored}", *passes).strip().splitlines()[1:-1]
    return [line.strip() for line in lines if "LDS.U.128" not in line and "STS" not in line]


WORDS = {
    "add.u64 e, e, f; cvt.u32.u64 d, e;": ["%v5 = IADD %v1, %v3"],
    "add.u64 e, e, f; shr.u64 e, e, 32; cvt.u32.u64 d, e;": [
        "_ = IADD.CC %v1, %v3",
        "%v5 = IADD.X %v2, %v4",
        "%v6 = SHR.U32 %v5, 0x0",
    ],
    "mul.lo.u32 d, a, b;": [
        "%v5 = XMAD.MRG %v1, %v2.H1, 0x0",
        "%v6 = XMAD %v1, %v2, 0x0",
        "%v7 = XMAD.PSL.CBCC %v1.H1, %v5.H1, %v6",
    ],
    "mad.lo.u32 d, a, b, c;": [
        "%v5 = XMAD.MRG %v1, %v2.H1, 0x0",
        "%v6 = XMAD %v1, %v2, %v3",
        "%v7 = XMAD.PSL.CBCC %v1.H1, %v5.H1, %v6",
    ],
    "mul.lo.u32 d, a, 8;": ["%v5 = SHL %v1, 0x3"],
    "mul.lo.u32 d, a, 10;": ["%v5 = XMAD %v1, 0xa, 0x0", "%v6 = XMAD.PSL %v1.H1, 0xa, %v5"],
    "mul.lo.u32 d, a, 0x10001;": [
        "%v5 = XMAD %v1, 0x1, 0x0",
        "%v6 = XMAD.PSL %v1.H1, 0x1, %v5",
        "%v7 = XMAD.PSL %v1, 0x1, %v6",
    ],
    "mul.lo.u32 d, a, 65535;": [
        "%v5 = XMAD %v1, 0xffff, 0x0",
        "%v6 = XMAD.PSL %v1.H1, 0xffff, %v5",
    ],
    "mul.lo.u32 d, a, 65536;": ["%v5 = SHL %v1, 0x10"],
    "mul.lo.u32 d, 3, 5;": ["%v1 = IADD 0x0, 0xf"],
    "mad.lo.u32 d, a, 1, c;": ["%v5 = IADD %v1, %v3"],
    "mad.lo.u32 d, a, 8, c;": ["%v5 = ISCADD %v1, %v3, shift=0x3"],
    "mad.lo.u32 d, a, 10, c;": ["%v5 = XMAD %v1, 0xa, %v3", "%v6 = XMAD.PSL %v1.H1, 0xa, %v5"],
    "mul.hi.u32 d, a, b;": [
        "%v5 = XMAD %v1, %v2, 0x0",
        "%v6 = XMAD %v1, %v2.H1, 0x0",
        "%v7 = XMAD %v1.H1, %v2.H1, 0x0",
        "%v8 = XMAD.CHI %v1.H1, %v2, %v5",
        "%v9 = IADD3.RS %v8, %v6, %v7",
    ],
    "mul.hi.s32 d, a, b;": [
        "%v5 = XMAD %v1, %v2, 0x0",
        "%v6 = XMAD.U16.S16 %v1, %v2.H1, 0x0",
        "%v7 = XMAD.S16.S16.CSFU %v1.H1, %v2.H1, 0x0",
        "%v8 = XMAD.S16.U16.CHI %v1.H1, %v2, %v5",
        "%v9 = IADD3.RS %v8, %v6, %v7",
    ],
    "mad.hi.u32 d, a, b, c;": [
        "%v5 = XMAD %v1, %v2, 0x0",
        "%v6 = XMAD %v1, %v2.H1, 0x0",
        "%v7 = XMAD %v1.H1, %v2.H1, 0x0",
        "%v8 = XMAD.CHI %v1.H1, %v2, %v5",
        "%v9 = IADD3.RS %v8, %v6, %v7",
        "%v10 = IADD %v9, %v3",
    ],
    "mul.hi.u32 d, a, 10;": [
        "%v5 = MOV 0xa",
        "%v6 = XMAD %v1, %v5, 0x0",
        "%v7 = XMAD %v1, %v5.H1, 0x0",
        "%v8 = XMAD %v1.H1, %v5.H1, 0x0",
        "%v9 = XMAD.CHI %v1.H1, %v5, %v6",
        "%v10 = IADD3.RS %v9, %v7, %v8",
    ],
    "mul.hi.s32 d, a, -3;": [
        "%v5 = MOV 0xfffffffd",
        "%v6 = XMAD %v1, %v5, 0x0",
        "%v7 = XMAD.U16.S16 %v1, %v5.H1, 0x0",
        "%v8 = XMAD.S16.S16.CSFU %v1.H1, %v5.H1, 0x0",
        "%v9 = XMAD.S16.U16.CHI %v1.H1, %v5, %v6",
        "%v10 = IADD3.RS %v9, %v7, %v8",
    ],
    "div.u32 d, a, 8;": ["%v5 = SHR.U32 %v1, 0x3", "%v6 = MOV %v5"],
    "rem.u32 d, a, 8;": ["%v5 = SHR.U32 %v1, 0x3", "%v6 = ISCADD -%v5, %v1, shift=0x3"],
    "div.s32 d, a, 8;": [
        "%v5 = SHR %v1, 0x1f",
        "%v6 = SHR.U32 %v5, 0x1d",
        "%v7 = IADD %v1, %v6",
        "%v8 = SHR %v7, 0x3",
        "%v9 = IADD %v8, 0x0",
        "%v10 = MOV %v9",
    ],
    "rem.s32 d, a, 8;": [
        "%v5 = SHR %v1, 0x1f",
        "%v6 = SHR.U32 %v5, 0x1d",
        "%v7 = IADD %v1, %v6",
        "%v8 = SHR %v7, 0x3",
        "%v9 = IADD %v8, 0x0",
        "%v10 = ISCADD -%v9, %v1, shift=0x3",
    ],
    "div.u32 d, a, 7;": [
        "%v5 = MOV 0x24924925",
        "%v6 = XMAD %v1, %v5, 0x0",
        "%v7 = XMAD %v1, %v5.H1, 0x0",
        "%v8 = XMAD %v1.H1, %v5.H1, 0x0",
        "%v9 = XMAD.CHI %v1.H1, %v5, %v6",
        "%v10 = IADD3.RS %v9, %v7, %v8",
        "%v11 = IADD %v1, -%v10",
        "%v12 = SHR.U32 %v11, 0x1",
        "%v13 = IADD %v12, %v10",
        "%v14 = SHR.U32 %v13, 0x2",
        "%v15 = MOV %v14",
    ],
    "div.u32 d, a, 10;": [
        "%v5 = MOV 0xcccccccd",
        "%v6 = XMAD %v1, %v5, 0x0",
        "%v7 = XMAD %v1, %v5.H1, 0x0",
        "%v8 = XMAD %v1.H1, %v5.H1, 0x0",
        "%v9 = XMAD.CHI %v1.H1, %v5, %v6",
        "%v10 = IADD3.RS %v9, %v7, %v8",
        "%v11 = SHR.U32 %v10, 0x3",
        "%v12 = MOV %v11",
    ],
    "rem.u32 d, a, 10;": [
        "%v5 = MOV 0xcccccccd",
        "%v6 = XMAD %v1, %v5, 0x0",
        "%v7 = XMAD %v1, %v5.H1, 0x0",
        "%v8 = XMAD %v1.H1, %v5.H1, 0x0",
        "%v9 = XMAD.CHI %v1.H1, %v5, %v6",
        "%v10 = IADD3.RS %v9, %v7, %v8",
        "%v11 = SHR.U32 %v10, 0x3",
        "%v12 = XMAD %v11, 0xfff6, %v1",
        "%v13 = XMAD.PSL %v11.H1, 0xfff6, %v12",
        "%v14 = XMAD.PSL %v11, 0xffff, %v13",
    ],
    "div.s32 d, a, 7;": [
        "%v5 = MOV 0x92492493",
        "%v6 = XMAD %v1, %v5, 0x0",
        "%v7 = XMAD.U16.S16 %v1, %v5.H1, 0x0",
        "%v8 = XMAD.S16.S16.CSFU %v1.H1, %v5.H1, 0x0",
        "%v9 = XMAD.S16.U16.CHI %v1.H1, %v5, %v6",
        "%v10 = IADD3.RS %v9, %v7, %v8",
        "%v11 = IADD %v10, %v1",
        "%v12 = SHR %v11, 0x2",
        "%v13 = SHR.U32 %v1, 0x1f",
        "%v14 = IADD %v12, %v13",
        "%v15 = IADD %v14, 0x0",
        "%v16 = MOV %v15",
    ],
    "div.s32 d, a, -7;": [
        "%v5 = MOV 0x92492493",
        "%v6 = XMAD %v1, %v5, 0x0",
        "%v7 = XMAD.U16.S16 %v1, %v5.H1, 0x0",
        "%v8 = XMAD.S16.S16.CSFU %v1.H1, %v5.H1, 0x0",
        "%v9 = XMAD.S16.U16.CHI %v1.H1, %v5, %v6",
        "%v10 = IADD3.RS %v9, %v7, %v8",
        "%v11 = IADD %v10, %v1",
        "%v12 = SHR %v11, 0x2",
        "%v13 = SHR.U32 %v1, 0x1f",
        "%v14 = IADD %v12, %v13",
        "%v15 = IADD -%v14, 0x0",
        "%v16 = MOV %v15",
    ],
    "rem.s32 d, a, 7;": [
        "%v5 = MOV 0x92492493",
        "%v6 = XMAD %v1, %v5, 0x0",
        "%v7 = XMAD.U16.S16 %v1, %v5.H1, 0x0",
        "%v8 = XMAD.S16.S16.CSFU %v1.H1, %v5.H1, 0x0",
        "%v9 = XMAD.S16.U16.CHI %v1.H1, %v5, %v6",
        "%v10 = IADD3.RS %v9, %v7, %v8",
        "%v11 = IADD %v10, %v1",
        "%v12 = SHR %v11, 0x2",
        "%v13 = SHR.U32 %v1, 0x1f",
        "%v14 = IADD %v12, %v13",
        "%v15 = IADD %v14, 0x0",
        "%v16 = XMAD %v15, 0xfff9, %v1",
        "%v17 = XMAD.PSL %v15.H1, 0xfff9, %v16",
        "%v18 = XMAD.PSL %v15, 0xffff, %v17",
    ],
    "div.u32 d, a, 1;": ["%v5 = SHR.U32 %v1, 0x0", "%v6 = MOV %v5"],
    "div.s32 d, a, -1;": ["%v5 = IADD -%v1, 0x0", "%v6 = MOV %v5"],
    "rem.u32 d, a, 1;": ["%v5 = SHR.U32 %v1, 0x0", "%v6 = ISCADD -%v5, %v1, shift=0x0"],
    "div.s32 d, a, 1;": ["%v5 = IADD %v1, 0x0", "%v6 = MOV %v5"],
    "div.s32 d, a, -2147483648;": [
        "%v5 = SHR %v1, 0x1f",
        "%v6 = SHR.U32 %v5, 0x1",
        "%v7 = IADD %v1, %v6",
        "%v8 = SHR %v7, 0x1f",
        "%v9 = IADD -%v8, 0x0",
        "%v10 = MOV %v9",
    ],
    "div.u32 d, a, 0x80000000;": ["%v5 = SHR.U32 %v1, 0x1f", "%v6 = MOV %v5"],
    "div.u32 d, a, 0xffffffff;": [
        "%v5 = MOV 0x80000001",
        "%v6 = XMAD %v1, %v5, 0x0",
        "%v7 = XMAD %v1, %v5.H1, 0x0",
        "%v8 = XMAD %v1.H1, %v5.H1, 0x0",
        "%v9 = XMAD.CHI %v1.H1, %v5, %v6",
        "%v10 = IADD3.RS %v9, %v7, %v8",
        "%v11 = SHR.U32 %v10, 0x1f",
        "%v12 = MOV %v11",
    ],
    "rem.s32 d, a, -8;": [
        "%v5 = SHR %v1, 0x1f",
        "%v6 = SHR.U32 %v5, 0x1d",
        "%v7 = IADD %v1, %v6",
        "%v8 = SHR %v7, 0x3",
        "%v9 = IADD -%v8, 0x0",
        "%v10 = ISCADD %v9, %v1, shift=0x3",
    ],
    "div.s32 d, a, 3;": [
        "%v5 = MOV 0x55555556",
        "%v6 = XMAD %v1, %v5, 0x0",
        "%v7 = XMAD.U16.S16 %v1, %v5.H1, 0x0",
        "%v8 = XMAD.S16.S16.CSFU %v1.H1, %v5.H1, 0x0",
        "%v9 = XMAD.S16.U16.CHI %v1.H1, %v5, %v6",
        "%v10 = IADD3.RS %v9, %v7, %v8",
        "%v11 = SHR %v10, 0x0",
        "%v12 = SHR.U32 %v1, 0x1f",
        "%v13 = IADD %v11, %v12",
        "%v14 = IADD %v13, 0x0",
        "%v15 = MOV %v14",
    ],
    "div.s32 d, a, 5;": [
        "%v5 = MOV 0x66666667",
        "%v6 = XMAD %v1, %v5, 0x0",
        "%v7 = XMAD.U16.S16 %v1, %v5.H1, 0x0",
        "%v8 = XMAD.S16.S16.CSFU %v1.H1, %v5.H1, 0x0",
        "%v9 = XMAD.S16.U16.CHI %v1.H1, %v5, %v6",
        "%v10 = IADD3.RS %v9, %v7, %v8",
        "%v11 = SHR %v10, 0x1",
        "%v12 = SHR.U32 %v1, 0x1f",
        "%v13 = IADD %v11, %v12",
        "%v14 = IADD %v13, 0x0",
        "%v15 = MOV %v14",
    ],
    "div.u32 d, a, 14;": [
        "%v5 = MOV 0x24924925",
        "%v6 = XMAD %v1, %v5, 0x0",
        "%v7 = XMAD %v1, %v5.H1, 0x0",
        "%v8 = XMAD %v1.H1, %v5.H1, 0x0",
        "%v9 = XMAD.CHI %v1.H1, %v5, %v6",
        "%v10 = IADD3.RS %v9, %v7, %v8",
        "%v11 = IADD %v1, -%v10",
        "%v12 = SHR.U32 %v11, 0x1",
        "%v13 = IADD %v12, %v10",
        "%v14 = SHR.U32 %v13, 0x3",
        "%v15 = MOV %v14",
    ],
    "div.u32 d, a, 641;": [
        "%v5 = MOV 0x663d81",
        "%v6 = XMAD %v1, %v5, 0x0",
        "%v7 = XMAD %v1, %v5.H1, 0x0",
        "%v8 = XMAD %v1.H1, %v5.H1, 0x0",
        "%v9 = XMAD.CHI %v1.H1, %v5, %v6",
        "%v10 = IADD3.RS %v9, %v7, %v8",
        "%v11 = SHR.U32 %v10, 0x0",
        "%v12 = MOV %v11",
    ],
}


PAIRS = {
    "add.u64 e, e, f;": ["%v5 = IADD.CC %v1, %v3", "%v6 = IADD.X %v2, %v4"],
    "sub.u64 e, e, f;": ["%v5 = IADD.CC %v1, -%v3", "%v6 = IADD.X %v2, -%v4"],
    "add.u64 e, e, 5;": ["%v5 = IADD.CC %v1, 0x5", "%v6 = IADD.X %v2, 0x0"],
    "add.u64 e, e, 0x500000000;": ["%v5 = MOV %v1", "%v6 = IADD %v2, 0x5"],
    "sub.u64 e, e, 0x500000000;": ["%v5 = MOV %v1", "%v6 = IADD %v2, -0x5"],
    "add.u64 e, 7, 0x1fffffffa;": ["%v1 = MOV 0x1", "%v2 = MOV 0x2"],
    "mul.wide.u32 e, a, b;": [
        "%v5 = XMAD.MRG %v1, %v2.H1, 0x0",
        "%v6 = XMAD %v1, %v2, 0x0",
        "%v7 = XMAD.PSL.CBCC %v1.H1, %v5.H1, %v6",
        "%v8 = XMAD %v1, %v2, 0x0",
        "%v9 = XMAD %v1, %v2.H1, 0x0",
        "%v10 = XMAD %v1.H1, %v2.H1, 0x0",
        "%v11 = XMAD.CHI %v1.H1, %v2, %v8",
        "%v12 = IADD3.RS %v11, %v9, %v10",
    ],
    "mul.wide.s32 e, a, b;": [
        "%v5 = XMAD.MRG %v1, %v2.H1, 0x0",
        "%v6 = XMAD %v1, %v2, 0x0",
        "%v7 = XMAD.PSL.CBCC %v1.H1, %v5.H1, %v6",
        "%v8 = XMAD %v1, %v2, 0x0",
        "%v9 = XMAD.U16.S16 %v1, %v2.H1, 0x0",
        "%v10 = XMAD.S16.S16.CSFU %v1.H1, %v2.H1, 0x0",
        "%v11 = XMAD.S16.U16.CHI %v1.H1, %v2, %v8",
        "%v12 = IADD3.RS %v11, %v9, %v10",
    ],
    "mul.wide.u32 e, a, 16;": ["%v5 = SHL %v1, 0x4", "%v6 = SHR.U32 %v1, 0x1c"],
    "mul.wide.s32 e, a, 16;": ["%v5 = SHL %v1, 0x4", "%v6 = SHR %v1, 0x1c"],
    "mul.wide.u32 e, a, 1;": ["%v5 = MOV %v1", "%v6 = MOV 0x0"],
    "mul.wide.s32 e, a, 1;": ["%v5 = MOV %v1", "%v6 = SHR %v1, 0x1f"],
    "mul.wide.u32 e, a, 0x80000000;": [
        "%v5 = SHL %v1, 0x1f",
        "%v6 = MOV 0x80000000",
        "%v7 = XMAD %v1, %v6, 0x0",
        "%v8 = XMAD %v1, %v6.H1, 0x0",
        "%v9 = XMAD %v1.H1, %v6.H1, 0x0",
        "%v10 = XMAD.CHI %v1.H1, %v6, %v7",
        "%v11 = IADD3.RS %v10, %v8, %v9",
    ],
    "mul.wide.s32 e, a, 0x40000000;": ["%v5 = SHL %v1, 0x1e", "%v6 = SHR %v1, 0x2"],
    "mul.wide.u32 e, a, 0;": [
        "%v5 = MOV 0x0",
        "%v6 = MOV 0x0",
        "%v7 = XMAD %v1, %v6, 0x0",
        "%v8 = XMAD %v1, %v6.H1, 0x0",
        "%v9 = XMAD %v1.H1, %v6.H1, 0x0",
        "%v10 = XMAD.CHI %v1.H1, %v6, %v7",
        "%v11 = IADD3.RS %v10, %v8, %v9",
    ],
    "mul.wide.u32 e, a, 10;": [
        "%v5 = XMAD %v1, 0xa, 0x0",
        "%v6 = XMAD.PSL %v1.H1, 0xa, %v5",
        "%v7 = MOV 0xa",
        "%v8 = XMAD %v1, %v7, 0x0",
        "%v9 = XMAD %v1, %v7.H1, 0x0",
        "%v10 = XMAD %v1.H1, %v7.H1, 0x0",
        "%v11 = XMAD.CHI %v1.H1, %v7, %v8",
        "%v12 = IADD3.RS %v11, %v9, %v10",
    ],
}


TESTS = {
    "setp.lt.s64 p, e, 0;": ["%p1, _ = ISETP.LT.AND %v6, 0x0, 0x1", "%v9 = SEL %v1, %v2, %p1"],
    "setp.ge.s64 p, e, 0;": ["%p1, _ = ISETP.GE.AND %v6, 0x0, 0x1", "%v9 = SEL %v1, %v2, %p1"],
    "setp.gt.s64 p, e, 0;": [
        "_ = IADD.CC %v5, -0x0",
        "%p1, _ = ISETP.GT.AND.X %v6, 0x0, 0x1",
        "%v9 = SEL %v1, %v2, %p1",
    ],
    "setp.lt.u64 p, e, 0;": [
        "_ = IADD.CC %v5, -0x0",
        "%p1, _ = ISETP.LT.U32.AND.X %v6, 0x0, 0x1",
        "%v9 = SEL %v1, %v2, %p1",
    ],
    "setp.lt.s64 p, e, f;": [
        "_ = IADD.CC %v5, -%v7",
        "%p1, _ = ISETP.LT.AND.X %v6, %v8, 0x1",
        "%v9 = SEL %v1, %v2, %p1",
    ],
    "setp.lt.u64 p, e, f;": [
        "_ = IADD.CC %v5, -%v7",
        "%p1, _ = ISETP.LT.U32.AND.X %v6, %v8, 0x1",
        "%v9 = SEL %v1, %v2, %p1",
    ],
    "setp.le.s64 p, e, 5;": [
        "_ = IADD.CC %v5, -0x5",
        "%p1, _ = ISETP.LE.AND.X %v6, 0x0, 0x1",
        "%v9 = SEL %v1, %v2, %p1",
    ],
    "setp.eq.u64 p, e, f;": [
        "_ = IADD.CC %v5, -%v7",
        "%p1, _ = ISETP.EQ.U32.AND.X %v6, %v8, 0x1",
        "%v9 = SEL %v1, %v2, %p1",
    ],
    "setp.lt.s64 p, -1, 1;": ["%p1, _ = PSETP.AND.AND 0x1, 0x1, 0x1", "%v5 = SEL %v1, %v2, %p1"],
    "setp.lt.u64 p, -1, 1;": ["%p1, _ = PSETP.AND.AND 0x0, 0x1, 0x1", "%v5 = SEL %v1, %v2, %p1"],
    "cvt.u64.u32 e, a; cvt.u64.u32 f, b; setp.lt.u64 p, e, f;": [
        "%p1, _ = ISETP.LT.U32.AND %v1, %v2, 0x1",
        "%v5 = SEL %v1, %v2, %p1",
    ],
}


@pytest.mark.parametrize("body", WORDS)
def test_products_and_divisions_of_words(body):
    assert expanded(body, "st.shared.u32 [64], d;") == WORDS[body]


@pytest.mark.parametrize("body", PAIRS)
def test_sums_and_products_of_two_words(body):
    assert expanded(body, "st.shared.u64 [64], e;") == PAIRS[body]


@pytest.mark.parametrize("body", TESTS)
def test_comparisons_of_two_words(body):
    stored = "selp.u32 d, a, b, p; st.shared.u32 [64], d;"
    assert expanded(body, stored) == TESTS[body]


def _pair(name: str) -> list[Source]:
    return [Source(Value(f"{name}_{word}")) for word in ("low", "high")]


def _number(value: int) -> list[Source]:
    return [number(value), number(value >> 32)]


_X, _Y = _pair("x"), _pair("y")
_FACTORS = (_Y[0], *(number(factor) for factor in (0, 1, 2, 3, 0x1234, 0x10000, 1 << 31)))
OVERLAPPING = [
    *(
        ("ADD64", {}, [*x, *y])
        for x in (_X, _number(1 << 40))
        for y in (_Y, _number(0), _number(5))
    ),
    *(
        ("MULWIDE", {"signed": signed}, sources)
        for signed in (False, True)
        for factor in _FACTORS
        for sources in ([_X[0], factor], [factor, _X[0]])
    ),
]


@pytest.mark.parametrize(("name", "fields", "sources"), OVERLAPPING)
def test_results_of_two_words_may_be_sources(name, fields, sources):
    """A source is read before a result in its register is written, and each live result is written."""
    places = {source.operand for source in sources if isinstance(source.operand, Value)}
    others = [Value("low"), Value("high")]
    for low, high in product((None, others[0], *places), (None, others[1], *places)):
        if low is high:
            continue
        function = Function("f", True, [])
        op = Op(opcode(name, tuple(fields.items())), [low, high], list(sources))
        function.blocks.append(Block("B0", [op]))
        assert expand(function)
        written: set[Value] = set()
        for made in function.blocks[0].ops:
            assert not places & written & set(made.reads()), function.blocks[0].ops
            written.update(made.writes())
        assert {low, high} - {None} <= written
