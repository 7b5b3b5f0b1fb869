"""The PTX interpreter: instructions on chosen numbers, memory, interaction of threads, and refused
instructions.
"""

import math
import re
import struct

import pytest

from rtl.params import WARP_THREADS
from sim.launch import Buffer, Scalar
from sim.model.ptx.launch import place
from sim.model.ptx.program import KNOWN
from sim.model.ptx.run import PtxRunError, run
from sim.toolchain.module import ProgramError
from sim.toolchain.ptx.forms import Dialect, forms, opcodes
from testbench.ptx.text import END, HEADER, KERNEL, kernel, module_of, placed, words_left
from testbench.words import contents

LONG = (1 << 64) - 1


def result(body: str, *values: int, bits: int = 32) -> int:
    """Returns the result of one thread in r0, or d2 of 64 bits, for values of that width in r1.. or
    d3..
    """
    step = bits // 8
    names = [f"r{1 + number}" if bits == 32 else f"d{3 + number}" for number in range(len(values))]
    loads = " ".join(
        f"ld.global.u{bits} {name}, [d0+{64 + number * step}];" for number, name in enumerate(names)
    )
    words = [0] * 16 + [
        value >> shift & 0xFFFF_FFFF for value in values for shift in range(0, bits, 32)
    ]
    store = f"st.global.u{bits} [d0], {'r0' if bits == 32 else 'd2'}; ret; }}"
    left = words_left(f"{KERNEL} {loads} {body} {store}", words, 1)
    return left[0] | (left[1] << 32 if bits == 64 else 0)


