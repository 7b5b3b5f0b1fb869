"""Several relocatable files joined into one: which definitions are kept, positions of sections, and
new numbers.
"""

import pytest

from sim.toolchain.cubin.joining import join_objects
from sim.toolchain.cubin.nvinfo import Attribute, Record, decode, encode
from sim.toolchain.cubin.object_file import (
    INFO,
    Binding,
    ObjectFile,
    Relocation,
    Section,
    SectionFlag,
    SectionKind,
    Symbol,
    SymbolKind,
)
from sim.toolchain.module import ProgramError

NULL = Symbol("", 0, 0, None)
GLOBAL, WEAK, LOCAL = Binding.GLOBAL, Binding.WEAK, Binding.LOCAL


def code(name: str, content: bytes = bytes(32), *relocations: Relocation) -> Section:
    flags = SectionFlag.ALLOCATE | SectionFlag.EXECUTE
    return Section(
        f".text.{name}",
        SectionKind.PROGBITS,
        flags,
        content,
        len(content),
        32,
        relocations=relocations,
    )


def variables(content: bytes, alignment: int = 4, *relocations: Relocation) -> Section:
    flags = SectionFlag.ALLOCATE | SectionFlag.WRITE
    return Section(
        ".nv.global.init",
        SectionKind.PROGBITS,
        flags,
        content,
        len(content),
        alignment,
        relocations=relocations,
    )


def zeros(size: int, alignment: int = 4) -> Section:
    return Section(
        ".nv.global",
        SectionKind.NOBITS,
        SectionFlag.ALLOCATE | SectionFlag.WRITE,
        b"",
        size,
        alignment,
    )


def function(name: str, binding: int = GLOBAL, section: str | None = "") -> Symbol:
    return Symbol(
        name, SymbolKind.FUNCTION, binding, f".text.{name}" if section == "" else section, 0, 32
    )


def variable(name: str, place: int, binding: int = GLOBAL) -> Symbol:
    return Symbol(name, SymbolKind.OBJECT, binding, ".nv.global.init", place, 4)


def file(
    name: str, sections: list[Section], *symbols: Symbol, relocatable: bool = True
) -> ObjectFile:
    return ObjectFile(
        name, {section.name: section for section in sections}, (NULL, *symbols), relocatable
    )


def joined(*files: ObjectFile) -> ObjectFile:
    return join_objects(files, "whole")


def found(whole: ObjectFile, name: str) -> Symbol:
    (symbol,) = [symbol for symbol in whole.symbols if symbol.name == name]
    return symbol


def test_variables_lie_one_behind_the_other():
    whole = joined(
        file("a", [variables(b"\1\2\3\4\5", 4)], variable("x", 0)),
        file("b", [variables(b"\6\7", 16)], variable("y", 0), variable("z", 1)),
        file("c", [variables(b"\x08", 2)], variable("w", 0)),
    )
    section = whole.sections[".nv.global.init"]
    assert section.content == b"\1\2\3\4\5".ljust(16, b"\0") + b"\6\7\x08"
    assert section.size == 19
    assert section.alignment == 16
    assert [found(whole, name).value for name in "xyzw"] == [0, 16, 17, 18]
    assert whole.name == "whole"
    assert whole.relocatable
    assert whole.symbols[0] == NULL


def test_zeroed_variables_have_places_and_no_content():
    made = [
        Symbol(name, SymbolKind.OBJECT, GLOBAL, ".nv.global", place, 4)
        for name, place in (("x", 4), ("y", 8))
    ]
    whole = joined(file("a", [zeros(10)], made[0]), file("b", [zeros(12, 8)], made[1]))
    section = whole.sections[".nv.global"]
    assert (section.content, section.size, section.alignment) == (b"", 28, 8)
    assert [found(whole, name).value for name in "xy"] == [4, 24]


