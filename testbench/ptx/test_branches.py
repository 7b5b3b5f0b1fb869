"""PTX's rules about scopes, guards, branches and ends: one claim for each test. ``docs/ptx.md``
lists them.
"""

import re

import pytest

from sim.model.ptx.run import PtxRunError, run
from sim.toolchain.ptx.module import PtxInstruction, PtxLabel
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

# {}


def test_braces_hold_instructions():
    assert kernel("{ add.s32 r0, t, 1; mov.s32 r1, r0; } mov.u32 r0, r1;") == [
        t + 1 for t in range(32)
    ]


@pytest.mark.parametrize(
    ("declaration", "use"),
    [
        (".reg .u32 x;", "mov.u32 x, 1;"),
        (".shared .u32 x;", "ld.shared.u32 r0, [x];"),
        (".local .u32 x;", "ld.local.u32 r0, [x];"),
        (".param .u32 x;", "st.param.u32 [x], 1;"),
        (".global .u32 x;", "ld.global.u32 r0, [x];"),
        (".reg .u32 v<4>;", "mov.u32 v3, 1;"),
    ],
)
def test_what_a_scope_declares_is_not_there_behind_it(declaration, use):
    module_of(f"{KERNEL} {{ {declaration} {use} }} ret; }}")
    name = "v3" if "v<" in declaration else "x"
    assert refused(f"{{ {declaration} {use} }}\n{use}") == f"2: {name} is not declared here"


def test_an_inner_name_hides_an_outer_one_up_to_its_brace():
    body = "mov.u32 r0, 1; { .reg .b32 r0; mov.u32 r0, 2; { .reg .b32 r0; mov.u32 r0, 3; } add.u32 r1, r0, 0; } "
    assert kernel(body + "add.u32 r0, r0, r1;") == [3] * 32


def test_scopes_beside_one_another_may_declare_the_same_names():
    body = "{ .reg .b32 x; mov.u32 x, t; mov.u32 r0, x; } { .reg .b64 x; cvt.u64.u32 x, r0; cvt.u32.u64 r0, x; }"
    assert kernel(body) == list(range(32))


def test_a_name_is_declared_once_in_a_scope():
    assert (
        refused(".reg .b32 x;\n.reg .b64 x;")
        == "2: x is declared twice in the same scope, first in line 9"
    )


def test_labels_belong_to_their_scope_too():
    assert (
        refused("bra L;\n{ L: mov.u32 r0, 1; }")
        == "1: L is no label of this function that is visible here"
    )
    assert (
        kernel("{ bra L; L: mov.u32 r0, 1; } { bra L; mov.u32 r0, 7; L: add.u32 r0, r0, 1; }")
        == [2] * 32
    )


# @


def test_a_guard_decides_thread_by_thread():
    body = "setp.lt.u32 p, t, 5; mov.u32 r0, 9; @p mov.u32 r0, 1; @!p add.u32 r0, r0, t;"
    assert kernel(body) == [1 if t < 5 else 9 + t for t in range(32)]


@pytest.mark.parametrize(
    "instruction",
    [
        "ld.global.u32 r0, [d1]",
        "st.global.u32 [d1], 3",
        "bra OUT",
        "exit",
        "ret",
        "call f, ()",
        "atom.global.add.u32 r0, [d0], 1",
        "setp.eq.u32 q, t, 0",
        "trap",
    ],
)
def test_a_guard_may_stand_before_any_instruction(instruction):
    found = instructions(f".func f() {{ ret; }} {KERNEL} @!p {instruction}; OUT: ret; }}")[4]
    assert found.guard is not None
    assert found.guard.negated
    assert found.guard.register.name == "p"


def test_a_guard_before_braces_is_one_for_all_that_is_in_them():
    body = "setp.lt.u32 p, t, 5; mov.u32 r0, 9; @p { add.u32 r0, r0, t; setp.eq.u32 p, t, 77; add.u32 r0, r0, 1; }"
    assert kernel(body) == [10 + t if t < 5 else 9 for t in range(32)]
    assert kernel(body.replace("@p", "@!p")) == [10 + t if t >= 5 else 9 for t in range(32)]


