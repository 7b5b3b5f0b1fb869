"""The cubin reader: complete files, relocatable files, and invalid files."""

from dataclasses import replace
from io import BytesIO
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rtl.isa.control_code import GROUP_BYTES
from sim.launch import CRS_DEFAULT, Buffer, Scalar, prepare
from sim.toolchain.assembly.assembler import assemble
from sim.toolchain.assembly.spelling import spell
from sim.toolchain.cubin.elf_reader import read_object
from sim.toolchain.cubin.elf_writer import write_object
from sim.toolchain.cubin.linking import link
from sim.toolchain.cubin.loader import load, read_cubin
from sim.toolchain.cubin.object_file import SectionFlag
from sim.toolchain.listing.code_listing import instructions
from sim.toolchain.module import EntryParameter, Module, Patch, PatchKind, ProgramError
from testbench.ended import on_threads, on_warps
from testbench.programs import CUBINS, PROGRAMS
from testbench.words import contents

HERE = Path(__file__).parents[1]
DATA = HERE / "data"
TWO_KERNELS = DATA / "toolchain_two_kernels.cubin"
TWO_KERNELS_RELOCATABLE = DATA / "toolchain_two_kernels.relocatable.cubin"
CALL_TABLE = DATA / "toolchain_call_table.relocatable.cubin"
DYNAMIC_SHARED = DATA / "toolchain_dynamic_shared.relocatable.cubin"
ALL = [*CUBINS, *sorted(DATA.glob("toolchain_*.cubin"))]


def texts(module: Module) -> dict[int, str]:
    """Returns the code of a module by address, as it is in the file."""
    return {address: spell(word, address) for address, word, _ in instructions(module.code.content)}


def program(name: str) -> Module:
    return read_cubin(PROGRAMS / f"{name}.cubin")


@pytest.mark.parametrize("path", CUBINS, ids=lambda path: path.stem)
def test_every_program_is_read(path):
    """The file's own bytes are the reference for code, the kernel's registers, its parameters, and
    shared memory.
    """
    module = read_cubin(path)
    kernel = module.kernel()
    with path.open("rb") as stream:
        elf = ELFFile(stream)
        text = elf.get_section_by_name(".text.k")
        shared = elf.get_section_by_name(".nv.shared.k")
        bank0 = elf.get_section_by_name(".nv.constant0.k")
        assert text is not None and bank0 is not None
        assert module.code.content == text.data()
        assert kernel.registers == text["sh_info"] >> 24
        assert kernel.barriers == text["sh_flags"] >> 20
        assert kernel.shared == (shared["sh_size"] if shared is not None else 0)
        end = max(parameter.offset + parameter.size for parameter in kernel.parameters)
        assert kernel.parameter_base + end == bank0["sh_size"]
    assert (kernel.entry, kernel.parameter_base, module.name) == (0, 0x140, str(path))
    assert [parameter.ordinal for parameter in kernel.parameters] == list(
        range(len(kernel.parameters))
    )


@pytest.mark.parametrize(
    ("name", "local", "crs"),
    [
        ("k01_vecadd.O3", 0, 0),
        ("k06_switch_brx.O3", 0, 32),
        ("k20_local_array_sort.O3", 128, 528),
        ("k46_noinline_multilevel.O3", 0, 544),
        ("k10_calltable_global.O3", 8, 16),
    ],
)
def test_a_kernels_stack_and_local_memory_are_those_of_its_functions(name, local, crs):
    kernel = program(name).kernel()
    assert (kernel.local, kernel.crs) == (local, crs)


def test_recursion_has_every_frame_once():
    """The file has no stack size for a recursive function: it is 0xffffffff."""
    assert program("k08_fib_recursion.O3").kernel().local == 8


def test_jump_tables_are_places_in_the_code():
    module = program("k06_switch_brx.O3")
    table = module.kernel().constants[2]
    places = {
        int.from_bytes(table.content[at : at + 4], "little")
        for at in range(0, len(table.content), 4)
    }
    assert places == {0xB8, 0xD0, 0xF8, 0x110, 0x130}
    assert table.patches == ()


def test_addresses_of_variables_are_patches():
    module = program("k10_calltable_global.O3")
    assert module.data.symbols == {"tbl": 0}
    assert module.code.patches == (
        Patch(0xA8, PatchKind.IMMEDIATE_LOW, "tbl"),
        Patch(0x108, PatchKind.IMMEDIATE_HIGH, "tbl"),
    )
    assert module.code.symbols == {"k": 0, "$k$f0": 0x1C0, "$k$f1": 0x1D8, "$k$f2": 0x230}


