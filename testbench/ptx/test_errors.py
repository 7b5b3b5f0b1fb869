"""Every message about invalid PTX, except those about control flow."""

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sim.toolchain.module import ProgramError
from sim.toolchain.ptx.front_end import parse_ptx
from testbench.kernels.manifest import cubin
from testbench.ptx.text import HEADER, complaint, module_of, refused

KERNELS = [path.read_text() for path in sorted(cubin("k01_vecadd", "O0").parent.glob("*.ptx"))]
DECLARED = """.shared .align 4 .b8 sm[64]; .const .u32 cn[4] = { 1, 2 }; .local .u32 lc[4]; .param .u32 pa;
.reg .v4 .u32 v;"""
"""Declarations for the bodies here, besides those of every kernel in these tests."""

INSTRUCTIONS = [
    (
        "atom.global.cas.b16 h, [d], h, h;",
        "atom.global.cas.b16: needs sm_70, and this machine is sm_50",
    ),
    ("atom.shared.inc.u64 d, [d], d;", "atom.shared.inc has no modifier .u64 here: expected .u32"),
    ("slct.u32.u32 r, r, r, r;", "slct.u32 has no modifier .u32 here: expected .f32, .ftz, .s32"),
    (
        "set.eq.u16.u32 h, r, r;",
        "set.eq has no modifier .u16 here: expected .and, .f32, .ftz, .or, .s32, .u32, .xor",
    ),
    ("isspacep.param p, d;", "isspacep.param: needs sm_70, and this machine is sm_50"),
    # opcodes and modifiers
    ("foo.u32 r0, r1;", "unknown instruction foo"),
    (
        "add.b32 r0, r1, r2;",
        "add has no modifier .b32 here: expected .cc, .f32, .f64, .ftz, .rm, .rn, .rp, .rz, "
        ".s16, .s32, .s64, .sat, .u16, .u32, .u64",
    ),
    (
        "add.sat.u32 r0, r1, r2;",
        "add.sat has no modifier .u32 here: expected .f32, .ftz, .rm, .rn, .rp, .rz, .s32",
    ),
    ("add.cc.s16 h0, h1, h2;", "add.cc has no modifier .s16 here: expected .s32, .s64, .u32, .u64"),
    ("add.u32.u32 r0, r1, r2;", "add.u32 has no modifier .u32 here: expected .cc"),
    (
        "add r0, r1, r2;",
        "add lacks a modifier: expected .f32, .f64, .s16, .s32, .s64, .u16, .u32, .u64",
    ),
    (
        "mul.u32 r0, r1, r2;",
        "mul has no modifier .u32 here: expected .f32, .f64, .ftz, .hi, .lo, .rm, .rn, .rp, .rz, "
        ".sat, .wide",
    ),
    ("mul.lo r0, r1, r2;", "mul.lo lacks a modifier: expected .s16, .s32, .s64, .u16, .u32, .u64"),
    (
        "mul.wide.u64 d0, d1, d2;",
        "mul.wide has no modifier .u64 here: expected .s16, .s32, .u16, .u32",
    ),
    (
        "neg.u32 r0, r1;",
        "neg has no modifier .u32 here: expected .f32, .f64, .ftz, .s16, .s32, .s64",
    ),
    (
        "setp.lo.s32 p, r0, r1;",
        "setp.lo has no modifier .s32 here: expected .and, .or, .u16, .u32, .u64, .xor",
    ),
    ("cvta.param.u64 d0, d1;", "cvta.param.u64: needs sm_70, and this machine is sm_50"),
    (
        "st.const.u32 [cn], r0;",
        "st has no modifier .const here: expected .b16, .b32, .b64, .b8, .cg, "
        ".cs, .f32, .f64, .global, .local, .param, .s16, .s32, .s64, .s8, "
        ".shared, .u16, .u32, .u64, .u8, .v2, .v4, .volatile, .wb, .wt",
    ),
    ("membar;", "membar lacks a modifier: expected .cta, .gl, .sys"),
    # video instructions
    (
        "vadd4.u32.u32.u32 r0.b13, r1, r2, r3;",
        ".b13 is no choice of parts here: the usual one is .b3210",
    ),
    (
        "vadd2.u32.u32.u32 r0, r1, r2.h4, r3;",
        ".h4 is no choice of parts here: the usual one is .h32",
    ),
    (
        "vadd2.u32.u32.u32.sat.add r0, r1, r2, r3;",
        "vadd2.u32.u32.u32.sat has no modifier .add here: expected none",
    ),
    ("vadd.u32.u32 r0, r1, r2;", "vadd.u32.u32 lacks a modifier: expected .s32, .u32"),
    (
        "vadd.u32.u32.u32 r0.b1, r1, r2;",
        "vadd into .b1 takes a third number, which has the other bits",
    ),
    ("vadd.u32.u32.u32.add r0.b1, r1, r2, r3;", "r0 is a register of type .b32: it has no .b1"),
    ("vadd.u32.u32.u32 r0, r1.b4, r2;", "r1 is a register of type .b32: it has no .b4"),
    ("vadd.u32.u32.u32 r0, -r1, r2;", "- can't stand before this"),
    (
        "vmad.u32.u32.u32 r0, -r1, r2, -r3;",
        "vmad negates the product or what is added to it, not both",
    ),
    ("vmad.u32.u32.u32 r0.h0, r1, r2, r3;", "r0 is a register of type .b32: it has no .h0"),
    ("vshl.u32.u32.u32 r0, r1, r2;", "vshl.u32.u32.u32 lacks a modifier: expected .clamp, .wrap"),
    # floating point, later machines
    ("add.f16 h0, h1, h2;", "add.f16: needs sm_53, and this machine is sm_50"),
    ("cvt.f32.f16 r0, r1;", "r1 has type .b32: expected 16 bits"),
    ("cvt.f32.f16 r0, 1.0;", "there are no constants of type .f16"),
    ("cvt.rn.f16.f32 r0, r1;", "r0 has type .b32: expected 16 bits"),
    (".reg .f16x2 x;", ".f16x2: needs sm_53, and this machine is sm_50"),
    ("tanh.approx.f32 r0, r1;", "tanh.approx.f32: needs sm_75, and this machine is sm_50"),
    ("min.NaN.f32 r0, r1, r2;", "min.NaN.f32: needs sm_80, and this machine is sm_50"),
    ("fma.f32 r0, r1, r2, r3;", "fma.f32 lacks a modifier: expected .rm, .rn, .rp, .rz"),
    (
        "div.f32 r0, r1, r2;",
        "div.f32 lacks a modifier: expected .approx, .full, .rm, .rn, .rp, .rz",
    ),
    ("cvt.u32.f32 r0, r1;", "cvt.u32.f32 lacks a modifier: expected .rmi, .rni, .rpi, .rzi"),
    (
        "cvt.rn.f32.f32 r0, r1;",
        "cvt.rn.f32 has no modifier .f32 here: expected .f64, .ftz, .s16, .s32, "
        ".s64, .s8, .sat, .u16, .u32, .u64, .u8",
    ),
    (
        "setp.lo.f32 p, r0, r1;",
        "setp.lo has no modifier .f32 here: expected .and, .or, .u16, .u32, .u64, .xor",
    ),
    ("mov.u32 r0, 1.5;", "expected a whole number"),
    ("mov.b32 r0, 1.5;", "expected a whole number"),
    ("mov.u32 r0, 0f3f800000;", "expected a whole number"),
    ("mov.b64 d0, 0f3f800000;", "expected a whole number"),
    ("mov.f32 r0, 1;", "expected a floating-point number, such as 1.0 or 0f3f800000"),
    ("mov.f32 r0, 1.5+2;", "+ can't join these: one is a floating-point number"),
    ("mov.f32 r0, 1.5<<2.0;", "<< can't join these floating-point numbers"),
    ("mov.f32 r0, 1.5+0f3f800000;", "+ can't join these floating-point numbers"),
    ("mov.f32 r0, -0f3f800000;", "- can't stand before this"),
    ("mov.f32 r0, ~1.0;", "~ can't stand before this"),
    ("mov.f32 r0, 1.0/0.0;", "division by 0"),
    ("mov.f32 r0, 0f3f8000000;", "0f3f8000000: 0f wants 8 digits behind it"),
    ("ld.global.f32 r0, [1.5];", "an address is a whole number"),
    (".reg .f32 x; add.u32 r0, x, r1;", "x has type .f32: expected .u32 or bits"),
    (".reg .f32 x; ld.global.s32 x, [d0];", "x has type .f32: expected .s32 or bits"),
    (".reg .u32 x; add.f32 x, r0, r1;", "x has type .u32: expected .f32 or bits"),
    (
        "match.any.sync.b32 r0, r1, r2;",
        "match.any.sync.b32: needs sm_70, and this machine is sm_50",
    ),
    ("dp4a.u32.u32 r0, r1, r2, r3;", "dp4a.u32.u32: needs sm_61, and this machine is sm_50"),
    # number of operands
    ("add.u32 r0, r1;", "add takes 3 operands, not 2"),
    ("ret r0;", "ret takes 0 operands, not 1"),
    ("bar.sync;", "bar takes 1 to 2 operands, not 0"),
    ("bar.arrive 1;", "bar takes 2 operands, not 1"),
    ("activemask.b32 r0, r1;", "activemask takes 1 operand, not 2"),
    ("mov.u32 r0;", "mov takes 2 operands, not 1"),
    # kinds of operands
    ("add.u32 3, r1, r2;", "expected a register for the result, not an expression"),
    ("add.u32 [r0], r1, r2;", "expected a register for the result, not an address in brackets"),
    ("add.u32 r0, {r1, r2}, r2;", "expected a register or a number, not a vector"),
    ("add.u32 r0, [r1], r2;", "expected a register or a number, not an address in brackets"),
    ("add.u32 _, r1, r2;", "add needs a register for its result, not _"),
    ("add.u32 sm, r1, r2;", "expected a register: sm is a variable in shared space"),
    ("add.u32 r0, sm, r2;", "add takes no address here: mov gives a register the address"),
    ("add.u32 r0, %tid.x, r2;", "%tid is a special register: mov reads it"),
    ("add.u32 r0, %laneid, r2;", "%laneid is a special register: mov reads it"),
    ("add.u32 r0, k, r2;", "k is an entry, which can't stand here"),
    ("add.u32 r0, nobody, r2;", "nobody is not declared here"),
    ("add.u32 r0, r1, r99;", "r99 is not declared here"),
    ("add.u32 r0, r1, r01;", "r01 is not declared here"),
    ("add.u32 r0, r1|r2, r2;", "| can't join these: only a number can be added to a name"),
    ("add.u32 r0, -r1, r2;", "- can't stand before this"),
    ("and.b32 r0, !r1, r2;", "! can't stand before this"),
    ("setp.lt.u32 p, r1, r2, q;", "setp takes 3 operands, not 4"),
    ("setp.lt.u32 _|_, r1, r2;", "one of both results needs a register"),
    ("not.pred p, !q;", "not takes no negated predicate here"),
    ("and.pred p, -q, p;", "- can't stand before this"),
    ("and.pred p, q, +p;", "+ can't stand before this"),
    ("xor.pred p, ~q, p;", "~ can't stand before this"),
    ("mov.pred p, -q;", "- can't stand before this"),
    ("selp.u32 r0, r1, r2, -p;", "- can't stand before this"),
    ("setp.lt.and.u32 p, r1, r2, ~q;", "~ can't stand before this"),
    ("and.pred p, !(q), p;", "! can't stand before this"),
    ("add.u32 r0, 4+h0, r1;", "h0 has type .b16: expected 32 bits"),
    ("add.u32 r0, r1, h0+4;", "h0 has type .b16: expected 32 bits"),
    ("add.u32 r0, (4+h0)-2, r1;", "h0 has type .b16: expected 32 bits"),
    ("st.global.u64 [d0], 1+r1;", "r1 has type .b32: expected 64 bits or more"),
    ("lop3.b32 r0, r1, r2, r3, 256;", "expected a number from 0 to 255"),
    ("lop3.b32 r0, r1, r2, r3, t;", "expected a number from 0 to 255"),
    ("isspacep.shared p, 4;", "expected a register"),
    ("pmevent 16;", "expected a number from 0 to 15"),
    ("bar.sync 16;", "16 is not from 0 to 15"),
    ("bar.sync 1, 33;", "33 is not a multiple of 32 from 32 to 1024"),
    ("bar.red.popc.u32 r0, 1, 0, p;", "0 is not a multiple of 32 from 32 to 1024"),
    # sizes
    ("add.u32 r0, r1, d1;", "d1 has type .b64: expected 32 bits"),
    ("add.u64 d0, d1, r1;", "r1 has type .b32: expected 64 bits"),
    ("add.u16 r0, h1, h2;", "r0 has type .b32: expected 16 bits"),
    ("mul.wide.u32 r0, r1, r2;", "r0 has type .b32: expected 64 bits"),
    ("shl.b64 d0, d1, d2;", "d2 has type .b64: expected 32 bits"),
    ("selp.u32 r0, r1, r2, r3;", "r3 has type .b32: expected a predicate"),
    ("add.u32 r0, r1, p;", "p has type .pred: expected 32 bits"),
    ("and.pred p, q, r1;", "r1 has type .b32: expected a predicate"),
    ("cvt.u8.u32 r0, h0;", "h0 has type .b16: expected 32 bits or more"),
    ("cvt.u64.u32 r0, r1;", "r0 has type .b32: expected 64 bits or more"),
    ("ld.global.u64 r0, [d0];", "r0 has type .b32: expected 64 bits or more"),
    ("mov.u32 r0, %clock64;", "%clock64 has 64 bits, not 32"),
    ("mov.u64 d0, %tid.x;", "%tid has 32 bits, not 64"),
    ("mov.u32 r0, %tid;", "expected %tid.x, .y, .z or .w"),
    ("mov.u32 r0, %laneid.x;", "%laneid has no .x"),
    ("mov.u32 r0, %nothing;", "%nothing is not declared here"),
    # addresses
    ("ld.global.u32 r0, d0;", "expected an address in brackets, not an expression"),
    ("ld.global.u32 r0, {d0, d1};", "expected an address in brackets, not a vector"),
    ("ld.global.u32 r0, [r1];", "r1 has type .b32: an address in global space has 64 bits"),
    ("ld.u32 r0, [r1];", "r1 has type .b32: a generic address has 64 bits"),
    ("ld.shared.u32 r0, [h1];", "h1 has type .b16: an address in shared space has 32 or 64 bits"),
    ("ld.global.u32 r0, [sm];", "sm is in shared space, not in global space"),
    ("st.param.u32 [d0], r0;", "an entry's parameters can't be changed"),
    ("ld.param.u32 r0, [8];", "a parameter is accessed by its name"),
    ("st.u32 [cn], r0;", "const space can't be changed"),
    ("st.param.u64 [o], d0;", "o is a parameter that the function is given: it can't be changed"),
    ("ld.global.u32 r0, [d0+0x100000000];", "an offset of 0x100000000 does not fit 32 bits"),
    ("ld.global.u32 r0, [d0-0x80000001];", "an offset of -0x80000001 does not fit 32 bits"),
    ("st.shared.u32 [sm+0x100000000], r0;", "an offset of 0x100000000 does not fit 32 bits"),
    ("ld.shared.u32 r0, [0x100000000];", "an offset of 0x100000000 does not fit 32 bits"),
    ("ld.shared.u32 r0, [sm[0x100000000]];", "an offset of 0x100000000 does not fit 32 bits"),
    ("ld.global.u32 r0, [d0*2];", "* can't join these: only a number can be added to a name"),
    ("ld.global.u32 r0, [3-d0];", "- can't join these: only a number can be added to a name"),
    ("ld.global.u32 r0, [d0+d1];", "+ can't join these: only a number can be added to a name"),
    ("ld.global.u32 r0, [p];", "p has type .pred: an address in global space has 64 bits"),
    ("ld.global.u32 r0, [d0[1]];", "d0 is no array"),
    ("ld.global.u32 r0, [sm[d0]];", "the index of sm is no constant"),
    (
        "mov.u64 d0, pa;",
        "pa is no parameter of the function, and has no address: ld.param reads it",
    ),
    ("mov.u16 h0, o;", "the address of o does not fit 16 bits"),
    ("mov.u16 h0, sm;", "the address of sm does not fit 16 bits"),
    ("mov.u16 h0, f;", "the address of f has 32 or 64 bits, and nothing is added to it"),
    ("mov.u32 r0, f+4;", "the address of f has 32 or 64 bits, and nothing is added to it"),
    ("ld.global.u32 r0, [f];", "f is a function: it has no place in memory"),
    ("mov.u64 d0, generic(sm);", "generic() of a variable in shared space: use cvta"),
    ("mov.u64 d0, other(sm);", "expected generic(variable), not other(...)"),
    ("cvta.shared.u64 d0, lc;", "lc is in local space"),
    # vectors
    ("ld.global.v2.u32 r0, [d0];", "expected a vector of 2 elements, such as {a, b}"),
    ("ld.global.v2.u32 {r0, r1, r2}, [d0];", "expected a vector of 2 elements, such as {a, b}"),
    ("ld.global.v2.u32 v, [d0];", "expected a vector of 2 elements, such as {a, b}"),
    ("ld.global.v4.u64 {d0, d1, d2, d3}, [d0];", "4 times 64 bits are more than 128"),
    ("mov.u32 v.q, 1;", "v has 4 elements, and no .q"),
    ("mov.u32 r0.x, 1;", "r0 is a register of type .b32: it has no .x"),
    (
        "mov.u32 r0, v;",
        "mov.u32 moves no vector of 4: expected .b16, .b32 or .b64, in 2 parts or 4",
    ),
    (
        "mov.v2.pred {p, q}, {q, p};",
        "mov.v2 has no modifier .pred here: expected .b16, .b32, .b64, .f32, .f64, .s16, "
        ".s32, .s64, .u16, .u32, .u64",
    ),
    ("mov.b64 {r0, r1}, {r2, r3};", "mov takes vectors on both sides only with .v2 or .v4"),
    (
        "mov.b64 d0, {r0, r1, r2};",
        "mov.b64 moves no vector of 3: expected .b16, .b32 or .b64, in 2 parts or 4",
    ),
    ("mov.b64 d0, {r0, h1};", "h1 has type .b16: expected 32 bits"),
    # expressions
    ("mov.u32 r0, 08;", "08 is no octal number, which a leading 0 makes it"),
    ("mov.u64 d0, 0x10000000000000000;", "0x10000000000000000 does not fit 64 bits"),
    (f"mov.u32 r0, {'1' * 5000};", "a number of 5000 characters is too large"),
    (f"mov.u32 r0, {'1' * 5000}U;", "a number of 5000 characters is too large"),
    (f".reg .u32 x<{'1' * 5000}>;", "a number of 5000 characters is too large"),
    (f".shared .u32 x[{'1' * 5000}];", "a number of 5000 characters is too large"),
    (f"mov.u32 r{'1' * 5000}, 1;", f"r{'1' * 5000} is not declared here"),
    ("mov.u32 r0, 1/0;", "division by 0"),
    ("mov.u32 r0, 1%(2-2);", "division by 0"),
    ("mov.u32 r0, 1~2;", "~ stands between two operands, where it means nothing"),
    ("mov.u32 r0, (1, 2);", "expected one expression between parentheses"),
    ("mov.u32 r0, ();", "expected one expression between parentheses"),
    ("mov.u32 r0, ([d0]);", "expected one expression between parentheses"),
    # declarations in a body
    (".reg x;", "the declaration has no type"),
    (".reg .u32 .u64 x;", ".u64: expected one type of numbers or predicates"),
    (
        ".reg .u32 x[3];",
        "x is a register: it has neither dimensions nor a first value nor a linkage",
    ),
    (
        ".reg .u32 x = 3;",
        "x is a register: it has neither dimensions nor a first value nor a linkage",
    ),
    (
        ".visible .reg .u32 x;",
        "x is a register: it has neither dimensions nor a first value nor a linkage",
    ),
    (".reg .v2 .u32 x<3>;", "x is a range of vectors: expected registers of one element"),
    (".reg .u32 _;", "_ can't be declared"),
    (".shared .u32 _;", "_ can't be declared"),
    (".reg .u32 r3;", "r3 is declared twice in the same scope, first in line 6"),
    (".reg .u32 x1; .reg .u32 x<3>;", "x1 is declared twice in the same scope, first in line 11"),
    (
        ".reg .u32 x<20>; .reg .u32 x1<3>;",
        "x10 is declared twice in the same scope, first in line 11",
    ),
    (".reg .u32 x<2000000>;", "x<2000000> are too many registers: 1048576 at most"),
    (".shared .pred x;", "a predicate has no place in shared space"),
    (".shared .u32 x[];", "x has no size: only an extern array in shared space may be open"),
    (".shared .u32 x[4][];", "only the first dimension of x may be open"),
    (".shared .u32 x[-1];", "x has no -1 elements"),
    (".shared .u32 x[t];", "t is no constant"),
    (".shared .u32 x[4000000000];", "x has 16000000000 bytes: 268435456 at most"),
    (".shared .u32 x<9999>;", "x<9999>: expected at most 4096 variables, without first values"),
    (".shared .align 3 .u32 x;", "an alignment of 3: expected a power of 2 up to 256"),
    (
        ".shared .u32 x = 4;",
        "x is in shared space: only const and global variables have first values",
    ),
    (".global .u32 x = { 4 };", "x is no array: it has one first value"),
    (".global .u32 x[2] = 4;", "x is an array: its first values stand in braces"),
    (".global .u32 x[2] = { 1, 2, 3 };", "x has 2 elements and 3 first values"),
    (".global .u32 x[2] = { { 1 }, 2 };", "x has fewer dimensions than its first values"),
    (
        ".global .u32 x[2] = { t };",
        "expected a number, a function or a variable: t is a register of type .b32",
    ),
    (".global .u32 x[2] = { k };", "expected a number, a function or a variable: k is an entry"),
    (".global .u16 x[2] = { f };", "the address of f does not fit 16 bits"),
    ("cvta.global.u64 d0, cn;", "cn is in const space"),
    ("cvta.global.u64 d0, %clock64;", "expected an address"),
    ("isspacep.global p, 5;", "expected a register"),
    (
        "mov.u64 d0, 0xFF(sm);",
        "a byte of an address is a first value of a variable, and nothing else",
    ),
    (
        ".reg .f32 s; mov.f32 s, s+1;",
        "s has type .f32: a number is added to a register of 16, 32 or 64 bits, of integers or bits",
    ),
    ("ld.global.u32 r0, [d0, {r1}];", "an address is one sum"),
    ("mov.v4.u64 {d0, d1, d2, d3}, {d0, d1, d2, d3};", "4 times 64 bits are more than 128"),
    (
        "mov.v2.u32 {r0, r1}, %tid;",
        "%tid has four elements of 32 bits: expected .v4 and .u32 or .u16",
    ),
    (
        "mov.v2.u64 {d0, d1}, %tid;",
        "%tid has four elements of 32 bits: expected .v4 and .u32 or .u16",
    ),
    ("bra;", "bra takes 1 operand, not 0"),
    ("bra.uni a, b;", "bra takes 1 operand, not 2"),
    ("ret r0;", "ret takes 0 operands, not 1"),
    ("brx.idx r0;", "brx takes 2 operands, not 1"),
    ("bar.sync;", "bar takes 1 to 2 operands, not 0"),
    (
        ".global .u64 x = generic(sm);",
        "sm is in shared space, which has no addresses before a kernel runs: every kernel has its own",
    ),
]


