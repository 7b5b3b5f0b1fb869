"""Several PTX texts joined into one: names that are shared, and names local to a text."""

import pytest

from sim.toolchain.module import ProgramError
from sim.toolchain.ptx.joining import join

HEAD = ".version 7.8\n.target sm_50\n.address_size 64\n"
OTHER = HEAD + ".visible .global .u32 other;\n"


def joined(*items, head=HEAD):
    """Returns the lines of several texts, after the header."""
    lines = join([f"{head}{item}\n" for item in items]).splitlines()
    assert lines[:3] == HEAD.splitlines()
    return [" ".join(line.split()) for line in lines[3:]]


def test_one_text_stays_as_it_is():
    text = "anything"
    assert join([text]) is text


@pytest.mark.parametrize(
    ("first", "second", "found"),
    [
        ((".version 6.4", ".target sm_50"), (".version 7.8", ".target sm_50"), ("7.8", "sm_50")),
        ((".version 7.0", ".target sm_61"), (".version 6.9", ".target sm_50"), ("7.0", "sm_61")),
        ((".version 6.10", ".target sm_50"), (".version 6.9", ".target sm_70"), ("6.10", "sm_70")),
        (
            (".version 1.4", ".target sm_13, map_f64_to_f32"),
            (".version 1.0", ".target compute_10"),
            ("1.4", "sm_13, map_f64_to_f32"),
        ),
        ((".version 7.x", ".target sm_50"), (".version 7.8", ".target sm_50"), ("7.8", "sm_50")),
        ((".version 8 // ?", ".target sm_50"), (".version 7.8", ".target sm_50"), ("8.0", "sm_50")),
    ],
)
def test_the_newest_version_and_machine_are_those_of_the_whole(first, second, found):
    texts = [
        f"{version}\n{target} /* a */ \n.address_size 64\n" for version, target in (first, second)
    ]
    assert join(texts) == f".version {found[0]}\n.target {found[1]}\n.address_size 64\n\n"


@pytest.mark.parametrize(
    ("declared", "new"),
    [
        (".global .u32 x;", ".global .u32 x$2;"),
        (".global .u32 y, x, z;", ".global .u32 y, x$2, z;"),
        (".global .u32 y[4], x[2][3];", ".global .u32 y[4], x$2[2][3];"),
        (".global .u32 y = 5, x = 7;", None),  # names after an initializer are found as well
        (".global .align 8 .b8 x[8] = { 1, 2 };", ".global .align 8 .b8 x$2[8] = { 1, 2 };"),
        (".const .u64 p[1] = { x }; .global .u32 x;", ".const .u64 p[1] = { x$2 };"),
        (".global .u32 xx; .global .u32 x; // x", ".global .u32 xx;"),
        (".func x() { ret; }", ".func x$2() { ret; }"),
        (".func (.reg .b32 r) x(.reg .b32 a);", ".func (.reg .b32 r) x$2(.reg .b32 a);"),
        (".entry x(.param .u64 o) { ret; }", ".entry x$2(.param .u64 o) { ret; }"),
    ],
)
def test_a_static_name_that_an_earlier_text_has_gets_the_number_of_its_text(declared, new):
    lines = joined(".global .u32 x;", declared)
    assert lines[0] == ".global .u32 x;"
    assert (new or declared.replace("x", "x$2")) in lines[1:]


