"""Linking: addresses of shared variables and constants of a relocatable file, and relocations to
them.
"""

from dataclasses import replace

import pytest

from sim.toolchain.assembly.assembler import assemble
from sim.toolchain.assembly.spelling import spell
from sim.toolchain.cubin.linking import link
from sim.toolchain.cubin.object_file import (
    CONSTANTS_SIZE,
    Binding,
    ObjectFile,
    Relocation,
    SectionKind,
    Symbol,
    SymbolKind,
)
from sim.toolchain.cubin.relocation import RelocationKind
from sim.toolchain.listing.code_listing import instructions
from sim.toolchain.module import ProgramError

from .objects import function, object_file, of_section, section, shared, variable

KIND = RelocationKind
CODE = [section(".text.k", bytes(32), 32), section(".text.j", bytes(32), 32)]
KERNELS = (function("k", entry=True), function("j", entry=True))


def linked(*sections, symbols=()) -> ObjectFile:
    """Returns a linked file with kernels k and j, which are symbols 1 and 2."""
    made = {each.name: each for each in (*CODE, *sections)}
    return link(object_file([*made.values()], *KERNELS, *symbols, relocatable=True))


def values(file: ObjectFile) -> dict[str, int]:
    return {symbol.name: symbol.value for symbol in file.symbols[3:]}


def refusal(*sections, symbols=()) -> str:
    with pytest.raises(ProgramError) as caught:
        linked(*sections, symbols=symbols)
    return str(caught.value)


def test_shared_variables_of_functions_lie_before_each_kernels_own():
    """Each has its alignment, where 0 and 1 mean none; a kernel without variables has those of
    functions.
    """
    file = linked(
        section(".nv.shared.k", 0, 16),
        section(".nv.shared.f", 0, 8),
        section(".nv.shared.g", 0, 4),
        symbols=(
            shared("own", ".nv.shared.k", 16, 5),
            shared("f1", ".nv.shared.f", 4, 3),
            shared("f2", ".nv.shared.f", 0, 2),
            shared("g1", ".nv.shared.g", 8, 12),
            shared("more", ".nv.shared.k", 1, 1),
        ),
    )
    assert values(file) == {"f1": 0, "f2": 3, "g1": 8, "own": 32, "more": 37}
    made = {name: file.sections[f".nv.shared.{name}"] for name in "kj"}
    assert [(each.size, each.alignment) for each in made.values()] == [(38, 16), (20, 8)]
    assert all(
        each.kind == SectionKind.NOBITS and each.flags == 3 and not each.content
        for each in made.values()
    )
    assert ".nv.shared.f" not in file.sections and not file.relocatable
    # A section without an owner now has none.
    homes = {symbol.name: symbol.section for symbol in file.symbols[3:]}
    assert homes == {"own": ".nv.shared.k", "more": ".nv.shared.k", "f1": None, "f2": None, "g1": None}  # fmt: skip
    assert {(symbol.kind, symbol.other) for symbol in file.symbols[3:]} == {(SymbolKind.OBJECT, 0)}


def test_a_kernel_without_shared_variables_has_no_section_of_them():
    file = linked(section(".nv.shared.k", 0, 4), symbols=(shared("s", ".nv.shared.k", 4, 4),))
    assert ".nv.shared.k" in file.sections and ".nv.shared.j" not in file.sections


def test_banks_of_functions_lie_before_a_kernels_own_at_their_alignments():
    """Banks are joined one by one, with the relocations in them; a bank that all kernels share is
    not changed.
    """
    waiting = Relocation(0, KIND.DATA_32, 3)
    file = linked(
        section(".nv.constant2.k", b"\1" * 4, 4, waiting),
        section(".nv.constant2.f", b"\2" * 5, 2, waiting),
        section(".nv.constant2.g", b"\3" * 3, 8, replace(waiting, offset=2)),
        section(".nv.constant4.j", b"\4" * 4, 4),
        section(".nv.constant3", b"\5" * 8, 8),
        symbols=(
            variable("v", ".nv.global"),
            variable("own", ".nv.constant2.k", 2),
            variable("of_g", ".nv.constant2.g", 1),
            variable("of_all", ".nv.constant3", 4),
        ),
    )
    found = {
        name: (each.content, each.size, each.alignment, [one.offset for one in each.relocations])
        for name, each in file.sections.items()
        if name.startswith(".nv.constant")
    }
    common = b"\2" * 5 + bytes(3) + b"\3" * 3
    assert found == {
        ".nv.constant3": (b"\5" * 8, 8, 8, []),
        ".nv.constant2.k": (common + b"\0" + b"\1" * 4, 16, 8, [0, 10, 12]),
        ".nv.constant2.j": (common, 11, 8, [0, 10]),
        ".nv.constant4.j": (b"\4" * 4, 4, 4, []),
    }
    kinds = {each.kind for name, each in file.sections.items() if name in found}
    assert kinds == {SectionKind.PROGBITS}