@pytest.mark.parametrize(("text", "message"), INSTRUCTIONS)
def test_a_wrong_statement_is_named(text, message):
    assert refused(f"{DECLARED}\n{text}", ".func f() { ret; }") == f"3: {message}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (".func f {", "1:9: the text ends here: expected '@', '{', '}', a directive or a name"),
        (
            ".func f { mov.u32 a b; }",
            "1:21: unexpected 'b': expected '(', ',', ';', '?', '[', a modifier or an operator",
        ),
        (".func f { ret; ` }", "1:16: unexpected '`'"),
        ("foo", "1:1: unexpected 'foo': expected ';', a directive or the end of the text"),
        (".entry (.reg .u32 r) k() { ret; }", "1:22: k is an entry: it has no results"),
        (
            ".entry k(.reg .u32 a) { ret; }",
            "1:20: a is a register: parameters of an entry are in param space",
        ),
        (".func f(.shared .u32 a) { ret; }", "1:9: a is in shared space: expected .param or .reg"),
        (".func f(.param .pred a) { ret; }", "1:9: a predicate has no place in param space"),
        (".func f(.param .u32 a[]) { ret; }", "1:21: a has no size"),
        (".func f(.param .u32 a[9000]) { ret; }", "1:21: a has 36000 bytes: 32768 at most"),
        (".func f(.param .u32 a[0]) { ret; }", "1:21: a has no size"),
        (
            ".entry f(.param .b8 a[4353]) { ret; }",
            "1:8: f has 4353 bytes of parameters: 4352 at most",
        ),
        (
            ".entry f(.param .b8 a[2000], .param .b8 b[2353]) { ret; }",
            "1:8: f has 4353 bytes of parameters: 4352 at most",
        ),
        (".func f(.reg .u32 a[2]) { ret; }", "1:19: a is a register: it has no dimensions"),
        (
            ".func f(.reg .u32 a, .reg .u32 a) { ret; }",
            "1:32: a is declared twice in the same scope, first in line 4",
        ),
        (
            ".func f() { ret; }\n.global .u32 f;",
            "2:14: f is declared twice in the same scope, first in line 4",
        ),
        (
            ".reg .u32 x;",
            "1:11: x is declared outside of any function: registers are a function's own",
        ),
        (".local .u32 x;", "1:1: a variable in local space is declared in a function"),
        (".global .f16 x = 1.0;", "1:18: there are no constants of type .f16"),
        (
            ".global .f32 x = 1;",
            "1:18: expected a floating-point number, such as 1.0 or 0f3f800000",
        ),
        (".global .u32 x = 1.0;", "1:18: expected a whole number"),
        (".address_size 32", "1:15: addresses of 32 bits: this machine has 64-bit ones"),
        (".version 7.8", "1:10: expected one .version, such as 7.8"),
        (".target sm_90", "1:9: target sm_90: this machine is sm_50, which runs sm_10 to sm_50"),
    ],
)
def test_a_wrong_module_is_named(text, message):
    assert complaint(text) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "t: expected .version and .target first"),
        (".global .u32 x;", "t:1:1: expected .version and .target first"),
        (".version 7.8\n.func f() { ret; }", "t:2:7: expected .version and .target first"),
        (".version 1e5\n", "t:1:10: expected one .version, such as 7.8"),
        (
            HEADER + ".global .u32 x = " + "(" * 9999 + "1" + ")" * 9999 + ";",
            "t: braces, parentheses or signs are nested too deeply",
        ),
    ],
)
def test_a_text_that_is_no_module_is_refused(text, message):
    with pytest.raises(ProgramError) as caught:
        parse_ptx(text, "t")
    assert str(caught.value) == message