@pytest.mark.parametrize(
    ("body", "values", "expected"),
    [
        ("add.u32 r0, r1, r2;", (0xFFFF_FFFF, 2), 1),
        ("add.sat.s32 r0, r1, r2;", (0x7FFF_FFFF, 1), 0x7FFF_FFFF),
        ("sub.sat.s32 r0, r1, r2;", (0x8000_0000, 1), 0x8000_0000),
        ("add.cc.u32 r0, r1, r2; addc.u32 r0, 0, 0;", (0xFFFF_FFFF, 1), 1),
        ("sub.cc.u32 r0, r1, r2; subc.u32 r0, 7, 0;", (1, 2), 6),
        ("sub.cc.u32 r0, r1, r2; subc.u32 r0, 7, 0;", (2, 2), 7),
        ("add.cc.u32 r0, r1, r2; subc.u32 r0, 7, 0;", (1, 2), 6),
        ("sub.cc.u32 r0, r1, r2; addc.u32 r0, 7, 0;", (1, 2), 7),
        ("mad.lo.cc.u32 r0, r1, r2, 1; madc.hi.u32 r0, r1, r2, 5;", (0xFFFF_FFFF, 0xFFFF_FFFF), 3),
        ("mad.lo.cc.u32 r0, r1, r2, -1; madc.hi.u32 r0, r1, r2, 5;", (0xFFFF_FFFF, 0xFFFF_FFFF), 4),
        ("mul.hi.s32 r0, r1, r2;", (0x8000_0000, 2), 0xFFFF_FFFF),
        ("mul.hi.u32 r0, r1, r2;", (0x8000_0000, 2), 1),
        ("mad.hi.sat.s32 r0, r1, r2, 0x7fffffff;", (0x4000_0000, 16), 0x7FFF_FFFF),
        ("mul24.lo.s32 r0, r1, r2;", (0xFF80_0000, 1), 0xFF80_0000),
        ("mul24.hi.u32 r0, r1, r2;", (0xFF, 0x1_0000), 0xFF),
        ("sad.s32 r0, r1, r2, 10;", (0xFFFF_FFFE, 3), 15),
        ("div.s32 r0, r1, r2;", (-7 & 0xFFFF_FFFF, 2), -3 & 0xFFFF_FFFF),
        ("rem.s32 r0, r1, r2;", (-7 & 0xFFFF_FFFF, 2), -1 & 0xFFFF_FFFF),
        ("div.s32 r0, r1, r2;", (0x8000_0000, 0xFFFF_FFFF), 0x8000_0000),
        ("div.u32 r0, r1, r2;", (7, 0), 0xFFFF_FFFF),
        ("rem.u32 r0, r1, r2;", (7, 0), 0xFFFF_FFFF),
        ("min.s32 r0, r1, r2;", (0xFFFF_FFFF, 1), 0xFFFF_FFFF),
        ("max.u32 r0, r1, r2;", (0xFFFF_FFFF, 1), 0xFFFF_FFFF),
        ("abs.s32 r0, r1;", (0x8000_0000,), 0x8000_0000),
        ("cnot.b32 r0, r1;", (0,), 1),
        ("lop3.b32 r0, r1, r2, r3, 0xca;", (0xF0, 0xCC, 0xAA), 0xCA),
        ("shl.b32 r0, r1, r2;", (1, 32), 0),
        ("shl.b32 r0, r1, r2;", (1, 0x8000_001F), 0),
        ("shr.s32 r0, r1, r2;", (0x8000_0000, 99), 0xFFFF_FFFF),
        ("shf.l.wrap.b32 r0, r1, r2, 36;", (0xABCD_EF01, 0x2345_6789), 0x3456_789A),
        ("shf.l.clamp.b32 r0, r1, r2, 36;", (0xABCD_EF01, 0x2345_6789), 0xABCD_EF01),
        ("shf.r.clamp.b32 r0, r1, r2, 99;", (0xABCD_EF01, 0x2345_6789), 0x2345_6789),
        ("bfe.u32 r0, r1, 28, 8;", (0xF000_0001,), 0xF),
        ("bfe.s32 r0, r1, 28, 8;", (0xF000_0001,), 0xFFFF_FFFF),
        ("bfe.s32 r0, r1, 4, 0;", (0xFFFF_FFFF,), 0),
        ("bfe.s32 r0, r1, 40, 3;", (0x8000_0000,), 0xFFFF_FFFF),
        ("bfi.b32 r0, r1, r2, 28, 8;", (0xAB, 0x0123_4567), 0xB123_4567),
        ("bfind.s32 r0, r1;", (0xFFFF_FFFF,), 0xFFFF_FFFF),
        ("bfind.u32 r0, r1;", (0x10,), 4),
        ("bfind.shiftamt.u32 r0, r1;", (0x10,), 27),
        ("clz.b32 r0, r1;", (0,), 32),
        ("brev.b32 r0, r1;", (0x8000_0001,), 0x8000_0001),
        ("prmt.b32 r0, r1, r2, 0x7c10;", (0x0302_0180, 0x8706_0504), 0x8700_0180),
        ("prmt.b32 r0, r1, r2, 0x8;", (0x0302_0180, 0x8706_0504), 0x8080_80FF),
        ("prmt.b32.b4e r0, r1, r2, 1;", (0x0302_0100, 0x0706_0504), 0x0607_0001),
        ("prmt.b32.ecl r0, r1, r2, 2;", (0x0302_0100, 0), 0x0302_0202),
        ("prmt.b32.rc16 r0, r1, r2, 1;", (0x0302_0100, 0), 0x0302_0302),
        ("setp.lt.s32 p|q, r1, r2; selp.u32 r0, 1, 2, q;", (0xFFFF_FFFF, 0), 2),
        ("setp.lo.u32 p, r1, r2; selp.u32 r0, 1, 2, !p;", (0xFFFF_FFFF, 0), 1),
        (
            "setp.eq.u32 q, r1, r1; setp.lt.and.u32 p|q, r1, r2, !q; selp.u32 r0, 1, 2, q;",
            (1, 0),
            2,
        ),
        ("set.gt.s32.u32 r0, r1, r2;", (0xFFFF_FFFF, 0), 0xFFFF_FFFF),
        ("slct.u32.s32 r0, 5, 6, r1;", (0x8000_0000,), 6),
        ("slct.u32.s32 r0, 5, 6, r1;", (0,), 5),
        ("cvt.s32.s8 r0, r1;", (0x1_80,), 0xFFFF_FF80),
        ("cvt.u8.u32 r0, r1;", (0x1_80,), 0x80),
        ("cvt.s8.u32 r0, r1;", (0x1_80,), 0xFFFF_FF80),
        ("cvt.sat.u8.s32 r0, r1;", (0xFFFF_FFFF,), 0),
        ("cvt.sat.s16.u32 r0, r1;", (0xFFFF_FFFF,), 0x7FFF),
        ("mov.b32 {h0, h1}, r1; mov.b32 r0, {h1, h0};", (0x1234_5678,), 0x5678_1234),
        ("mov.b32 {_, h1}, r1; cvt.u32.u16 r0, h1;", (0x1234_5678,), 0x1234),
        (
            "mov.pred p, 1; and.pred q, p, !p; or.pred q, q, 0; xor.pred p, p, q; selp.u32 r0, 1, 2, p;",
            (),
            1,
        ),
        ("mov.u32 r0, (1 << 4 | 3) * 2 - ~0;", (), 39),
        (
            "mov.u32 r0, -7 / 2 + (7 > 3) + (2 && !0) + (0x8000000000000000 > 1) + 5 % 3 + (-1 > 0U);",
            (),
            -3 + 3 + 2 + 1,
        ),
        ("mov.u32 r0, 20 - 3 - 2 - 48 / 8 / 2;", (), 12),
        ("mov.u32 r0, WARP_SZ;", (), 32),
    ],
)
def test_numbers_of_32_bits(body, values, expected):
    assert result(body, *values) == expected


