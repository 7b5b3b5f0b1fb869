"""PTX that NVIDIA's assembler accepts beyond the forms in the PTX manual, with results written by
hand.

Each program runs twice: compiled, on the warp model, and in the PTX interpreter.
"""

import pytest

from sim.toolchain.ptx.module import PtxAddress, PtxImmediate, PtxRegister, PtxVariable, Type
from testbench.ptx.text import HEADER, complaint, instructions, left_everywhere, module_of

_ENTRY = """.visible .entry k(.param .u64 o)
{ .reg .pred p, q; .reg .b16 h<9>; .reg .b32 t, r<9>; .reg .b64 a, d<9>; .reg .v2 .u32 v; .reg .v4 .u16 w;
  .shared .u32 sm[4]; ld.param.u64 a, [o]; mov.u32 t, %tid.x; mul.wide.u32 d8, t, 4; add.u64 a, a, d8;
"""
_END = " st.global.u32 [a], r0; ret; }\n"


def left(body: str, before: str = "", behind: str = "", header: str = HEADER) -> list[int]:
    """Returns the word that each of 12 threads stores."""
    return left_everywhere(header + before + _ENTRY + body + _END + behind, 12)


# Modifiers


@pytest.mark.parametrize(
    ("usual", "other"),
    [
        ("vote.sync.ballot.b32 r0, p, -1;", "vote.ballot.sync.b32 r0, p, -1;"),
        ("vote.sync.ballot.b32 r0, p, -1;", "vote.ballot.b32.sync r0, p, -1;"),
        ("shfl.sync.up.b32 r0|p, t, 1, 0, -1;", "shfl.up.b32.sync r0|p, t, 1, 0, -1;"),
        ("barrier.red.popc.aligned.u32 r0, 0, p;", "barrier.red.aligned.u32.popc r0, 0, p;"),
        ("atom.global.add.u32 r0, [a], t;", "atom.u32.add.global r0, [a], t;"),
        ("atom.global.cas.b32 r0, [a], t, t;", "atom.cas.b32.global r0, [a], t, t;"),
        ("red.global.add.u32 [a], t;", "red.add.u32.global [a], t;"),
        ("ld.volatile.global.u32 r0, [a];", "ld.global.u32.volatile r0, [a];"),
        ("ld.global.cg.v2.u32 {r0, r1}, [a];", "ld.v2.cg.u32.global {r0, r1}, [a];"),
        ("ld.global.cs.nc.u32 r0, [a];", "ld.nc.global.cs.u32 r0, [a];"),
        ("ld.shared.u32 r0, [sm];", "ld.shared::cta.u32 r0, [sm];"),
        ("st.global.wt.u32 [a], t;", "st.wt.u32.global [a], t;"),
        ("prefetch.global.L1 [a];", "prefetch.L1.global [a];"),
        ("cvt.rni.ftz.sat.s8.f32 t, r1;", "cvt.sat.s8.ftz.f32.rni t, r1;"),
        ("fma.rn.ftz.sat.f32 r0, r1, r2, r3;", "fma.sat.f32.ftz.rn r0, r1, r2, r3;"),
        ("setp.lt.and.ftz.f32 p, r0, r1, q;", "setp.ftz.f32.and.lt p, r0, r1, q;"),
        ("set.lt.ftz.u32.f32 r0, r1, r2;", "set.u32.ftz.f32.lt r0, r1, r2;"),
        ("div.approx.ftz.f32 r0, r1, r2;", "div.ftz.f32.approx r0, r1, r2;"),
        ("mad.lo.cc.u32 r0, r1, r2, r3;", "mad.lo.u32.cc r0, r1, r2, r3;"),
        ("vadd.u32.s32.u32.sat.add r0, r1, r2, r3;", "vadd.add.u32.sat.s32.u32 r0, r1, r2, r3;"),
        ("bfind.shiftamt.u32 r0, r1;", "bfind.u32.shiftamt r0, r1;"),
        ("prmt.b32.f4e r0, r1, r2, r3;", "prmt.f4e.b32 r0, r1, r2, r3;"),
    ],
)
def test_modifiers_stand_in_any_order(usual, other):
    def parsed(text: str):
        item = instructions(_ENTRY + "\n" + text + _END)[4]
        return {
            name: value for name, value in vars(item).items() if name not in ("column", "operands")
        }

    assert parsed(usual) == parsed(other)


