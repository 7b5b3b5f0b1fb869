"""Initializers of variables: lists in braces, as the PTX manual defines them."""

import pytest

from testbench.ptx.text import complaint, module_of

_KERNEL = "\n.entry k() { ret; }"


@pytest.mark.parametrize(
    ("declared", "values"),
    [
        (".u32 v = 7", [7]),
        (".u32 v[3] = {1, 2}", [1, 2, 0]),
        (".s16 v[2] = {-1, 1}", [0xFFFF, 1]),
        (".u32 v[] = {1, 2, 3}", [1, 2, 3]),
        (".u32 v[2][3] = {{1, 2}, {4}}", [1, 2, 0, 4, 0, 0]),
        (".u32 v[2][3] = {1, 2, 3, 4}", [1, 2, 3, 4, 0, 0]),
        (".u32 v[2][3] = {1, {4, 5, 6}}", [1, 0, 0, 4, 5, 6]),
        (".u32 v[2][2][2] = {{{1}, {2, 3}}, {{4}}}", [1, 0, 2, 3, 4, 0, 0, 0]),
        (".u32 v[][2][3] = {{{1}}, {{2, 3}, {4}}}", [1, 0, 0, 0, 0, 0, 2, 3, 0, 4, 0, 0]),
        (".v2 .u32 v[2] = {{1}, {2, 3}}", [1, 0, 2, 3]),
        (".v2 .u32 v[2][2] = {{{1}, {2, 3}}, {{4, 5}}}", [1, 0, 2, 3, 4, 5, 0, 0]),
        (".u32 v[3][1] = {1, {2}, 3}", [1, 2, 3]),
        (".u32 v[0] = {}", []),
        (".u32 v[2][0] = {{}, {}}", []),
        (".u32 v[0][2] = {}", []),
    ],
)
def test_lists_that_are_shorter_are_filled_with_zeros(declared, values):
    (variable,) = module_of(f".global .align 8 {declared};{_KERNEL}").variables
    assert variable.count == len(values)
    initial = list(variable.initial)
    assert initial + [0] * (len(values) - len(initial)) == values


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        (".u32 v = {1}", "v is no array: it has one first value"),
        (".u32 v[2] = 1", "v is an array: its first values stand in braces"),
        (".u32 v[2] = {1, 2, 3}", "v has 2 elements and 3 first values"),
        (".u32 v[2][2] = {{1, 2, 3}}", "v has 2 elements and 3 first values"),
        (".u32 v[2][2] = {{1}, {2}, {3}}", "v has 4 elements and 6 first values"),
        (".u32 v[2] = {{1}, {2}}", "v has fewer dimensions than its first values"),
        (".u32 v[2][2] = {{{1}}}", "v has fewer dimensions than its first values"),
        (".u32 v[0] = {1}", "v has 0 elements and 1 first values"),
        (".u32 v[2][0] = {1}", "v has 0 elements and 1 first values"),
        (".u32 v[][0] = {1}", "v has 0 elements and 1 first values"),
        (".u32 v[][0] = {{1}}", "v has 0 elements and 1 first values"),
        (".u32 v[][2][0] = {1, 2}", "v has 0 elements and 2 first values"),
    ],
)
def test_lists_of_another_shape_are_refused(declared, message):
    assert complaint(f".global {declared};{_KERNEL}").endswith(message)