def test_a_shared_variables_value_is_its_alignment():
    shared = Symbol("s", SymbolKind.CUDA_OBJECT, LOCAL, ".nv.global.init", 8, 4, Symbol.SHARED)
    whole = joined(file("a", [variables(bytes(16))]), file("b", [variables(bytes(4))], shared))
    assert found(whole, "s").value == 8


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [
        (GLOBAL, WEAK, 0),
        (GLOBAL, None, 0),
        (WEAK, None, 0),
    ],
)
def test_a_definition_stays_before_a_weak_one_and_that_before_a_declaration(
    first, second, kept, order
):
    one = file("a", [code("f", b"\1" * 32)], function("f", first))
    other = (
        file("b", [], Symbol("f", SymbolKind.FUNCTION, GLOBAL, None))
        if second is None
        else file("b", [code("f", b"\2" * 32)], function("f", second))
    )
    whole = joined(*[one, other][::order])
    assert whole.sections[".text.f"].content == b"\1" * 32
    assert found(whole, "f").binding == first
    assert found(whole, "f").section == ".text.f"


def test_of_two_weak_definitions_the_first_stays():
    whole = joined(
        *(
            file(name, [code("f", content * 32)], function("f", WEAK))
            for name, content in (("a", b"\1"), ("b", b"\2"))
        )
    )
    assert whole.sections[".text.f"].content == b"\1" * 32


def test_two_global_definitions_are_refused():
    files = [file(name, [code("f")], function("f")) for name in ("a", "b")]
    with pytest.raises(ProgramError, match=r"^f is defined in a and in b$"):
        joined(*files)


def test_two_declarations_are_one_symbol():
    declared = Symbol("f", SymbolKind.FUNCTION, GLOBAL, None)
    whole = joined(file("a", [], declared), file("b", [], declared))
    assert whole.symbols == (NULL, declared)


def test_a_complete_file_is_refused():
    with pytest.raises(
        ProgramError,
        match=r"^b: it is linked already: only relocatable files are linked \(nvcc -rdc=true, ptxas -c\)$",
    ):
        joined(file("a", []), file("b", [], relocatable=False))


def test_local_names_of_two_files_are_each_files_own():
    whole = joined(
        file(
            "a",
            [code("f", b"\1" * 32), variables(bytes(4))],
            function("f", LOCAL),
            variable("v", 0, LOCAL),
        ),
        file(
            "b",
            [code("f", b"\2" * 32), variables(bytes(4))],
            function("f", LOCAL),
            variable("v", 0, LOCAL),
        ),
    )
    assert whole.sections[".text.f"].content == b"\1" * 32
    assert whole.sections[".text.f$2"].content == b"\2" * 32
    assert found(whole, "f").section == ".text.f"
    assert found(whole, "f$2").section == ".text.f$2"
    assert (found(whole, "v").value, found(whole, "v$2").value) == (0, 4)


def test_a_local_name_that_is_global_elsewhere_is_changed():
    whole = joined(
        file("a", [code("f", b"\1" * 32)], function("f", LOCAL)),
        file("b", [code("f", b"\2" * 32)], function("f", GLOBAL)),
    )
    assert whole.sections[".text.f$1"].content == b"\1" * 32
    assert whole.sections[".text.f"].content == b"\2" * 32
    assert found(whole, "f").binding == GLOBAL


def test_references_go_with_their_places_and_their_symbols():
    section = Symbol(".nv.global.init", SymbolKind.SECTION, LOCAL, ".nv.global.init")
    first = file(
        "a",
        [code("k", bytes(32), Relocation(8, 43, 2, 5)), variables(bytes(12))],
        function("k"),
        Symbol("f", SymbolKind.FUNCTION, GLOBAL, None),
    )
    second = file(
        "b",
        [code("f"), variables(bytes(8), 8, Relocation(4, 2, 3), Relocation(0, 1, 1, 7))],
        function("f"),
        variable("x", 4),
        section,
    )
    whole = joined(first, second)
    names = [symbol.name for symbol in whole.symbols]
    (called,) = whole.sections[".text.k"].relocations
    assert (called.offset, called.kind, names[called.symbol], called.addend) == (8, 43, "f", 5)
    place, pointer = whole.sections[".nv.global.init"].relocations
    assert (place.offset, place.kind, place.addend) == (16 + 4, 2, None)
    # A section that is not the first one of its name is a variable there.
    moved = whole.symbols[place.symbol]
    assert moved == Symbol(".nv.global.init$2", SymbolKind.OBJECT, LOCAL, ".nv.global.init", 16)
    assert (pointer.offset, names[pointer.symbol], pointer.addend) == (16, "f", 7)
    assert found(whole, "x").value == 20