@pytest.mark.parametrize(
    "text",
    [
        "mul.u32.lo r0, r1, r2;",
        "shf.wrap.l.b32 r0, r1, r2, r3;",
        "bar.sync.cta 0;",
        "bar.popc.red.u32 r0, 0, p;",
        "cvta.global.to.u64 d0, d1;",
        "add.rn.rn.f32 r0, r1, r2;",
    ],
)
def test_types_keep_their_order_and_what_belongs_to_the_opcode_follows_it(text):
    assert "has no modifier" in complaint(_ENTRY + text + _END)


# Operands


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("mul.lo.u32 r0, t+3, 7;", lambda t: (t + 3) * 7),
        ("cvt.u16.u32 h0, t; cvt.u32.u16 r0, h0+65535;", lambda t: t - 1 & 0xFFFF),
        (
            "st.global.u32 [a], t+1; ld.global.u32 r0, [a]; setp.lt.u32 p, t+5, 8; @p mov.u32 r0, r0+100;",
            lambda t: t + 1 + 100 * (t < 3),
        ),
        (
            "mov.u64 d0, 7; mov.b64 d1, d0+0x300000002; cvt.u32.u64 r0, d1; shr.u64 d1, d1, 32; cvt.u32.u64 r1, d1;"
            "mad.lo.u32 r0, r1, 100, r0;",
            lambda t: 309,
        ),
        ("mov.u32 r1, sm; add.u32 r0, sm+8, t; sub.u32 r0, r0, r1;", lambda t: t + 8),
        ("add.u32 r0, t-1, 3;", lambda t: t + 2),
        ("add.u32 r0, 9+t, t-0xffffffff;", lambda t: 2 * t + 10),
        ("cvt.u16.u32 h0, t; add.u16 h1, h0-1, 7+h0; cvt.u32.u16 r0, h1;", lambda t: 2 * t + 6),
        (
            "cvt.u64.u32 d0, t; sub.u64 d0, d0-1, d0+1; shr.u64 d1, d0, 32; cvt.u32.u64 r0, d0;"
            "cvt.u32.u64 r1, d1; sub.u32 r0, r0, r1;",
            lambda t: -1,
        ),
        (
            "add.u32 r0, t, 3 > 2 ? 4 : 5; add.u32 r0, r0, 0 ? 1 : 1 ? 20 : 30; add.s32 r0, r0, (.s64) 100;",
            lambda t: t + 124,
        ),
    ],
)
def test_a_number_is_added_to_a_register_or_address_before_the_instruction(body, expected):
    assert left(body) == [expected(t) & 0xFFFF_FFFF for t in range(12)]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            "mov.v2.u32 v, {t, 5}; mov.v2.u32 {v.y, v.x}, v; mad.lo.u32 r0, v.x, 100, v.y;",
            lambda t: 500 + t,
        ),
        (
            "setp.gt.u32 p, t, 3; mov.v2.u32 v, {t, 5}; @p mov.v2.b32 v, {v.y, v.x}; @!p mov.v2.u32 v, {1, 2};"
            "mad.lo.u32 r0, v.x, 100, v.y;",
            lambda t: 500 + t if t > 3 else 102,
        ),
        (
            "mov.b64 w, 0x0004000300020001; mov.v4.u16 {h0, h1, _, h3}, w; cvt.u32.u16 r0, h3; cvt.u32.u16 r1, h1;"
            "mad.lo.u32 r0, r0, 10, r1;",
            lambda t: 42,
        ),
        (
            "mov.v4.u32 {r0, r1, r2, r3}, %tid; mov.v4.u16 {h0, h1, h2, h3}, %ntid; cvt.u32.u16 r4, h0;"
            "mad.lo.u32 r0, r4, 100, r0; add.u32 r0, r0, r3;",
            lambda t: 1200 + t,
        ),
        (
            "mov.b32 {h0, h1}, %tid.x; cvt.u32.u16 r0, h0; mov.b64 {r1, r2}, g; mov.u64 d0, g; cvt.u32.u64 r2, d0;"
            "sub.u32 r1, r1, r2; add.u32 r0, r0, r1;",
            lambda t: t,
        ),
        (
            "mov.u16 h0, %tid.x; cvt.u32.u16 r0, h0; cvt.u32.u16 r1, %ntid.x; "
            "cvt.s32.s8 r2, %nctaid.y; mov.u32 r3, %ctaid.w;"
            "mov.u16 h1, %gridid; cvt.u32.u16 r4, h1; "
            "mov.u32 r5, %gridid; sub.u32 r4, r4, r5; mad.lo.u32 r0, r1, 100, r0;"
            "mad.lo.u32 r0, r2, 10000, r0; add.u32 r0, r0, r3; add.u32 r0, r0, r4;",
            lambda t: 11200 + t,
        ),
    ],
)
def test_vectors_and_special_registers_are_moved_in_all_widths(body, expected):
    assert left(body, ".global .u32 g;\n") == [expected(t) for t in range(12)]


