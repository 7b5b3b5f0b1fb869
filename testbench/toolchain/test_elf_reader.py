"""The ELF reader on files made by hand, field by field as in the ELF specification."""

import struct
from dataclasses import dataclass

import pytest

from sim.toolchain.cubin.elf_reader import read_object
from sim.toolchain.cubin.object_file import Binding, ObjectFile, Relocation, Symbol, SymbolKind
from sim.toolchain.module import ProgramError

PROGBITS, SYMTAB, STRTAB, RELA, NOBITS, REL = 1, 2, 3, 4, 8, 9
TEXT, NAMES, SYMBOLS, STRINGS = 1, 2, 3, 4


@dataclass
class Made:
    """A section header; the offsets in the file and of the name are computed when it is written."""

    name: bytes
    kind: int
    content: bytes = b""
    flags: int = 0
    link: int = 0
    info: int = 0
    alignment: int = 1
    entry_size: int = 0
    size: int | None = None


def symbol(name: int, info: int, other: int, section: int, value: int = 0, size: int = 0) -> bytes:
    return struct.pack("<IBBHQQ", name, info, other, section, value, size)


def usual() -> list[Made]:
    """Returns sections 1 to 4 of a file with a function, a variable, and a shared variable in a
    section of 0x20 bytes.
    """
    symbols = [
        symbol(0, 0, 0, 0),
        symbol(1, 0x12, 0x10, TEXT, 0, 0x20),
        symbol(3, 0x01, 0, TEXT, 0x18, 8),
        symbol(0, 0x03, 0, TEXT),
        symbol(5, 0x21, 0, 0xFFF1, 0x1234),
    ]
    return [
        Made(b".text.k", PROGBITS, bytes(range(0x20)), 6 | 3 << 20, 3, 9 << 24 | 1, 32),
        Made(b".shstrtab", STRTAB),
        Made(b".symtab", SYMTAB, b"".join(symbols), 0, STRINGS, 1, 8, 24),
        Made(b".strtab", STRTAB, b"\0k\0v\0w\0"),
    ]


def file(sections: list[Made], cut: int = 0, **header: int) -> bytes:
    """Returns the bytes of a file, with other values in its header."""
    names = b"\0" + b"".join(made.name + b"\0" for made in sections)
    sections[NAMES - 1].content = names
    content = bytearray(64)
    headers = bytes(64)
    at = 1
    for made in sections:
        size = len(made.content) if made.size is None else made.size
        headers += struct.pack(
            "<IIQQQQIIQQ", at, made.kind, made.flags, 0, len(content), size,
            made.link, made.info, made.alignment, made.entry_size,
        )  # fmt: skip
        at += len(made.name) + 1
        content += made.content
    fields = {
        "class": 2, "data": 1, "type": 2, "machine": 190, "flags": 0x0032_0532, "headers": len(content),
        "count": len(sections) + 1, "abi": 7,
    } | header  # fmt: skip
    ident = b"\x7fELF" + bytes((fields["class"], fields["data"], 1, 0x33, fields["abi"])) + bytes(7)
    content[:64] = ident + struct.pack(
        "<HHIQQQIHHHHHH", fields["type"], fields["machine"], 1, 0, 0, fields["headers"], fields["flags"],
        64, 56, 0, 64, fields["count"], NAMES,
    )  # fmt: skip
    content += headers
    return bytes(content[: len(content) - cut])


def read(*more: Made, cut: int = 0, **header: int) -> ObjectFile:
    return read_object(file([*usual(), *more], cut, **header), "x")


def refusal(content: bytes) -> str:
    with pytest.raises(ProgramError) as caught:
        read_object(content, "x")
    return str(caught.value)


