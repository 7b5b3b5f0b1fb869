"""Kernels of video instructions on both models, in the PTX interpreter and on the hardware, against the PTX manual."""

import random
from functools import cache

import pytest

from rtl.params import PRESETS
from sim.engine import ENGINES
from sim.launch import Buffer, Launch, prepare
from sim.machine.hardware import Hardware
from sim.model.ptx.launch import place
from sim.model.ptx.run import run as interpret
from sim.toolchain.assembly.assembler import assemble
from sim.toolchain.cubin.elf_reader import read_object
from sim.toolchain.cubin.elf_writer import write_object
from sim.toolchain.cubin.loader import read_cubin
from sim.toolchain.cuda import CompilerError
from sim.toolchain.from_ptx import read_ptx_program
from sim.toolchain.listing.listing import listing
from sim.toolchain.module import Module
from sim.toolchain.ptx.front_end import parse_ptx
from testbench.ended import in_lockstep, on_threads, on_warps
from testbench.engine.designs import needs_compiled
from testbench.kernels.manifest import LEVELS
from testbench.programs.video.build import FOLDER, THREADS, kernels
from testbench.programs.video.reference import KERNELS, instructions, meaning
from testbench.words import contents

BLOCK = 64
LIMIT = 1_000_000
HERE = "here"
"""Level of code that this project's compiler makes of the same PTX."""
MADE = (*LEVELS, HERE)
EDGES = (
    0,
    1,
    0x7F,
    0x80,
    0xFF,
    0x7FFF,
    0x8000,
    0xFFFF,
    0x1_0000,
    0x7FFF_FFFF,
    0x8000_0000,
    0xFFFF_FFFF,
    0x8080_8080,
    0x7F80_FF01,
    31,
    32,
    33,
    0x8000_7FFF,
)


def numbers(seed: str) -> list[int]:
    """Returns three numbers for each thread: arbitrary words, edge values, or small numbers."""
    source = random.Random(seed)
    return [
        source.choice((source.getrandbits(32), source.choice(EDGES), source.getrandbits(7)))
        for _ in range(3 * THREADS)
    ]


def buffers(opcode: str) -> list[Buffer]:
    count = len(instructions((FOLDER / f"{opcode}.ptx").read_text()))
    return [
        Buffer("out", bytes(4 * count * THREADS)),
        Buffer("in", b"".join(number.to_bytes(4, "little") for number in numbers(opcode))),
    ]


@cache
def module_of(opcode: str, level: str) -> Module:
    """Returns a kernel's program, from NVIDIA's assembler or this project's compiler."""
    return (
        read_ptx_program(FOLDER / f"{opcode}.ptx")
        if level == HERE
        else read_cubin(FOLDER / f"{opcode}.{level}.cubin")
    )


def launch_of(opcode: str, level: str) -> Launch:
    return prepare(
        module_of(opcode, level),
        buffers(opcode),
        grid=(THREADS // BLOCK, 1, 1),
        block=(BLOCK, 1, 1),
    )


@cache
def expected(opcode: str) -> list[int]:
    """Returns the results that the PTX manual defines, instruction by instruction and thread by
    thread.
    """
    given = numbers(opcode)
    return [
        found(*given[3 * thread : 3 * thread + 3])
        for found in map(meaning, instructions((FOLDER / f"{opcode}.ptx").read_text()))
        for thread in range(THREADS)
    ]


def check(opcode: str, found: list[int]) -> None:
    """Compares results; where they differ, the message has instruction, operands and both results."""
    texts, given = instructions((FOLDER / f"{opcode}.ptx").read_text()), numbers(opcode)
    wrong = [
        (
            texts[at // THREADS],
            [hex(number) for number in given[3 * (at % THREADS) :][:3]],
            hex(mine),
            hex(right),
        )
        for at, (mine, right) in enumerate(zip(found, expected(opcode), strict=True))
        if mine != right
    ]
    assert not wrong, (len(wrong), wrong[:4])


@pytest.mark.parametrize("level", MADE)
@pytest.mark.parametrize("opcode", KERNELS)
def test_both_models_leave_what_the_manual_says(opcode, level):
    check(opcode, contents(on_warps(launch_of(opcode, level), LIMIT * THREADS // BLOCK), "out"))
    check(opcode, contents(on_threads(launch_of(opcode, level)), "out"))


@pytest.mark.parametrize("opcode", KERNELS)
def test_the_interpreter_leaves_it_too(opcode):
    launch = place(
        parse_ptx((FOLDER / f"{opcode}.ptx").read_text(), opcode),
        buffers(opcode),
        grid=(THREADS // BLOCK, 1, 1),
        block=(BLOCK, 1, 1),
    )
    interpret(launch)
    check(opcode, contents(launch, "out"))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("opcode", KERNELS)
def test_the_assembler_makes_the_same_words_of_their_text(opcode, level):
    file = read_object((FOLDER / f"{opcode}.{level}.cubin").read_bytes(), opcode)
    again = read_object(write_object(assemble(listing(file), opcode)), opcode)
    assert again.sections[".text.k"].content == file.sections[".text.k"].content


@cache
def hardware() -> Hardware:
    return Hardware(PRESETS["default"], ENGINES["compiled"], check=True)


@needs_compiled
@pytest.mark.parametrize(
    ("opcode", "level"), [(opcode, MADE[at % len(MADE)]) for at, opcode in enumerate(KERNELS)]
)
def test_the_hardware_keeps_step(opcode, level):
    check(opcode, contents(in_lockstep(hardware(), launch_of(opcode, level), LIMIT), "out"))


def test_the_files_are_still_those_of_the_sources():
    try:
        made = [*kernels()]
    except (CompilerError, OSError) as error:
        pytest.skip(f"NVIDIA's compilers: {error}")
    assert [path.name for path, content in made if path.read_bytes() != content] == []
