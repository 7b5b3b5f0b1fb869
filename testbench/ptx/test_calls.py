"""PTX's rules about calls: one claim for each test. ``docs/ptx.md`` lists them."""

import re

import pytest

from sim.model.ptx.run import PtxRunError, run
from sim.toolchain.ptx.module import FunctionRef, PtxRegister
from testbench.ptx.text import (
    END,
    KERNEL,
    complaint,
    instructions,
    kernel,
    module_of,
    placed,
    refused,
)

FUNCTIONS = """
.func (.reg .u32 r) foo (.reg .u32 a, .reg .u32 b) { add.u32 r, a, b; ret; }
.func (.reg .u32 r) bar (.reg .u32 a, .reg .u32 b) { mul.lo.u32 r, a, b; ret; }
.func (.reg .u32 r) baz (.reg .u32 a, .reg .u32 b) { sub.u32 r, a, b; ret; }
"""


def test_a_call_returns_to_the_next_instruction():
    body = "call (r1), foo, (t, 3); call (r2), foo, (r1, r1); add.u32 r0, r1, r2;"
    assert kernel(body, FUNCTIONS) == [3 * (t + 3) for t in range(32)]


def test_a_call_may_have_neither_arguments_nor_results():
    before = """.global .u32 g = 5;
        .func init { .reg .u32 x; ld.global.u32 x, [g]; add.u32 x, x, 1; st.global.u32 [g], x; ret; }
        .func one (.reg .u32 a) { st.global.u32 [g], a; ret; } .func (.reg .u32 r) two { ld.global.u32 r, [g]; ret; }"""
    body = """setp.eq.u32 p, t, 0; @p call init; @p call init, (); @p call one, (41); call (r0), two;
        @p call (r0), two, ();"""
    assert kernel(body, before, block=1) == [41]


def test_a_call_is_conditional_by_its_guard():
    body = (
        "mov.u32 r0, 0; setp.lt.u32 p, t, 4; @p call (r0), foo, (t, 1); @!p call (r0), bar, (t, 2);"
    )
    assert kernel(body, FUNCTIONS) == [t + 1 if t < 4 else 2 * t for t in range(32)]


BY_VALUE = """
.func (.param .u32 r) f (.param .u32 a, .reg .u32 b)
{ .reg .u32 x; ld.param.u32 x, [a]; add.u32 x, x, b; mov.u32 b, 0; st.param.u32 [r], x; ret; }
.func (.param .align 4 .b8 r[12]) swap (.param .align 4 .b8 a[12])
{ .reg .u32 x, y, z; ld.param.u32 x, [a]; ld.param.u32 y, [a+4]; ld.param.u32 z, [a+8];
  st.param.u32 [r], z; st.param.u32 [r+4], y; st.param.u32 [r+8], x; ret; }
"""


def test_arguments_are_registers_numbers_and_variables_in_param_space():
    body = """{ .param .u32 x, y; st.param.u32 [x], t; call (y), f, (x, 5); ld.param.u32 r1, [y]; call (r2), f, (r1, x);
        call (r0), f, (7, r2); }"""
    assert kernel(body, BY_VALUE) == [7 + 5 + t + t for t in range(32)]


def test_arguments_are_passed_by_value():
    before = (
        """.func (.reg .u32 r) change (.reg .u32 a) { add.u32 a, a, 100; mov.u32 r, a; ret; }"""
    )
    assert kernel("mov.u32 r1, t; call (r2), change, (r1); mov.u32 r0, r1;", before) == list(
        range(32)
    )
    body = """{ .param .align 4 .b8 x[12]; .param .align 4 .b8 y[12]; st.param.u32 [x], 1; st.param.u32 [x+4], t;
        st.param.u32 [x+8], 3; call (y), swap, (x); ld.param.u32 r1, [x]; ld.param.u32 r2, [y]; ld.param.u32 r3, [y+4];
        mad.lo.u32 r0, r1, 1000, r3; mad.lo.u32 r0, r2, 100000, r0; }"""
    assert kernel(body, BY_VALUE) == [301000 + t for t in range(32)]


