"""Instruction combining: which instructions are combined, and similar ones that must not be."""

from collections.abc import Callable

import pytest

from sim.toolchain.compiler.analysis.definitions import Definitions
from sim.toolchain.compiler.ir import Function
from sim.toolchain.compiler.passes.combine import combine
from sim.toolchain.compiler.passes.constant_propagation import propagate
from sim.toolchain.compiler.passes.dead_code import remove_dead_code
from sim.toolchain.compiler.passes.simplify_cfg import simplify_cfg
from sim.toolchain.compiler.passes.webs import reaching_webs
from testbench.compiler.passes import after

_KNOWN = "ld.shared.v4.u32 {a, b, c, i}, [16]; ld.shared.v2.u64 {e, f}, [32]; "
"""Defines %v1 and the following registers: those of a, b, c, i, e and f that the body reads."""
_ROUNDS = 3


def _with_definitions(
    step: Callable[[Function, Definitions], bool],
) -> Callable[[Function], object]:
    return lambda function: step(function, Definitions(function))


def combined(body: str, stored: str) -> list[str]:
    """Returns the operations of a body without its loads and stores."""
    rounds = [_with_definitions(combine)] * _ROUNDS
    before = (simplify_cfg, reaching_webs, _with_definitions(propagate), remove_dead_code)
    listing = after(f"{_KNOWN}{body} {stored}", *before, *rounds, remove_dead_code)
    lines = [line.strip() for line in listing.strip().splitlines()[1:-1]]
    return [line for line in lines if "LDS.U.128" not in line and "STS" not in line]