def test_addresses_in_registers_of_32_bits_are_converted():
    body = (
        "mov.u32 r1, sm; cvta.shared.u32 r2, r1; cvt.u64.u32 d1, r2; st.shared.u32 [sm], 40; ld.u32 r0, [d1];"
        "isspacep.shared p, r2; @p add.u32 r0, r0, 1; isspacep.global p, r2; @p add.u32 r0, r0, 2;"
        "cvta.to.shared.u32 r3, r2; sub.u32 r3, r3, r1; add.u32 r0, r0, r3; cvta.global.u32 r4, t;"
        "add.u32 r0, r0, r4;"
    )
    assert left(body) == [41 + t for t in range(12)]


def nth_set(mask: int, base: int, offset: int) -> int:
    """The algorithm in the description of fns."""
    if offset == 0:
        return base if mask >> base & 1 else 0xFFFF_FFFF
    position, count, step = base, abs(offset) - 1, 1 if offset > 0 else -1
    while 0 <= position < 32:
        if mask >> position & 1:
            if count == 0:
                return position
            count -= 1
        position += step
    return 0xFFFF_FFFF


@pytest.mark.parametrize(
    ("mask", "base", "offset"),
    [
        (0x0F0F0FF0, "t", "2"),
        (0x0F0F0FF0, "t", "-1"),
        (0x0F0F0FF0, "t", "0"),
        (0x80000001, "t", "2"),
        (0xFFFFFFFF, "31", "-31"),
        (0xFFFFFFFF, "0", "32"),
        (0xFFFFFFFF, "0", "33"),
        (0, "3", "1"),
        (0xF731, "11", "5-s"),
        (0xFFFFFFFF, "32", "-1"),
        (0xFFFFFFFF, "0xFFFFFFFF", "-1"),
        (0xFFFFFFFF, "0x80000000", "0"),
    ],
)
def test_fns_finds_the_nth_set_bit(mask, base, offset):
    body = f"mov.b32 r1, {mask}; sub.s32 r2, 5, t; fns.b32 r0, r1, {base}, {'r2' if offset == '5-s' else offset};"
    assert left(body) == [
        nth_set(mask, t if base == "t" else int(base, 0), 5 - t if offset == "5-s" else int(offset))
        for t in range(12)
    ]


# Declarations


