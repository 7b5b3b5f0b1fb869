"""Declarations of registers, variables and parameters: their properties and limits."""

import pytest

from sim.toolchain.from_ptx import program_of_ptx
from sim.toolchain.ptx.module import AddressOf, PtxRegister, PtxVariable, Type
from testbench.ptx.text import complaint, module_of, refused

KERNEL = "\n.entry k() { ret; }"


def parameters(text: str, function: str) -> list[PtxVariable]:
    """Returns the parameters of a function that are in memory."""
    given = module_of(text).functions[function].parameters
    return [each for each in given if isinstance(each, PtxVariable)]


def variables(text: str) -> dict[str, PtxVariable]:
    return {each.name: each for each in module_of(text + KERNEL).variables}


def address(symbol: str, offset: int = 0, *, generic: bool = False, byte: int | None = None):
    return AddressOf(symbol, offset, generic, byte)


@pytest.mark.parametrize("alignment", [1, 2, 4, 8, 16, 32, 64, 128, 256])
def test_an_alignment_is_a_power_of_two(alignment):
    """A variable that needs a larger alignment has that one."""
    found = variables(
        f".global .align {alignment} .b8 byte; .global .align {alignment} .v2 .u64 pair;"
    )
    assert (found["byte"].alignment, found["pair"].alignment) == (alignment, max(alignment, 16))


@pytest.mark.parametrize(
    ("traits", "alignment"),
    [
        (".align 4 .align 16 .b8", 16),
        (".align 16 .align 4 .b8", 16),
        (".align 8 .align 32 .align 2 .b8", 32),
        (".align 2 .align 1 .b32", 4),
    ],
)
def test_the_largest_of_several_alignments_holds(traits, alignment):
    """NVIDIA's assembler does the same."""
    assert variables(f".global {traits} x;")["x"].alignment == alignment
    (parameter,) = parameters(f".entry k(.param {traits} x[4]) {{ ret; }}", "k")
    assert parameter.alignment == alignment


@pytest.mark.parametrize("space", [".const", ".shared", ".local", ".param", ".reg"])
@pytest.mark.parametrize("is_before", [True, False])
def test_attributes_are_of_variables_in_global_space(space, is_before):
    attribute = ".attribute(.managed)"
    declared = f"{attribute} {space} .u32 x;" if is_before else f"{space} {attribute} .u32 x;"
    message = f": {attribute} is for variables in global space"
    assert complaint(f".func f {{ {declared} ret; }}").endswith(message)
    assert complaint(declared).endswith(message)
    assert len(variables(f"{attribute} .global .u32 x; .global {attribute} .u32 y;")) == 2


def test_a_parameter_has_no_attributes():
    found = complaint(".entry k(.param .attribute(.managed) .u32 x) { ret; }")
    assert found == "1:17: .attribute(.managed) is for variables in global space"


@pytest.mark.parametrize("alignment", [0, 3, 255, 257, 512])
def test_other_alignments_are_refused(alignment):
    assert complaint(f".global .align {alignment} .u32 x;{KERNEL}") == (
        f"1:16: an alignment of {alignment}: expected a power of 2 up to 256"
    )


@pytest.mark.parametrize(
    ("declared", "count", "size", "alignment"),
    [
        (".u32 x", 1, 4, 4),
        (".b64 x[3]", 3, 24, 8),
        (".b8 x[2][3]", 6, 6, 1),
        (".v2 .u16 x", 2, 4, 4),
        (".v4 .f32 x[5]", 20, 80, 16),
        (".b8 x[0]", 0, 0, 1),
        (".b8 x[1 << 28]", 1 << 28, 1 << 28, 1),
        (".u64 x[1 << 25]", 1 << 25, 1 << 28, 8),
    ],
)
def test_a_variable_has_as_many_elements_as_its_dimensions_multiply_to(
    declared, count, size, alignment
):
    found = variables(f".global {declared};")["x"]
    assert (found.count, found.size, found.alignment) == (count, size, alignment)


@pytest.mark.parametrize(
    ("declared", "column", "message"),
    [
        (".b8 x[(1 << 28) + 1]", 13, "x has 268435457 bytes: 268435456 at most"),
        (".v2 .u32 x[(1 << 25) + 1]", 18, "x has 268435464 bytes: 268435456 at most"),
        (".b8 x[0][1 << 33]", 18, "x has no 8589934592 elements"),
        (".u32 x[2][y]", 19, "y is no constant"),
        (".u32 x[1.0]", 16, "x has no "),
        (".v2 .v2 .u32 x", 13, ".v2: expected one type of numbers or predicates"),
        (".u32 .v4 .u32 x", 18, ".u32: expected one type of numbers or predicates"),
        (".b8 x<4097>", 13, "x<4097>: expected at most 4096 variables, without first values"),
        (".b8 x<2> = 1", 13, "x<2>: expected at most 4096 variables, without first values"),
    ],
)
def test_what_is_beyond_a_limit_is_refused_at_its_place(declared, column, message):
    found = complaint(f".global {declared};{KERNEL}")
    assert found.startswith(f"1:{column}: {message}")