@pytest.mark.parametrize(
    ("body", "values", "expected"),
    [
        ("mul.wide.s32 d2, r1, r2;", (-3 & 0xFFFF_FFFF, 5), -15 & LONG),
        ("mad.wide.u32 d2, r1, r2, 1;", (0xFFFF_FFFF, 0xFFFF_FFFF), 0xFFFF_FFFE_0000_0002),
        ("mov.b64 d2, {r1, r2};", (0x89AB_CDEF, 0x0123_4567), 0x0123_4567_89AB_CDEF),
        ("cvt.s64.s32 d2, r1;", (0x8000_0000,), 0xFFFF_FFFF_8000_0000),
        ("cvt.u64.u32 d2, %ntid.x;", (), 1),
    ],
)
def test_numbers_that_become_wide(body, values, expected):
    loads = "".join(
        f"ld.global.u32 r{1 + number}, [d0+{64 + 4 * number}];" for number in range(len(values))
    )
    left = words_left(
        f"{KERNEL} {loads} {body} st.global.u64 [d0], d2; ret; }}", [0] * 16 + list(values), 1
    )
    assert left[0] | left[1] << 32 == expected


@pytest.mark.parametrize(
    ("body", "values", "expected"),
    [
        ("mul.hi.s64 d2, d3, d4;", (LONG, 2), LONG),
        ("div.s64 d2, d3, d4;", (-9 & LONG, 4), -2 & LONG),
        ("shr.s64 d2, d3, 70;", (1 << 63,), LONG),
        ("bfe.s64 d2, d3, 60, 3;", (0x7000_0000_0000_0000,), LONG),
        ("bfi.b64 d2, d3, d4, 8, 16;", (0xABCD, LONG), 0xFFFF_FFFF_FFAB_CDFF),
        ("brev.b64 d2, d3;", (1,), 1 << 63),
        ("popc.b64 r1, d3; cvt.u64.u32 d2, r1;", (LONG,), 64),
        ("max.s64 d2, d3, d4;", (LONG, 1), 1),
        ("add.cc.u64 d2, d3, d4; addc.u64 d2, d4, 0;", (LONG, 5), 6),
        ("cvt.sat.s64.u64 d2, d3;", (LONG,), LONG >> 1),
    ],
)
def test_numbers_of_64_bits(body, values, expected):
    assert result(body, *values, bits=64) == expected


def test_every_instruction_of_the_language_is_known():
    assert {
        form.opcode for opcode in opcodes() for form in forms(opcode, Dialect((1, 0), 10))
    } <= KNOWN


# Memory