def test_a_guard_is_a_predicate():
    assert (
        refused("@t mov.u32 r0, 1;") == "1: t is no predicate: a guard is a register of type .pred"
    )
    assert refused("@nobody mov.u32 r0, 1;") == "1: nobody is not declared here"


# bra


def test_a_branch_continues_at_its_label():
    assert kernel("mov.u32 r0, 1; bra L; mov.u32 r0, 2; L: add.u32 r0, r0, 4;") == [5] * 32


def test_a_branch_is_conditional_by_its_guard():
    body = "mov.u32 r0, 0; L: add.u32 r0, r0, 1; setp.lt.u32 p, r0, t; @p bra L;"
    assert kernel(body) == [max(1, t) for t in range(32)]


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("t", "expected a label: t is a register of type .b32"),
        ("f", "expected a label: f is a function"),
        ("ts", "expected a label: ts is a list of branch targets"),
        ("4", "expected a label"),
        ("[L]", "expected a label"),
        ("M", "M is no label of this function that is visible here"),
    ],
)
def test_the_target_of_a_branch_is_a_label(target, message):
    body = f"L: ts: .branchtargets L;\nbra {target};"
    assert refused(body, ".func f() { M: ret; }") == f"2: {message}"


def test_uni_is_kept_for_whom_it_may_concern():
    text = f""".func f() {{ ret.uni; }} {KERNEL} ts: .branchtargets L; L: bra.uni L; brx.idx.uni t, ts; call.uni f;
        bra L; brx.idx t, ts; call f; ret; }}"""
    assert [item.uniform for item in instructions(text)[4:]] == [
        True,
        True,
        True,
        False,
        False,
        False,
        False,
    ]
    assert [item.uniform for item in instructions(text, "f")] == [True]
    assert kernel(
        "bra.uni L; mov.u32 r0, 1; L: call.uni (r0), f, (t);",
        ".func (.reg .u32 r) f(.reg .u32 a) { add.u32 r, a, 2; ret.uni; }",
    ) == [t + 2 for t in range(32)]


# brx.idx

SWITCH = """ ts: .branchtargets A, B, C, A;
 {guard} brx.idx{uni} {index}, ts;
 mov.u32 r0, 99; bra OUT;
A: mov.u32 r0, 10; bra OUT;
B: mov.u32 r0, 11; bra OUT;
C: mov.u32 r0, 12;
OUT:
"""


def test_an_indexed_branch_counts_its_targets_from_0():
    body = "and.b32 r1, t, 3;" + SWITCH.format(guard="", uni="", index="r1")
    assert kernel(body) == [(10, 11, 12, 10)[t % 4] for t in range(32)]
    body = "mov.u32 r1, 2;" + SWITCH.format(guard="", uni=".uni", index="r1")
    assert kernel(body) == [12] * 32


def test_an_indexed_branch_is_conditional_by_its_guard():
    body = "and.b32 r1, t, 3; setp.lt.u32 p, t, 6;" + SWITCH.format(guard="@p", uni="", index="r1")
    assert kernel(body) == [(10, 11, 12, 10)[t % 4] if t < 6 else 99 for t in range(32)]


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ("d0", "d0 has type .b64: expected 32 bits"),
        ("h0", "h0 has type .b16: expected 32 bits"),
        ("1", "the index of brx.idx is a register of type .u32"),
        ("p", "p has type .pred: expected 32 bits"),
    ],
)
def test_the_index_is_a_register_of_32_bits(index, message):
    assert refused(SWITCH.format(guard="", uni="", index=index)) == f"2: {message}"


@pytest.mark.parametrize("table", ["A", "t", "f", "nobody", "x", "ct"])
def test_the_list_is_the_label_of_branchtargets(table):
    before = ".func f() { ret; } .global .u64 x[1] = { f };"
    body = f"A: ct: .calltargets f;\nbrx.idx t, {table};"
    assert (
        refused(body, before)
        == f"2: {table} is no .branchtargets of this function, declared before it is used"
    )


def test_an_index_behind_the_end_of_the_list_is_a_fault_of_the_program():
    text = KERNEL + "add.u32 r1, t, 4;" + SWITCH.format(guard="", uni="", index="r1") + END
    with pytest.raises(
        PtxRunError, match=r"thread \(0, 0, 0\) of CTA \(0, 0, 0\) at 8:3 brx: target 4 of 4"
    ):
        run(placed(text))