def test_a_dimension_may_have_up_to_four_billion_elements_if_another_has_none():
    assert variables(".global .b8 x[0][1 << 32];")["x"].count == 0


def test_a_range_declares_a_variable_of_each_number():
    assert [*variables(".global .u32 x<3>;")] == ["x0", "x1", "x2"]
    assert len(variables(".global .u8 x<4096>;")) == 4096


def test_a_vector_of_registers_has_a_register_of_each_element():
    """Results and parameters that are vectors are split into elements."""
    text = """.func (.reg .v2 .u32 r) f(.reg .v4 .f32 a, .reg .u64 b, .param .align 8 .b8 c[3])
    { mov.u32 r.x, 1; mov.u32 r.y, 2; ret; }"""
    signature = module_of(text).functions["f"].signature
    assert [(each.name, each.type.value) for each in signature.results] == [
        ("r.x", "u32"),
        ("r.y", "u32"),
    ]
    *registers, _ = signature.parameters
    (memory,) = parameters(text, "f")
    assert all(isinstance(each, PtxRegister) for each in registers)
    assert [each.name for each in registers] == ["a.x", "a.y", "a.z", "a.w", "b"]
    assert (memory.count, memory.size, memory.alignment) == (3, 3, 8)


@pytest.mark.parametrize(
    ("parameter", "message"),
    [
        (".param .b8 a[32768]", None),
        (".param .u64 a[4096]", None),
        (".param .b8 a[32769]", "1:20: a has 32769 bytes: 32768 at most"),
        (".param .u64 a[4097]", "1:21: a has 32776 bytes: 32768 at most"),
        (".param .b8 a[0]", "1:20: a has no size"),
    ],
)
def test_a_functions_parameter_has_up_to_32_kilobytes(parameter, message):
    text = f".func f({parameter}) {{ ret; }}"
    if message is None:
        assert parameters(text, "f")[0].size == 1 << 15
    else:
        assert complaint(text).startswith(message)


def test_a_kernels_parameter_may_have_no_bytes():
    (parameter,) = parameters(".entry k(.param .b8 a[0]) { ret; }", "k")
    assert (parameter.count, parameter.size) == (0, 0)


def test_what_a_pointer_points_to_is_not_the_parameters_own():
    text = ".entry k(.param .u64 .ptr .global .align 128 a, .param .align 4 .u32 b) { ret; }"
    assert [each.alignment for each in parameters(text, "k")] == [8, 4]


def test_first_values_may_be_addresses():
    """They are addresses of functions and of variables in constant and global space, the whole
    address or a byte.
    """
    text = """.func f() { ret; } .const .u32 c = 5; .global .u32 g;
    .global .u64 x[5] = { g+4, generic(c), f, g, 7 };
    .global .u32 low = g;
    .global .u8 bytes[2] = { 0xff(g), 0xff00(g+1) };"""
    found = variables(text)
    assert found["x"].initial == (
        address("g", 4), address("c", 0, generic=True), address("f"), address("g"), 7,
    )  # fmt: skip
    assert found["low"].initial == (address("g"),)
    assert found["bytes"].initial == (address("g", 0, byte=0), address("g", 1, byte=8))


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        (".u16 x = g", "2:26: the address of g does not fit 16 bits"),
        (".f32 x = g", "2:26: the address of g does not fit 32 bits"),
        (".f64 x = g", "2:26: the address of g does not fit 64 bits"),
        (".u64 x = later", "2:26: later is not declared: it is declared before it is named"),
        (
            ".u64 x = s",
            "2:26: s is in shared space, which has no addresses before a kernel runs: every kernel "
            "has its own",
        ),
        (".u64 x = t", "2:26: t is a texture: there are no textures and surfaces"),
        (".u32 x[2] = { addr_mode_0 = 1 }", "2:31: x is no sampler: it has no addr_mode_0"),
    ],
)
def test_first_values_that_cannot_be_are_refused(declared, message):
    before = ".global .u32 g; .shared .u32 s; .global .texref t;"
    found = complaint(f"{before}\n.global         {declared};{KERNEL}")

    assert found == message


