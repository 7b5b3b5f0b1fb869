"""Sizes as a driver computes them, and launches that a driver rejects."""

import struct
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from rtl.isa.qmd import QMD
from rtl.params import LOCAL_WINDOW, PRESETS, SHARED_WINDOW, SmParams
from sim.api import Machine
from sim.engine import CompiledEngine
from sim.launch import Buffer, Scalar, lacking, prepare
from sim.launch.attributes import blocks_at_a_time, most_threads
from sim.launch.descriptor import place_descriptor
from sim.machine.hardware import Hardware
from sim.model.ptx.launch import place
from sim.run import main
from sim.toolchain.assembly.assembler import assemble
from sim.toolchain.cubin.elf_reader import read_object
from sim.toolchain.cubin.loader import load, read_cubin
from sim.toolchain.cuda import CompilerError, cubin_of_ptx
from sim.toolchain.from_ptx import read_ptx_program
from sim.toolchain.listing.listing import listing
from sim.toolchain.module import ProgramError
from sim.toolchain.ptx.front_end import parse_ptx
from testbench.ended import in_lockstep, on_threads, on_warps
from testbench.engine.designs import needs_compiled
from testbench.refusal import refused
from testbench.words import contents

DATA = Path(__file__).parents[1] / "data"
LEFT = [0 + 1 * 2, 256, 100, 7, 0]
"""The expected results, by hand: a product of words of shared memory; its total size in multiples
of the allocation unit, as the PTX manual defines it; the dynamic size of the launch; the last word
of a table of 12 bytes, and the zero after it.
"""


def sizes_launch():
    return prepare(
        read_cubin(DATA / "sizes.cubin"),
        [Buffer("out", bytes(20)), Scalar(1, 4)],
        block=(3, 1, 1),
        dynamic_shared=100,
    )


@pytest.mark.parametrize("model", [on_threads, on_warps], ids=["threads", "warps"])
def test_memories_reach_to_the_end_of_their_granule(model):
    assert contents(model(sizes_launch()), "out") == LEFT


@needs_compiled
def test_memories_reach_to_the_end_of_their_granule_on_the_hardware():
    assert (
        contents(
            in_lockstep(Hardware(PRESETS["tiny"], CompiledEngine, check=True), sizes_launch()),
            "out",
        )
        == LEFT
    )


def kernel_of(directives: str):
    return load(assemble(f".const 3; .word 1, 2, 3\n.kernel k; {directives}; EXIT", "k.sass"))


@pytest.mark.parametrize(
    ("static", "dynamic", "rounded"),
    [
        (0, 0, 0),
        (12, 0, 256),
        (256, 0, 256),
        (200, 56, 256),
        (200, 57, 512),
        (0, 48 << 10, 48 << 10),
        (1, (48 << 10) - 256, 48 << 10),
    ],
)
def test_shared_memory_is_a_multiple_of_256_bytes(static, dynamic, rounded):
    launch = prepare(kernel_of(f".shared {static}" if static else "NOP"), dynamic_shared=dynamic)
    assert launch.shared == rounded
    assert int.from_bytes(launch.banks[0][0xFC:0x100], "little") == dynamic


def test_48_kib_of_shared_memory_are_all(capsys, tmp_path):
    with pytest.raises(
        ProgramError, match=r"^k\.sass: 49153 bytes of shared memory; there can be 49152$"
    ):
        prepare(kernel_of(".shared 1"), dynamic_shared=48 << 10)
    path = tmp_path / "k.sass"
    path.write_text(".kernel k; .shared 1; EXIT")
    line = refused(capsys, main, [str(path), "--preset", "tiny", "--shared", str(16 << 10)])
    assert "a block needs 16640 bytes of shared memory, preset tiny has " in line


def test_what_fits_exactly_fits():
    params = PRESETS["tiny"]
    assert lacking(prepare(kernel_of(f".shared {params.shared_bytes}")), params) is None
    assert lacking(prepare(kernel_of(f".shared {params.shared_bytes - 255}")), params) is None
    assert lacking(prepare(kernel_of(f".shared {params.shared_bytes + 1}")), params) is not None


def test_the_descriptor_has_rounded_sizes():
    """Shared memory and constant banks are rounded to 256 bytes, local memory to 16, the stack to
    512. Registers and barriers are those of the file.
    """
    launch = prepare(kernel_of(".shared 12; .registers 13; .barriers 3; NOP"), local=20, crs=700)
    memory = launch.memory.copy()
    number = int.from_bytes(memory.read(place_descriptor(launch, memory), 256), "little")
    found = {
        name: QMD[name].get(number)
        for name in (
            "SHARED_MEMORY_SIZE",
            "SHADER_LOCAL_MEMORY_LOW_SIZE",
            "SHADER_LOCAL_MEMORY_CRS_SIZE",
            "REGISTER_COUNT",
            "BARRIER_COUNT",
        )
    }
    assert found == {
        "SHARED_MEMORY_SIZE": 256,
        "SHADER_LOCAL_MEMORY_LOW_SIZE": 32,
        "SHADER_LOCAL_MEMORY_CRS_SIZE": 1024,
        "REGISTER_COUNT": 13,
        "BARRIER_COUNT": 3,
    }
    assert QMD["CONSTANT_BUFFER_SIZE"].get(number, 0) == 512  # 0x140 bytes, no parameters
    assert QMD["CONSTANT_BUFFER_SIZE"].get(number, 3) == 256
    assert memory.read(launch.bank_addresses[3], 256) == b"\1\0\0\0\2\0\0\0\3\0\0\0" + bytes(244)


