"""Properties of sections and symbols of an object file, derived from their names, kinds and flags."""

import pytest

from sim.toolchain.cubin.object_file import (
    Binding,
    ObjectFile,
    Section,
    SectionKind,
    SectionRole,
    Symbol,
    SymbolKind,
    constant_name,
    info_name,
    shared_name,
    text_name,
)

Role = SectionRole


def section(name, kind=SectionKind.PROGBITS):
    return Section(name, kind, 0, b"", 0, 1)


@pytest.mark.parametrize(
    ("name", "role", "owner"),
    [
        (".text.k", Role.CODE, "k"),
        (".text.a.b", Role.CODE, "a.b"),
        (".text", Role.OTHER, None),
        (".nv.constant0.k", Role.CONSTANT, "k"),
        (".nv.constant3", Role.CONSTANT, None),
        (".nv.constant", Role.OTHER, None),
        (".nv.shared.k", Role.SHARED, "k"),
        (".nv.shared", Role.OTHER, None),
        (".nv_debug.shared", Role.SHARED, None),
        (".nv.info", Role.INFO, None),
        (".nv.info.k", Role.INFO, "k"),
        (".nv.global", Role.GLOBAL, None),
        (".nv.global.init", Role.GLOBAL_INIT, None),
        (".nv.global.other", Role.OTHER, None),
        (".debug_line", Role.OTHER, None),
    ],
)
def test_a_section_is_what_its_name_says(name, role, owner):
    assert (section(name).role, section(name).owner) == (role, owner)


def test_names_are_made_as_they_are_read():
    for made, role in (
        (text_name("f"), Role.CODE),
        (info_name("f"), Role.INFO),
        (shared_name("f"), Role.SHARED),
        (constant_name(2, "f"), Role.CONSTANT),
    ):
        assert (section(made).role, section(made).owner) == (role, "f")
    assert (constant_name(17), constant_name(2, "f")) == (".nv.constant17", ".nv.constant2.f")
    assert [section(name).bank for name in (".nv.constant0.k", ".nv.constant17")] == [0, 17]
    for other in (".text.k", ".debug_line"):
        with pytest.raises(ValueError, match=f"{other} is no constant bank"):
            _ = section(other).bank


def test_the_sections_of_a_file_are_by_what_they_are_for():
    sections = [section(name) for name in (".text.a", ".nv.info", ".text.b", ".debug_line")]
    file = ObjectFile("x", {each.name: each for each in sections}, ())
    assert not file.relocatable and set(file.by_role) == set(Role)
    code, info, more, other = sections
    assert file.by_role[Role.CODE] == (code, more) and file.by_role[Role.SHARED] == ()
    assert (file.by_role[Role.INFO], file.by_role[Role.OTHER]) == ((info,), (other,))


@pytest.mark.parametrize(
    ("kind", "has_content"),
    [
        (SectionKind.PROGBITS, True), (SectionKind.NOBITS, False), (SectionKind.CUDA_INFO, True),
        (SectionKind.CUDA_GLOBAL, False), (SectionKind.CUDA_LOCAL, False), (SectionKind.CUDA_SHARED, False),
        (0x7000_0008, True),
    ],
)  # fmt: skip
def test_a_file_has_no_bytes_of_memory_that_is_empty(kind, has_content):
    assert section(".x", kind).has_content is has_content


def test_nothing_is_said_of_a_section_and_a_symbol_but_what_is_given():
    made, symbol = section(".x"), Symbol("s", SymbolKind.OBJECT, Binding.LOCAL, None)
    assert (made.entry_size, made.registers, made.barriers, made.relocations) == (0, 0, 0, ())
    assert (symbol.value, symbol.size, symbol.other) == (0, 0, 0)


@pytest.mark.parametrize(
    ("flags", "rest", "barriers"),
    [
        (0, 0, 0),
        (6, 6, 0),
        (1 << 20 | 6, 6, 1),
        (31 << 20 | 6, 6, 31),
        (1 << 25 | 1 << 19 | 3 << 20, 1 << 25 | 1 << 19, 3),
    ],
)
def test_flags_of_code_have_its_barriers_in_five_bits(flags, rest, barriers):
    assert Section.split_flags(flags) == (rest, barriers)


def test_a_kernel_is_a_function_that_is_an_entry_and_has_code():
    kinds = {
        (kind, other, where)
        for kind in (SymbolKind.FUNCTION, SymbolKind.OBJECT)
        for other in (0, 0x10, 0x40, 0x50)
        for where in (".text.k", None)
        if Symbol("k", kind, Binding.GLOBAL, where, other=other).is_kernel
    }
    assert kinds == {(SymbolKind.FUNCTION, other, ".text.k") for other in (0x10, 0x50)}


def test_a_shared_variable_is_an_object_of_nvidias_with_a_mark():
    for kind, other, is_shared in (
        (SymbolKind.CUDA_OBJECT, 0x40, True),
        (SymbolKind.CUDA_OBJECT, 0x50, True),
        (SymbolKind.CUDA_OBJECT, 0x10, False),
        (SymbolKind.OBJECT, 0x40, False),
    ):
        assert Symbol("s", kind, Binding.LOCAL, None, other=other).is_shared is is_shared


def test_functions_and_constants_are_found_by_their_sections():
    local = Binding.LOCAL
    symbols = (
        Symbol("", 0, local, None),
        Symbol("f", SymbolKind.FUNCTION, local, ".text.k"),
        Symbol("x", SymbolKind.OBJECT, local, ".text.k"),
        Symbol("g", SymbolKind.FUNCTION, local, ".text.g"),
        Symbol("k", SymbolKind.FUNCTION, local, ".text.k"),
        Symbol("c", SymbolKind.OBJECT, local, ".nv.constant3"),
        Symbol("d", SymbolKind.OBJECT, local, ".nv.constant2.k"),
        Symbol("e", SymbolKind.OBJECT, local, ".nv.constant5"),
    )
    names = (".text.k", ".text.g", ".nv.constant3", ".nv.constant2.k")
    file = ObjectFile("x", {name: section(name) for name in names}, symbols)
    assert list(file.functions(".text.k")) == [(1, symbols[1]), (4, symbols[4])]
    assert [each.name for each in symbols if file.is_constant(each)] == ["c"]