@pytest.mark.parametrize(
    ("before", "body", "behind", "expected"),
    [
        # prototypes end without a semicolon
        (
            ".func (.param .u32 r) f (.param .u32 x)\n.func g\n",
            "{ .param .u32 x, z; st.param.u32 [x], t; call (z), f, (x); ld.param.u32 r0, [z]; call g; }",
            ".func (.param .u32 r) f (.param .u32 x) { .reg .u32 y; "
            "ld.param.u32 y, [x]; st.param.u32 [r], y+7; ret; }\n"
            ".func g { ret; }\n",
            lambda t: t + 7,
        ),
        # parameters and results may be vectors
        (
            ".func (.reg .v4 .u32 r, .reg .u32 e) f(.reg .u32 x, .reg .v4 .u32 s)\n"
            "{ mov.v4.u32 r, {s.w, s.z, s.y, s.x}; add.u32 e, x, 1; ret; }\n",
            ".reg .v4 .u32 s; mov.v4.u32 s, {t, 1, 2, 3}; call (s, r1), f, (10, s); mad.lo.u32 r0, s.x, 1000, s.w;"
            "add.u32 r0, r0, r1;",
            "",
            lambda t: 3011 + t,
        ),
        # aliases of functions, declared before and after their use, and in a table
        (
            ".func (.reg .u32 r) f(.reg .u32 x) { add.u32 r, x, 9; ret; }\n.weak .func (.reg .u32 r) g(.reg .u32 x);\n"
            ".visible .func (.reg .u32 r) h(.reg .u32 x);\n.alias g, f;\n.global .u64 table[2] = {h, f};\n",
            "call (r1), h, (t); ld.global.v2.u64 {d1, d2}, [table]; setp.eq.u64 p, d1, d2; call (r2), d1, (r1), table;"
            "selp.u32 r0, 100, 0, p; add.u32 r0, r0, r2;",
            ".alias h, g;\n",
            lambda t: t + 118,
        ),
        # managed variables are in global space; extern ones that the file does not define are added
        (
            ".global .attribute(.managed) .align 4 .u32 m = 5;\n.attribute(.managed) .global .u32 n = 6;\n"
            ".extern .global .u32 x[2];\n.extern .global .u32 y;\n.extern .const .u32 c;\n",
            "ld.global.u32 r0, [m]; ld.global.u32 r1, [n]; "
            "add.u32 r0, r0, r1; ld.global.u32 r1, [x+4]; add.u32 r0, r0, r1;"
            "ld.global.u32 r1, [y]; add.u32 r0, r0, r1; ld.const.u32 r1, [c]; add.u32 r0, r0, r1;",
            ".visible .global .u32 y = 40;\n",
            lambda t: 51,
        ),
        # names with %, $ and _, and those with a meaning in assembly text
        (
            ".global .u32 %g = 1; .global .u32 R5 = 2; .const .u32 at = 4; .const .u32 $c = 8;\n"
            ".func (.reg .u32 %r) %f(.reg .u32 %x) { add.u32 %r, %x, 16; ret; }\n",
            ".reg .u32 %x<3>; .local .u32 %l; call (r0), %f, (t); ld.global.u32 %x1, [%g]; add.u32 r0, r0, %x1;"
            "ld.global.u32 %x1, [R5]; add.u32 r0, r0, %x1; ld.const.u32 %x1, [at]; add.u32 r0, r0, %x1; bra %L; %L:"
            "ld.const.u32 %x1, [$c]; st.local.u32 [%l], %x1; ld.local.u32 %x2, [%l]; add.u32 r0, r0, %x2;",
            "",
            lambda t: t + 31,
        ),
    ],
)
def test_declarations_of_all_kinds(before, body, behind, expected):
    assert left(body, before, behind) == [expected(t) for t in range(12)]


def _masked(name: str) -> str:
    return ", ".join(f"{0xFF << bit:#X}({name})" for bit in range(0, 64, 8))


