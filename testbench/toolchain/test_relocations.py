"""Relocations of every kind: bytes of addresses, textures, and refused ones."""

import re
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from sim.api import Machine
from sim.dis import main as disassemble
from sim.launch import Buffer, prepare
from sim.run import main as run
from sim.toolchain.assembly.assembler import assemble
from sim.toolchain.cubin.elf_reader import read_object
from sim.toolchain.cubin.linking import link
from sim.toolchain.cubin.loader import load, read_cubin
from sim.toolchain.cubin.object_file import ObjectFile, Relocation, SectionRole
from sim.toolchain.cubin.relocation import REFUSED, RelocationKind
from sim.toolchain.module import ProgramError
from testbench.ended import on_warps
from testbench.refusal import refused
from testbench.words import contents

DATA = Path(__file__).parents[1] / "data"
MASKED = DATA / "toolchain_masked.cubin"
TEXTURES = DATA / "texture_references.cubin"
FUNCTIONS = DATA / "function_table.relocatable.cubin"
FORMS = ("", ".relocatable")


def of_form(path: Path, form: str) -> Path:
    return path.with_name(f"{path.stem}{form}.cubin")


@pytest.mark.parametrize("form", FORMS)
def test_bytes_of_addresses_make_up_the_address(form):
    module = read_cubin(of_form(MASKED, form))
    launch = prepare(module, [Buffer("out", bytes(12))], block=(1, 1, 1))
    base, _ = launch.memory.regions["globals"]
    target = base + module.data.symbols["target"]
    for name in ("plain", "generics"):
        assert launch.memory.read_number(base + module.data.symbols[name], 8) == target
    bank = launch.banks[3][module.constants[3].symbols["mixed"] :][:3]
    assert bank == bytes([5, target + 4 & 0xFF, target >> 8 & 0xFF])
    if form:  # the complete file has no function whose address it needs
        assert (
            launch.memory.read_number(base + module.data.symbols["code"], 8)
            == module.code.symbols["add"]
            > 0
        )
    assert contents(on_warps(launch), "out") == [
        target & 0xFF,
        target >> 8 & 0xFF,
        target + 4 & 0xFF,
    ]


def test_text_has_bytes_of_addresses():
    """Bytes of variables and generic addresses, with addends, are written beside numbers."""
    text = """.const 3 c; .word 1
        .global v; .byte 1, 2, 3, 4
        .global w; .byte 8@0(v+3), 8@8(v), 0x12, 8@32(v-1), 8@0(generic(c+1)), 8@8(generic(c))
        .kernel k; EXIT"""
    launch = prepare(load(assemble(text, "text.sass")))
    v, _ = launch.memory.regions["globals"]
    c = launch.bank_addresses[3]
    assert launch.memory.read(v + 4, 6) == bytes(
        [v + 3 & 0xFF, v >> 8 & 0xFF, 0x12, v - 1 >> 32 & 0xFF, c + 1 & 0xFF, c >> 8 & 0xFF]
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (".byte 8@0(5)", "expected one address, and numbers added to it"),
        (".word 8@8(v)", "v has an address, for which .word has no room: expected .byte"),
        (".byte 8@8(nothing)", "expected one address, and numbers added to it"),
    ],
)
def test_what_is_no_byte_of_an_address(line, message):
    with pytest.raises(ProgramError, match=rf"^t\.sass:2:\d+: {message}$"):
        assemble(f".global v; .word 1\n.global w; {line}\n.kernel k; EXIT", "t.sass")


def with_relocation(
    file: ObjectFile, section: str, kind: int, offset: int, symbol: str, addend: int | None = None
) -> ObjectFile:
    """Returns the file with one relocation added to a section."""
    index = next(index for index, each in enumerate(file.symbols) if each.name == symbol)
    changed = replace(
        file.sections[section], relocations=(Relocation(offset, kind, index, addend),)
    )
    return replace(file, sections={**file.sections, section: changed})


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        (RelocationKind.NONE, b"\x11" * 8),
        (RelocationKind.UNUSED_CLEAR32, bytes(4) + b"\x11" * 4),
        (RelocationKind.UNUSED_CLEAR64, bytes(8)),
        (RelocationKind.DATA_32_LO, b"\x14\0\0\0" + b"\x11" * 4),
        (RelocationKind.DATA_32_HI, b"\x02\0\0\0" + b"\x11" * 4),
        (RelocationKind.DATA_8_32, b"\x02" + b"\x11" * 7),
        (RelocationKind.DATA_64, struct.pack("<Q", 0x2_0000_0014)),
    ],
)
def test_places_are_completed_as_their_kind_says(kind, content):
    """The address of variable v is 0x2_0000_0000."""
    file = assemble(".global v; .word 0x11111111, 0x11111111\n.kernel k; EXIT", "x")
    launch = prepare(load(with_relocation(file, ".nv.global.init", kind, 0, "v", 0x14)))
    base, _ = launch.memory.regions["globals"]
    assert base == 0x2_0000_0000
    assert launch.memory.read(base, 8) == content


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (0x40, "CONST_FIELD19_40, for instructions of another machine than sm_50"),
        (0x1F, "FUNC_DESC32_23, for instructions of another machine than sm_50"),
        (0x66, "UNIFIED, for a table of functions that code for sm_50 does not have"),
        (0x13, "TEX_SLOT, for textures, which there are not"),
        (0x35, "INSTRUCTION64, an instruction that NVIDIA's driver has"),
        (0x74, "unknown, or of no complete file"),
    ],
)
def test_other_kinds_are_refused_by_name(kind, why):
    file = assemble(".global v; .word 1, 2\n.kernel k; EXIT", "x")
    broken = with_relocation(file, ".nv.global.init", kind, 0, "v")
    with pytest.raises(ProgramError) as caught:
        load(broken)
    assert str(caught.value) == f"x: .nv.global.init+0x0: relocation of kind {kind:#x}: {why}"


