"""The layout of a module's variables, functions and tables: offsets in banks, in shared and local
memory.
"""

import pytest

from sim.support.alignment import round_up
from sim.toolchain.compiler import layout
from sim.toolchain.compiler.layout import MemoryLayout, SharedLayout
from sim.toolchain.ptx.front_end import parse_ptx
from testbench.ptx.text import HEADER

TEXT = (
    HEADER
    + """
.const .align 1 .b8 c1[3]; .const .align 8 .b8 c2[16]; .const .align 4 .b8 c3[5];
.global .align 4 .b8 g1[4]; .global .align 8 .b8 g2[8];
.shared .align 4 .b8 s1[12]; .shared .align 8 .b8 s2[8];
.func (.reg .b32 r) f(.reg .b32 t)
{ .global .align 2 .b8 own[6]; .reg .b32 q; mov.u32 q, s2; add.u32 r, t, q; ret; }
.func (.reg .b32 r) g(.reg .b32 t) { mov.u32 r, t; ret; }
.extern .func (.reg .b32 r) other(.reg .b32 t);
.visible .entry k(.param .u64 o)
{ .reg .b32 t, r; mov.u32 t, %tid.x;
  A: .branchtargets X, Y, X; B: .branchtargets X, Y;
  brx.idx t, A; X: brx.idx t, B; Y: mov.u32 r, s1; call (r), f, (t); ret; }
.visible .entry m(.param .u64 o)
{ .reg .b32 t, r; mov.u32 t, %tid.x; call (r), f, (t); call (r), g, (t); ret; }
"""
)
KERNEL = ".visible .entry k() { ret; }\n"


@pytest.fixture(scope="module")
def module():
    return parse_ptx(TEXT, "layout.ptx")


def named(offsets):
    """Returns the offsets by the variables' names."""
    return {variable.name: at for variable, at in offsets.items()}


def test_the_next_multiple_of_an_alignment():
    assert [round_up(place, 8) for place in (0, 1, 7, 8, 9)] == [0, 8, 8, 8, 16]
    assert round_up(5, 1) == 5


def test_constants_follow_one_another_each_aligned(module):
    found = MemoryLayout.of(module)
    assert named({each: found.offsets[each] for each in found.constants}) == {
        "c1": 0, "c2": 8, "c3": 24,
    }  # fmt: skip
    assert found.constant_bytes == 24 + 5


def test_global_variables_are_those_of_the_module_and_of_its_functions_each_once(module):
    names = [variable.name for variable in MemoryLayout.of(module).globals]
    assert names[:2] == ["g1", "g2"] and len(names) == 3 and names[2].endswith("own")


def test_variables_in_local_space_are_words_and_end_with_a_frame():
    """A module may have them before PTX 3.0. They have their declared alignment, at least 4 bytes;
    frames are multiples of 16 bytes.
    """
    declared = (
        ".local .align 1 .b8 l1[3]; .local .align 8 .b8 l2[8]; .local .align 2 .b8 l3[2];\n"
        ".global .align 4 .b8 g[400];\n"
    )
    old = ".version 2.3\n.target sm_20\n.address_size 64\n"
    found = MemoryLayout.of(parse_ptx(old + declared + KERNEL, "local.ptx"))
    assert named(found.locals) == {"l1": 0, "l2": 8, "l3": 16} and found.local_bytes == 32
    assert MemoryLayout.of(parse_ptx(old + KERNEL, "none.ptx")).local_bytes == 0


def test_handles_are_places_in_tables_behind_the_first_which_is_nobodys(module):
    """The functions are those that have a body and are no kernels."""
    assert MemoryLayout.of(module).handles == {"f": 8, "g": 16}