def test_initialisers_may_be_bytes_of_addresses():
    before = (
        ".global .align 8 .u32 g[4] = {11, 22, 33, 44};\n.const .align 8 .u32 c[2] = {55, 66};\n"
        ".func (.reg .u32 r) f(.reg .u32 x) { add.u32 r, x, 9; ret; }\n"
        f".global .align 8 .u8 one[8] = {{{_masked('g+8')}}};\n"
        f".const .align 8 .u8 two[8] = {{{_masked('generic(c)')}}};\n"
        f".global .align 8 .u8 three[8] = {{{_masked('f')}}};\n.global .u32 word = 0xFF00(c+4);\n"
    )
    body = (
        "ld.global.u64 d1, [one]; ld.u32 r0, [d1]; ld.const.u64 d1, [two]; ld.u32 r1, [d1+4]; add.u32 r0, r0, r1;"
        "ld.global.u64 d1, [three]; pr: .callprototype (.reg .u32 _) _ (.reg .u32 _); call (r1), d1, (t), pr;"
        "add.u32 r0, r0, r1; ld.global.u32 r1, [word]; add.u32 r0, r0, r1;"
    )
    assert left(body, before) == [33 + 66 + t + 9 for t in range(12)]


# Addresses of parameters


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        # a store there changes the parameter
        (
            "(.param .u32 r) f(.param .align 8 .b8 s[12], .param .u32 i) { .reg .u64 b; .reg .u32 x, y; mov.u64 b, s;"
            "ld.param.u32 x, [i]; st.local.u32 [b+8], x; ld.param.u32 y, [s+8]; ld.param.u32 x, [b+4];"
            "mad.lo.u32 y, y, 100, x; st.param.u32 [r], y; ret; }",
            lambda t: 100 * t + 2,
        ),
        # a generic address, and one of 32 bits
        (
            "(.param .u32 r) f(.param .align 8 .b8 s[12], .param .u32 i) { .reg .u64 b; .reg .u32 x, y; mov.b64 b, s+4;"
            "cvta.local.u64 b, b; ld.u32 x, [b]; mov.u32 y, i; ld.local.u32 y, [y]; mad.lo.u32 x, x, 1000, y;"
            "st.param.u32 [r], x; ret; }",
            lambda t: 2000 + t,
        ),
        # the address of the result
        (
            "(.param .u32 r) f(.param .align 8 .b8 s[12], .param .u32 i) { .reg .u64 b; .reg .u32 x; mov.u64 b, r;"
            "ld.param.u32 x, [i]; st.local.u32 [b], x+50; ret; }",
            lambda t: t + 50,
        ),
        # each call has parameters of its own
        (
            "(.param .u32 r) f(.param .align 8 .b8 s[12], .param .u32 i) { .reg .u64 b; .reg .u32 x, y; .reg .pred p;"
            ".param .align 8 .b8 ss[12]; .param .u32 ii, rr; mov.u64 b, i; ld.local.u32 x, [b]; setp.eq.u32 p, x, 0;"
            "st.param.u32 [r], 0; @p ret; st.param.u32 [ii], x+0xffffffff; "
            "call (rr), f, (ss, ii); ld.param.u32 y, [rr];"
            "ld.local.u32 x, [b]; add.u32 y, y, x; st.param.u32 [r], y; ret; }",
            lambda t: t * (t + 1) // 2,
        ),
    ],
)
def test_a_parameter_whose_address_is_taken_lies_in_local_space(function, expected):
    body = (
        "{ .param .align 8 .b8 s[12]; .param .u32 i, z; st.param.u32 [s], 1; st.param.u32 [s+4], 2; st.param.u32"
        " [s+8], 3; st.param.u32 [i], t; call (z), f, (s, i); ld.param.u32 r0, [z]; }"
    )
    assert left(body, f".func {function}\n") == [expected(t) for t in range(12)]


# Older texts

_OLD = ".version 2.3\n.target sm_20\n.address_size 64\n"