SUMS = {
    "shl.b32 d, a, 2; add.u32 d, d, b;": ["%v5 = ISCADD %v1, %v2, shift=0x2"],
    "shl.b32 d, a, 2; add.u32 d, b, d;": ["%v5 = ISCADD %v1, %v2, shift=0x2"],
    "shl.b32 d, a, 2; sub.u32 d, b, d;": ["%v5 = ISCADD -%v1, %v2, shift=0x2"],
    "shl.b32 d, a, 2; sub.u32 d, d, b;": ["%v5 = ISCADD %v1, -%v2, shift=0x2"],
    "shl.b32 d, a, 2; neg.s32 d, d; sub.u32 d, d, b;": [
        "%v5 = SHL %v1, 0x2",
        "%v6 = IADD -%v5, 0x0",
        "%v7 = IADD %v6, -%v2",
    ],
    "shl.b32 d, a, 31; add.u32 d, d, b;": ["%v5 = ISCADD %v1, %v2, shift=0x1f"],
    "shl.b32 d, a, 32; add.u32 d, d, b;": ["%v5 = SHL %v1, 0x20", "%v6 = IADD %v5, %v2"],
    "shl.b32 d, a, b; add.u32 d, d, b;": ["%v5 = SHL %v1, %v2", "%v6 = IADD %v5, %v2"],
    "shl.b32 d, a, 2; add.u32 d, d, 524287;": ["%v5 = ISCADD %v1, 0x7ffff, shift=0x2"],
    "shl.b32 d, a, 2; add.u32 d, d, 524288;": ["%v5 = SHL %v1, 0x2", "%v6 = IADD %v5, 0x80000"],
    "shl.b32 d, a, 2; add.u32 d, d, -524287;": ["%v5 = ISCADD %v1, 0xfff80001, shift=0x2"],
    "shl.b32 d, a, 2; add.u32 d, d, -524288;": ["%v5 = ISCADD %v1, 0xfff80000, shift=0x2"],
    "shl.b32 d, a, 2; add.u32 d, d, -524289;": ["%v5 = SHL %v1, 0x2", "%v6 = IADD %v5, 0xfff7ffff"],
    "shl.b32 d, a, 2; add.cc.u32 d, d, b; addc.u32 c, c, 0; add.u32 d, d, c;": [
        "%v5 = ISCADD.CC %v1, %v2, shift=0x2",
        "%v6 = IADD.X %v3, 0x0",
        "%v7 = IADD %v5, %v6",
    ],
    "shl.b32 d, a, 2; sub.cc.u32 d, b, d; subc.u32 c, c, 0; xor.b32 d, d, c;": [
        "%v5 = SHL %v1, 0x2",
        "%v6 = IADD.CC %v2, -%v5",
        "%v7 = IADD.X %v3, -0x0",
        "%v8 = LOP.XOR %v6, %v7",
    ],
    "shr.u32 d, a, 3; add.u32 d, d, b;": ["%v5 = LEA.HI %v1, %v2, 0x0, shift=0x1d"],
    "shr.u32 d, a, 3; add.u32 d, b, d;": ["%v5 = LEA.HI %v1, %v2, 0x0, shift=0x1d"],
    "shr.s32 d, a, 3; add.u32 d, d, b;": ["%v5 = SHR %v1, 0x3", "%v6 = IADD %v5, %v2"],
    "shr.u32 d, a, 3; add.u32 c, d, b; mul.lo.u32 d, d, c;": [
        "%v5 = SHR.U32 %v1, 0x3",
        "%v6 = IADD %v5, %v2",
        "%v7 = MAD %v5, %v6, 0x0",
    ],
    "shr.u32 d, a, 3; sub.u32 d, b, d;": ["%v5 = SHR.U32 %v1, 0x3", "%v6 = IADD %v2, -%v5"],
    "shr.u32 d, a, 3; sub.u32 d, d, b;": ["%v5 = SHR.U32 %v1, 0x3", "%v6 = IADD %v5, -%v2"],
    "shr.u32 d, a, 3; add.u32 d, d, 5;": ["%v5 = SHR.U32 %v1, 0x3", "%v6 = IADD %v5, 0x5"],
    # The second source is combined if the first can't be: another operation, no constant, a
    # register that changes.
    "shl.b32 d, a, b; shl.b32 i, c, 2; add.u32 d, d, i;": [
        "%v5 = SHL %v1, %v2",
        "%v6 = ISCADD %v3, %v5, shift=0x2",
    ],
    "L: shl.b32 d, a, 2; add.u32 a, a, 1; shl.b32 i, c, 3; add.u32 d, d, i; "
    "setp.lt.u32 p, a, b; @p bra L;": [
        "%v5 = MOV %v1",
        "goto B1",
        "B1:",
        "%v6 = SHL %v5, 0x2",
        "%v5 = IADD %v5, 0x1",
        "%v7 = ISCADD %v3, %v6, shift=0x3",
        "%p1, _ = ISETP.LT.U32.AND %v5, %v2, 0x1",
        "branch %p1 B1 B2",
        "B2:",
    ],
    "shr.u32 d, a, b; shr.u32 i, c, 2; add.u32 d, d, i;": [
        "%v5 = SHR.U32 %v1, %v2",
        "%v6 = LEA.HI %v3, %v5, 0x0, shift=0x1e",
    ],
    "shr.s32 d, a, 2; shr.u32 i, c, 2; add.u32 d, d, i;": [
        "%v5 = SHR %v1, 0x2",
        "%v6 = LEA.HI %v3, %v5, 0x0, shift=0x1e",
    ],
    "mul.hi.s32 d, a, b; mul.hi.u32 i, c, b; add.u32 d, d, i;": [
        "%v5 = MULHI %v1, %v2",
        "%v6 = MULHI %v3, %v2, %v5",
    ],
    "shr.u32 d, a, 31; add.u32 d, d, b;": ["%v5 = LEA.HI %v1, %v2, 0x0, shift=0x1"],
    "shr.u32 d, a, b; add.u32 d, d, b;": ["%v5 = SHR.U32 %v1, %v2", "%v6 = IADD %v5, %v2"],
    "shr.u32 d, a, 3; add.cc.u32 d, d, b; addc.u32 c, c, 0; xor.b32 d, d, c;": [
        "%v5 = SHR.U32 %v1, 0x3",
        "%v6 = IADD.CC %v5, %v2",
        "%v7 = IADD.X %v3, 0x0",
        "%v8 = LOP.XOR %v6, %v7",
    ],
    "mul.hi.u32 d, a, b; add.u32 d, d, c;": ["%v5 = MULHI %v1, %v2, %v3"],
    "mul.hi.u32 d, a, b; add.u32 d, c, d;": ["%v5 = MULHI %v1, %v2, %v3"],
    "mul.hi.s32 d, a, b; add.u32 d, d, c;": ["%v5 = MULHI %v1, %v2", "%v6 = IADD %v5, %v3"],
    "mul.hi.u32 d, a, b; sub.u32 d, d, c;": ["%v5 = MULHI %v1, %v2", "%v6 = IADD %v5, -%v3"],
    "mul.hi.u32 d, a, b; sub.u32 d, c, d;": ["%v5 = MULHI %v1, %v2", "%v6 = IADD %v3, -%v5"],
    "mul.hi.u32 d, a, b; add.u32 d, d, 5;": ["%v5 = MULHI %v1, %v2", "%v6 = IADD %v5, 0x5"],
    "mul.hi.u32 d, a, b; add.u32 c, d, c; xor.b32 d, d, c;": [
        "%v5 = MULHI %v1, %v2",
        "%v6 = IADD %v5, %v3",
        "%v7 = LOP.XOR %v5, %v6",
    ],
    "mad.hi.u32 d, a, b, c; add.u32 d, d, i;": ["%v5 = MULHI %v1, %v2, %v3", "%v6 = IADD %v5, %v4"],
    "add.u32 d, a, 3; add.u32 d, d, 4;": ["%v5 = IADD %v1, 0x7"],
    "sub.u32 d, a, 3; add.u32 d, d, 4;": ["%v5 = IADD %v1, 0x1"],
    "add.u32 d, a, 3; sub.u32 d, 4, d;": ["%v5 = IADD %v1, 0x3", "%v6 = IADD 0x4, -%v5"],
    "add.u32 d, 3, a; add.u32 d, 4, d;": ["%v5 = IADD 0x3, %v1", "%v6 = IADD 0x4, %v5"],
    "neg.s32 d, a; add.u32 d, d, 3; add.u32 d, d, 4;": ["%v5 = IADD -%v1, 0x7"],
    "add.u32 d, a, 3; add.cc.u32 d, d, 4; addc.u32 c, c, 0; xor.b32 d, d, c;": [
        "%v5 = IADD %v1, 0x3",
        "%v6 = IADD.CC %v5, 0x4",
        "%v7 = IADD.X %v3, 0x0",
        "%v8 = LOP.XOR %v6, %v7",
    ],
    "add.u32 d, a, b; add.u32 d, d, c;": ["%v5 = IADD3 %v1, %v3, %v2"],
    "add.u32 d, a, b; add.u32 d, c, d;": ["%v5 = IADD3 %v1, %v3, %v2"],
    "add.u32 d, a, b; sub.u32 d, d, c;": ["%v5 = IADD3 %v1, -%v3, %v2"],
    "add.u32 d, a, b; sub.u32 d, c, d;": ["%v5 = IADD %v1, %v2", "%v6 = IADD %v3, -%v5"],
    "sub.u32 d, a, b; add.u32 d, d, c;": ["%v5 = IADD3 %v1, %v3, -%v2"],
    "sub.u32 d, a, b; sub.u32 d, d, c;": ["%v5 = IADD %v1, -%v2", "%v6 = IADD %v5, -%v3"],
    "add.u32 d, a, 5; add.u32 d, d, b;": ["%v5 = IADD3 %v1, 0x5, %v2"],
    "add.u32 d, a, 524287; add.u32 d, d, b;": ["%v5 = IADD3 %v1, 0x7ffff, %v2"],
    "add.u32 d, a, 524288; add.u32 d, d, b;": ["%v5 = IADD %v1, 0x80000", "%v6 = IADD %v5, %v2"],
    "add.u32 d, a, b; add.u32 c, d, c; xor.b32 d, d, c;": [
        "%v5 = IADD %v1, %v2",
        "%v6 = IADD %v5, %v3",
        "%v7 = LOP.XOR %v5, %v6",
    ],
    "add.cc.u32 d, a, b; addc.u32 i, i, 0; add.u32 d, d, c; xor.b32 d, d, i;": [
        "%v5 = IADD.CC %v1, %v2",
        "%v6 = IADD.X %v4, 0x0",
        "%v7 = IADD %v5, %v3",
        "%v8 = LOP.XOR %v7, %v6",
    ],
    "shl.b32 d, a, 2; shl.b32 d, d, 3;": ["%v5 = SHL %v1, 0x5"],
    "shl.b32 d, a, 16; shl.b32 d, d, 15;": ["%v5 = SHL %v1, 0x1f"],
    "shl.b32 d, a, 16; shl.b32 d, d, 16;": ["%v5 = SHL %v1, 0x10", "%v6 = SHL %v5, 0x10"],
    "shl.b32 d, a, b; shl.b32 d, d, 3;": ["%v5 = SHL %v1, %v2", "%v6 = SHL %v5, 0x3"],
    "shl.b32 d, a, 2; shl.b32 d, d, b;": ["%v5 = SHL %v1, 0x2", "%v6 = SHL %v5, %v2"],
    "shr.u32 d, a, 2; shl.b32 d, d, 3;": ["%v5 = SHR.U32 %v1, 0x2", "%v6 = SHL %v5, 0x3"],
    "and.b32 d, a, b; setp.eq.u32 p, d, 0; selp.u32 d, a, b, p;": [
        "%p1, _ = LOP.AND.Z %v1, %v2",
        "%v5 = SEL %v1, %v2, %p1",
    ],
    "and.b32 d, a, b; setp.ne.s32 p, d, 0; selp.u32 d, a, b, p;": [
        "%p1, _ = LOP.AND.NZ %v1, %v2",
        "%v5 = SEL %v1, %v2, %p1",
    ],
    "and.b32 d, a, b; setp.ne.s32 p, 0, d; selp.u32 d, a, b, p;": [
        "%p1, _ = LOP.AND.NZ %v1, %v2",
        "%v5 = SEL %v1, %v2, %p1",
    ],
    "and.b32 d, a, b; setp.gt.u32 p, d, 0; selp.u32 d, a, b, p;": [
        "%v5 = LOP.AND %v1, %v2",
        "%p1, _ = ISETP.GT.U32.AND %v5, 0x0, 0x1",
        "%v6 = SEL %v1, %v2, %p1",
    ],
    "and.b32 d, a, b; setp.eq.u32 p, d, 1; selp.u32 d, a, b, p;": [
        "%v5 = LOP.AND %v1, %v2",
        "%p1, _ = ISETP.EQ.U32.AND %v5, 0x1, 0x1",
        "%v6 = SEL %v1, %v2, %p1",
    ],
    "or.b32 d, a, b; setp.eq.u32 p, d, 0; selp.u32 d, a, b, p;": [
        "%v5 = LOP.OR %v1, %v2",
        "%p1, _ = ISETP.EQ.U32.AND %v5, 0x0, 0x1",
        "%v6 = SEL %v1, %v2, %p1",
    ],
    "and.b32 d, a, b; setp.eq.u32 p, d, 0; selp.u32 d, d, b, p;": [
        "%v5 = LOP.AND %v1, %v2",
        "%p1, _ = ISETP.EQ.U32.AND %v5, 0x0, 0x1",
        "%v6 = SEL %v5, %v2, %p1",
    ],
    "and.b32 d, a, b; setp.eq.u32 p|q, d, 0; selp.u32 d, a, b, p; selp.u32 d, d, c, q;": [
        "%v5 = LOP.AND %v1, %v2",
        "%p1, %p2 = ISETP.EQ.U32.AND %v5, 0x0, 0x1",
        "%v6 = SEL %v1, %v2, %p1",
        "%v7 = SEL %v6, %v3, %p2",
    ],
    "and.b32 d, a, b; setp.eq.or.u32 p, d, 0, q; selp.u32 d, a, b, p;": [
        "%v5 = LOP.AND %v1, %v2",
        "%p2, _ = ISETP.EQ.U32.OR %v5, 0x0, %p1",
        "%v6 = SEL %v1, %v2, %p2",
    ],
    "and.b32 d, a, b; setp.lt.u32 q, a, b; setp.eq.and.u32 p, d, 0, q; selp.u32 d, a, b, p;": [
        "%v5 = LOP.AND %v1, %v2",
        "%p1, _ = ISETP.LT.U32.AND %v1, %v2, 0x1",
        "%p2, _ = ISETP.EQ.U32.AND %v5, 0x0, %p1",
        "%v6 = SEL %v1, %v2, %p2",
    ],
    "setp.lt.u32 p, a, b; setp.eq.u32 q, c, i; and.pred p, p, q; selp.u32 d, a, b, p;": [
        "%p1, _ = ISETP.EQ.U32.AND %v3, %v4, 0x1",
        "%p2, _ = ISETP.LT.U32.AND %v1, %v2, %p1",
        "%v5 = SEL %v1, %v2, %p2",
    ],
    "setp.lt.u32 p, a, b; setp.eq.u32 q, c, i; or.pred p, p, q; selp.u32 d, a, b, p;": [
        "%p1, _ = ISETP.EQ.U32.AND %v3, %v4, 0x1",
        "%p2, _ = ISETP.LT.U32.OR %v1, %v2, %p1",
        "%v5 = SEL %v1, %v2, %p2",
    ],
    "setp.lt.u32 p, a, b; setp.eq.u32 q, c, i; xor.pred p, p, q; selp.u32 d, a, b, p;": [
        "%p1, _ = ISETP.EQ.U32.AND %v3, %v4, 0x1",
        "%p2, _ = ISETP.LT.U32.XOR %v1, %v2, %p1",
        "%v5 = SEL %v1, %v2, %p2",
    ],
    "setp.le.s32 p, a, b; setp.eq.u32 q, c, i; not.pred p, p; and.pred p, p, q; selp.u32 d, a, b, p;": [
        "%p1, _ = ISETP.EQ.U32.AND %v3, %v4, 0x1",
        "%p2, _ = ISETP.GT.AND %v1, %v2, %p1",
        "%v5 = SEL %v1, %v2, %p2",
    ],
    "setp.lt.u32 p, a, b; setp.eq.u32 q, c, i; and.pred q, p, q; selp.u32 d, a, b, p; selp.u32 d, d, c, q;": [
        "%p1, _ = ISETP.LT.U32.AND %v1, %v2, 0x1",
        "%p2, _ = ISETP.EQ.U32.AND %v3, %v4, %p1",
        "%v5 = SEL %v1, %v2, %p1",
        "%v6 = SEL %v5, %v3, %p2",
    ],
    "and.b32 d, a, b; or.b32 d, d, c;": ["%v5 = LOP3.LUT %v1, %v2, %v3, lut=0xea"],
    "and.b32 d, a, b; or.b32 d, c, d;": ["%v5 = LOP3.LUT %v1, %v2, %v3, lut=0xea"],
    "not.b32 d, a; and.b32 d, d, b; xor.b32 d, d, c;": [
        "%v5 = LOP3.LUT %v1, %v2, 0x0, lut=0xc",
        "%v6 = LOP.XOR %v5, %v3",
    ],
    "and.b32 d, a, b; not.b32 d, d; or.b32 d, d, c;": [
        "%v5 = LOP3.LUT %v1, %v2, 0x0, lut=0x3f",
        "%v6 = LOP.OR %v5, %v3",
    ],
    "and.b32 d, a, b; or.b32 d, d, a;": ["%v5 = LOP3.LUT %v1, %v2, 0x0, lut=0xf0"],
    "and.b32 d, a, 15; or.b32 d, d, c;": ["%v5 = LOP3.LUT %v1, 0xf, %v3, lut=0xea"],
    "and.b32 d, a, 524288; or.b32 d, d, c;": [
        "%v5 = LOP.AND %v1, 0x80000",
        "%v6 = LOP.OR %v5, %v3",
    ],
    "and.b32 d, a, 15; or.b32 d, d, 240;": ["%v5 = LOP.AND %v1, 0xf", "%v6 = LOP.OR %v5, 0xf0"],
    "and.b32 d, a, b; or.b32 c, d, c; add.u32 d, d, c;": [
        "%v5 = LOP.AND %v1, %v2",
        "%v6 = LOP.OR %v5, %v3",
        "%v7 = IADD %v5, %v6",
    ],
    "lop3.b32 d, a, b, c, 0x96; and.b32 d, d, a;": ["%v5 = LOP3.LUT %v1, %v2, %v3, lut=0x90"],
    "lop3.b32 d, a, b, c, 0x1b; xor.b32 d, i, d;": [
        "%v5 = LOP3.LUT %v1, %v2, %v3, lut=0x1b",
        "%v6 = LOP.XOR %v4, %v5",
    ],
    "lop3.b32 d, a, b, c, 0x1b; not.b32 d, d; or.b32 d, c, d;": [
        "%v5 = LOP3.LUT %v1, %v2, %v3, lut=0x1b",
        "%v6 = LOP3.LUT %v5, %v3, 0x0, lut=0xcf",
    ],
    "xor.b32 d, a, b; xor.b32 d, d, c; xor.b32 d, d, a;": [
        "%v5 = LOP3.LUT %v1, %v2, %v3, lut=0x66"
    ],
}
LONG_SUMS = {
    "add.u64 e, 5, e;": ["%v5, %v6 = ADD64 %v1, %v2, 0x5, 0x0"],
    "add.u64 e, e, 5; add.u64 e, e, 7;": ["%v5, %v6 = ADD64 %v1, %v2, 0xc, 0x0"],
    "sub.u64 e, e, 5;": ["%v5, %v6 = ADD64 %v1, %v2, 0xfffffffb, 0xffffffff"],
    "add.u64 e, e, -1; add.u64 e, e, 3;": ["%v5, %v6 = ADD64 %v1, %v2, 0x2, 0x0"],
    "add.u64 e, e, 5; sub.u64 e, f, e;": [
        "%v5, %v6 = ADD64 %v1, %v2, 0x5, 0x0",
        "%v7, %v8 = ADD64 %v3, %v4, -%v5, -%v6",
    ],
    "add.u64 e, e, 5; sub.u64 e, e, 7;": ["%v5, %v6 = ADD64 %v1, %v2, 0xfffffffe, 0xffffffff"],
    "add.u64 e, e, f; add.u64 e, e, 7;": [
        "%v5, %v6 = ADD64 %v1, %v2, %v3, %v4",
        "%v7, %v8 = ADD64 %v5, %v6, 0x7, 0x0",
    ],
    "sub.u64 e, 9, e; add.u64 e, e, 7;": ["%v5, %v6 = ADD64 -%v1, -%v2, 0x10, 0x0"],
    "add.u64 e, 5, 0x100000003;": ["%v1, %v2 = ADD64 0x5, 0x0, 0x3, 0x1"],
    "add.u64 e, e, 5; neg.s64 e, e; add.u64 e, e, 7;": [
        "%v5, %v6 = ADD64 %v1, %v2, 0x5, 0x0",
        "%v7, %v8 = ADD64 -%v5, -%v6, 0x7, 0x0",
    ],
}
ADDRESSES = {
    "add.u32 d, a, 8; ld.shared.u32 d, [d+4];": ["%v5 = LDS.U.32 %v1, +0xc"],
    "add.u32 d, a, b; ld.shared.u32 d, [d+4];": ["%v5 = IADD %v1, %v2", "%v6 = LDS.U.32 %v5, +0x4"],
    "sub.u32 d, a, 8; ld.shared.u32 d, [d+4];": ["%v5 = LDS.U.32 %v1, +-0x4"],
    "add.u32 d, a, 8388600; ld.shared.u32 d, [d+4];": ["%v5 = LDS.U.32 %v1, +0x7ffffc"],
    "add.u32 d, a, 8388604; ld.shared.u32 d, [d+4];": [
        "%v5 = IADD %v1, 0x7ffffc",
        "%v6 = LDS.U.32 %v5, +0x4",
    ],
    "add.u32 d, a, -8388612; ld.shared.u32 d, [d+4];": ["%v5 = LDS.U.32 %v1, +-0x800000"],
    "add.u32 d, a, -8388616; ld.shared.u32 d, [d+4];": [
        "%v5 = IADD %v1, 0xff7ffff8",
        "%v6 = LDS.U.32 %v5, +0x4",
    ],
    "sub.u32 d, 8, a; ld.shared.u32 d, [d+4];": [
        "%v5 = IADD 0x8, -%v1",
        "%v6 = LDS.U.32 %v5, +0x4",
    ],
    # A base with two definitions.
    "mov.u32 d, a; setp.eq.u32 p, b, c; @p mov.u32 d, b; ld.shared.u32 i, [d+4]; mov.u32 d, i;": [
        "%v5 = MOV %v1",
        "%p1, _ = ISETP.EQ.U32.AND %v2, %v3, 0x1",
        "@%p1 %v5 = MOV %v2",
        "%v6 = LDS.U.32 %v5, +0x4",
    ],
    "mov.u32 d, 100; ld.shared.u32 d, [d+4];": ["%v1 = LDS.U.32 0x0, +0x68"],
    "mov.u32 d, 16777211; ld.shared.u32 d, [d+4];": [
        "%v1 = MOV 0xfffffb",
        "%v2 = LDS.U.32 %v1, +0x4",
    ],
    "add.u64 f, e, 16; ld.global.u32 d, [f+4];": ["%v5 = LDG.E %v1, %v2, +0x14"],
    "sub.u64 f, e, 16; ld.global.u32 d, [f+4];": ["%v5 = LDG.E %v1, %v2, +-0xc"],
    "add.u64 f, e, f; ld.global.u32 d, [f+4];": [
        "%v5, %v6 = ADD64 %v1, %v2, %v3, %v4",
        "%v7 = LDG.E %v5, %v6, +0x4",
    ],
    "add.u64 f, e, 8388600; ld.global.u32 d, [f+4];": ["%v5 = LDG.E %v1, %v2, +0x7ffffc"],
    "add.u64 f, e, 8388604; ld.global.u32 d, [f+4];": [
        "%v5, %v6 = ADD64 %v1, %v2, 0x7ffffc, 0x0",
        "%v7 = LDG.E %v5, %v6, +0x4",
    ],
    "add.u64 f, e, 4294967296; ld.global.u32 d, [f+4];": [
        "%v5, %v6 = ADD64 %v1, %v2, 0x0, 0x1",
        "%v7 = LDG.E %v5, %v6, +0x4",
    ],
    "sub.u64 f, 16, e; ld.global.u32 d, [f+4];": [
        "%v5, %v6 = ADD64 -%v1, -%v2, 0x10, 0x0",
        "%v7 = LDG.E %v5, %v6, +0x4",
    ],
}