def test_every_kind_of_nvidia_s_is_known():
    """The kinds are numbered from 0 to 0x73."""
    assert sorted([*RelocationKind, *REFUSED]) == list(range(0x74))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (
            "samples",
            r"kernel samples, 0x[0-9a-f]+: this machine has no instruction [0-9a-f]{16} T\w+: there are no "
            r"textures",
        ),
        (
            "calls",
            r"kernel calls, function (\$calls\$)?look, 0x[0-9a-f]+: this machine has no instruction [0-9a-f]{16} "
            r"T\w+: there are no textures",
        ),
        (
            "reads",
            r"kernel reads, 0x[0-9a-f]+: this machine has no instruction [0-9a-f]{16} SULD: there are no surfaces",
        ),
        (
            "asks",
            r"kernel asks, 0x[0-9a-f]+: this machine has no instruction [0-9a-f]{16} TXQ: there are no textures",
        ),
        (
            "names",
            r"kernel names(, 0x[0-9a-f]+: .* uses| uses) the texture image: there are no textures",
        ),
    ],
)
def test_a_kernel_that_uses_a_texture_is_refused_in_a_line(capsys, form, kernel, message):
    path = of_form(TEXTURES, form)
    line = refused(
        capsys, run, [str(path), "--entry", kernel, "--engine", "model", "--arg", "buf:out=u32[2]"]
    )
    assert re.fullmatch(rf".*{re.escape(str(path))}: {message}", line), line


@pytest.mark.parametrize("form", FORMS)
def test_kernels_beside_it_run(capsys, form):
    path = str(of_form(TEXTURES, form))
    assert run([path, "--entry", "plain", "--engine", "model", "--arg", "buf:out=u32[2]"]) == 0
    assert ": 7 0\n" in capsys.readouterr().out


def test_from_python_too():
    with pytest.raises(ProgramError, match=r"kernel asks, .* TXQ: there are no textures$"):
        Machine(engine="model").load(TEXTURES, "asks")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("options", [(), ("--source",)])
def test_files_with_textures_are_disassembled(capsys, form, options):
    assert disassemble([str(of_form(TEXTURES, form)), *options]) == 0
    assert "TXQ: there are no textures" in capsys.readouterr().out


def test_shared_and_constant_places_go_into_bytes_when_linked():
    """A byte of an offset in shared memory or a bank is filled in like a word of it."""
    file = read_object((DATA / "toolchain_dynamic_shared.relocatable.cubin").read_bytes(), "x")
    symbol = next(each for each in file.symbols if each.is_shared and each.size)
    section = file.by_role[SectionRole.CONSTANT][0]
    linked = link(
        with_relocation(file, section.name, RelocationKind.DATA_8_8, 0, symbol.name, 0x1234)
    )
    place = next(each for each in linked.symbols if each.name == symbol.name).value
    assert linked.sections[section.name].content[0] == (place + 0x1234) >> 8


@pytest.mark.parametrize(
    "kind",
    [
        RelocationKind.DATA_32,
        RelocationKind.DATA_64,
        RelocationKind.FUNC_DESC_32,
        RelocationKind.FUNC_DESC_64,
    ],
)
def test_a_table_of_functions_is_called_through(capsys, tmp_path, kind):
    """Its entries are relocations of kind DATA_32; those in CUDA 12's device runtime are of kind
    FUNC_DESC_64.
    """
    content = FUNCTIONS.read_bytes()
    for symbol in (1, 4):
        entry = struct.pack("<II", RelocationKind.DATA_32, symbol)
        assert content.count(entry) == 1
        content = content.replace(entry, struct.pack("<I", kind) + entry[4:])
    path = tmp_path / "table.cubin"
    path.write_bytes(content)
    assert run([str(path), "--block", "4", "--engine", "model", "--arg", "buf:out=u32[4]"]) == 0
    assert ": 0 3 4 9\n" in capsys.readouterr().out


def test_shared_variables_of_a_relocatable_file_are_aligned():
    path = DATA / "toolchain_two_kernels.relocatable.cubin"
    file = read_object(path.read_bytes(), path.name)
    own = next(
        symbol
        for symbol in file.symbols
        if symbol.is_shared and symbol.section == ".nv.shared.alpha"
    )
    assert own.size == 128
    odd, wide = (
        replace(own, name="odd", size=3, value=1),
        replace(own, name="wide", size=32, value=16),
    )
    linked = link(replace(file, symbols=(*file.symbols, odd, wide)))
    assert {
        symbol.name: symbol.value for symbol in linked.symbols if symbol.name in ("odd", "wide")
    } == {"odd": 192, "wide": 208}  # after 64 bytes of functions and the 128 of `own`
    assert linked.sections[".nv.shared.alpha"].size == 240