def test_registers_and_local_variables_of_a_module_are_the_same_to_all_functions_of_a_thread():
    before = """.reg .u32 g; .reg .pred gp; .reg .v2 .u32 gv; .reg .u64 gl;
.local .u32 one; .local .align 8 .b8 two[24];
.func f { add.u32 g, g, 1; setp.gt.u32 gp, g, 9; add.u32 gv.x, gv.x, gv.y; add.u64 gl, gl, 5; ret; }
.func (.reg .u32 r) h(.reg .u32 x)
{ .reg .u32 y; .local .u32 own[4]; st.local.u32 [own+4], x; ld.local.u32 y, [one]; add.u32 y, y, x;
  st.local.u32 [one], y; ld.local.u32 r, [two+16]; ret; }
"""
    body = """
  mov.u32 g, t; mov.v2.u32 gv, {3, t}; mov.u64 gl, 1; setp.eq.u32 gp, t, t; setp.lt.u32 q, t, 6; @q call f; call f;
  mov.u32 r0, g; @gp add.u32 r0, r0, 1000; add.u32 r0, r0, gv.x; cvt.u32.u64 r2, gl; add.u32 r0, r0, r2;
  .local .u32 mine[3]; st.local.u32 [mine], 5; st.local.u32 [one], t; mov.u64 d1, two; st.local.u32 [d1+16], 7;
  mov.u32 r1, 2; call (r1), h, (r1); call (r1), h, (4); add.u32 r0, r0, r1;
  ld.local.u32 r2, [one]; mad.lo.u32 r3, r2, 10000, 0; add.u32 r0, r0, r3; ld.local.u32 r3, [mine]; add.u32 r0, r0, r3;
  cvta.local.u64 d2, d1; ld.u32 r3, [d2+16]; add.u32 r0, r0, r3;
"""

    def expected(t: int) -> int:
        calls = 2 if t < 6 else 1
        g = t + calls
        return g + 1000 * (g > 9) + 3 + calls * t + 1 + 5 * calls + 10000 * (t + 2 + 4) + 7 + 5 + 7

    assert left(body, before, header=_OLD) == [expected(t) for t in range(12)]


def test_before_version_1_4_the_body_declares_an_entrys_parameters():
    text = """.version 1.3\n.target sm_13\n.entry k
{ .param .u64 o; .param .align 4 .b8 s[8]; .reg .u64 a, d; .reg .u32 r, t; .reg .u16 h; cvt.u32.u16 t, %tid.x;
  mov.u16 h, %tid.x; ld.param.u64 a, [o]; mul.wide.u16 r, h, 4; cvt.u64.u32 d, r; add.u64 a, a, d;
  st.global.u32 [a], t; exit; }\n"""
    module = module_of(text, header="")
    found = [
        (item.name, item.type, item.count)
        for item in module.functions["k"].parameters
        if isinstance(item, PtxVariable)
    ]
    assert found == [("o", Type.U64, 1), ("s", Type.B8, 8)]
    one = text.replace(" .param .align 4 .b8 s[8];", "")
    assert left_everywhere(one, 12) == list(range(12))
    assert "parameters of an entry stand in its list" in complaint(
        one.replace("1.3", "1.4"), header=""
    )


def test_before_version_2_2_const_space_is_bank_0():
    text = """.const[0] .u32 c[3] = {5, 6, 7};
.entry k(.param .u64 o) { .reg .u64 a; .reg .u32 r; ld.param.u64 a, [o]; ld.const[0].u32 r, [c+4];
st.global.u32 [a], r; exit; }\n"""
    assert left_everywhere(f".version 2.1\n.target sm_20\n{text}", 1) == [6]
    assert complaint(text, header=".version 2.2\n.target sm_20\n").startswith(
        "1:1: .const[0]: only before PTX 2.2"
    )