def test_results_are_registers_variables_or_unused():
    body = "{ .param .u32 y; call (y), f, (t, 1); ld.param.u32 r0, [y]; call (_), f, (t, 9); }"
    assert kernel(body, BY_VALUE) == [t + 1 for t in range(32)]


TABLES = {
    "module": (FUNCTIONS + ".global .u32 tab[5] = { foo, bar, baz };", ""),
    "const": (FUNCTIONS + ".const .u32 tab[] = { foo, bar, baz };", ""),
    "local": (FUNCTIONS, ".global .u32 tab[3] = { foo, bar, baz };"),
    "const local": (FUNCTIONS, ".const .u32 tab[5] = { foo, bar, baz };"),
}


@pytest.mark.parametrize("where", TABLES)
def test_a_call_table_is_an_array_of_functions_in_const_or_global_space(where):
    before, inside = TABLES[where]
    space = "const" if where.startswith("const") else "global"
    body = f"{inside} setp.lt.u32 p, t, 5; @p ld.{space}.u32 r1, [tab+4]; @!p ld.{space}.u32 r1, [tab+8]; "
    assert kernel(body + "call (r0), r1, (t, 3), tab;", before) == [
        (3 * t if t < 5 else t - 3) & 0xFFFF_FFFF for t in range(32)
    ]


def test_a_call_table_may_hold_addresses_of_64_bits():
    body = """rem.u32 r1, t, 3; mul.wide.u32 d2, r1, 8; mov.u64 d3, tab; add.u64 d3, d3, d2; ld.global.u64 d4, [d3];
        call (r0), d4, (t, 3), tab;"""
    assert kernel(body, FUNCTIONS + ".global .u64 tab[3] = { foo, bar, baz };") == [
        (t + 3, 3 * t, t - 3)[t % 3] & 0xFFFF_FFFF for t in range(32)
    ]


@pytest.mark.parametrize(("kind", "register"), [("u32", "r1"), ("u64", "d2")])
def test_calltargets_list_functions(kind, register):
    body = f"""setp.lt.u32 p, t, 5; @p mov.{kind} {register}, foo; @!p mov.{kind} {register}, baz;
        known: .calltargets baz, bar, foo; call (r0), {register}, (t, 3), known;"""
    assert kernel(body, FUNCTIONS) == [(t + 3 if t < 5 else t - 3) & 0xFFFF_FFFF for t in range(32)]


def test_a_prototype_is_enough_for_an_indirect_call():
    before = (
        FUNCTIONS
        + """.func (.reg .u32 r) through (.reg .u32 where, .reg .u32 what)
        { P: .callprototype (.reg .u32 _) _ (.reg .u32 _, .reg .u32 _); call (r), where, (what, 2), P; ret; }"""
    )
    assert kernel("mov.u32 r1, bar; call (r0), through, (r1, t);", before) == [
        2 * t for t in range(32)
    ]
    body = """mov.u32 r1, foo; P: .callprototype (.param .u32 _) _ (.param .u32 a, .param .b32 b);
        call (r0), r1, (t, 1), P;"""
    assert kernel(body, FUNCTIONS) == [t + 1 for t in range(32)]


def test_a_prototype_without_results_begins_with_its_name():
    before = """.func g (.param .u32 a, .param .u64 at) { .reg .u32 x; .reg .u64 y; ld.param.u32 x, [a];
        ld.param.u64 y, [at]; st.global.u32 [y], x; ret; }"""
    body = """mov.u64 d3, g; P: .callprototype _ (.param .u32 _, .param .u64 _); call d3, (77, d1), P;
        ld.global.u32 r0, [d1];"""
    assert kernel(body, before) == [77] * 32


def test_indirect_calls_keep_what_is_known_of_them():
    text = (
        FUNCTIONS
        + KERNEL
        + """T: .calltargets foo, baz;
        P: .callprototype (.reg .u32 _) _ (.reg .u32 _, .reg .u32 _);
        call (r0), r1, (t, t), T; call (r0), r1, (t, t), P; call (r0), bar, (t, t); ret; }"""
    )
    calls = [item.call for item in instructions(text) if item.call is not None]
    assert [call.candidates for call in calls] == [("foo", "baz"), None, ("bar",)]
    assert isinstance(calls[0].target, PtxRegister)
    assert calls[2].target == FunctionRef("bar")