def test_places_in_banks_are_completed_by_where_they_come_to_lie():
    """The word is the offset of a constant in the kernel's bank, which follows that of a function."""
    file = linked(
        section(".nv.constant2.f", bytes(8), 8),
        section(".nv.constant2.k", bytes(12), 4),
        section(".nv.constant4", bytes(4), 4, Relocation(0, KIND.DATA_32, 3, 1)),
        symbols=(variable("own", ".nv.constant2.k", 8),),
    )
    assert file.sections[".nv.constant4"].content == (8 + 8 + 1).to_bytes(4, "little")
    assert file.sections[".nv.constant4"].relocations == ()


def test_sections_of_nvidias_kinds_get_those_of_every_elf_file():
    kinds = {
        ".nv.global": (SectionKind.CUDA_GLOBAL, SectionKind.NOBITS),
        ".nv.global.init": (0x7000_0008, SectionKind.PROGBITS),
        ".nv.constant3": (0x7000_0064 + 3, SectionKind.PROGBITS),
        ".mine": (0x7000_0077, 0x7000_0077),
    }
    made = [replace(section(name, bytes(4), 4), kind=kind) for name, (kind, _) in kinds.items()]
    file = linked(*made)
    assert {name: file.sections[name].kind for name in kinds} == {
        name: kind for name, (_, kind) in kinds.items()
    }


DATA = ".nv.global.init"


def filled(kind: int, symbol: Symbol, addend: int | None, *others) -> bytes | None:
    """Returns eight bytes after a relocation of this kind was applied; None if it remains a
    relocation.
    """
    made = section(DATA, b"\x11" * 8, 8, Relocation(0, kind, 3, addend))
    found = linked(made, *others, symbols=(symbol,)).sections[DATA]
    assert bool(found.relocations) == (found.content == b"\x11" * 8)
    return None if found.relocations else found.content


OF_SHARED = (section(".nv.shared.k", 0, 4), section(".nv.shared.f", 0x1230, 4))


@pytest.mark.parametrize(
    ("kind", "addend", "content"),
    [
        (KIND.DATA_32, 0x48, "78 12 00 00 11 11 11 11"),
        (KIND.DATA_32, 0x3_9000_0048, "78 12 00 90 11 11 11 11"),
        (KIND.DATA_64, 0x48, "78 12 00 00 00 00 00 00"),
        (KIND.DATA_64, -0x1231, "ff ff ff ff ff ff ff ff"),
        (KIND.DATA_32_LO, 0x48, "78 12 00 00 11 11 11 11"),
        (KIND.DATA_32_HI, 0x3_9000_0048, "03 00 00 00 11 11 11 11"),
        (KIND.DATA_8_0, 0x48, "78 11 11 11 11 11 11 11"),
        (KIND.DATA_8_8, 0x48, "12 11 11 11 11 11 11 11"),
    ],
)
def test_a_place_in_shared_memory_is_filled_into_data_as_its_kind_says(kind, addend, content):
    file = linked(
        section(DATA, b"\x11" * 8, 8, Relocation(0, kind, 4, addend)),
        *OF_SHARED,
        symbols=(shared("f1", ".nv.shared.f", 4, 0x1230), shared("own", ".nv.shared.k", 4, 4)),
    )
    assert file.sections[DATA].content == bytes.fromhex(content)


def test_addresses_wait_for_the_launch():
    """Relocations to variables, functions and generic addresses of constants remain; offsets in a
    bank are known.
    """
    constant = section(".nv.constant3", bytes(16), 4)
    c = variable("c", ".nv.constant3", 8)
    for kind, symbol in (
        (KIND.DATA_64, variable("v", ".nv.global")),
        (KIND.DATA_32, function("f")),
        (KIND.DATA_32, replace(function("f"), section=None)),
        (KIND.GENERIC_64, c),
        (KIND.NONE, c),
        (KIND.UNUSED_CLEAR32, c),
        (KIND.TEX_HEADER_INDEX, Symbol("t", SymbolKind.TEXTURE, Binding.GLOBAL, None)),
    ):
        assert filled(kind, symbol, 0, constant) is None
    assert filled(KIND.DATA_64, c, None, constant) == (8).to_bytes(8, "little")
    assert filled(KIND.DATA_64, c, 0x100, constant) == (0x108).to_bytes(8, "little")


def test_the_size_of_the_shared_constants_is_known():
    size = Symbol(CONSTANTS_SIZE, SymbolKind.NONE, Binding.GLOBAL, None)
    assert filled(KIND.DATA_64, size, 3, section(".nv.constant3", bytes(20), 4)) == bytes([23, *bytes(7)])  # fmt: skip
    assert filled(KIND.DATA_64, size, 3) == bytes([3, *bytes(7)])


INSTRUCTIONS = """.kernel k
MOV32I R0, 0x0
MOV R1, c[0x0][0x0]
LDC R2, c[0x0][R0+0x0]
STS [R3+0x0], R4
EXIT"""
SHARED_AT = 0x40