@pytest.mark.parametrize(
    ("version", "target", "old", "means"),
    [
        ("1.3", "sm_13", "div.f32 f, f, f", "div.approx.ftz.f32 f, f, f"),
        ("1.3", "sm_13", "rcp.f32 f, f", "rcp.approx.ftz.f32 f, f"),
        ("1.0", "sm_10", "sqrt.f32 f, f", "sqrt.approx.ftz.f32 f, f"),
        ("1.3", "sm_13", "rsqrt.f32 f, f", "rsqrt.approx.ftz.f32 f, f"),
        ("1.3", "sm_13", "sin.f32 f, f", "sin.approx.ftz.f32 f, f"),
        ("1.3", "sm_13", "cos.f32 f, f", "cos.approx.ftz.f32 f, f"),
        ("1.3", "sm_13", "lg2.f32 f, f", "lg2.approx.ftz.f32 f, f"),
        ("1.3", "sm_13", "ex2.f32 f, f", "ex2.approx.ftz.f32 f, f"),
        ("1.3", "sm_13", "div.f64 e, e, e", "div.rn.f64 e, e, e"),
        ("1.3", "sm_13", "sqrt.f64 e, e", "sqrt.rn.f64 e, e"),
        ("1.3", "sm_13", "mad.f64 e, e, e, e", "mad.rn.f64 e, e, e, e"),
        ("1.4", "sm_13", "mad.f32 f, f, f, f", "mad.rn.f32 f, f, f, f"),
        ("3.1", "sm_20", "mad.ftz.f32 f, f, f, f", "mad.rn.ftz.f32 f, f, f, f"),
        ("7.8", "sm_10", "mad.sat.f32 f, f, f, f", "mad.rn.sat.f32 f, f, f, f"),
    ],
)
def test_what_older_texts_leave_out(version, target, old, means):
    def read(text: str):
        body = f".func f {{ .reg .f32 f; .reg .f64 e;\n{text}; ret; }}\n"
        item = instructions(body, "f", header=f".version {version}\n.target {target}\n")[0]
        return {name: value for name, value in vars(item).items() if name != "operands"}

    assert read(old) == read(means)


@pytest.mark.parametrize(
    ("version", "target", "text"),
    [
        ("1.4", "sm_13", "div.f32 f, f, f"),
        ("1.4", "sm_13", "sin.f32 f, f"),
        ("1.4", "sm_13", "mad.f64 e, e, e, e"),
        ("3.2", "sm_20", "mad.f32 f, f, f, f"),
        ("7.8", "sm_50", "mad.f32 f, f, f, f"),
        ("1.3", "sm_13", "cvt.f32.s32 f, r"),
    ],
)
def test_later_texts_leave_nothing_out(version, target, text):
    body = f".func f {{ .reg .f32 f; .reg .f64 e; .reg .s32 r; {text}; ret; }}\n"
    assert "lacks a modifier" in complaint(body, header=f".version {version}\n.target {target}\n")


@pytest.mark.parametrize(
    ("operands", "moves"),
    [
        ("{r0, r1}, {r2, r3}", 2),
        ("{r0, r1}, {r1, r0}", 4),  # through registers that hold nothing else
        ("{r0, r1}, {r2, 5}", 2),
        ("{r0, r1}, {r1, 5}", 3),
        ("{r0, _}, {r2, r3}", 1),
    ],
)
def test_elements_of_a_vector_are_held_only_where_a_result_is_a_source(operands, moves):
    text = f".entry k() {{ .reg .b32 r<4>; mov.v2.b32 {operands}; ret; }}"
    assert [item.opcode for item in instructions(text)] == ["mov"] * moves + ["ret"]