def test_several_kernels_lie_behind_each_other():
    module = read_cubin(TWO_KERNELS)
    alpha, beta = module.kernels["alpha"], module.kernels["beta"]
    assert (beta.entry, alpha.entry, len(module.code.content)) == (0, 0x140, 0x400)
    assert (beta.registers, alpha.registers) == (6, 12)
    assert (beta.barriers, alpha.barriers) == (0, 4)
    assert (beta.shared, alpha.shared) == (64, 192)
    assert (beta.local, alpha.local) == (8, 48)
    assert beta.parameters == (EntryParameter(0, 0, 8), EntryParameter(1, 8, 12))
    assert set(beta.constants) == {2} and not alpha.constants
    assert texts(module)[alpha.entry + 8] == "MOV R1, c[0x0][0x20]"
    with pytest.raises(ProgramError, match=r"which kernel\? It has alpha, beta"):
        module.kernel()


def test_variables_and_their_addresses_in_data():
    """Initialized variables precede zeroed ones; pointers in them are filled in at launch."""
    module = read_cubin(TWO_KERNELS)
    assert module.data.symbols == {"pt": 0, "pc": 8, "seeded": 16, "big": 32, "counter": 72}
    assert module.data.content[16:28] == bytes((1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0))
    assert module.data.patches == (
        Patch(0, PatchKind.DOUBLE_WORD, "seeded"),
        Patch(8, PatchKind.DOUBLE_WORD, "counter"),
    )
    assert module.constants[3].symbols["ft"] == 0x30
    assert module.constants[3].patches == (Patch(0x28, PatchKind.DOUBLE_WORD, "seeded"),)


def test_addends_beside_the_place_and_in_it():
    assert read_cubin(DATA / "toolchain_attributes.cubin").data.patches == (
        Patch(0, PatchKind.DOUBLE_WORD, "base", 8),
    )
    file = read_object(TWO_KERNELS.read_bytes(), "two")
    section = file.sections[".nv.constant3"]
    content = bytearray(section.content)
    content[0x28] = 4
    file = replace(
        file, sections={**file.sections, section.name: replace(section, content=bytes(content))}
    )
    assert load(file).constants[3].patches == (Patch(0x28, PatchKind.DOUBLE_WORD, "seeded", 4),)


def test_a_kernel_without_parameters():
    kernel = read_cubin(DATA / "toolchain_attributes.cubin").kernels["none"]
    assert (kernel.parameters, kernel.parameter_base) == ((), 0x140)


def test_relocatable_calls_are_patches_to_functions():
    module = read_cubin(CALL_TABLE)
    kernel = module.kernel()
    assert kernel.entry == module.code.symbols["k"] == 0xC0
    assert all(module.code.symbols[name] % 64 == 0 for name in ("f0", "f1", "f2"))
    assert module.data.patches == tuple(Patch(8 * n, PatchKind.WORD, f"f{n}") for n in range(3))
    assert "JMX R3" in texts(module).values()


def test_relocatable_shared_variables_get_their_places():
    """A static array is at 0, the array without a size after it: as in the complete file."""
    found = [
        text
        for text in texts(read_cubin(DYNAMIC_SHARED)).values()
        if text.startswith(("STS", "LDS"))
    ]
    assert found == [
        "STS [R0+0x40], R6",
        "STS [RZ], R6",
        "LDS.U.32 R4, [R4+0x40]",
        "LDS.U.32 R5, [RZ]",
    ]
    assert (
        read_cubin(DYNAMIC_SHARED).kernel().shared
        == program("k49_dynamic_shared.O3").kernel().shared
    )


def test_relocatable_constants_and_common_shared_memory_get_their_places():
    """Constants in bank 3 by name and offset; a function's shared array precedes each kernel's own."""
    module = read_cubin(TWO_KERNELS_RELOCATABLE)
    alpha, beta = module.kernels["alpha"], module.kernels["beta"]
    found = texts(module)
    assert (alpha.shared, beta.shared) == (192, 64)
    assert found[alpha.entry + 0x10] == "MOV32I R2, 0x28"
    assert found[alpha.entry + 0x38] == "IADD R5, R5, c[0x3][0x2c]"
    assert found[alpha.entry + 0x158] == "LDC.U16 R5, c[0x3][0x3a]"
    assert found[alpha.entry + 0x1C8] == "IADD R6, R8, c[0x3][0x1c]"
    assert found[alpha.entry + 0x170] == "STS [0x48], R0"
    assert found[beta.entry + 0x18] == "LDS.U.32 R5, [0x4]"
    assert found[module.code.symbols["f1"] + 0x10] == "STS [0x4], R4"
    assert alpha.registers == 12 and alpha.local == 40