def test_compiled_code_finds_the_launch_in_constant_bank_0():
    """The launch is at the offsets at which NVIDIA's compiler reads it."""
    launch = prepare(
        kernel_of(".shared 12; NOP"), grid=(2, 3, 4), block=(5, 6, 7), local=20, dynamic_shared=100
    )
    words = struct.unpack("<64I", launch.banks[0][:256])
    expected = {
        0x0: SHARED_WINDOW,
        0x4: LOCAL_WINDOW,
        0x8: 5,
        0xC: 6,
        0x10: 7,
        0x14: 2,
        0x18: 3,
        0x1C: 4,
        0x20: 32,
        0x28: 1,
        0xFC: 100,
    }
    low, high = words[0xD0 // 4], words[0xD4 // 4]
    assert {
        4 * at: word for at, word in enumerate(words) if word and 4 * at not in (0xD0, 0xD4)
    } == expected
    assert low | high << 32 == launch.bank_addresses[3] >= 1 << 32


@pytest.mark.parametrize(
    ("warps", "rows", "threads", "blocks"),
    [
        (64, 64 * 16, 1024, 32),
        (64, 10 * 16, 320, 5),
        (2, 64 * 16, 64, 1),
        (64, 10 * 16 - 1, 288, 4),
        (1, 64 * 16, 32, 0),
    ],
)
def test_a_machine_holds_as_many_threads_as_it_has_warps_and_registers_for(
    warps, rows, threads, blocks
):
    """The kernel's 13 registers take 16 rows per warp; a block of 33 threads takes two warps."""
    kernel = kernel_of(".registers 13; NOP").kernel()
    params = cast(SmParams, SimpleNamespace(warps=warps, registers=rows, shared_bytes=1024))
    assert most_threads(kernel, params) == threads
    assert blocks_at_a_time(kernel, params, 33) == blocks
    assert blocks_at_a_time(kernel, params, 33, 256) == min(blocks, 4)
    assert blocks_at_a_time(kernel, params, 33, 257) == min(blocks, 2)
    assert blocks_at_a_time(kernel, params, 33, 1025) == 0


# Blocks and grids


@pytest.mark.parametrize(
    ("grid", "block", "message"),
    [
        ((1, 1, 1), (1025, 1, 1), "a block of 1025 in x; there can be 1024"),
        ((1, 1, 1), (1, 1, 65), "a block of 65 in z; there can be 64"),
        ((1, 1, 1), (64, 32, 1), "a block of 2048 threads; there can be 1024"),
        ((1 << 31, 1, 1), (1, 1, 1), "a grid of 2147483648 in x; there can be 2147483647"),
        ((1, 65536, 1), (1, 1, 1), "a grid of 65536 in y; there can be 65535"),
        (
            (1, 1, 0),
            (1, 1, 1),
            r"grid \(1, 1, 0\) and block \(1, 1, 1\) must be at least 1 in every dimension",
        ),
    ],
)
def test_no_driver_launches_larger_ones(grid, block, message):
    with pytest.raises(ProgramError, match=f"^k.sass: {message}$"):
        prepare(kernel_of("NOP"), grid=grid, block=block)


BOUNDED = """.version 7.0
.target sm_50
.address_size 64
.visible .entry k(.param .u64 out) {} {{
    .reg .u64 to;
    ld.param.u64 to, [out];
    st.global.u64 [to], 7;
    ret;
}}
"""
BOUNDS = [
    (".maxntid 64", (64, 1, 1), None),
    (".maxntid 64", (8, 4, 2), None),
    (".maxntid 8, 8", (65, 1, 1), r"takes blocks of at most 64 threads \(\.maxntid\), not 65"),
    (".maxntid 8, 4, 2", (64, 1, 1), None),
    (".reqntid 32", (32, 1, 1), None),
    (
        ".minnctapersm 2 .maxntid 32 .maxnreg 20",
        (3, 11, 1),
        r"takes blocks of at most 32 threads \(\.maxntid\), not 33",
    ),
    (
        ".reqntid 32",
        (31, 1, 1),
        r"needs blocks of 32 x 1 x 1 threads \(\.reqntid\), not 31 x 1 x 1",
    ),
    (
        ".reqntid 8, 4",
        (32, 1, 1),
        r"needs blocks of 8 x 4 x 1 threads \(\.reqntid\), not 32 x 1 x 1",
    ),
    (".reqntid 8, 4, 1", (8, 4, 1), None),
]


def check_bounds(launch, message):
    if message is None:
        launch()
    else:
        with pytest.raises(ProgramError, match=f"{message}$"):
            launch()


@pytest.mark.parametrize(("directives", "block", "message"), BOUNDS)
def test_launch_bounds_of_an_entry_hold(tmp_path, directives, block, message):
    """With the compiler of this project, also from its assembly text, and in the PTX
    interpreter.
    """
    path = tmp_path / "k.ptx"
    path.write_text(BOUNDED.format(directives))
    program, out = read_ptx_program(path), [Buffer("out", bytes(8))]
    check_bounds(lambda: prepare(program, out, block=block), message)
    check_bounds(lambda: place(parse_ptx(path.read_text(), "k.ptx"), out, block=block), message)


@pytest.mark.parametrize(("directives", "block", "message"), BOUNDS)
def test_launch_bounds_of_nvidia_s_binaries_hold(directives, block, message):
    try:
        content = cubin_of_ptx(BOUNDED.format(directives))
    except CompilerError as error:
        pytest.skip(str(error))
    file = read_object(content, "k.cubin")
    for program in (load(file), load(assemble(listing(file), "k.sass"))):
        check_bounds(partial(prepare, program, [Buffer("out", bytes(8))], block=block), message)


def test_launch_bounds_hold_for_commands_and_from_python(tmp_path, capsys):
    path = tmp_path / "k.ptx"
    path.write_text(BOUNDED.format(".reqntid 4"))
    arguments = [str(path), "--engine", "model", "--arg", "buf:out=u64[1]", "--block"]
    assert refused(capsys, main, [*arguments, "5"]).endswith(
        "kernel k needs blocks of 4 x 1 x 1 threads (.reqntid), not 5 x 1 x 1"
    )
    assert main([*arguments, "4"]) == 0
    kernel = Machine(engine="model").load(path)
    with pytest.raises(ProgramError, match="needs blocks of 4 x 1 x 1 threads"):
        kernel(np.zeros(1, np.uint64), block=5)
    assert kernel(np.zeros(1, np.uint64), block=4).status == "ok"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BOUNDED.format(".maxntid 0"), r"4:45: \.maxntid 0: expected a number of threads"),
        (
            BOUNDED.format(".maxntid 4 .reqntid 4"),
            r"4:47: \.maxntid and \.reqntid do not go together",
        ),
        (BOUNDED.format(".maxntid 1, 2, 3, 4"), r"4:52: unexpected ','.*"),
        (
            BOUNDED.format("").replace(
                ".visible .entry k", ".func f() .maxntid 4 { ret; }\n.visible .entry k"
            ),
            r"4:11: \.maxntid belongs to an entry",
        ),
        (
            BOUNDED.format("").replace(
                ".visible .entry k", ".entry f() .maxntid 4;\n.visible .entry k"
            ),
            r"4:12: \.maxntid belongs to the entry's definition",
        ),
    ],
)
def test_wrong_launch_bounds_are_refused(text, message):
    """The same bounds are refused as by ptxas."""
    with pytest.raises(ProgramError, match=f"^t:{message}$"):
        parse_ptx(text, "t")