WRONG_TABLE = [
    (
        "call (r0), r1, (t, 1);",
        "a call through register r1 needs a call table, .calltargets or .callprototype",
    ),
    ("call (r0), foo, (t, 1), tab;", "foo is a function: a call of it takes no list of targets"),
    (
        "call (r0), r1, (t, 1), t;",
        "expected a call table, .calltargets or .callprototype: t is a register of type .b32",
    ),
    (
        "call (r0), r1, (t, 1), L;",
        "expected a call table, .calltargets or .callprototype: L is a label",
    ),
    (
        "call (r0), r1, (t, 1), numbers;",
        "numbers is no call table: an array in const or global space that starts with "
        "names of functions",
    ),
    (
        "call (r0), r1, (t, 1), mixed;",
        "mixed is no call table: an array in const or global space that starts with "
        "names of functions",
    ),
    ("call (r0), h0, (t, 1), tab;", "h0 has type .b16: a function's address has 32 or 64 bits"),
    ("call (r0), tab, (t, 1), tab;", "expected a function: tab is a variable in global space"),
    ("call (r0), L, (t, 1);", "expected a function: L is a label"),
    ("call (r0), k, (t, 1);", "expected a function: k is an entry"),
    (
        "call (r0), [r1], (t, 1), tab;",
        "expected a function, or a register with a function's address",
    ),
    ("call;", "call needs a function to call"),
    ("call (r0);", "call needs a function to call"),
    ("call (r0), r1, (t, 1), tab, tab;", "call has no operand behind this: expected ;"),
]


@pytest.mark.parametrize(("call", "message"), WRONG_TABLE)
def test_an_indirect_call_needs_its_list_or_prototype(call, message):
    before = (
        FUNCTIONS + ".global .u32 tab[5] = { foo, bar, baz }; .global .u32 numbers[2] = { 1, 2 }; "
        ".global .u32 mixed[2] = { foo, 1 };"
    )
    assert refused(f"L:\n{call}", before) == f"2: {message}"


WRONG_ARGUMENTS = [
    ("call (r0), foo, (t);", "foo has 2 arguments, and the call 1"),
    ("call (r0), foo;", "foo has 2 arguments, and the call 0"),
    ("call foo, (t, t);", "foo has 1 result, and the call 0"),
    ("call (r0, r1), foo, (t, t);", "foo has 1 result, and the call 2"),
    ("call (r0), foo, (t, d0);", "d0 has type .b64: expected 32 bits"),
    ("call (r0), foo, (t, h0);", "h0 has type .b16: expected 32 bits"),
    ("call (r0), foo, (p, t);", "p has type .pred: expected 32 bits"),
    ("call (d0), foo, (t, t);", "d0 has type .b64: expected 32 bits"),
    ("call (1), foo, (t, t);", "expected a register for the result, not an expression"),
    ("call (r0), foo, ([d0], t);", "expected a register or a number, not an address in brackets"),
    ("call (r0), foo, (!p, t);", "! can't stand before this"),
    (
        "call (r0), foo, (s, t);",
        "s is in shared space: expected a register, or a variable in param space",
    ),
    (
        "call (s), foo, (t, t);",
        "s is in shared space: expected a register, or a variable in param space",
    ),
    (
        "call (r0), foo, (long, t);",
        "long has 8 bytes, aligned to 8, and the parameter 4 bytes, aligned to 4",
    ),
    (
        "call (long), foo, (t, t);",
        "long has 8 bytes, aligned to 8, and the result 4 bytes, aligned to 4",
    ),
    ("call (some), swap, (t);", "expected a variable in param space of 12 bytes"),
    ("call (t), swap, (some);", "expected a variable in param space of 12 bytes"),
    (
        "call (some), swap, (more);",
        "more has 16 bytes, aligned to 4, and the parameter 12 bytes, aligned to 4",
    ),
    (
        "call (some), swap, (strict);",
        "strict has 12 bytes, aligned to 8, and the parameter 12 bytes, aligned to 4",
    ),
    ("call (o), f, (t, t);", "o is a parameter that the function is given: it can't be changed"),
    ("call (r0), r1, (t), T;", "foo has 2 arguments, and the call 1"),
    ("call (r0), r1, (t, d0), T;", "d0 has type .b64: expected 32 bits"),
    ("call (d0), r1, (t, t), T;", "d0 has type .b64: expected 32 bits"),
    ("call (r0), r1, (t), tab;", "foo has 2 arguments, and the call 1"),
    ("call (r0), r1, (t, d0), tab;", "d0 has type .b64: expected 32 bits"),
    ("call (r0), r1, (t, t), odd;", "one has 1 argument, and the call 2"),
    ("call (r0), r1, (5), M;", "one and wide, of one list, take or give something else"),
    ("call (r0), r1, (1), L;", "one and sure, of one list, take or give something else"),
    ("call (r0), sure, (long);", "the parameter is a predicate: expected a register of type .pred"),
    ("call (r0), sure, (t);", "t has type .b32: expected a predicate"),
    ("call (p), one, (t);", "p has type .pred: expected 32 bits"),
    ("call (r0), r1, (t, t), P;", "P has 1 argument, and the call 2"),
    ("call (r0), r1, (t), P;", "t has type .b32: expected 64 bits"),
    ("call r1, (d0), P;", "P has 1 result, and the call 0"),
]


