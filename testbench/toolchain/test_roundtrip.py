"""A cubin disassembled and assembled again is equivalent to the original for every loader."""

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtl.isa.control_code import ControlCode, pack, unpack
from sim.launch import PROGRAM_BASE, prepare
from sim.toolchain.assembly.assembler import assemble
from sim.toolchain.assembly.spelling import spell
from sim.toolchain.cubin.elf_reader import read_object
from sim.toolchain.cubin.elf_writer import write_object
from sim.toolchain.cubin.linking import link
from sim.toolchain.cubin.loader import load
from sim.toolchain.cubin.object_file import (
    ObjectFile,
    Relocation,
    Section,
    SectionFlag,
    SectionKind,
)
from sim.toolchain.cubin.relocation import RelocationKind
from sim.toolchain.listing.disassembly import disassembly, raw_disassembly
from sim.toolchain.listing.listing import listing
from sim.toolchain.module import ProgramError
from testbench.programs import CUBINS, PROGRAMS
from testbench.words import NOP

HERE = Path(__file__).parents[1]
COMPLETE = sorted(
    path for path in (HERE / "data").glob("toolchain_*.cubin") if "relocatable" not in path.name
)
RELOCATABLE = sorted((HERE / "data").glob("toolchain_*.relocatable.cubin"))


def read(path: Path) -> ObjectFile:
    return read_object(path.read_bytes(), path.name)


def without_relocations(section: Section) -> Section:
    return replace(section, relocations=())


def relocations(file: ObjectFile, section: Section) -> set:
    return {
        (entry.offset, entry.kind, file.symbols[entry.symbol].name, entry.addend)
        for entry in section.relocations
    }


@pytest.mark.parametrize("path", [*CUBINS, *COMPLETE], ids=lambda path: path.stem)
def test_text_gives_back_every_section(path):
    """Every section bit by bit, all symbols in order, and all relocations, through a written file."""
    file = read(path)
    again = read_object(write_object(assemble(listing(file), path.name)), path.name)
    assert again.sections.keys() == file.sections.keys()
    for name, section in file.sections.items():
        assert without_relocations(again.sections[name]) == without_relocations(section), name
        assert relocations(again, again.sections[name]) == relocations(file, section), name
    assert again.symbols == file.symbols
    assert load(again) == load(file)


@pytest.mark.parametrize(
    ("changes", "is_shown"),
    [
        ({}, True),
        ({"kind": SectionKind.CUDA_INFO}, True),
        ({"kind": SectionKind.CUDA_INFO - 1}, False),  # for all machines
        ({"kind": SectionKind.NOBITS, "content": b""}, False),
        ({"name": ".debug_mine"}, False),
        ({"name": ".nv.debug_mine"}, True),
        ({"flags": SectionFlag.ALLOCATE}, False),
        ({"relocations": (Relocation(0, 1, 0),)}, False),
    ],
)
def test_a_section_that_means_nothing_here_is_carried_unless_no_text_can(changes, is_shown):
    """Sections in which tools store their own data are kept, unless they are loaded or refer to
    other sections.
    """
    name = changes.get("name", ".mine")
    file = assemble(".section .mine 0x70000077 align 8 entry 4\n.word 1, 2\n.kernel k\nEXIT", "t")
    section = replace(file.sections[".mine"], **changes)
    others = {key: each for key, each in file.sections.items() if key != ".mine"}
    shown = listing(replace(file, sections={**others, name: section}))
    line = f".section {name} {section.kind:#x} align 8 entry 4\n        .word 0x1, 0x2\n"
    assert (line in shown) == (f".section {name}" in shown) == is_shown