BY_VALUE = """.version 7.0
.target sm_50
.address_size 64
.visible .entry k(.param .u64 out, .param .f32 factor, .param .align 4 .b8 pair[8])
{
    .reg .u64 to;
    .reg .u32 word;
    ld.param.u64 to, [out];
    ld.param.b32 word, [factor];
    st.global.u32 [to], word;
    ld.param.u32 word, [pair+4];
    st.global.u32 [to+4], word;
    ret;
}
"""


@pytest.mark.parametrize("pair", [b"\1\0\0\0\2\0\0\0", np.void(b"\1\0\0\0\2\0\0\0")])
@pytest.mark.parametrize("factor", [2, 2.0, np.float32(2)])
def test_numbers_and_structures_from_python_become_what_ptx_says(factor, pair):
    out = np.zeros(2, np.uint32)
    assert Machine(engine="model").load(BY_VALUE)(out, factor, pair, block=1).status == "ok"
    assert out.tolist() == [0x4000_0000, 2]


def test_wrong_numbers_and_structures_from_python_are_refused():
    kernel, out = Machine(engine="model").load(BY_VALUE), np.zeros(2, np.uint32)
    with pytest.raises(ProgramError, match=r"argument 1 \(factor\): expected f32, got u32 \(bits"):
        kernel(out, np.uint32(2), bytes(8))
    with pytest.raises(ProgramError, match=r"^argument 2: 4 bytes are given, the parameter has 8$"):
        kernel(out, 2, bytes(4))