@pytest.mark.parametrize(
    ("text", "bits"),
    [
        ("add.u16 h, h-1, h;", 0xFFFF),
        ("add.u32 t, t-1, t;", 0xFFFF_FFFF),
        ("add.s32 t, t, -1+t;", 0xFFFF_FFFF),
        ("add.u64 d0, d0-1, d0;", 0xFFFF_FFFF_FFFF_FFFF),
        ("add.u32 t, t+0x100000002, t;", 2),
        ("st.global.u32 [d0], t-2;", 0xFFFF_FFFE),
    ],
)
def test_a_number_that_is_added_to_a_register_has_its_bits(text, bits):
    body = f"{{ .reg .b64 d0; .reg .b32 t; .reg .b16 h; {text} ret; }}"
    added = instructions(f".entry k() {body}")[0]
    assert (added.opcode, added.operands[2]) == ("add", PtxImmediate(bits))


@pytest.mark.parametrize(
    ("text", "bits"),
    [
        ("mov.b64 d0, 1.5;", 0x3FF8_0000_0000_0000),
        ("mov.b64 d0, 1.0 + 0.5;", 0x3FF8_0000_0000_0000),
        ("mov.b64 d0, -1.5;", 0xBFF8_0000_0000_0000),
        ("mov.b64 d0, 0d3ff8000000000000;", 0x3FF8_0000_0000_0000),
        ("mov.b32 t, 0f3f800000;", 0x3F80_0000),
        ("mov.f64 e, 0f3f800000;", 0x3FF0_0000_0000_0000),
        ("mov.f32 f, 0d3ff8000000000000;", 0x3FC0_0000),
        ("mov.f32 f, 1.5;", 0x3FC0_0000),
    ],
)
def test_bits_of_a_floating_point_number(text, bits):
    """The operand is a double in 64 bits, or a number that is written as bits of the same width."""
    body = f"{{ .reg .b64 d0; .reg .b32 t; .reg .f64 e; .reg .f32 f; {text} ret; }}"
    assert instructions(f".entry k() {body}")[0].operands[1] == PtxImmediate(bits)


@pytest.mark.parametrize(
    "text",
    [
        "mov.u64 d0, 1.5;",
        "mov.s64 d0, 0d3ff8000000000000;",
        "mov.b32 t, 1.5;",
        "mov.b32 t, 0d3ff8000000000000;",
        "mov.b64 d0, 0f3f800000;",
        "add.u64 d0, d0, 1.5;",
    ],
)
def test_a_floating_point_number_is_no_whole_number(text):
    """NVIDIA's assembler refuses it as well."""
    found = complaint(f".entry k() {{ .reg .b64 d0; .reg .b32 t; {text} ret; }}")
    assert found.endswith(": expected a whole number")


@pytest.mark.parametrize(
    ("address", "version", "offset"),
    [
        ("d0", "1.0", 0),
        ("d0+4", "1.1", 4),
        ("g", "1.1", 0),
        ("g-8", "1.1", -8),
        ("[g]", "1.1", 0),
        ("[d0+4]", "1.0", 4),
        ("g[1]", "1.1", 4),
        ("g[1]", "1.2", 4),
        ("g[3]", "7.8", 12),
        ("g[1]+2", "7.8", 6),
        ("[g[1]]", "7.8", 4),
        ("d0", "1.2", None),
        ("d0+4", "1.3", None),
        ("g", "1.2", None),
        ("g+4", "7.8", None),
    ],
)
@pytest.mark.parametrize("is_store", [True, False])
def test_an_address_has_brackets_since_version_1_2_unless_it_is_an_element(
    address, version, offset, is_store
):
    """The rules are those of NVIDIA's assembler."""
    operands = f"st.global.u32 {address}, r" if is_store else f"ld.global.u32 r, {address}"
    text = f".global .u32 g[4];\n.entry k {{ .reg .u64 d0; .reg .u32 r; {operands}; exit; }}"
    header = f".version {version}\n.target sm_10\n"
    if offset is None:
        assert "expected an address in brackets, not an expression" in complaint(text, header)
        return
    found = instructions(text, header=header)[0].operands[not is_store]
    assert isinstance(found, PtxAddress)
    assert isinstance(found.base, PtxVariable if "g" in address else PtxRegister)
    assert (found.base.name, found.offset) == ("g" if "g" in address else "d0", offset)