def test_relocatable_jump_tables_have_a_wrapped_offset():
    """The assembler adds 0x8000 to the index and subtracts it from the constant's offset."""
    path = DATA / "toolchain_switch.relocatable.cubin"
    assert "LDC R0, c[0x2][R0+-0x8000]" in texts(read_cubin(path)).values()


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
def test_every_program_can_be_launched(path):
    module = read_cubin(path)
    for name, kernel in module.kernels.items():
        launch = prepare(
            module, [Scalar(0, parameter.size) for parameter in kernel.parameters], entry=name
        )
        size = kernel.parameter_base + sum(
            (parameter.offset + parameter.size) for parameter in kernel.parameters[-1:]
        )
        assert len(launch.banks[0]) == -(-size // 256) * 256
        assert launch.entry % GROUP_BYTES == 0


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
def test_a_written_file_reads_the_same(path):
    file = link(read_object(path.read_bytes(), path.name))
    sections = {
        name: section for name, section in file.sections.items() if section.kind != 0x70000001
    }
    symbols = tuple(
        symbol if symbol.section in sections else replace(symbol, section=None)
        for symbol in file.symbols
    )
    file = replace(file, sections=sections, symbols=symbols)
    assert read_object(write_object(file), path.name) == file


SECTIONS = """\
.section .mine 0x70000077
.word 9
.global zeroed 12
.global initialised
.word 1, 2, 3
.const 3 words
.word 4
.kernel k
.param p 8
.shared 64
MOV32I R0, 32@lo(initialised)
EXIT
"""


def test_a_written_file_has_what_is_not_loaded_before_what_is_read_before_what_is_written():
    """Sections without bytes are last; a program header describes each of the two loaded parts and
    its permissions.
    """
    content = write_object(assemble(SECTIONS, "t"))
    elf = ELFFile(BytesIO(content))
    groups = []
    for section in list(elf.iter_sections())[1:]:
        flags = section["sh_flags"]
        loaded, written = flags & SectionFlag.ALLOCATE, flags & SectionFlag.WRITE
        empty = section["sh_type"] == "SHT_NOBITS"
        groups.append((3 if empty else 2) if written else 1 if loaded else 0)
    assert groups == sorted(groups) and set(groups) == {0, 1, 2, 3}
    headers, (read, written), itself = (
        elf.get_segment(0), (elf.get_segment(1), elf.get_segment(2)), elf.get_segment(3),
    )  # fmt: skip
    assert elf.num_segments() == 4
    assert [each["p_flags"] for each in (headers, read, written, itself)] == [5, 5, 6, 5]
    assert headers["p_type"] == "PT_PHDR" and headers["p_offset"] == itself["p_offset"]
    assert len(content) == headers["p_offset"] + headers["p_filesz"] == headers["p_offset"] + 4 * 56
    for segment, flag in ((read, 0), (written, SectionFlag.WRITE)):
        own = [
            each
            for each in elf.iter_sections()
            if each["sh_flags"] & (SectionFlag.ALLOCATE | SectionFlag.WRITE)
            == SectionFlag.ALLOCATE | flag
        ]
        sizes = [each["sh_size"] * (each["sh_type"] != "SHT_NOBITS") for each in own]
        end = max(each["sh_offset"] + size for each, size in zip(own, sizes, strict=True))
        assert segment["p_offset"] == own[0]["sh_offset"]
        assert segment["p_offset"] + segment["p_filesz"] == end
        empty = sum(each["sh_size"] for each in own) - sum(sizes)
        assert segment["p_memsz"] == segment["p_filesz"] + empty
    sizes_of = {section.name: section["sh_size"] for section in elf.iter_sections()}
    assert (sizes_of[".nv.global"], sizes_of[".nv.shared.k"]) == (12, 64)


def test_a_section_that_names_no_alignment_has_one_of_a_byte():
    """0 and 1 are equivalent in a file."""
    content = bytearray(write_object(assemble(SECTIONS, "t")))
    elf = ELFFile(BytesIO(content))
    (index,) = (n for n, each in enumerate(elf.iter_sections()) if each.name == ".mine")
    place = elf["e_shoff"] + index * elf["e_shentsize"] + 48
    for written, read in ((0, 1), (1, 1), (2, 2), (4, 4)):
        content[place : place + 8] = written.to_bytes(8, "little")
        assert read_object(bytes(content), "t").sections[".mine"].alignment == read


def test_relocatable_files_are_not_written():
    with pytest.raises(ValueError, match="call is relocatable"):
        write_object(read_object(CALL_TABLE.read_bytes(), "call"))


def changed(path: Path, at: int, new: bytes) -> bytes:
    content = bytearray(path.read_bytes())
    content[at : at + len(new)] = new
    return bytes(content)


SIMPLE = PROGRAMS / "k01_vecadd.O3.cubin"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "x: not an ELF file"),
        (b"#!/bin/sh\n", "x: not an ELF file"),
        (
            SIMPLE.read_bytes()[:100],
            "x: truncated: the section table ends at 0x7e0, the file at 0x64",
        ),
        (changed(SIMPLE, 4, b"\x01"), "x: for 32-bit addresses (-m32); there are only 64-bit ones"),
        (changed(SIMPLE, 5, b"\x02"), "x: an ELF file of another kind, not a little-endian one"),
        (changed(SIMPLE, 18, b"\x3e"), "x: for machine EM_X86_64, not EM_CUDA"),
        (
            changed(SIMPLE, 48, b"\x46"),
            "x: for sm_70, not sm_50: compile with -arch=sm_50",
        ),
        (changed(SIMPLE, 16, b"\x03"), "x: of type ET_DYN, neither ET_EXEC nor ET_REL"),
    ],
    ids=["empty", "script", "truncated", "32 bits", "big end", "machine", "architecture", "type"],
)
def test_files_that_are_no_cubins(content, message):
    with pytest.raises(ProgramError) as caught:
        load(read_object(content, "x"))
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "path", [SIMPLE, DATA / "toolchain_switch.relocatable.cubin"], ids=lambda path: path.stem
)
def test_a_file_without_kernels(path):
    file = read_object(path.read_bytes(), "x")
    file = replace(file, symbols=tuple(replace(symbol, other=0) for symbol in file.symbols))
    with pytest.raises(ProgramError, match=r"^x: has no kernel$"):
        load(file)