def test_remarks_are_read_over():
    text = """.file 1 "a.cu"
        .section .debug_str { .b8 1, 2 }
        // a comment
        .pragma "nounroll"; /* and
        another */ .func f() .noreturn { .loc 1 2 3
        .pragma "x"; ret; }
        @@DWARF .byte 3
        .entry k() .maxntid 32, 1, 1 .minnctapersm 2 { .loc 1 3 4, function_name $L1, inlined_at 1 2 3
        ret; }"""
    assert set(module_of(text).functions) == {"f", "k"}


def test_visibility_of_functions_and_placement_of_variables():
    module = module_of(""".func f(); .visible .func f() { ret; } .weak .func g() { ret; } .func h() { ret; }
        .visible .global .v4 .u32 x; .const .align 32 .b8 y[3]; .shared .u64 z;
        .extern .shared .align 8 .b8 dynamic[];""")
    assert [function.linkage.value for function in module.functions.values()] == [
        "visible",
        "weak",
        "",
    ]
    found = [
        (variable.linkage.value, variable.alignment, variable.count, variable.size)
        for variable in module.variables
    ]
    assert found == [("visible", 16, 4, 16), ("", 32, 3, 3), ("", 8, 1, 8), ("extern", 8, None, 0)]


# Mutations of the kernels' text: they are accepted, or refused with a message of one line.

