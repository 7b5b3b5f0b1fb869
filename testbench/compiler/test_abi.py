"""Locations of a function's arguments and results: registers R4 to R15, then words of the stack."""

import pytest

from sim.toolchain.assembly.assembler import assemble
from sim.toolchain.compiler import compile_module
from sim.toolchain.compiler.abi import STANDARD_CLOBBERS, ArgumentLocations
from sim.toolchain.cubin.loader import load
from testbench.compiler.runs import words_left
from testbench.ptx.text import module_of


def registers(kind: str, count: int) -> list[str]:
    return [f".reg .{kind}"] * count


def bytes_of(size: int, alignment: int) -> str:
    return f".param .align {alignment} .b8 {{}}[{size}]"


def locations(arguments: list[str], results: list[str]) -> ArgumentLocations:
    """Returns the locations for a function with these declarations of parameters, which get unique
    names.
    """

    def listed(items: list[str], letter: str) -> str:
        named = [
            item.format(f"{letter}{at}") if "{}" in item else f"{item} {letter}{at}"
            for at, item in enumerate(items)
        ]
        return ", ".join(named)

    text = f".func ({listed(results, 'r')}) f({listed(arguments, 'a')}) {{ ret; }}"
    return ArgumentLocations.of(module_of(text).functions["f"].signature)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ()),
        (registers("b32", 3), ((4,), (5,), (6,))),
        (registers("pred", 1) + registers("b16", 1), ((4,), (5,))),
        (registers("b32", 1) + registers("b64", 1), ((4,), (6, 7))),
        (registers("b64", 6), ((4, 5), (6, 7), (8, 9), (10, 11), (12, 13), (14, 15))),
        ([bytes_of(1, 1), bytes_of(5, 4)], ((4,), (5, 6))),
        ([bytes_of(4, 1), bytes_of(12, 8)], ((4,), (6, 7, 8))),
        ([bytes_of(48, 4)], (tuple(range(4, 16)),)),
    ],
)
def test_arguments_are_in_registers_double_words_in_even_ones(arguments, words):
    found = locations(arguments, arguments)
    assert found.argument_words == found.result_words == words and found.stack_bytes == 0


@pytest.mark.parametrize(
    ("arguments", "on_stack", "size"),
    [
        (registers("b32", 13), {12: [0]}, 4),
        (registers("b32", 12) + registers("b64", 2), {12: [0, 1], 13: [2, 3]}, 16),
        (registers("b32", 13) + registers("b64", 1), {12: [0], 13: [2, 3]}, 16),
        ([bytes_of(52, 4)], {0: list(range(13))}, 52),
        (registers("b32", 11) + registers("b64", 1), {11: [0, 1]}, 8),
    ],
)
def test_what_finds_no_register_is_on_the_stack(arguments, on_stack, size):
    found = locations(arguments, [])
    words = {
        at: [~word for word in each]
        for at, each in enumerate(found.argument_words)
        if any(word < 0 for word in each)
    }
    assert (words, found.stack_bytes) == (on_stack, size)


def test_a_smaller_argument_behind_one_on_the_stack_may_have_a_register():
    assert locations([bytes_of(52, 4), ".reg .b32"], []).argument_words[1] == (4,)


def test_results_are_on_the_stack_behind_the_arguments():
    found = locations(registers("b32", 13), registers("b32", 13))
    assert (found.argument_words[12], found.result_words[12]) == ((~0,), (~1,))
    assert found.result_words[0] == (4,) and found.stack_bytes == 8
    assert locations([], registers("b32", 13)).stack_bytes == 4


def test_a_call_may_change_the_arguments_registers_and_keeps_others():
    assert set(range(17)) - STANDARD_CLOBBERS == {1, 2, 16}


_NUMBERS = range(24)
_LOADS = "".join(f"ld.global.u32 m{at}, [d+{4 * at}]; " for at in _NUMBERS)
_STORES = "".join(f"st.global.u32 [d+{4 * at}], m{23 - at}; " for at in _NUMBERS)
_MOVES = f".reg .u64 d; .reg .u32 m<24>; ld.param.u64 d, [o]; {_LOADS}{_STORES}"
_CALLS = f"""
.visible .func seen(.param .u64 o) {{ {_MOVES} ret; }}
.weak .func weak(.param .u64 o) {{ {_MOVES} ret; }}
.func internal(.param .u64 o) {{ {_MOVES} ret; }}
.func itself(.param .u64 o)
{{ .param .u64 q; {_MOVES} st.param.u64 [q], d; call itself, (q); {_STORES} ret; }}
.visible .entry k(.param .u64 o)
{{ .param .u64 q; {_MOVES} st.param.u64 [q], d; call seen, (q); call weak, (q); call internal, (q);
  call itself, (q); div.u64 d, d, 7; st.global.u32 [d], m0; ret; }}
"""


@pytest.mark.parametrize(("is_library", "keep"), [(False, {"itself"}), (True, {"itself", "seen"})])
def test_functions_that_unknown_ones_call_keep_registers(is_library, keep):
    """They are recursive functions, and the visible functions of a library, whose callers are
    elsewhere; never a kernel.
    """
    text = compile_module(module_of(_CALLS), library=is_library)
    first, *others = text.split("\n.function ")
    found = {each.split()[0].removeprefix("$k$"): "STL" in each for each in others}
    assert {"seen", "weak", "internal", "itself"} <= found.keys()
    assert {name for name, keeps in found.items() if keeps} == keep
    assert "STL" not in first


_RECURSION = """
.func (.reg .u32 r) f(.reg .u32 n)
{ .reg .pred p; .reg .u32 m; mov.u32 r, 1; setp.eq.u32 p, n, 0; @p ret;
  sub.u32 m, n, 1; call (r), f, (m); mad.lo.u32 r, r, 3, n; ret; }
.visible .entry k(.param .u64 o)
{ .reg .u64 d; .reg .u32 r; ld.param.u64 d, [o]; mov.u32 r, 6; call (r), f, (r);
  st.global.u32 [d], r; ret; }
"""


@pytest.mark.parametrize("is_library", [True, False])
def test_an_internal_function_may_call_itself(is_library):
    expected = 1
    for number in range(1, 7):
        expected = 3 * expected + number
    program = load(assemble(compile_module(module_of(_RECURSION), library=is_library), "t"))
    assert words_left(program, 1, 1) == [expected]