def test_tables_are_far_if_all_of_them_may_not_fit_an_instructions_offset(module, monkeypatch):
    """The tables are words of five branch targets, and double words of two functions and the null
    handle.
    """
    size = 4 * (3 + 2) + 8 * (2 + 1)
    for limit, is_far in ((size - 1, True), (size, False), (size + 1, False)):
        monkeypatch.setattr(layout, "FAR_TABLE", limit)
        assert MemoryLayout.of(module).far_tables == is_far
    monkeypatch.undo()
    assert not MemoryLayout.of(module).far_tables and layout.FAR_TABLE == 32768


def test_each_kernel_has_the_shared_variables_that_it_and_its_functions_name(module):
    found = MemoryLayout.of(module)
    assert {name: sorted(named(one.offsets)) for name, one in found.shared.items()} == {
        "k": ["s1", "s2"], "m": ["s2"],
    }  # fmt: skip
    assert found.kernels == {"f": ["k", "m"], "g": ["m"], "other": [], "k": ["k"], "m": ["m"]}
    used = {name: [one.name for one in each] for name, each in found.shared_used.items()}
    assert used == {"f": ["s2"], "g": [], "other": [], "k": ["s1"], "m": []}


def test_a_function_is_compiled_once_for_each_choice_of_offsets(module):
    found = MemoryLayout.of(module)
    (shared,) = found.shared_used["f"]
    versions = found.versions("f")
    offsets = {name: found.shared[name].offsets[shared] for name in ("k", "m")}
    assert offsets["m"] == 0 != offsets["k"]
    assert [(kernels, made.offsets[shared]) for kernels, made in versions] == [
        (["k"], offsets["k"]), (["m"], 0),
    ]  # fmt: skip
    assert all(made.offsets.items() >= found.offsets.items() for _, made in versions)
    assert shared not in found.offsets
    assert found.versions("g") == [(["m"], found)]  # it uses none
    assert found.versions("other") == [([], found)]  # no kernel calls it


def shared(texts):
    """Returns the shared variables of some declarations, in their order."""
    declared = "".join(f"{text};\n" for text in texts)
    names = [text.split()[-1].partition("[")[0] for text in texts]
    variables = {each.name: each for each in parse_ptx(HEADER + declared + KERNEL, "s").variables}
    return [variables[name] for name in names]


@pytest.mark.parametrize(
    ("texts", "offsets", "size", "alignment"),
    [
        ([], {}, 0, 1),
        ([".shared .align 1 .b8 a[3]"], {"a": 0}, 3, 1),
        ([".shared .align 1 .b8 a[3]", ".shared .align 4 .b8 b[8]"], {"a": 0, "b": 4}, 12, 4),
        ([".shared .align 32 .b8 a[3]", ".shared .align 4 .b8 b[8]"], {"a": 0, "b": 4}, 12, 32),
        ([".extern .shared .align 4 .b8 d[]"], {"d": 0}, 0, 16),
        (
            [".extern .shared .align 4 .b8 d[]", ".shared .align 4 .b8 a[20]"],
            {"a": 0, "d": 32}, 32, 16,
        ),
        (
            [".extern .shared .align 64 .b8 d[]", ".extern .shared .align 4 .b8 e[]",
             ".shared .align 4 .b8 a[20]"],
            {"a": 0, "d": 64, "e": 64}, 64, 64,
        ),
    ],
)  # fmt: skip
def test_shared_variables_of_a_known_size_come_before_those_of_the_launch(
    texts, offsets, size, alignment
):
    """A variable whose size is defined by the launch has an address that is a multiple of at least
    16 bytes.
    """
    found = SharedLayout.of(shared(texts))
    assert named(found.offsets) == offsets
    assert (found.size, found.alignment) == (size, alignment)


def test_a_variable_that_a_kernel_does_not_use_is_behind_all_others():
    used, unused = shared([".shared .align 4 .b8 a[12]", ".shared .align 4 .b8 b[8]"])
    found = SharedLayout.of([used])
    assert (found.offset(used), found.offset(unused)) == (0, 12)
    assert SharedLayout.of([]).offset(used) == 0