@pytest.mark.parametrize(("call", "message"), WRONG_ARGUMENTS)
def test_arguments_and_results_agree_with_the_signature(call, message):
    before = (
        FUNCTIONS
        + BY_VALUE
        + """.func (.reg .u32 r) one (.reg .u32 a) { mov.u32 r, a; ret; }
        .func (.reg .u32 r) wide (.reg .u64 a) { cvt.u32.u64 r, a; ret; }
        .func (.reg .u32 r) sure (.reg .pred q) { selp.u32 r, 1, 0, q; ret; }
        .global .u32 tab[5] = { foo, bar }; .global .u32 odd[2] = { foo, one };"""
    )
    body = """.shared .u32 s; .param .u64 long; .param .align 4 .b8 some[12]; .param .align 4 .b8 more[16];
        .param .align 8 .b8 strict[12]; T: .calltargets foo, bar;
        M: .calltargets one, wide; L: .calltargets one, sure; P: .callprototype (.reg .u32 _) _ (.reg .u64 _);\n"""
    assert refused(f"{body}{call}", before) == f"4: {message}"


def test_signs_of_arguments_need_not_agree():
    body = ".reg .s32 x; .reg .b32 y; mov.s32 x, -1; mov.b32 y, 3; call (r0), foo, (x, y);"
    assert kernel(body, FUNCTIONS) == [2] * 32


def test_lists_of_targets_and_prototypes_stand_in_a_function():
    assert complaint("T: .calltargets f;").startswith("1:1: unexpected 'T'")
    assert complaint("P: .callprototype _ ();").startswith("1:1: unexpected 'P'")


def test_functions_are_declared_before_a_table_names_them():
    message = "f is not declared: it is declared before it is named"
    assert complaint(".global .u32 t[1] = { f };\n.func f() { ret; }") == f"1:23: {message}"
    assert complaint(f"{KERNEL} .const .u32 t[1] = {{ f }}; ret; }} .func f() {{ ret; }}").endswith(
        message
    )
    message = "f is not declared: a function is declared before it is named"
    assert refused("T: .calltargets f;") == f"1: {message}"
    assert complaint(f"{KERNEL} T: .calltargets f; ret; }} .func f() {{ ret; }}").endswith(message)
    assert refused("T: .calltargets t;") == "1: expected a function: t is a register of type .b32"
    # A declaration without a body is enough, if the definition follows.
    module_of(
        f".func f(); .global .u32 t[1] = {{ f }}; {KERNEL} T: .calltargets f; ret; }} .func f() {{ ret; }}"
    )
    unfinished = complaint(f".func f();\n{KERNEL} T: .calltargets f; ret; }}")
    assert unfinished.endswith("f is declared and named, but has no body")