def test_every_thread_has_its_local_memory_and_every_cta_its_shared_memory():
    body = """.shared .u32 s; .local .u32 x[3]; st.local.u32 [x+8], t; mov.u32 r1, s; setp.eq.u32 p, t, 0;
        @p atom.shared.add.u32 r2, [r1], 5; bar.sync 0; ld.local.u32 r3, [x+8]; ld.shared.u32 r4, [s];
        mad.lo.u32 r0, r4, 1000, r3;"""
    launch = place(
        module_of(KERNEL + body + END), [Buffer("o", bytes(256))], grid=(3, 1, 1), block=(40, 1, 1)
    )
    run(launch)
    assert contents(launch, "o")[:40] == [5000 + t for t in range(40)]


def test_local_memory_of_a_function_is_free_again_when_it_returns():
    before = """.func (.reg .u32 r) f (.reg .u32 n)
        { .local .u32 x[100]; st.local.u32 [x+396], n; ld.local.u32 r, [x+396]; ret; }"""
    body = (
        "mov.u32 r0, 0; L: call (r1), f, (1); add.u32 r0, r0, r1; setp.lt.u32 p, r0, 99; @p bra L;"
    )
    assert kernel(body, before) == [99] * 32


def test_generic_addresses_reach_every_space():
    body = """.shared .u32 s[2]; .local .u32 x[2]; mov.u64 d2, s; cvta.shared.u64 d2, d2; cvta.local.u64 d3, x;
        st.u32 [d3+4], t; setp.eq.u32 p, t, 3; @p st.u32 [d2+4], 70; bar.sync 0; ld.shared.u32 r1, [s+4];
        ld.local.u32 r2, [x+4]; isspacep.shared p, d2; selp.u32 r3, 100, 0, p; isspacep.local p, d3;
        selp.u32 r4, 200, 0, p; isspacep.global p, d0; selp.u32 r5, 400, 0, p; isspacep.const p, d0;
        selp.u32 r6, 800, 0, p; cvta.to.shared.u64 d2, d2; ld.shared.u32 r7, [d2+4];
        add.u32 r0, r1, r2; add.u32 r0, r0, r3; add.u32 r0, r0, r4; add.u32 r0, r0, r5; add.u32 r0, r0, r6;
        add.u32 r0, r0, r7;"""
    assert kernel(body) == [70 + t + 100 + 200 + 400 + 70 for t in range(32)]


def test_the_first_word_of_shared_and_of_local_memory_has_a_generic_address():
    body = """.shared .u32 s; .local .u32 x; mov.u64 d2, s; cvta.shared.u64 d2, d2; cvta.local.u64 d3, x;
        st.u32 [d3], t; setp.eq.u32 p, t, 3; @p st.u32 [d2], 70; bar.sync 0; ld.shared.u32 r1, [s];
        ld.local.u32 r2, [x]; add.u32 r0, r1, r2;"""
    assert kernel(body) == [70 + t for t in range(32)]


def test_constants_have_generic_addresses():
    before = """.const .u32 a = 5; .const .u32 c[4] = { 10, 20, 30, 40 }; .const .u64 at = generic(c)+4;
        .const .u64 in = c+8; .global .u64 g[2] = { generic(c), c };
        """
    body = """mov.u64 d2, c; cvta.const.u64 d3, d2; ld.u32 r0, [d3+12]; ld.const.u64 d4, [at]; ld.global.u32 r1, [d4];
        add.u32 r0, r0, r1; ld.const.u64 d5, [in]; ld.const.u32 r1, [d5]; mad.lo.u32 r0, r1, 100, r0; mov.u64 d6, g;
        ld.global.u64 d7, [d6]; ld.u32 r1, [d7]; mad.lo.u32 r0, r1, 1000, r0; ld.global.u64 d8, [d6+8];
        sub.u64 d8, d8, d2; cvt.u32.u64 r1, d8; add.u32 r0, r0, r1; cvta.to.const.u64 d9, d4; sub.u64 d9, d9, d2;
        cvt.u32.u64 r1, d9;
        mad.lo.u32 r0, r1, 100000, r0; isspacep.const p, d3; @p add.u32 r0, r0, 1000000; isspacep.global p, d3;
        @p add.u32 r0, r0, 2000000; isspacep.const p, d0; @p add.u32 r0, r0, 4000000; isspacep.global p, d0;
        @p add.u32 r0, r0, 8000000;"""
    assert (
        kernel(body, before)[0]
        == 40 + 20 + 30 * 100 + 10 * 1000 + 4 * 100_000 + 1_000_000 + 8_000_000
    )