PIECES = st.sampled_from(
    [
        "",
        " ",
        ";",
        ",",
        "{",
        "}",
        "(",
        ")",
        "[",
        "]",
        "@",
        "!",
        ":",
        "|",
        "+",
        "-",
        ".",
        "..",
        "%",
        "_",
        "<",
        ">",
        "=",
        "/*",
        "//",
        '"',
        "\n",
        "\0",
        "é",
        "0",
        "0x",
        "08",
        "1.5",
        "99999999999999999999",
        "-1",
        ".u32",
        ".u64",
        ".pred",
        ".f32",
        ".v2",
        ".v4",
        ".reg",
        ".param",
        ".shared",
        ".entry",
        ".func",
        ".version",
        ".target",
        ".branchtargets",
        ".calltargets",
        ".callprototype",
        "bra",
        "call",
        "brx.idx",
        "ret",
        "ld.global.u32",
        "mov",
        "r1",
        "d1",
        "p",
        "%tid.x",
        "k",
        "o",
        "L:",
        "x: .branchtargets L;",
        "{ .reg .b32 r1; }",
        "generic(o)",
        ".align 8",
        ".loc 1 1",
        ".section x {",
        ".pragma",
    ]
)
CHANGES = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 12), PIECES), min_size=1, max_size=4)


@settings(max_examples=300)
@given(st.sampled_from(KERNELS), CHANGES)
@example(KERNELS[0], [(0.0, 0, "\ud800")])
def test_mutations_are_programs_or_get_one_line(text, changes):
    for where, length, piece in changes:
        at = int(where * len(text))
        text = text[:at] + piece + text[at + length :]
    check(text)


@settings(max_examples=300)
@given(
    st.sampled_from(KERNELS),
    st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=3),
)
def test_texts_with_words_in_other_places_are_programs_or_get_one_line(text, changes):
    words = re.findall(r"\s+|[\w%$]+|.", text)
    for target, source in changes:
        words[int(target * (len(words) - 1))] = words[int(source * (len(words) - 1))]
    check("".join(words))


def check(text: str) -> None:
    try:
        parse_ptx(text, "k.ptx")
    except ProgramError as error:
        assert re.fullmatch(r"k\.ptx(:\d+:\d+)?: .+", str(error))
        assert len(str(error)) < 1000