def test_what_is_of_a_dropped_function_goes_with_it():
    other = Section(".nv.constant2.f", SectionKind.PROGBITS, SectionFlag.ALLOCATE, b"\2", 1, 4)
    whole = joined(
        file("a", [code("f")], function("f")), file("b", [code("f"), other], function("f", WEAK))
    )
    assert list(whole.sections) == [".text.f"]


def test_what_is_only_for_tools_is_left_out():
    debug = Section(".debug_line", SectionKind.PROGBITS, 0, b"1", 1, 1)
    whole = joined(file("a", [debug, code("f")], function("f")))
    assert list(whole.sections) == [".text.f"]


def info(*records: Record) -> Section:
    content = encode(records)
    return Section(INFO, SectionKind.CUDA_INFO, 0, content, len(content), 4)


def test_records_have_the_new_numbers_of_their_functions():
    sized = [
        Record.sized(Attribute.FRAME_SIZE, (1, 16)),
        Record.sized(Attribute.MIN_STACK_SIZE, (1, 99)),
        Record.sized(Attribute.REGCOUNT, (1, 20)),
    ]
    whole = joined(
        file("a", [code("k")], function("k")),
        file("b", [code("f"), info(*sized)], function("f")),
        file("c", [code("g"), info(sized[0])], function("g")),
    )
    names = [symbol.name for symbol in whole.symbols]
    records = decode(whole.sections[INFO].content)
    assert [(one.attribute, names[one.words[0]], one.words[1]) for one in records] == [
        (Attribute.FRAME_SIZE, "f", 16),
        (Attribute.REGCOUNT, "f", 20),
        (Attribute.FRAME_SIZE, "g", 16),
    ]
    assert whole.sections[INFO].size == len(whole.sections[INFO].content)


def test_records_of_no_symbol_are_refused():
    with pytest.raises(ProgramError, match=r"^b: \.nv\.info: .*index out of range$"):
        joined(
            file("a", [code("k")], function("k")),
            file(
                "b", [code("f"), info(Record.sized(Attribute.FRAME_SIZE, (9, 16)))], function("f")
            ),
        )


def own_bank(function: str, content: bytes) -> Section:
    name = f".nv.constant2.{function}"
    return Section(name, SectionKind.PROGBITS, SectionFlag.ALLOCATE, content, len(content), 4)


def test_what_is_of_a_renamed_function_has_its_new_name():
    """Its bank, the symbols of its sections, and references to them are renamed; an offset in it
    does not change.
    """
    of_code = Symbol(".text.f", SymbolKind.SECTION, LOCAL, ".text.f")
    of_bank = Symbol("table", SymbolKind.OBJECT, LOCAL, ".nv.constant2.f", 4, 4)
    files = [
        file(
            name,
            [code("f", content * 32, Relocation(8, 43, 2, 8)), own_bank("f", content * 8)],
            function("f", LOCAL),
            of_code,
            of_bank,
        )
        for name, content in (("a", b"\1"), ("b", b"\2"))
    ]
    whole = joined(*files)
    assert {name: section.content[:1] for name, section in whole.sections.items()} == {
        ".text.f": b"\1",
        ".nv.constant2.f": b"\1",
        ".text.f$2": b"\2",
        ".nv.constant2.f$2": b"\2",
    }
    assert [(symbol.name, symbol.section, symbol.value) for symbol in whole.symbols[1:]] == [
        ("f", ".text.f", 0), (".text.f", ".text.f", 0), ("table", ".nv.constant2.f", 4),
        ("f$2", ".text.f$2", 0), (".text.f$2", ".text.f$2", 0), ("table$2", ".nv.constant2.f$2", 4),
    ]  # fmt: skip
    numbers = {name: whole.sections[name].relocations[0].symbol for name in (".text.f", ".text.f$2")}  # fmt: skip
    assert numbers == {".text.f": 2, ".text.f$2": 5}