@pytest.mark.parametrize(
    ("text", "is_taken"),
    [
        (".extern .shared .u32 x[];", True),
        (".extern .global .u32 x[];", False),
        (".shared .u32 x[];", False),
        (".global .u32 x[] = {1, 2};", True),
        (".extern .global .u32 x = 1;", False),
        (".common .global .u32 x;", True),
        (".common .shared .u32 x;", False),
        (".global .attribute(.managed) .u32 x;", True),
        (".global .attribute(.managed, .unified(1, 2)) .u32 x;", True),
        (".global .attribute(.unified(1)) .u32 x;", False),
        (".shared .attribute(.managed) .u32 x;", False),
        (".attribute(.managed) .global .u32 x;", True),
        (".global .texref x;", True),
        (".shared .texref x;", False),
        (".const[0] .u32 x;", False),
        (".local .u32 x;", False),
        (".param .u32 x;", False),
    ],
)
def test_linkage_attributes_and_spaces_go_together_or_are_refused(text, is_taken):
    if is_taken:
        module_of(text + KERNEL)
    else:
        assert complaint(text + KERNEL).startswith("1:")


def test_variables_of_functions_are_named_by_them_if_they_outlive_them():
    text = """.global .u32 x; .entry k() { .global .u32 x; .shared .u32 y; .local .u32 z; .reg .u32 r;
    mov.u32 r, z; ret; }"""
    module = module_of(text)
    assert [each.name for each in module.variables] == ["x"]
    assert [each.name for each in module.functions["k"].variables] == ["k.x", "k.y", "z"]


def test_types_are_signed_or_floating_by_their_letters():
    assert {kind.value for kind in Type if kind.signed} == {"s8", "s16", "s32", "s64"}
    assert {kind.value for kind in Type if kind.floating} == {"f16", "f32", "f64"}
    assert (Type.PRED.bits, Type.U16.bits, Type.F64.size) == (1, 16, 8)


@pytest.mark.parametrize(("count", "component"), [(2, ".z"), (2, ".w"), (2, ".b"), (4, ".q")])
def test_a_vector_has_no_elements_behind_its_last(count, component):
    found = refused(f".reg .v{count} .u32 v; mov.u32 t, v{component};")
    assert found == f"1: v has {count} elements, and no {component}"


@pytest.mark.parametrize("bound", [".maxntid 32", ".maxntid 16, 2", ".reqntid 32"])
def test_bounds_of_a_block_stand_where_the_entry_has_its_body(bound):
    assert parameters(f".entry k() {bound} {{ ret; }}", "k") == []
    name = bound.split()[0]
    assert complaint(f".entry k() {bound};{KERNEL}") == (
        f"1:12: {name} belongs to the entry's definition"
    )


def test_parameters_of_a_program_have_the_names_and_types_of_the_text():
    text = ".entry k(.param .f32 a, .param .u8 b[3], .param .s16 c, .param .u64 d[1]) { ret; }"
    (kernel,) = program_of_ptx(module_of(text), "t").kernels.values()
    found = [(item.name, item.type, item.offset, item.size) for item in kernel.parameters]
    assert found == [("a", "f32", 0, 4), ("b", None, 4, 3), ("c", "s16", 8, 2), ("d", "u64", 16, 8)]


@pytest.mark.parametrize(
    ("version", "accepted"), [("1.3", True), ("1.4", False), ("1.5", False), ("2.0", True)]
)
def test_a_body_declares_variables_in_param_space_in_some_versions(version, accepted):
    """In an entry they are parameters up to 1.3; from 2.0 on they are those of calls."""
    header, text = f".version {version}\n.target sm_13\n", ".entry k { .param .u32 x; ret; }"
    if accepted:
        function = module_of(text, header).functions["k"]
        assert [item.name for item in function.parameters] == (["x"] if version == "1.3" else [])
    else:
        assert complaint(text, header).endswith(
            ": parameters of an entry stand in its list, from PTX 1.4 on"
        )


@pytest.mark.parametrize("last", ["1.5", "2.3", "3.2", "4.3", "5.1", "6.5", "7.8"])
def test_a_major_version_has_the_minor_ones_of_the_release_notes(last):
    major, minor = map(int, last.split("."))
    for each in range(minor + 3):
        header = f".version {major}.{each}\n.target sm_13\n"
        if each <= minor:
            assert module_of("", header).functions == {}
        else:
            found = complaint("", header)
            assert found.endswith(f": there is no version {major}.{each} of PTX")