SMALL = """\
.global zeroed 12
.global first align 16
.word 1, first+4
.byte 7
.const 3 table align 8
.word 4, 5
.kernel k
.param p 8
.param q 4
.shared s 64
.const 2 tab
.word a, b
MOV R0, c[0x0][q]
@!P0 BRA a
MOV32I R2, 32@lo(first)
BRX R0 -.next -> a, b
a: CAL f
EXIT
b: JCAL g
.raw 0xc03800000007000f
EXIT
f: NOP
RET
.end
.function g
IADD R0, R0, R1
RET
.section .mine 0x70000077 align 8
.word 9
"""
SMALL_LISTING = """\
.const 3 table
        .word 0x4, 0x5
.global first align 16
        .byte 0x1, 0x0, 0x0, 0x0
        .word first+0x4
        .byte 0x7
.global zeroed 0xc

.kernel k
.registers 3
.barriers 0
.param p0 8
.param p1 4
.shared 0x40
.const 2 tab
        .word .L1, .L2

[B------:R-:W-:-:S01]        MOV R0, c[0x0][0x148]
[B------:R-:W-:-:S06]   @!P0 BRA .L1
[B------:R-:W-:-:S01]        MOV32I R2, 32@lo(first)
[B------:R-:W-:-:S13]        BRX R0 -.next -> .L1, .L2
.L1:
[B------:R-:W-:-:S13]        CAL .L3
[B------:R-:W-:-:S05]        EXIT
.L2:
[B------:R-:W-:-:S13]        JCAL g
[B------:R-:W-:-:S15] .raw 0xc03800000007000f  // TEX: there are no textures
[B------:R-:W-:-:S05]        EXIT
.L3:
[B------:R-:W-:-:S01]        NOP
[B------:R-:W-:-:S13]        RET
.L4:
[B------:R-:W-:-:S15]        BRA .L4

.end
.function g
.registers 2
.barriers 0

[B------:R-:W-:-:S01]        IADD R0, R0, R1
[B------:R-:W-:-:S13]        RET
.L1:
[B------:R-:W-:-:S15]        BRA .L1
[B------:R-:W-:Y:S00]        NOP
[B------:R-:W-:Y:S00]        NOP
[B------:R-:W-:Y:S00]        NOP

.section .mine 0x70000077 align 8
        .word 0x9
"""


def test_the_listing_of_a_small_program():
    """Shared constants and variables first, then each kernel and function with its own; labels are
    numbered, a guard precedes its instruction, and instructions that this machine does not have are
    numbers.
    """
    assert listing(assemble(SMALL, "t")) == SMALL_LISTING
    assert listing(assemble(SMALL_LISTING, "t")) == SMALL_LISTING


def test_text_keeps_shared_memory_without_bytes():
    """An array whose size is defined at launch has a section, but no symbol."""
    path = PROGRAMS / "cuda" / "c60_stencil_3d.O3.cubin"
    file = read(path)
    again = assemble(listing(file), path.name)
    assert file.sections[".nv.shared.k"].size == 0
    assert again.sections[".nv.shared.k"] == file.sections[".nv.shared.k"]
    assert again.sections.keys() == file.sections.keys()
    assert again.symbols == file.symbols
    assert load(again) == load(file)


@pytest.mark.parametrize("path", RELOCATABLE, ids=lambda path: path.stem)
def test_text_of_a_relocatable_file_is_the_linked_program(path):
    file = read(path)
    again = assemble(listing(file), path.name)
    assert load(again) == load(file)
    for name, section in link(file).sections.items():
        if name.startswith((".text", ".nv.constant")):
            assert again.sections[name].content == section.content


def test_words_that_no_text_means_are_written_as_numbers():
    """A bit outside of all forms, a word that is no instruction, and reuse bits without an operand."""
    path = PROGRAMS / "k01_vecadd.O3.cubin"
    file = read(path)
    section = file.sections[".text.k"]
    content = bytearray(section.content)
    content[8:16] = (int.from_bytes(content[8:16], "little") | 1 << 44).to_bytes(8, "little")
    content[16:24] = (0xFFFF << 48).to_bytes(8, "little")
    content[0:8] = (int.from_bytes(content[0:8], "little") | 5 << 17 + 21).to_bytes(8, "little")
    file = replace(
        file, sections={**file.sections, section.name: replace(section, content=bytes(content))}
    )
    text = listing(file)
    assert text.count(".raw") == 2
    assert re.search(r"U5\] \.raw 0xffff000000000000  // ILLEGAL", text)
    assert assemble(text, path.name).sections[".text.k"].content == bytes(content)