def test_names_of_sections_and_symbols_without_a_name_stay():
    nameless = Symbol("", SymbolKind.NONE, GLOBAL, ".nv.global.init", 2)
    of_section = Symbol(".nv.global.init", SymbolKind.SECTION, LOCAL, ".nv.global.init")
    whole = joined(
        *(file(name, [variables(bytes(4))], of_section, nameless) for name in ("a", "b", "c"))
    )
    names = [symbol.name for symbol in whole.symbols]
    assert names == [
        "", ".nv.global.init", "", ".nv.global.init$2", "", ".nv.global.init$3", "",
    ]  # fmt: skip
    assert [symbol.value for symbol in whole.symbols] == [0, 0, 2, 4, 6, 8, 10]


def test_symbols_of_what_is_left_out_are_no_symbols():
    debug = Section(".debug_line", SectionKind.PROGBITS, 0, b"1", 1, 1)
    lost = Symbol("lost", SymbolKind.OBJECT, LOCAL, ".debug_line")
    nowhere = Symbol("nowhere", SymbolKind.OBJECT, LOCAL, None)
    relocations = (Relocation(0, 1, 1), Relocation(4, 1, 2), Relocation(8, 1, 3))
    whole = joined(
        file("a", [debug, variables(bytes(12), 4, *relocations)], lost, nowhere, variable("v", 0))
    )
    assert [symbol.name for symbol in whole.symbols] == ["", "v"]
    assert [one.symbol for one in whole.sections[".nv.global.init"].relocations] == [0, 0, 1]


def test_a_section_of_one_function_is_in_one_file_alone():
    declared = Symbol("f", SymbolKind.FUNCTION, GLOBAL, None)
    with pytest.raises(ProgramError, match=r"^whole: two files have a section \.nv\.constant2\.f$"):
        joined(
            file("a", [own_bank("f", b"\1")], declared),
            file("b", [code("f"), own_bank("f", b"\2")], function("f")),
        )


def test_a_file_may_define_what_others_define_for_themselves():
    """A symbol that is global in one file and local in another is defined once; a later weak
    definition is ignored.
    """
    whole = joined(
        file("a", [code("f", b"\1" * 32)], function("f", LOCAL)),
        file("b", [code("f", b"\2" * 32)], function("f", GLOBAL)),
        file("c", [code("f", b"\3" * 32)], function("f", WEAK)),
        file("d", [code("f", b"\4" * 32)], function("f", LOCAL)),
    )
    assert {name: section.content[0] for name, section in whole.sections.items()} == {
        ".text.f$1": 1, ".text.f": 2, ".text.f$4": 4,
    }  # fmt: skip


def test_records_of_dropped_and_lost_functions_are_those_of_the_function_that_stays():
    """The first file has no section of records, the second one has. A record whose symbol is
    dropped is left out.
    """
    sized = [Record.sized(Attribute.FRAME_SIZE, (number, 16 * number)) for number in (1, 2)]
    lost = Symbol("lost", SymbolKind.FUNCTION, LOCAL, ".debug_code")
    whole = joined(
        file("a", [code("f")], function("f")),
        file("b", [code("f"), info(*sized)], function("f", WEAK), lost),
    )
    names = [symbol.name for symbol in whole.symbols]
    records = decode(whole.sections[INFO].content)
    assert [(names[one.words[0]], one.words[1]) for one in records] == [("f", 16)]
    assert (whole.sections[INFO].kind, whole.sections[INFO].alignment) == (SectionKind.CUDA_INFO, 4)


@pytest.mark.parametrize("content", [b"\4", b"\4\x11\4\0\1\0\0\0"])
def test_damaged_records_are_refused_by_their_file(content):
    damaged = Section(INFO, SectionKind.CUDA_INFO, 0, content, len(content), 1)
    with pytest.raises(ProgramError, match=r"^b: \.nv\.info: "):
        joined(file("a", [code("f")], function("f")), file("b", [damaged]))
