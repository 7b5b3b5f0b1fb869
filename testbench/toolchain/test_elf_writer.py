"""ELF files of the writer, compared with those of NVIDIA's tools for the same program."""

from io import BytesIO
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from sim.toolchain.assembly.assembler import assemble
from sim.toolchain.cubin.elf_reader import read_object
from sim.toolchain.cubin.elf_writer import write_object

from .objects import object_file, section

HERE = Path(__file__).parents[1]
FILES = [
    HERE / "programs" / "k10_calltable_global.O3.cubin",
    *(
        HERE / "data" / f"toolchain_{name}.cubin"
        for name in ("attributes", "masked", "two_kernels")
    ),
]
STRINGS = (".shstrtab", ".strtab")
"""String tables; those of NVIDIA's files have names of sections that were removed."""


def tables(content: bytes) -> dict[str, dict[str, object]]:
    """Returns the section table, with names instead of the numbers of sections and of strings."""
    elf = ELFFile(BytesIO(content))
    names = [each.name for each in elf.iter_sections()]
    return {
        each.name: {
            **each.header,
            "sh_link": names[each["sh_link"]],
            "sh_info": names[each["sh_info"]]
            if each.name.startswith((".rel", ".nv.constant", ".nv.shared", ".nv.info."))
            else each["sh_info"],
        }
        for each in elf.iter_sections()
    }


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_written_file_has_the_headers_and_sections_of_nvidias_file(path):
    """Names, offsets and sizes of string tables may differ, and relocations may be in another
    order.
    """
    theirs = path.read_bytes()
    ours = write_object(read_object(theirs, "x"))
    elves = [ELFFile(BytesIO(content)) for content in (ours, theirs)]
    places = {"e_phoff": None, "e_shoff": None}
    assert {**elves[0].header, **places} == {**elves[1].header, **places}
    segments = [
        [(each["p_type"], each["p_flags"]) for each in elf.iter_segments()] for elf in elves
    ]
    assert segments[0] == segments[1]
    written, expected = tables(ours), tables(theirs)
    moved = {"sh_name": None, "sh_offset": None}
    for name, header in expected.items():
        lost = {"sh_size": None} if name in STRINGS else {}
        assert {**written[name], **moved, **lost} == {**header, **moved, **lost}, name
    in_order = [
        [name for name in table if not name.startswith(".rel")] for table in (written, expected)
    ]
    assert in_order[0] == in_order[1] and written.keys() == expected.keys()


ODD = """.global x
.byte 1, 2, 3
.kernel k
EXIT"""


@pytest.mark.parametrize("path", [None, *FILES], ids=lambda path: path.stem if path else "odd")
def test_sections_are_one_behind_the_other_and_only_padding_is_between(path):
    """That includes the section table, the segment table, and the end of the file."""
    file = read_object(path.read_bytes(), "x") if path else assemble(ODD, "x")
    content = write_object(file)
    elf = ELFFile(BytesIO(content))
    end = elf["e_ehsize"]
    for each in list(elf.iter_sections())[1:]:
        begin, alignment = each["sh_offset"], each["sh_addralign"]
        assert begin == -(-end // alignment) * alignment and not any(content[end:begin])
        end = begin + (each["sh_size"] if each["sh_type"] != "SHT_NOBITS" else 0)
    assert elf["e_shoff"] == -(-end // 8) * 8 and not any(content[end : elf["e_shoff"]])
    assert elf["e_phoff"] == elf["e_shoff"] + elf["e_shnum"] * elf["e_shentsize"]
    assert len(content) == elf["e_phoff"] + elf["e_phnum"] * elf["e_phentsize"]
    for segment in elf.iter_segments():
        assert (segment["p_vaddr"], segment["p_paddr"], segment["p_align"]) == (0, 0, 8)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_text_is_once_in_its_table(path):
    content = write_object(read_object(path.read_bytes(), "x"))
    elf = ELFFile(BytesIO(content))
    names = {each.name for each in elf.iter_sections()}
    table = elf.get_section_by_name(".symtab")
    assert isinstance(table, SymbolTableSection)
    symbols = {symbol.name for symbol in table.iter_symbols()}
    for name, texts in zip(STRINGS, (names, symbols), strict=True):
        strings = elf.get_section_by_name(name)
        assert strings is not None
        content = strings.data()
        assert content[:1] == content[-1:] == b"\0"
        assert sorted(content[1:-1].split(b"\0")) == sorted(text.encode() for text in texts if text)


def test_what_belongs_to_no_function_of_the_file_names_none():
    """Code without a symbol has only its register count; a bank of a kernel that is in another file
    refers to no code.
    """
    code = section(".text.k", bytes(32), 32, registers=7, barriers=5)
    file = object_file([code, section(".nv.constant2.other", bytes(4), 4)])
    elf = ELFFile(BytesIO(write_object(file)))
    found = {each.name: (each["sh_info"], each["sh_flags"]) for each in elf.iter_sections()}
    assert found[".text.k"] == (7 << 24, 6 | 5 << 20)
    assert found[".nv.constant2.other"] == (0, 2)