def test_listings_differ_from_the_assembler_in_records_and_order_of_symbols():
    """The listing has records and the order of symbols only if they differ from the assembler's."""
    text = listing(read(HERE / "data" / "toolchain_attributes.cubin"))
    assert ".symbols .text.regs, .nv.global, base, .nv.global.init, pt," in text
    assert ".info MAXREG_COUNT half 0x10" in text
    assert ".info MAX_THREADS 0x20, 0x1, 0x1" in text
    assert ".param p3 24 at 0x10" in text


def test_tables_and_branches_have_names():
    text = listing(read(PROGRAMS / "k06_switch_brx.O3.cubin"))
    assert ".const 2\n        .word .L1, .L2, .L3, .L4\n        .word .L4, .L5, .L1\n" in text
    assert "BRX R0 -.next -> .L1, .L2, .L3, .L4, .L4, .L5, .L1\n" in text
    assert "@P0 BRA .L6\n" in text


def test_edited_text_moves_everything_along():
    """After an instruction was inserted, labels, tables, records and the code's end are adjusted."""
    file = read(PROGRAMS / "k06_switch_brx.O3.cubin")
    text = listing(file).replace(".L1:\n", ".L1:\n        NOP\n")
    again = assemble(text, "edited")
    section = again.sections[".nv.constant2.k"]
    places = [int.from_bytes(section.content[at : at + 4], "little") for at in range(0, 28, 4)]
    assert places == [0xB8, 0xD8, 0x100, 0x118, 0x118, 0x138, 0xB8]
    assert len(again.sections[".text.k"].content) == 448


@pytest.mark.parametrize("path", [CUBINS[0], CUBINS[-1]], ids=lambda path: path.stem)
def test_disassembly_has_a_line_for_every_instruction(path):
    file = read(path)
    lines = disassembly(file).splitlines()
    assert lines[0] == "// .text.k"
    found = [
        re.fullmatch(r"/\*([0-9a-f]{4})\*/ (.+?); +/\* (0x[0-9a-f]{16}) \*/", line)
        for line in lines
    ]
    content = file.sections[".text.k"].content
    words = {int(match[1], 16): int(match[3], 16) for match in found if match}
    assert words == {
        at: int.from_bytes(content[at : at + 8], "little")
        for at in range(0, len(content), 8)
        if at % 32
    }


@pytest.mark.skipif(
    shutil.which("nvdisasm") is None, reason="nvdisasm, NVIDIA's disassembler, is not on PATH"
)
@pytest.mark.parametrize("path", CUBINS, ids=lambda path: path.stem)
def test_nvidia_prints_the_same_of_both_files(path, tmp_path):
    """Headers, records, symbols and code are compared, and NVIDIA's text of the code with this
    project's.
    """
    ours = tmp_path / path.name
    ours.write_bytes(write_object(assemble(listing(read(path)), path.name)))
    printed = [
        subprocess.run(
            ["nvdisasm", *options, name], capture_output=True, text=True, check=True
        ).stdout
        for options in ([], ["-hex", "-novliw"])
        for name in (ours, path)
    ]
    assert printed[0] == printed[1]
    texts = [
        re.sub(r"`\(.*\)|\(\*.*|32@.*", "", text).replace(" ", "")
        for text in re.findall(r"/\*[0-9a-f]{4}\*/ +(.*?) ?;", printed[3])
    ]
    mine = [
        text.replace(" ", "")
        for text in re.findall(r"/\*[0-9a-f]{4}\*/ (.*?);", disassembly(read(path)))
    ]
    assert len(texts) == len(mine)
    for theirs, text in zip(texts, mine, strict=True):
        assert text.startswith(theirs)


def test_a_disassembly_has_the_control_code_of_each_group_above_its_first_instruction():
    """Words are in one column, and words without a text are marked."""
    words = [
        pack([ControlCode(stall) for stall in stalls])
        for stalls in ((1, 2, 3), (4, 5, 6), (7, 8, 9))
    ]
    code = [words[0], NOP, NOP, 0, words[1], NOP, NOP, NOP, words[2], NOP, NOP, NOP]
    lines = raw_disassembly(b"".join(word.to_bytes(8, "little") for word in code), "t").splitlines()
    assert len(lines) == len(code) and len(set(words)) == 3
    for address, (line, word) in zip(range(0, 96, 8), zip(lines, code, strict=True), strict=True):
        text, _, number = line[:64], line[64:66], line[64:88]
        assert number == f"/* {word:#018x} */"
        assert text.strip() == (
            "" if address % 32 == 0 else f"/*{address:04x}*/ {spell(word, address)};"
        )


