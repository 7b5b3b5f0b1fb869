"""Where arguments and results of a function are: registers from R4 to R15, then words of the stack."""

import pytest

from sim.toolchain.compiler.abi import STANDARD_CLOBBERS, ArgumentLocations
from testbench.ptx.text import module_of


def registers(kind: str, count: int) -> list[str]:
    return [f".reg .{kind}"] * count


def bytes_of(size: int, alignment: int) -> str:
    return f".param .align {alignment} .b8 {{}}[{size}]"


def locations(arguments: list[str], results: list[str]) -> ArgumentLocations:
    """Of a function whose parameters are declared so, each with a name of its own."""

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
