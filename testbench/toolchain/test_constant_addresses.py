"""Generic addresses of constants: pointers to them, in code and in data, on every engine."""

import struct
from dataclasses import replace
from pathlib import Path

import pytest

from rtl.params import PRESETS
from sim.engine import CompiledEngine
from sim.launch import DRIVER_WORDS, Buffer, Launch, bank_name, prepare
from sim.launch.descriptor import place_descriptor
from sim.machine.hardware import Hardware
from sim.toolchain.assembly.assembler import assemble
from sim.toolchain.cubin.elf_reader import read_object
from sim.toolchain.cubin.linking import link
from sim.toolchain.cubin.loader import load, read_cubin
from sim.toolchain.cubin.object_file import CONSTANTS_SIZE, SymbolKind
from sim.toolchain.cubin.relocation import RelocationKind
from sim.toolchain.listing.listing import listing
from sim.toolchain.module import SHARED_BANK, Module, PatchKind, ProgramError
from testbench.ended import in_lockstep, on_threads, on_warps
from testbench.engine.designs import needs_compiled
from testbench.words import contents

DATA = Path(__file__).parents[1] / "data"
LEVELS = ("O0", "O3", "debug", "relocatable")
THREADS = 40
TABLE, OTHER, LARGE = (3, 1, 4, 1, 5, 9, 2, 6), (10, 20, 30, 40, 50, 60, 70, 80), 0x123456789ABCDEF0


def path(level: str) -> Path:
    """Returns the kernel from NVIDIA's assembler: optimised or not, for a debugger (-g), or to be
    linked (-c).
    """
    return DATA / f"constant_pointers.{level}.cubin"


def launch_of(module: Module) -> Launch:
    return prepare(module, [Buffer("out", bytes(32 * THREADS))], block=(THREADS, 1, 1))


def expected() -> list[int]:
    """Returns the results that the PTX defines for each thread: eight words."""
    words = []
    for t in range(THREADS):
        i, constant = t % 8, t % 2 == 0
        chosen = TABLE[i] if constant else OTHER[i]
        kept = TABLE[3] if t & 2 == 0 else OTHER[2]
        called = t * 3 if t & 4 == 0 else t + TABLE[i]
        words += [
            chosen,
            1 if constant else 2,
            chosen + 100 if constant else 0,
            kept,
            LARGE & 0xFFFF_FFFF,
            LARGE >> 32,
            called,
            i,
        ]
    return words


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("model", [on_threads, on_warps], ids=["threads", "warps"])
def test_pointers_to_constants_on_the_models(model, level):
    assert contents(model(launch_of(read_cubin(path(level)))), "out") == expected()


@needs_compiled
def test_pointers_to_constants_on_the_hardware():
    hardware = Hardware(PRESETS["tiny"], CompiledEngine, check=True)
    for level in LEVELS:
        assert (
            contents(in_lockstep(hardware, launch_of(read_cubin(path(level)))), "out") == expected()
        ), level


@pytest.mark.parametrize("level", LEVELS)
def test_the_bank_has_one_place_in_memory(level):
    """The words of the driver and of the launch descriptor have the same address."""
    launch = launch_of(read_cubin(path(level)))
    base, size = launch.memory.regions[bank_name(SHARED_BANK)]
    low, high = DRIVER_WORDS["CONSTANTS_LOW"], DRIVER_WORDS["CONSTANTS_HIGH"]
    assert (low, high) == (0xD0, 0xD4)
    assert launch.banks[0][low : low + 4] + launch.banks[0][high : high + 4] == base.to_bytes(
        8, "little"
    )
    assert launch.memory.read(base, size) == launch.banks[SHARED_BANK]
    memory = launch.memory.copy()
    descriptor = memory.read(place_descriptor(launch, memory), 256)
    words = struct.unpack("<64I", descriptor)
    at = (928 + 64 * SHARED_BANK) // 32
    assert words[at] | (words[at + 1] & 0xFF) << 32 == base
    assert words[at + 1] >> 15 == size


def test_without_constants_there_is_no_place():
    module = load(assemble(".kernel k; EXIT", "k.sass"))
    launch = prepare(module)
    assert launch.banks[0][0xD0:0xD8] == bytes(8)
    assert launch.bank_addresses == {}
    assert bank_name(SHARED_BANK) not in launch.memory.regions