def test_variables_begin_as_they_are_declared():
    before = """.global .align 8 .b8 bytes[] = { 1, 2, 0xFF, -1 }; .const .v2 .u16 pair = { 3, 4 };
        .global .u32 grid[2][3] = { { 1 }, { 4, 5 } }; .global .u64 at = grid+16; .global .u64 same = generic(grid);
        .const .u32 many<2>;"""
    body = """ld.global.u32 r1, [bytes]; ld.const.v2.u16 {h1, h2}, [pair]; mov.b32 r2, {h1, h2}; ld.global.u64 d2, [at];
        ld.global.u32 r3, [d2]; ld.global.u64 d2, [same]; ld.global.u32 r4, [d2+4]; ld.global.u32 r5, grid[3];
        ld.const.u32 r6, [many1]; st.global.v4.u32 [d0+16], {r1, r2, r3, r4}; st.global.v2.u32 [d0+32], {r5, r6};"""
    assert words_left(before + KERNEL + body + END, block=1)[4:10] == [
        0xFFFF0201,
        0x0004_0003,
        5,
        0,
        4,
        0,
    ]


def test_registers_wider_than_what_is_loaded_are_filled_with_its_sign():
    body = """st.global.u32 [d0+64], 0x12348081; ld.global.s8 r1, [d0+64]; ld.global.u8 r2, [d0+64];
        ld.global.s16 d2, [d0+64]; st.global.u16 [d0+68], r1; ld.global.b8 h0, [d0+65]; cvt.u32.u16 r3, h0;
        st.global.v4.u32 [d0], {r1, r2, r3, 0}; st.global.u64 [d0+16], d2; ret; }"""
    left = words_left(KERNEL + body, block=1)
    assert left[:6] == [0xFFFF_FF81, 0x81, 0x80, 0, 0xFFFF_8081, 0xFFFF_FFFF]
    assert left[17] == 0xFF81


@pytest.mark.parametrize(
    ("operation", "old", "new"),
    [
        ("add.u32", 7, 12),
        ("min.s32", 0xFFFF_FFFF, 0xFFFF_FFFF),
        ("max.u32", 2, 5),
        ("and.b32", 6, 4),
        ("or.b32", 2, 7),
        ("xor.b32", 6, 3),
        ("exch.b32", 9, 5),
        ("inc.u32", 4, 5),
        ("inc.u32", 5, 0),
        ("dec.u32", 0, 5),
        ("dec.u32", 6, 5),
        ("dec.u32", 5, 4),
    ],
)
def test_an_atomic_operation_leaves_its_result_and_returns_what_was_there(operation, old, new):
    body = f"st.global.u32 [d0+8], {old}; atom.global.{operation} r0, [d0+8], 5;"
    assert words_left(KERNEL + body + END, block=1)[:3:2] == [old, new]
    if "exch" not in operation:
        body = f"st.global.u32 [d0+8], {old}; red.global.{operation} [d0+8], 5; atom.cas.b32 _, [d0+8], 99, 1;"
        assert words_left(KERNEL + body + END, block=1)[2] == new


# Interaction of threads


def test_the_voting_threads_are_the_ones_that_arrive():
    body = """mov.u32 r0, 0; setp.lt.u32 p, t, 20; @!p bra OUT; setp.lt.u32 q, t, 3; vote.ballot.b32 r0, q;
        activemask.b32 r1; add.u32 r0, r0, r1; vote.all.pred p, !q; selp.u32 r2, 1, 0, p;
        vote.sync.any.pred p, q, 0xfffff; selp.u32 r3, 1, 0, p; vote.uni.pred p, 1; selp.u32 r4, 1, 0, p;
        mad.lo.u32 r0, r2, 10000000, r0; mad.lo.u32 r0, r3, 20000000, r0; mad.lo.u32 r0, r4, 40000000, r0; OUT:"""
    assert kernel(body) == [7 + 0xFFFFF + 60000000 if t < 20 else 0 for t in range(32)]