def test_a_name_that_all_texts_see_is_never_that_of_a_static_one():
    assert joined(".global .u32 x;", ".visible .global .u32 x;", ".global .u32 x;") == [
        ".global .u32 x$1;", ".visible .global .u32 x;", ".global .u32 x$3;",
    ]  # fmt: skip
    assert joined(".global .u32 x;", ".global .u32 x; .global .u32 x$2;")[1:] == [
        ".global .u32 x$2_;", ".global .u32 x$2;",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "changed"),
    [
        ("add.u32 r, add, 1;", "add.u32 r, add$2, 1;"),
        ("@p add.u32 add, r, 1;", "@p add.u32 add$2, r, 1;"),
        ("@!p add.u32 r, 1, add;", "@!p add.u32 r, 1, add$2;"),
        ("L: add.u32 r, r, add+4;", "L: add.u32 r, r, add$2+4;"),
        ("add: ret;", "add$2: ret;"),
        ("{ add.u32 r, r, r; }", "{ add.u32 r, r, r; }"),
        ("ld.global.u32 r, [add-4];", "ld.global.u32 r, [add$2-4];"),
        ("mov.v2.u32 {add, r}, d;", "mov.v2.u32 {add$2, r}, d;"),
        ("@add bra L;", "@add$2 bra L;"),
    ],
)
def test_operations_are_no_names(line, changed):
    """A static variable has the name of an instruction."""
    text = ".global .u32 add; .func f() {{ {} }}"
    (_, _, function) = joined(".global .u32 add;", text.format(line))
    assert function == f".func f() {{ {changed} }}"


@pytest.mark.parametrize(
    ("first", "second", "lines"),
    [
        # Functions: a strong definition is kept, else the first; other definitions become
        # declarations of it.
        (
            ".weak .func f() { ret; }", ".visible .func f() { trap; }",
            [".visible .func f();", ".visible .func f() { trap; }"],
        ),
        (
            ".weak .func f() { ret; }", ".weak .func f() { trap; }",
            [".weak .func f() { ret; }", ".weak .func f();"],
        ),
        (
            ".extern .func f();", ".weak .func f() { trap; }",
            [".weak .func f();", ".weak .func f() { trap; }"],
        ),
        (".extern .func f();", ".extern .func f();", [".extern .func f();"] * 2),
        # Kernels have no declaration.
        (
            ".weak .entry k() { ret; }", ".weak .entry k() { trap; }",
            [".weak .entry k() { ret; }"],
        ),
        # A variable is declared before its definition, not after it.
        (
            ".weak .global .u32 v = 1;", ".visible .global .u32 v = 2;",
            [".extern .global .u32 v;", ".visible .global .u32 v = 2;"],
        ),
        (".common .global .u32 v;", ".common .global .u32 v;", [".common .global .u32 v;"]),
        (
            ".extern .global .u32 v;", ".visible .global .u32 v = 2;",
            [".extern .global .u32 v;", ".visible .global .u32 v = 2;"],
        ),
        # A variable without a definition has one declaration, the one with the largest alignment.
        (
            ".extern .shared .align 4 .b8 s[];", ".extern .shared .align 16 .b8 s[];",
            [".extern .shared .align 16 .b8 s[];"],
        ),
        (
            ".extern .shared .align 16 .b8 s[];", ".extern .shared .b8 s[];",
            [".extern .shared .align 16 .b8 s[];"],
        ),
    ],
)  # fmt: skip
def test_of_what_all_texts_see_one_definition_stays(first, second, lines):
    assert " ".join(joined(first, second)).replace(" ;", ";") == " ".join(lines)


def test_two_definitions_that_are_not_weak_are_refused():
    with pytest.raises(ProgramError, match="f is defined in two of the texts that are linked"):
        joined(".visible .func f() { ret; }", ".visible .func f() { ret; }")
    with pytest.raises(ProgramError, match="v is defined in two"):
        joined(".visible .global .u32 v;", ".visible .global .u32 v;")


def test_comments_strings_and_marks_for_debuggers_hold_no_names_and_end_nothing():
    skipped = '// x; }\n/* x; { */ .loc 1 2 3\n.pragma "x;";\n.section .debug { .b8 x }\n'
    assert joined(".global .u32 x;", f"{skipped} .global .u32 y;")[-1].endswith(".global .u32 y;")
    body = '.func f() { .pragma "x;"; // }\n ret; } .global .u32 x;'
    assert joined(".global .u32 x;", body)[-1] == ".global .u32 x$2;"