@pytest.mark.parametrize("body", SUMS)
def test_two_operations_become_one_where_that_is_the_same(body):
    assert combined(body, "st.shared.u32 [64], d;") == SUMS[body]


@pytest.mark.parametrize("body", LONG_SUMS)
def test_numbers_are_added_up_in_sums_of_64_bits(body):
    assert combined(body, "st.shared.u64 [64], e;") == LONG_SUMS[body]


@pytest.mark.parametrize("body", ADDRESSES)
def test_a_number_that_is_added_to_an_address_becomes_its_offset_if_it_fits(body):
    assert combined(body, "st.shared.u32 [64], d;") == ADDRESSES[body]


SIGNS = {
    # Any source of a sum or a product takes the sign of a number that was negated before; only a
    # sum takes its absolute value.
    "neg.f32 d, a; add.f32 d, d, b;": ["%v5 = FADD -%v1, %v2"],
    "neg.f32 d, b; add.f32 d, a, d;": ["%v5 = FADD %v1, -%v2"],
    "neg.f32 d, a; mul.f32 d, d, b;": ["%v5 = FMUL -%v1, %v2"],
    "neg.f32 d, b; mul.f32 d, a, d;": ["%v5 = FMUL %v1, -%v2"],
    "neg.f32 d, a; fma.rn.f32 d, d, b, c;": ["%v5 = FFMA -%v1, %v2, %v3"],
    "neg.f32 d, b; fma.rn.f32 d, a, d, c;": ["%v5 = FFMA %v1, -%v2, %v3"],
    "neg.f32 d, c; fma.rn.f32 d, a, b, d;": ["%v5 = FFMA %v1, %v2, -%v3"],
    "neg.f32 d, b; min.f32 d, a, d;": ["%v5 = FMNMX %v1, -%v2, 0x1"],
    "abs.f32 d, b; add.f32 d, a, d;": ["%v5 = FADD %v1, |%v2|"],
    "abs.f32 d, b; mul.f32 d, a, d;": ["%v5 = FADD |%v2|, -0x0", "%v6 = FMUL %v1, %v5"],
}