def test_threads_that_are_behind_in_the_text_come_first():
    body = """setp.ge.u32 p, t, 16; @p bra B; vote.ballot.b32 r1, 1; mov.u32 r0, r1; B: vote.ballot.b32 r2, 1;
        xor.b32 r0, r2, 0xff000000; @!p add.u32 r0, r1, r2;"""
    assert kernel(body) == [0xFFFE if t < 16 else 0x00FF_FFFF for t in range(32)]


def test_neighbours_are_the_32_of_a_group():
    body = "setp.eq.u32 p, t, 33; vote.ballot.b32 r0, p;"
    assert kernel(body, block=40) == [0] * WARP_THREADS + [2] * 8


@pytest.mark.parametrize(
    ("mode", "b", "c", "source"),
    [
        ("up", 3, 0, lambda t: t - 3 if t >= 3 else None),
        ("down", 3, 31, lambda t: t + 3 if t + 3 < 32 else None),
        ("bfly", 5, 31, lambda t: t ^ 5),
        ("idx", 9, 31, lambda t: 9),
        ("up", 1, 0x1800, lambda t: t - 1 if t % 8 else None),
        ("idx", 2, 0x181F, lambda t: t // 8 * 8 + 2),
        ("down", 2, 0x1C03, lambda t: t + 2 if t % 4 < 2 else None),
        ("idx", 3, 0x1C01, lambda t: None),
    ],
)
def test_shfl_gives_each_thread_the_value_of_its_source_or_its_own(mode, b, c, source):
    body = f"mul.lo.u32 r1, t, 7; shfl.{mode}.b32 r0|p, r1, {b}, {c}; @!p add.u32 r0, r0, 1000;"
    assert kernel(body) == [1000 + 7 * t if source(t) is None else 7 * source(t) for t in range(32)]
    body = f"mul.lo.u32 r1, t, 7; shfl.sync.{mode}.b32 r0, r1, {b}, {c}, -1;"
    assert kernel(body) == [7 * (t if source(t) is None else source(t)) for t in range(32)]


def test_a_lane_that_does_not_come_gives_0():
    body = "mov.u32 r0, 5; setp.lt.u32 p, t, 4; @p shfl.down.b32 r0, t, 2, 31;"
    assert kernel(body) == [2, 3, 0, 0] + [5] * 28


def test_barriers_with_counts_and_reductions():
    body = """.shared .u32 s; setp.ge.u32 p, t, 64; @p bra THIRD; setp.eq.u32 p, t, 5; @p st.shared.u32 [s], 100;
        bar.sync 1, 64; ld.shared.u32 r0, [s]; bra JOIN; THIRD: mov.u32 r0, 0; JOIN: setp.lt.u32 p, t, 70;
        bar.red.popc.u32 r1, 2, p; bar.red.and.pred q, 0, 96, p; selp.u32 r2, 1000, 0, q; bar.red.or.pred q, 0, !p;
        selp.u32 r3, 2000, 0, q; add.u32 r0, r0, r1; add.u32 r0, r0, r2; add.u32 r0, r0, r3;"""
    assert kernel(body, block=96, words=96) == [2170] * 64 + [2070] * 32


def test_barriers_of_two_numbers_do_not_mix():
    """The first warp waits at barrier 1 for the second, the third at barrier 2 for the fourth."""
    body = """.shared .u32 s[2]; mov.u32 r0, 0; shr.u32 r1, t, 5; shr.u32 r2, r1, 1; add.u32 r3, r2, 1;
        and.b32 r4, r1, 1; mov.u32 r5, s; mad.lo.u32 r5, r2, 4, r5; setp.eq.u32 p, r4, 0; @p bra WAIT;
        setp.eq.u32 q, r2, 0; @q bra NEXT; st.shared.u32 [r5], 20; bar.arrive r3, 64; bra OUT;
        NEXT: ld.volatile.shared.u32 r6, [s+4]; setp.eq.u32 q, r6, 0; @q bra NEXT; mov.u32 r6, 300;
        LATE: sub.u32 r6, r6, 1; setp.ne.u32 q, r6, 0; @q bra LATE; st.shared.u32 [r5], 10;
        bar.arrive r3, 64; bra OUT; WAIT: bar.sync r3, 64; ld.shared.u32 r0, [r5]; OUT:"""
    assert kernel(body, block=128, words=128) == [10] * 32 + [0] * 32 + [20] * 32 + [0] * 32


def test_a_warp_that_only_arrives_continues():
    body = """.shared .u32 s; mov.u32 r0, 0; setp.ge.u32 p, t, 32; @p bra GIVE; bar.sync 3, 64; ld.shared.u32 r0, [s];
        bra OUT; GIVE: st.shared.u32 [s], 9; barrier.arrive 3, 64; OUT: bar.warp.sync -1;"""
    assert kernel(body, block=64) == [9] * 32 + [0] * 32


def test_a_spinning_thread_does_not_block_others():
    body = (
        "setp.eq.u32 p, t, 31; @p st.global.u32 [d0+200], 1; L: ld.volatile.global.u32 r0, [d0+200]; "
        "setp.eq.u32 p, r0, 0; @p bra L;"
    )
    assert kernel(body) == [1] * 32


# Errors and ends of a run

RECURSIVE = """.func f () { call f; ret; }
.func g () { .local .b8 x[100]; call g; ret; }
"""
PLACE = len((HEADER + RECURSIVE + KERNEL).splitlines()) + 1
"""The line of these bodies."""


@pytest.mark.parametrize(
    ("body", "cause"),
    [
        ("ld.global.u32 r0, [d0+2];", f"at {PLACE}:1 ld: 0x200001102 is no multiple of 4"),
        ("ld.global.v2.u32 {r0, r1}, [d0+4];", f"at {PLACE}:1 ld: 0x200001104 is no multiple of 8"),
        ("ld.global.u32 r0, [0];", f"at {PLACE}:1 ld: nothing is mapped at 0x0"),
        ("st.global.u32 [0], r0;", f"at {PLACE}:1 st: nothing is mapped at 0x0"),
        (
            ".shared .u32 s; ld.shared.u32 r0, [s+4];",
            f"at {PLACE}:17 ld: shared space has no 4 bytes at 0x4",
        ),
        (
            ".local .u32 s; cvta.local.u64 d2, s; st.u32 [d2+4096], 1;",
            f"at {PLACE}:38 st: local space has no 4 bytes at 0x1000",
        ),
        (
            "mov.u32 r5, 48; bar.sync 0, r5;",
            f"at {PLACE}:17 bar: a barrier of 48 threads: expected a multiple of 32",
        ),
        ("mov.u32 r5, 48; bar.sync r5;", f"at {PLACE}:17 bar: barrier 48: expected one below 16"),
        (
            "bar.sync 1, 64;",
            f"at {PLACE}:1 bar: waits at a barrier that the rest of its CTA will not reach",
        ),
        ("L: bra L;", f"at {PLACE}:4 bra: still running after 100000 instructions"),
        ("call f;", "at 4:14 call: calls within calls: 10001 of them, 0 bytes of local memory"),
        ("call g;", "at 5:33 call: calls within calls: 37 of them, 4032 bytes of local memory"),
    ],
)
def test_what_a_thread_cannot_do(body, cause):
    launch = placed(f"{RECURSIVE}{KERNEL}{body}{END}", block=1)
    assert launch.buffers["o"][0] == 0x2_0000_1100
    with pytest.raises(PtxRunError) as caught:
        run(launch, max_instructions=100_000)
    assert str(caught.value) == f"thread (0, 0, 0) of CTA (0, 0, 0) {cause}"


def test_a_trap_ends_the_run():
    for word in ("trap", "brkpt"):
        launch = placed(f"{KERNEL} setp.eq.u32 p, t, 3;\n@p {word}; st.global.u32 [d1], 1; ret; }}")
        ended = run(launch)
        assert ended.trap == 3 + KERNEL.count("\n") + 2
        assert ended.instructions < 32 * 8


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "t.ptx: entry k takes 1 argument (8 bytes), not 0"),
        ([Scalar(1, 4)], "t.ptx: entry k, argument 1 (o): expected 8 bytes, got 4"),
        ([Buffer("globals", b"")], "t.ptx: two buffers are called globals"),
    ],
)
def test_arguments_that_do_not_fit(arguments, message):
    with pytest.raises(ProgramError, match=f"^{re.escape(message)}$"):
        place(module_of(KERNEL + END), arguments)