@pytest.mark.parametrize("path", [Path("/nowhere.cubin"), HERE], ids=["missing", "directory"])
def test_files_that_cannot_be_read(path):
    with pytest.raises(ProgramError, match=f"^{path}: "):
        read_cubin(path)


@settings(max_examples=300)
@given(
    st.sampled_from([TWO_KERNELS, TWO_KERNELS_RELOCATABLE, DYNAMIC_SHARED]),
    st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 255)), max_size=8),
    st.integers(0, 1 << 14),
)
@example(TWO_KERNELS, [], 64)
def test_damaged_files_are_read_or_refused(path, changes, length):
    """Every file is read as a program or refused with a message of one line."""
    content = bytearray(path.read_bytes())
    for at, value in changes:
        content[at % len(content)] = value
    try:
        load(read_object(bytes(content[:length] if length < len(content) else content), "x"))
    except ProgramError as error:
        assert str(error).startswith("x: ") and "\n" not in str(error)


# Files for a debugger

DEBUG = DATA / "debug_stack.cubin"


def test_a_stack_that_the_file_does_not_know_is_no_size():
    """The size 0xffffffff is unknown: the launch has the default."""
    assert b"\x04\x1e\x04\x00\xff\xff\xff\xff" in DEBUG.read_bytes()
    module = read_cubin(DEBUG)
    assert module.kernel().crs == 0
    assert prepare(module, [Scalar(0, 8)]).crs == CRS_DEFAULT


def chain(steps: int, value: int) -> int:
    return value if not steps else chain(steps - 1, value * 5 + steps)


@pytest.mark.parametrize("model", [on_threads, on_warps], ids=["threads", "warps"])
def test_a_debugger_s_shared_array_may_lie_behind_its_section(model):
    """The kernel has recursion and an array of dynamic shared memory, as in the PTX beside the
    file.
    """
    launch = model(prepare(read_cubin(DEBUG), [Buffer("out", bytes(128))], dynamic_shared=128))
    expected = [31 - t + 3 * (31 - t) + chain(t % 8, t) & 0xFFFF_FFFF for t in range(32)]
    assert contents(launch, "out") == expected