def test_fields_of_sections_and_symbols_are_those_of_the_headers():
    found = read(Made(b".data", 0x7000_0077, b"\7" * 6, 3, 0, 5, 0, 2))
    assert [*found.sections] == [".text.k", ".data"]
    code, data = found.sections.values()
    assert (code.kind, code.flags, code.content, code.size) == (1, 6, bytes(range(0x20)), 0x20)
    assert (code.alignment, code.entry_size, code.registers, code.barriers) == (32, 0, 9, 3)
    assert (data.kind, data.flags, data.content, data.size) == (0x7000_0077, 3, b"\7" * 6, 6)
    assert (data.alignment, data.entry_size, data.registers, data.barriers) == (1, 2, 0, 0)
    assert code.relocations == data.relocations == ()
    assert found.symbols == (
        Symbol("", SymbolKind.NONE, Binding.LOCAL, None),
        Symbol("k", SymbolKind.FUNCTION, Binding.GLOBAL, ".text.k", 0, 0x20, 0x10),
        Symbol("v", SymbolKind.OBJECT, Binding.LOCAL, ".text.k", 0x18, 8),
        Symbol("", SymbolKind.SECTION, Binding.LOCAL, ".text.k"),
        Symbol("w", SymbolKind.OBJECT, Binding.WEAK, None, 0x1234),
    )
    assert (found.name, found.relocatable) == ("x", False)
    assert read(type=1).relocatable


def test_only_code_has_registers_and_barriers_in_its_header():
    data = read(Made(b".data", PROGBITS, b"", 6 | 3 << 20, 0, 9 << 24)).sections[".data"]
    assert (data.flags, data.registers, data.barriers) == (6 | 3 << 20, 0, 0)


def test_relocations_are_those_of_the_section_that_their_header_names():
    entries = [(0x18, 0x2_0000_0001), (0, 0x1_0000_0038)]
    plain = b"".join(struct.pack("<QQ", *entry) for entry in entries)
    added = struct.pack("<QQq", 8, 0x2_0000_0002, -5)
    found = read(
        Made(b".rel.text.k", REL, plain, 0, SYMBOLS, TEXT, 8, 16),
        Made(b".rela.text.k", RELA, added, 0, SYMBOLS, TEXT, 8, 24),
    )
    assert found.sections[".text.k"].relocations == (
        Relocation(0x18, 1, 2),
        Relocation(0, 0x38, 1),
        Relocation(8, 2, 2, -5),
    )
    assert [*found.sections] == [".text.k"]


def test_a_file_without_a_symbol_table_has_no_symbols():
    sections = usual()
    sections[SYMBOLS - 1].kind = PROGBITS
    assert read_object(file(sections), "x").symbols == ()


def test_a_section_without_bytes_may_have_up_to_a_gigabyte():
    found = read(Made(b".empty", NOBITS, size=1 << 30, alignment=4096)).sections[".empty"]
    assert (found.size, found.content, found.alignment) == (1 << 30, b"", 4096)
    message = "section .empty has 0x40000001 bytes, which is too many"
    assert refusal(file([*usual(), Made(b".empty", NOBITS, size=(1 << 30) + 1)])) == f"x: {message}"


SECTION_TABLE = len(file(usual())) - 5 * 64


def relocation(offset: int, symbol: int, kind: int = 1, section: int = TEXT) -> Made:
    content = struct.pack("<QQ", offset, symbol << 32 | kind)
    return Made(b".rel", REL, content, 0, SYMBOLS, section, 8, 16)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ([Made(b".text.k", PROGBITS)], "two sections are called .text.k"),
        ([Made(b".a\nb", PROGBITS)], "the name '.a\\nb' holds characters that can't be printed"),
        (
            [Made(b".odd", PROGBITS, alignment=3)],
            "section .odd is aligned to 0x3, not to a power of two up to 0x1000",
        ),
        (
            [Made(b".wide", PROGBITS, alignment=8192)],
            "section .wide is aligned to 0x2000, not to a power of two up to 0x1000",
        ),
        ([relocation(0, 5)], ".rel names symbol 5, there are 5"),
        ([relocation(0, 1, section=6)], ".rel completes section 6, there are 6"),
        ([relocation(0x1D, 1)], ".rel completes 0x1d, .text.k ends at 0x20"),
        ([relocation(0x19, 1, 2)], ".rel completes 0x19, .text.k ends at 0x20"),
    ],
)
def test_sections_that_are_not_sound_are_refused(more, message):
    assert refusal(file([*usual(), *more])) == f"x: {message}"