def test_the_entry_is_named_where_there_are_several():
    text = ".entry a() { ret; } .entry b() { ret; }"
    assert place(module_of(text), entry="b").entry.name == "b"
    for asked, message in (
        (None, "t.ptx: which entry? It has a, b"),
        ("c", "t.ptx: no entry c; it has a, b"),
    ):
        with pytest.raises(ProgramError, match=f"^{re.escape(message)}$"):
            place(module_of(text), entry=asked)


@pytest.mark.parametrize(
    ("body", "values", "expected"),
    [
        ("vmad.s32.u32.s32 r0, r1.b1, r2.h1, r3;", (0x8000_FF00, 0xFFFE_0000, 10), 255 * -2 + 10),
        ("vmad.s32.s32.u32 r0, r1.b1, r2.h1, r3;", (0x8000_FF00, 0xFFFE_0000, 10), 10 - 0xFFFE),
        ("vmad.u32.u32.u32 r0, r1.h0, r2.b3, r3;", (0x7_0003, 0x0500_0000, 1), 3 * 5 + 1),
        ("vmad.s32.s32.s32.shr7 r0, r1, -r2, r3;", (100, 20, 80), (80 - 2000) >> 7),
        ("vadd.s32.s32.s32.add r0, r1, r2, r3;", (1, 2, 10), 13),
        ("vadd.u32.u32.u32.min r0, r1, r2, r3;", (1, 2, 10), 3),
        ("vadd.u32.u32.u32.max r0, r1, r2, r3;", (1, 2, 10), 10),
        ("vsub.s32.s32.s32 r0, r1.b0, r2.b0;", (0xFF, 2), -3),
        ("vadd2.s32.s32.s32 r0, r1, r2, r3;", (0x0001_FFFF, 0x0003_0004, 0), 0x0004_0003),
        ("vadd4.u32.u32.u32 r0, r1, r2, r3;", (0x0102_03FF, 0x0101_0101, 0), 0x0203_0400),
        (
            "vadd4.u32.u32.u32.add r0, r1, r2, r3;",
            (0x0102_03FF, 0x0101_0101, 7),
            2 + 3 + 4 + 256 + 7,
        ),
    ],
)
def test_video_instructions_take_parts_of_registers_by_the_types_of_their_operands(
    body, values, expected
):
    assert result(body, *values) == expected & 0xFFFF_FFFF


FLOATS = (0.0, 1e-45, 1e-40, 1.1754944e-38, 1.0, 3.4e38, math.inf, math.nan)
LEAST_NORMAL = 2.0**-126
CLASSES = {
    "finite": math.isfinite,
    "infinite": math.isinf,
    "number": lambda value: not math.isnan(value),
    "notanumber": math.isnan,
    "normal": lambda value: value == 0 or LEAST_NORMAL <= abs(value) < math.inf,
    "subnormal": lambda value: 0 < abs(value) < LEAST_NORMAL,
}
"""Classes of numbers as PTX defines them: zeros are normal."""


@pytest.mark.parametrize("kind", CLASSES)
def test_the_class_of_a_number_does_not_depend_on_its_sign(kind):
    body = f"testp.{kind}.f32 p, r1; selp.u32 r0, 1, 0, p;"
    for value in FLOATS:
        for signed in (value, -value):
            (bits,) = struct.unpack("<I", struct.pack("<f", signed))
            (rounded,) = struct.unpack("<f", struct.pack("<f", signed))
            assert result(body, bits) == CLASSES[kind](rounded), (kind, signed)
