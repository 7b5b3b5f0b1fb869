"""Copies between parameters and local space, and between a module's registers and memory."""

import pytest

from sim.toolchain.ptx.module import (
    Comparison,
    PtxAddress,
    PtxImmediate,
    PtxInstruction,
    PtxSpace,
    VariableRef,
)
from testbench.ptx.text import instructions, module_of

OLD = ".version 2.3\n.target sm_20\n.address_size 64\n"


def accesses(found: list[PtxInstruction]) -> list[tuple]:
    """Returns opcode, type, space, variable and offset of each load and store."""
    return [
        (item.opcode, item.types[0].value, item.space.value, address.base.name, address.offset)
        for item in found
        if item.opcode in ("ld", "st") and item.space is not None
        for address in item.operands
        if isinstance(address, PtxAddress) and address.base is not None
    ]


@pytest.mark.parametrize(
    ("alignment", "size", "steps"),
    [
        (1, 3, [("b8", 0), ("b8", 1), ("b8", 2)]),
        (2, 6, [("b16", 0), ("b16", 2), ("b16", 4)]),
        (4, 7, [("b32", 0), ("b16", 4), ("b8", 6)]),
        (8, 8, [("b64", 0)]),
        (16, 31, [("b64", 0), ("b64", 8), ("b64", 16), ("b32", 24), ("b16", 28), ("b8", 30)]),
    ],
)
def test_a_parameter_whose_address_is_taken_is_copied_in_the_largest_steps(alignment, size, steps):
    """The copy to local space is at the start of the function, with the parameter's size and
    alignment.
    """
    text = f".func f(.param .align {alignment} .b8 a[{size}]) {{ .reg .u64 d; mov.b64 d, a; ret; }}"
    (copy,) = module_of(text).functions["f"].variables
    assert (copy.space, copy.size, copy.alignment) == (PtxSpace.LOCAL, size, alignment)
    found = instructions(text, "f")
    assert [item.opcode for item in found[-2:]] == ["mov", "ret"]
    place = found[-2].operands[1]
    assert isinstance(place, VariableRef) and (place.variable.name, place.offset) == (copy.name, 0)
    assert accesses(found) == [
        access
        for kind, at in steps
        for access in (("ld", kind, "param", "a", at), ("st", kind, "local", copy.name, at))
    ]
    for load, store in zip(found[:-2:2], found[1:-2:2], strict=True):
        assert load.operands[0] is store.operands[1]


def test_a_result_whose_address_is_taken_is_copied_before_each_return():
    text = """.func (.param .b32 r) f(.param .b32 a, .param .b32 b) { .reg .pred p; .reg .u64 d; .reg .u32 w;
    mov.b64 d, r; setp.eq.u32 p, 1, 1; @p ret; ld.param.u32 w, [a]; st.param.u32 [r], w; ret; }"""
    found = instructions(text, "f")
    opcodes = " ".join(item.opcode for item in found)
    assert opcodes == "mov setp ld st ret ld st ld st ret"
    (copy,) = module_of(text).functions["f"].variables
    assert accesses(found) == [
        ("ld", "b32", "local", copy.name, 0), ("st", "b32", "param", "r", 0),
        ("ld", "u32", "param", "a", 0), ("st", "u32", "local", copy.name, 0),
        ("ld", "b32", "local", copy.name, 0), ("st", "b32", "param", "r", 0),
    ]  # fmt: skip


def test_arguments_and_results_of_a_call_are_copied_around_it():
    """Only parameters whose addresses the function takes are copied."""
    text = """.func (.param .b32 r) g(.param .b32 a, .param .b32 b) { ret; }
    .func (.param .b32 y) f(.param .b32 x, .param .b32 z) { .reg .u64 d; mov.b64 d, x; mov.b64 d, y;
    call (y), g, (x, z); ret; }"""
    found = instructions(text, "f")
    assert " ".join(item.opcode for item in found) == "ld st mov mov ld st call ld st ld st ret"
    x, y = (variable.name for variable in module_of(text).functions["f"].variables)
    assert [each[2:4] for each in accesses(found)] == [
        ("param", "x"), ("local", x), ("local", x), ("param", "x"),
        ("param", "y"), ("local", y), ("local", y), ("param", "y"),
    ]  # fmt: skip


def test_registers_of_a_module_are_in_memory_where_another_function_runs():
    """A predicate is stored as a word, 1 or 0. An entry does not load the registers, and does not
    store them at its end.
    """
    text = """.reg .u64 d; .reg .pred p; .func f() { mov.u64 d, 1; setp.eq.u64 p, d, 1; ret; }
    .entry k() { mov.u64 d, 2; setp.eq.u64 p, d, 1; call f; @p mov.u64 d, 3; ret; }"""
    function, entry = (instructions(text, name, OLD) for name in ("f", "k"))
    assert " ".join(item.opcode for item in function) == "ld ld setp mov setp st selp st ret"
    assert " ".join(item.opcode for item in entry) == "mov setp st selp st call ld ld setp mov ret"
    d, p = (each[3] for each in accesses(function)[:2])
    for found in (function, entry):
        kinds = {name: kind for _, kind, space, name, at in accesses(found) if space == "local" and not at}  # fmt: skip
        assert kinds == {d: "u64", p: "u32"}
    word, test = function[1:3]
    assert (test.compare, test.operands[2]) == (Comparison.NE, word.operands[0])
    assert test.operands[3] == PtxImmediate(0) and test.types == word.types
    chosen = function[6]
    assert chosen.operands[1:3] == (PtxImmediate(1), PtxImmediate(0))
    assert (chosen.operands[3], chosen.types) == (test.operands[0], word.types)