def test_places_in_code_keep_their_address():
    """A label is an absolute target; a position in a section is named by the section's symbol only."""
    text = ".global a 8\n.global b\n.word 1, 2\n.kernel k\nJMP L\n.function f\nL: JCAL L+8\nEXIT\n"
    file = assemble(text, "t")
    section = file.sections[".text.k"]
    index = next(number for number, symbol in enumerate(file.symbols) if symbol.name == ".text.k")
    assert {(entry.symbol, entry.addend) for entry in section.relocations} == {
        (index, 0x10),
        (index, 0x18),
    }
    again = listing(file)
    assert "JMP f\n" in again and "JCAL f+0x8\n" in again
    memories = [prepare(load(each), ()).memory for each in (file, assemble(again, "t"))]
    assert memories[0].read(PROGRAM_BASE, 64) == memories[1].read(PROGRAM_BASE, 64)


def test_names_that_no_text_can_have():
    file = read(PROGRAMS / "k01_vecadd.O3.cubin")
    symbols = tuple(
        replace(symbol, name="a b") if symbol.name == "k" else symbol for symbol in file.symbols
    )
    with pytest.raises(ProgramError, match=r"the name 'a b' can't be written in assembly text$"):
        listing(replace(file, symbols=symbols))


def with_section(file: ObjectFile, section: Section) -> ObjectFile:
    return replace(file, sections={**file.sections, section.name: section})


def test_sections_whose_names_no_text_can_have():
    file = read(PROGRAMS / "k01_vecadd.O3.cubin")
    section = replace(file.sections[".nv.rel.action"], name=".nv action")
    with pytest.raises(
        ProgramError, match=r"the name '\.nv action' can't be written in assembly text$"
    ):
        listing(with_section(file, section))


def test_relocations_for_data_in_code():
    file = read(PROGRAMS / "k10_calltable_global.O3.cubin")
    section = file.sections[".text.k"]
    first, *rest = section.relocations
    broken = replace(section, relocations=(replace(first, kind=RelocationKind.DATA_32), *rest))
    with pytest.raises(
        ProgramError, match=rf"\.k\+{first.offset:#x}: a relocation of kind 0x1, which is for data$"
    ):
        listing(with_section(file, broken))


def test_what_the_assembler_refuses_is_the_files_fault():
    """A control code has a scoreboard that does not exist: the message names the file, and the line
    of its text.
    """
    file = read(PROGRAMS / "k01_vecadd.O3.cubin")
    section = file.sections[".text.k"]
    control, *rest = unpack(int.from_bytes(section.content[:8], "little"))
    content = (
        pack([replace(control, write_barrier=6), *rest]).to_bytes(8, "little") + section.content[8:]
    )
    with pytest.raises(
        ProgramError,
        match=r"^k01_vecadd\.O3\.cubin: can't be written as assembly text:9:1: control "
        r"codes .*W6 is no part",
    ):
        listing(with_section(file, replace(section, content=content)))


def test_a_binding_that_there_is_not_is_refused():
    file = read(COMPLETE[-1])
    damaged = replace(file, symbols=(*file.symbols[:-1], replace(file.symbols[-1], binding=9)))
    with pytest.raises(
        ProgramError, match=f"^x: symbol {re.escape(file.symbols[-1].name)} has binding 9"
    ):
        read_object(write_object(damaged), "x")


@settings(max_examples=60)
@given(
    st.sampled_from([COMPLETE[-1], RELOCATABLE[0]]),
    st.lists(st.tuples(st.integers(64, 1 << 16), st.integers(0, 255)), min_size=1, max_size=4),
)
def test_damaged_files_are_shown_or_refused(path, changes):
    content = bytearray(path.read_bytes())
    for at, value in changes:
        content[at % len(content)] = value
    try:
        file = read_object(bytes(content), "x")
        assert disassembly(file)
        assert assemble(listing(file), "x").sections
    except ProgramError as error:
        assert str(error).startswith("x:") and "\n" not in str(error)