@pytest.mark.parametrize("made", [relocation(0, 4), relocation(0x1C, 1), relocation(0x18, 1, 2)])
def test_the_last_symbol_and_the_last_place_of_a_section_may_be_named(made):
    assert len(read(made).sections[".text.k"].relocations) == 1


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (symbol(1, 0x32, 0, TEXT), "symbol k has binding 3, which there is not"),
        (symbol(1, 2, 0, 5), "a symbol is in section 5, there are 5"),
        (symbol(1, 2, 0, 0xFEFF), "a symbol is in section 65279, there are 5"),
        (symbol(1, 1, 0, TEXT, 0x19, 8), "k ends at 0x21, .text.k at 0x20"),
    ],
)
def test_symbols_that_are_not_sound_are_refused(entry, message):
    sections = usual()
    sections[SYMBOLS - 1].content += entry
    assert refusal(file(sections)) == f"x: {message}"


@pytest.mark.parametrize(
    ("entry", "home"),
    [
        (symbol(1, 2, 0, 4), ".strtab"),
        (symbol(1, 2, 0, 0xFF00), None),
        (symbol(1, 1, 0, 0, 0x100, 8), None),
        (symbol(1, 0x0D, 0x40, TEXT, 0x80, 8), ".text.k"),  # a shared variable has an alignment
    ],
)
def test_sections_of_symbols_are_those_of_their_numbers(entry, home):
    sections = usual()
    sections[SYMBOLS - 1].content += entry
    assert read_object(file(sections), "x").symbols[-1].section == home


def test_a_symbol_table_needs_its_strings():
    for strings in (0, TEXT, 5, 99):
        sections = usual()
        sections[SYMBOLS - 1].link = strings
        assert refusal(file(sections)).startswith("x: not a sound ELF file: ")


def test_a_file_that_ends_too_early_is_refused_by_what_it_lacks():
    whole = file(usual())
    assert read_object(whole + b"\0", "x") == read_object(whole, "x")
    assert refusal(whole[:-1]) == (
        f"x: truncated: the section table ends at {len(whole):#x}, the file at {len(whole) - 1:#x}"
    )
    sections = [*usual(), Made(b".long", PROGBITS, b"", size=1 << 20)]
    end = len(file(sections))
    begin = SECTION_TABLE + len(b".long") + 1
    assert refusal(file(sections)) == (
        f"x: truncated: section .long ends at {begin + (1 << 20):#x}, the file at {end:#x}"
    )


def test_a_section_may_end_with_the_file():
    content = file([*usual(), Made(b".last", PROGBITS, b"", size=6 * 64)])
    last = read_object(content, "x").sections[".last"]
    assert last.content == content[-6 * 64 :]


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ({"machine": 62}, "for machine EM_X86_64, not EM_CUDA"),
        ({"flags": 0x0034_0534}, "for sm_52, not sm_50: compile with -arch=sm_50"),
        ({"flags": 0x0033_0533}, "for sm_51, not sm_50: compile with -arch=sm_50"),
        ({"flags": 0x0600_4B04, "abi": 8}, "for sm_75, not sm_50: compile with -arch=sm_50"),
        ({"flags": 0x0600_6402, "abi": 8}, "for sm_100, not sm_50: compile with -arch=sm_50"),
        ({"flags": 0x0600_4B32, "abi": 8}, "for sm_75, not sm_50: compile with -arch=sm_50"),
        ({"flags": 0x0600_3204, "abi": 8}, "of ELF ABI version 8, files for sm_50 have version 7"),
        ({"flags": 0x0046_3246}, "for sm_70, not sm_50: compile with -arch=sm_50"),
        ({"flags": 0x0032_0032 | 0x100}, None),
        ({"type": 3}, "of type ET_DYN, neither ET_EXEC nor ET_REL"),
    ],
)
def test_headers_of_other_machines_are_refused(header, message):
    content = file(usual(), **header)
    if message is None:
        assert read_object(content, "x").sections
    else:
        assert refusal(content) == f"x: {message}"