def test_a_declaration_and_its_function_agree():
    otherwise = complaint(".func f(.reg .u32 a);\n.func f(.reg .u64 a) { ret; }")
    assert otherwise == "2:7: f was declared otherwise in line 4"
    assert (
        complaint(".func f();\n.func f() { ret; }\n.func f() { ret; }") == "3:7: f has two bodies"
    )


def test_functions_call_themselves():
    before = """.func (.reg .u32 r) sum (.reg .u32 n) { .reg .pred p; .reg .u32 x; .local .u32 kept[4]; mov.u32 r, 0;
        setp.eq.u32 p, n, 0; @p ret; st.local.u32 [kept+8], n; sub.u32 x, n, 1; call (r), sum, (x);
        ld.local.u32 x, [kept+8]; add.u32 r, r, x; ret; }"""
    assert kernel("call (r0), sum, (t);", before) == [t * (t + 1) // 2 for t in range(32)]


def test_functions_call_one_another():
    before = """.func (.reg .u32 r) odd (.reg .u32 n);
        .func (.reg .u32 r) even (.reg .u32 n) { .reg .pred p; .reg .u32 x; mov.u32 r, 1; setp.eq.u32 p, n, 0; @p ret;
          sub.u32 x, n, 1; call (r), odd, (x); ret; }
        .func (.reg .u32 r) odd (.reg .u32 n) { .reg .pred p; .reg .u32 x; mov.u32 r, 0; setp.eq.u32 p, n, 0; @p ret;
          sub.u32 x, n, 1; call (r), even, (x); ret; }"""
    assert kernel("call (r0), even, (t);", before) == [1 - t % 2 for t in range(32)]


@pytest.mark.parametrize(
    ("target", "cause"),
    [
        ("one", "0xa0 is the address of no function that takes and gives the same"),
        ("baz", "baz is not among the functions that the call lists"),
        ("7", "0x7 is the address of no function that takes and gives the same"),
    ],
)
def test_a_function_that_the_call_does_not_know_is_a_fault_of_the_program(target, cause):
    call = f"mov.u32 r1, {target}; T: .calltargets foo; call (r0), r1, (t, 1), T;"
    before = (
        FUNCTIONS
        + ".func (.reg .u32 r) dummy() { ret; } .func (.reg .u32 r) one (.reg .u32 a) { ret; }"
    )
    with pytest.raises(PtxRunError, match=re.escape(f"call: {cause}")):
        run(placed(before + KERNEL + call + END))


# The whole page

SPELLINGS = [
    "{ sub.u32 n, m, k; mov.u32 j, n; }",
    "@p bra.uni leave; @q bra ahead; bra leave;",
    "@p brx.idx which, places; brx.idx which, places;",
    "call start; call.uni take, (n); @p call (j), both, (n, m);",
    "@p ld.global.u32 which, [handlers+4]; @q ld.global.u32 which, [handlers]; call (j), which, (n, m), handlers;",
    "@p mov.u32 which, baz; known: .calltargets baz, foo; @q mov.u32 which, foo; call (j), which, (n, m), known;",
    "shape: .callprototype _ (.param .u32 _, .param .u32 _); call which, (n, m), shape;",
    "@p ret; @q exit; exit; ret;",
]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_instructions_may_be_written_so(spelling):
    module_of(f"""{FUNCTIONS} .func start {{ ret; }} .func take (.reg .u32 a) {{ ret; }}
        .func (.reg .u32 r) both (.reg .u32 a, .reg .u32 b) {{ ret; }} .global .u32 handlers[2] = {{ foo, bar }};
        .function test () {{ .reg .u32 j, k, m, n, which; .reg .pred p, q; places: .branchtargets one, two;
        one: two: ahead: {spelling} leave: ret; }}""")