TEXT = """
.const 3 first; .dword 5
.const 3 second; .dword generic(second+4), generic(variable)
.global variable; .dword generic(second)
.global narrow; .word generic(first+8), 7
.kernel k; MOV R0, c[0x3][second]; EXIT
"""


def test_text_names_generic_addresses():
    module = load(assemble(TEXT, "text.sass"))
    patches = {
        (patch.symbol, patch.kind, patch.addend, patch.generic)
        for data in (module.data, module.constants[3])
        for patch in data.patches
    }
    assert patches == {
        ("second", PatchKind.DOUBLE_WORD, 4, True),
        ("variable", PatchKind.DOUBLE_WORD, 0, False),
        ("second", PatchKind.DOUBLE_WORD, 0, True),
        ("first", PatchKind.WORD, 8, True),
    }
    launch = prepare(module)
    bank, data = (
        launch.memory.regions[bank_name(SHARED_BANK)][0],
        launch.memory.regions["globals"][0],
    )
    assert struct.unpack_from("<QQQ", launch.banks[3]) == (5, bank + 12, data)
    assert struct.unpack("<QII", launch.memory.read(data, 16)) == (
        bank + 8,
        bank + 8 & 0xFFFF_FFFF,
        7,
    )


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (".dword generic(5)", "expected one address, and numbers added to it"),
        (".dword generic(first+second)", "expected one address, and numbers added to it"),
        (
            ".byte generic(first)",
            "first has an address, for which .byte has no room: expected .word or .dword",
        ),
        (".dword generic(nothing)", "nothing has no address"),
        (".dword generic(own)", "own has no address"),
        (".zero generic(first)", "expected a number of bytes"),
    ],
)
def test_what_has_no_generic_address(value, message):
    text = (
        f".const 3 first; .dword 1\n.const 3 second; .dword 1\n.global v; {value}\n"
        ".kernel k; .const 2 own; .word 1; EXIT"
    )
    with pytest.raises(ProgramError, match=rf"^text\.sass:3:\d+: {message}$"):
        assemble(text, "text.sass")


@pytest.mark.parametrize("level", LEVELS)
def test_a_listing_keeps_generic_addresses(level):
    file = read_object(path(level).read_bytes(), "file")
    text = listing(file)
    assert "generic(table+0x8), other+0x4" in text
    assert ".dword generic(large)" in text
    assert contents(on_threads(launch_of(load(assemble(text, "file")))), "out") == expected()


def test_a_relocatable_file_knows_the_size_of_the_bank():
    """The size of the linked bank is in a symbol without a section, whatever that symbol's own size
    is.
    """
    file = read_object(path("relocatable").read_bytes(), "file")
    ((index, symbol),) = [
        (index, symbol)
        for index, symbol in enumerate(file.symbols)
        if symbol.name == CONSTANTS_SIZE
    ]
    assert (symbol.section, symbol.kind) == (None, SymbolKind.OBJECT)
    section = file.sections[".text.k"]
    (relocation,) = [relocation for relocation in section.relocations if relocation.symbol == index]
    symbols = (*file.symbols[:index], replace(symbol, value=0), *file.symbols[index + 1 :])
    linked = link(replace(file, symbols=symbols)).sections[".text.k"]
    word = int.from_bytes(linked.content[relocation.offset : relocation.offset + 8], "little")
    assert word >> 20 & 0xFFFF_FFFF == file.sections[".nv.constant3"].size
    assert relocation not in linked.relocations


def test_an_offset_in_the_bank_is_no_address():
    """Relocations to plain numbers are offsets in the bank, in relocatable and in complete files."""
    for level in ("O3", "relocatable"):
        file = read_object(path(level).read_bytes(), "file")
        section = file.sections[".nv.constant3"]
        first = next(
            entry for entry in section.relocations if file.symbols[entry.symbol].name == "large"
        )
        plain = replace(first, kind=RelocationKind.DATA_64)
        kept = tuple(entry for entry in section.relocations if entry is not first)
        section = replace(section, relocations=(plain, *kept))
        changed = replace(file, sections={**file.sections, section.name: section})
        launch = launch_of(load(changed))
        place = file.symbols[first.symbol].value
        assert launch.banks[3][plain.offset : plain.offset + 8] == place.to_bytes(8, "little")