@pytest.mark.parametrize("body", SIGNS)
def test_signs_of_numbers_in_single_precision_belong_to_their_use(body):
    assert combined(body, "st.shared.u32 [64], d;") == SIGNS[body]


CHANGED = {
    # The inner operation may not have been executed, or its source has changed.
    "@p add.u32 d, a, 3; add.u32 n, d, 4;": [
        "@%p1 %v5 = IADD %v1, 0x3",
        "%v6 = IADD %v5, 0x4",
    ],
    "@p shl.b32 d, a, 3; add.u32 n, d, c;": [
        "@%p1 %v5 = SHL %v1, 0x3",
        "%v6 = IADD %v5, %v3",
    ],
    "@p shl.b32 d, a, 3; shl.b32 n, d, 4;": [
        "@%p1 %v5 = SHL %v1, 0x3",
        "%v6 = SHL %v5, 0x4",
    ],
    "setp.lt.u32 p, a, b; @p bra X; add.u32 d, a, 3; X: add.u32 n, d, 4;": [
        "%p1, _ = ISETP.LT.U32.AND %v1, %v2, 0x1",
        "branch %p1 B2 B1",
        "B1:",
        "%v5 = IADD %v1, 0x3",
        "goto B2",
        "B2:",
        "%v6 = IADD %v5, 0x4",
    ],
    "L: add.u32 d, a, 3; add.u32 a, a, 1; add.u32 n, d, 4; setp.lt.u32 p, n, b; @p bra L;": [
        "%v5 = MOV %v1",
        "goto B1",
        "B1:",
        "%v6 = IADD %v5, 0x3",
        "%v5 = IADD %v5, 0x1",
        "%v7 = IADD %v6, 0x4",
        "%p1, _ = ISETP.LT.U32.AND %v7, %v2, 0x1",
        "branch %p1 B1 B2",
        "B2:",
    ],
    # A guard of the outer operation alone does not prevent it.
    "setp.lt.u32 p, a, b; add.u32 d, a, 3; @p add.u32 n, d, 4;": [
        "%p1, _ = ISETP.LT.U32.AND %v1, %v2, 0x1",
        "@%p1 %v5 = IADD %v1, 0x7",
    ],
}


@pytest.mark.parametrize("body", CHANGED)
def test_operations_stay_apart_where_the_inner_ones_sources_are_not_those_of_the_outer(body):
    assert combined(body, "st.shared.u32 [64], n;") == CHANGED[body]