def test_branchtargets_stand_before_their_use_in_the_function():
    unknown = "ts is no .branchtargets of this function, declared before it is used"
    assert refused("A: brx.idx t, ts;\nts: .branchtargets A;") == f"1: {unknown}"
    assert refused("A: { ts: .branchtargets A; }\nbrx.idx t, ts;") == f"2: {unknown}"
    assert (
        refused("A: brx.idx t, ts;", ".func f() { A: ts: .branchtargets A; ret; }")
        == f"1: {unknown}"
    )
    assert complaint("ts: .branchtargets A;").startswith("1:1: unexpected 'ts'")


def test_branchtargets_are_labels_of_the_function():
    message = "is no label of this function that is visible here"
    assert refused("ts: .branchtargets A;", ".func f() { A: ret; }") == f"1: A {message}"
    assert refused("A: ts: .branchtargets A,\nB;") == f"2: B {message}"
    assert (
        refused("ts: .branchtargets f;", ".func f() { ret; }")
        == "1: expected a label: f is a function"
    )
    # The following ones are equivalent to the previous ones.
    module_of(KERNEL + SWITCH.format(guard="", uni="", index="t") + END)


# ret and exit


def test_threads_return_from_different_places():
    before = """.func (.reg .u32 r) f (.reg .u32 n) { .reg .pred p; mov.u32 r, 1; setp.lt.u32 p, n, 3; @p ret;
        mov.u32 r, 2; setp.lt.u32 p, n, 9; @p ret; mov.u32 r, 3; ret; }"""
    assert kernel("call (r1), f, (t); add.u32 r0, r1, t;", before) == [
        (1 if t < 3 else 2 if t < 9 else 3) + t for t in range(32)
    ]


def test_results_are_what_the_return_parameters_hold():
    before = (
        ".func (.param .u32 r) f (.reg .u32 n) { st.param.u32 [r], 4; st.param.u32 [r], n; ret; }"
    )
    assert kernel("call (r0), f, (t);", before) == list(range(32))


def test_the_end_of_a_body_returns():
    before = ".func (.reg .u32 r) f (.reg .u32 n) { add.u32 r, n, 6; }"
    assert kernel("call (r0), f, (t);", before) == [t + 6 for t in range(32)]


def test_a_return_in_an_entry_ends_the_thread():
    assert kernel("setp.lt.u32 p, t, 9; @p ret; mov.u32 r0, 5;") == [
        0 if t < 9 else 5 for t in range(32)
    ]


def test_exit_ends_the_thread_wherever_it_is():
    before = ".func f (.reg .u32 n) { .reg .pred p; setp.lt.u32 p, n, 9; @p exit; ret; }"
    assert kernel("call f, (t); mov.u32 r0, 5;", before) == [0 if t < 9 else 5 for t in range(32)]
    assert kernel("setp.ge.u32 p, t, 9; @p exit; mov.u32 r0, 5;") == [
        5 if t < 9 else 0 for t in range(32)
    ]


def test_a_barrier_does_not_wait_for_threads_that_have_ended():
    body = """.shared .u32 s; setp.ge.u32 p, t, 64; @p exit; setp.eq.u32 p, t, 40; @p st.shared.u32 [s], 8;
        bar.sync 0; ld.shared.u32 r0, [s];"""
    assert kernel(body, block=128, words=128) == [8] * 64 + [0] * 64


@pytest.mark.parametrize("text", ["ret 1;", "exit 1;", "ret.foo;", "exit.uni;"])
def test_ret_and_exit_take_nothing(text):
    assert re.match("1: (ret|exit) (takes 0 operands, not 1|has no modifier)", refused(text))


def test_labels_are_objects_of_their_function():
    body = module_of(f"{KERNEL} L: bra L; {{ L: bra L; }} }}").functions["k"].body or ()
    labels = [item for item in body if isinstance(item, PtxLabel)]
    targets = [
        item.operands[0]
        for item in body
        if isinstance(item, PtxInstruction) and item.opcode == "bra"
    ]
    assert [label.name for label in labels] == ["L", "L.1"]
    assert targets == labels