@pytest.mark.parametrize(
    ("number", "kind", "of_bank", "text"),
    [
        (0, KIND.ABS32_LO_20, False, "MOV32I R0, 0x4c"),
        (0, KIND.ABS32_LO_20, True, "MOV32I R0, 0x1c"),
        (1, KIND.CONST_FIELD19_20, True, "MOV R1, c[0x4][0x1c]"),
        (2, KIND.CONST_FIELD21_20, True, "LDC R2, c[0x4][R0+0x1c]"),
        (3, KIND.ABS24_20, False, "STS [R3+0x4c], R4"),
    ],
)
def test_an_instruction_gets_the_place_and_the_bank_that_it_names(number, kind, of_bank, text):
    """The address is 0x40 in shared memory or 0x10 in bank 4, plus 12."""
    content = assemble(INSTRUCTIONS, "t").sections[".text.k"].content
    places = [address for address, _, _ in instructions(content)]
    symbols = (shared("s", ".nv.shared.k", SHARED_AT, 4), variable("c", ".nv.constant4", 0x10))
    file = linked(
        section(".text.k", content, 32, Relocation(places[number], kind, 4 if of_bank else 3, 12)),
        section(".nv.shared.k", 0, 4),
        section(".nv.shared.f", 0, 4),
        section(".nv.constant4", bytes(0x20), 4),
        symbols=(*symbols, shared("before", ".nv.shared.f", 1, SHARED_AT)),
    )
    found = {address: word for address, word, _ in instructions(file.sections[".text.k"].content)}
    assert spell(found[places[number]], places[number]) == text
    before = {address: word for address, word, _ in instructions(content)}
    assert {at for at in places if found[at] != before[at]} == {places[number]}


def open_array(alignment: int) -> Symbol:
    """Returns a shared array without a size, which is in no kernel's section."""
    return shared("open", ".nv.shared.other", alignment, 0)


def with_open_array(user: str, *own_sizes: int, alignment: int = 16) -> ObjectFile:
    """Returns kernels with these sizes of shared memory, one of which uses the array in a section."""
    made = [section(f".nv.shared.{name}", 0, 4) for name in "kj"]
    own = [
        shared(f"own{name}", f".nv.shared.{name}", 4, size)
        for name, size in zip("kj", own_sizes, strict=True)
    ]
    use = section(user, bytes(8), 8, Relocation(0, KIND.DATA_32, 3, 1))
    array = replace(open_array(alignment), section=None)
    return linked(use, *made, symbols=(array, *own))


@pytest.mark.parametrize(
    ("sizes", "alignment", "begin"), [((20, 20), 16, 32), ((17, 32), 32, 32), ((13, 13), 0, 13)]
)
def test_an_array_without_a_size_begins_behind_the_variables_of_each_kernel(sizes, alignment, begin):  # fmt: skip
    file = with_open_array(DATA, *sizes, alignment=alignment)
    assert file.sections[DATA].content[:4] == (begin + 1).to_bytes(4, "little")


def test_an_array_without_a_size_is_used_by_all_only_where_it_is_at_one_place():
    with pytest.raises(ProgramError) as caught:
        with_open_array(DATA, 20, 40)
    assert str(caught.value) == (
        f"x: {DATA} uses open, which is not at the same place in all kernels"
    )
    file = with_open_array(".nv.constant2.k", 20, 40)
    assert file.sections[".nv.constant2.k"].content[:4] == (32 + 1).to_bytes(4, "little")


@pytest.mark.parametrize(
    ("relocation", "symbol", "message"),
    [
        (
            Relocation(4, 0x40, 3),
            variable("v", ".nv.global"),
            "+0x4: relocation to v: its kind 0x40: CONST_FIELD19_40, for instructions of another "
            "machine than sm_50",
        ),
        (
            Relocation(0, 0x99, 3),
            variable("v", ".nv.global"),
            "+0x0: relocation to v: its kind 0x99: unknown, or not what such a symbol can have",
        ),
        (
            Relocation(0, KIND.CONST_FIELD19_20, 3),
            variable("c", ".nv.constant3"),
            "+0x0: relocation to c: its kind 0x32 is not for data",
        ),
    ],
)
def test_what_cannot_be_completed_is_refused_by_its_place(relocation, symbol, message):
    made = section(DATA, bytes(8), 8, relocation)
    found = refusal(made, section(".nv.constant3", bytes(4), 4), symbols=(symbol,))
    assert found == f"x: {DATA}{message}"


def test_a_place_that_is_too_large_for_its_instruction_is_refused():
    content = assemble(INSTRUCTIONS, "t").sections[".text.k"].content
    made = section(".text.k", content, 32, Relocation(16, KIND.CONST_FIELD19_20, 3, 0x20000))
    constant = section(".nv.constant3", bytes(4), 4)
    found = refusal(made, constant, symbols=(variable("c", ".nv.constant3"),))
    assert found.startswith("x: .text.k+0x10: relocation to c: 0x20000 does not fit ")


def test_a_complete_file_stays_as_it_is():
    file = object_file(CODE, *KERNELS)
    assert link(file) is file


def test_symbols_of_sections_stay_where_their_sections_do():
    file = linked(section(DATA, bytes(4), 4), symbols=(of_section(DATA), of_section(".lost")))
    assert [symbol.section for symbol in file.symbols[3:]] == [DATA, None]
