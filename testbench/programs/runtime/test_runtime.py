"""Kernels that print, allocate and assert, compiled by NVIDIA's compilers and by this project's."""

import ctypes
import random
import struct
from itertools import pairwise
from pathlib import Path

import pytest

from rtl.params import PRESETS
from sim.engine import CompiledEngine
from sim.launch import Argument, Buffer, Launch, Scalar, prepare
from sim.launch.memory import Memory
from sim.launch.runtime import HEAP_MEMORY
from sim.machine.hardware import Hardware
from sim.model.ptx import launch as ptx_launch
from sim.model.ptx.run import run as run_ptx
from sim.model.thread.run import run as run_threads
from sim.model.warp.model import WarpModel
from sim.report.output import Output, output_of
from sim.run import main
from sim.toolchain.cubin.loader import read_cubin
from sim.toolchain.from_ptx import read_ptx_program
from sim.toolchain.module import Module, ProgramError
from sim.toolchain.ptx.front_end import parse_ptx, read_ptx
from sim.toolchain.runtime import OUTPUT
from sim.toolchain.runtime.supply import supplied
from testbench.ended import in_lockstep, on_warps
from testbench.engine.designs import needs_compiled

FOLDER = Path(__file__).parent
LIMIT = 3_000_000
ORIGINS = ("O0.cubin", "O3.cubin", "G.cubin", "ptx", "G.ptx")
"""Files of NVIDIA's compilers, and files that this project's compiler compiles."""
INTEGERS, REALS = "diuxXoc", "eEfFgG"
LIBC = ctypes.CDLL(None)


def module(kernel: str, origin: str) -> Module:
    path = FOLDER / f"{kernel}.{origin}"
    return read_cubin(path) if origin.endswith("cubin") else read_ptx_program(path)


def numbers(memory: Memory, place: tuple[int, int], size: int = 4) -> list[int]:
    base, length = place
    return [memory.read_number(base + at, size) for at in range(0, length, size)]


class Case:
    """A format, its arguments as vprintf finds them in memory, and the text that the C library
    formats.
    """

    def __init__(self, source: random.Random) -> None:
        self.format, self.arguments, self.count = b"", b"", 0
        given: list[object] = []
        for _ in range(source.randrange(5)):
            self.format += bytes(
                source.choice(b"ab [^_{~-09\n") for _ in range(source.randrange(4))
            )
            if source.random() < 0.2:
                self.format += b"%%"
            self._conversion(source, given)
        text = ctypes.create_string_buffer(4096)
        LIBC.snprintf(text, 4096, self.format, *given)
        self.text = text.value.decode()

    def _conversion(self, source: random.Random, given: list[object]) -> None:
        kind = source.choice(INTEGERS + REALS + "ss")
        flags = {"-", "0", "+", " ", "#"} if kind in INTEGERS + REALS and kind != "c" else {"-"}
        self.format += (
            b"%"
            + "".join(source.sample(sorted(flags), source.randrange(3) % (len(flags) + 1))).encode()
        )
        width = source.choice(["", "", "12", "3", "*"])
        if width == "*":
            wide = source.randrange(
                0 if b"0" in self.format[-3:] else -15, 15
            )  # glibc pads with zeros
            self._add(struct.pack("<i", wide))
            given.append(ctypes.c_int(wide))
        self.format += width.encode()
        if kind != "c":
            self.format += source.choice([b"", b".3", b".7"])
        if kind == "s":
            word = bytes(source.choice(b"xyz%d ") for _ in range(source.randrange(20)))
            self._add(word + b"\0", 8)
            given.append(ctypes.c_char_p(word))
        elif kind in REALS:
            value = source.choice(
                [0.0, -1.5, source.uniform(-1e9, 1e9), 10.0 ** source.randrange(-20, 20)]
            )
            self._add(struct.pack("<d", value))
            given.append(ctypes.c_double(value))
        else:
            size = (
                "" if kind == "c" else source.choice(["", "", "l", "ll", "z", "j", "t", "h", "hh"])
            )
            self.format += size.encode()
            bits = 64 if size and size[0] in "lzjt" else 32
            value = (
                source.choice([0, source.getrandbits(bits)])
                if kind != "c"
                else source.randrange(33, 127)
            )
            self._add(value.to_bytes(bits // 8, "little"))
            given.append((ctypes.c_uint64 if bits == 64 else ctypes.c_uint32)(value))
        self.format += kind.encode()

    def _add(self, content: bytes, alignment: int | None = None) -> None:
        """Appends an argument; a string becomes a pointer when its address is known."""
        self.count += 1
        size = alignment or len(content)
        self.arguments = self.arguments.ljust(-(-len(self.arguments) // size) * size, b"\0")
        if alignment is None:
            self.arguments += content
        else:
            self.strings = [*getattr(self, "strings", []), (len(self.arguments), content)]
            self.arguments += bytes(8)

    def placed(self, address: int) -> bytes:
        """Returns the arguments followed by the strings, for an address in memory."""
        content = bytearray(self.arguments.ljust(-(-len(self.arguments) // 8) * 8, b"\0"))
        for at, word in getattr(self, "strings", []):
            content[at : at + 8] = (address + len(content)).to_bytes(8, "little")
            content += word
        return bytes(content.ljust(-(-len(content) // 8) * 8, b"\0"))


def formats_arguments(cases: list[Case], base: int) -> list[Argument]:
    """Returns the kernel's arguments, if its last buffer is at ``base``."""
    formats, contents, places = b"", b"", []
    for case in cases:
        places += [len(formats), len(contents)]
        formats += case.format + b"\0"
        contents += case.placed(base + len(contents))
    return [
        Buffer("printed", bytes(4 * len(cases))),
        Buffer("places", struct.pack(f"<{len(places)}I", *places)),
        Buffer("formats", formats),
        Buffer("arguments", contents.ljust(8, b"\0")),
    ]


def cases_of(seed: int | str, count: int = 32) -> list[Case]:
    source = random.Random(seed)
    return [Case(source) for _ in range(count)]


def sizes_of(seed: int, count: int) -> list[int]:
    source = random.Random(seed)
    return [source.choice([0, 1, 15, 16, 17, 40, 113]) for _ in range(count)]


def formats_launch(program: Module, cases: list[Case], output: int | None = None) -> Launch:
    block = (len(cases), 1, 1)
    first = prepare(program, formats_arguments(cases, 0), block=block, output=output)
    return prepare(
        program, formats_arguments(cases, first.buffers["arguments"][0]), block=block, output=output
    )


def check_formats(memory: Memory, launch: Launch, cases: list[Case]) -> None:
    assert [*numbers(memory, launch.buffers["printed"])] == [case.count for case in cases]
    found = output_of(memory, launch.output)
    assert not found.lost
    left = found.text
    for text in sorted((case.text for case in cases), key=len, reverse=True):  # in any order
        assert text in left, text
        left = left.replace(text, "\1", 1)
    assert not left.strip("\1")


@pytest.mark.parametrize("origin", ORIGINS)
def test_formats_are_printed_as_the_c_library_does(origin):
    cases = cases_of(origin)
    launch = formats_launch(module("formats", origin), cases)
    check_formats(on_warps(launch, LIMIT).memory, launch, cases)


def test_threads_by_themselves_print_the_same():
    cases = cases_of(2)
    launch = formats_launch(module("formats", "O3.cubin"), cases)
    run_threads(launch)
    check_formats(launch.memory, launch, cases)


def hello(block: int, blocks: int) -> set[str]:
    """Returns the lines that the kernel must print."""
    lines = {"nothing but text\n"} if block > 2 else set()
    for thread in range(block):
        for number in range(blocks):
            lines.add(f"thread {thread:2} of block {number}: shared, global, {1 << thread + 30}\n")
        if thread % 2:
            lines.add("".join(chr(97 + (thread + at) % 26) for at in range(3)) + f"{thread}\n")
    return lines


def hello_sums(block: int, blocks: int) -> list[int]:
    return [
        5 + thread % 2 + sum((at + 3) * (thread + at) for at in range(12))
        for _ in range(blocks)
        for thread in range(block)
    ]


@pytest.mark.parametrize("origin", ORIGINS)
def test_what_a_kernel_needs_again_is_there_behind_the_call(origin):
    out = struct.pack("<12I", *range(3, 15)).ljust(4 * (16 + 80), b"\0")
    launch = prepare(
        module("hello", origin), [Buffer("out", out)], grid=(2, 1, 1), block=(33, 1, 1)
    )
    memory = on_warps(launch, LIMIT).memory
    assert set(output_of(memory, launch.output).text.splitlines(keepends=True)) == hello(33, 2)
    assert numbers(memory, launch.buffers["out"])[16:82] == hello_sums(33, 2)


def test_the_language_itself_prints():
    """The PTX interpreter runs the runtime's functions like any others."""
    launch = ptx_launch.place(
        read_ptx(FOLDER / "hello.ptx"), [Buffer("out", bytes(4 * 32))], block=(5, 1, 1)
    )
    run_ptx(launch)
    text = output_of(launch.memory, launch.addresses[OUTPUT]).text
    assert set(text.splitlines(keepends=True)) == hello(5, 1)


def test_what_finds_no_room_is_counted():
    cases = cases_of(3)
    for case in cases:
        case.format, case.count = b"twenty-four bytes each", 0
    launch = formats_launch(module("formats", "O3.cubin"), cases, output=10 * 16 + 8)
    memory = on_warps(launch, LIMIT).memory
    found = output_of(memory, launch.output)
    assert (found.text.count("each"), found.lost) == (10, 22)
    assert sorted(numbers(memory, launch.buffers["printed"])) == [0] * 10 + [0xFFFF_FFFF] * 22
    assert found.lines() == ["output        22 more records had no room: more bytes with --output"]


def test_what_was_not_written_to_its_end_is_left_out():
    memory = Memory()
    variable = memory.allocate("variable", 32)
    room = memory.allocate("room", 256)
    record = struct.pack("<IIQ8s", 24, 1, 0, b"%d words")
    for at, number in enumerate((room, 256, 72, 0)):
        memory.write_number(variable + 8 * at, 8, number)
    memory.write(room, struct.pack("<IIQ16s", 32, 1, 0, b"only text") + bytes(16) + record)
    assert output_of(memory, variable) == Output("only text")


def heap_launch(
    origin: str, threads: int, rounds: int, sizes: list[int], heap: int | None = None
) -> Launch:
    arguments = [
        Buffer("out", bytes(8 * 4 * threads)),
        Buffer("sizes", struct.pack(f"<{threads}I", *sizes)),
        Scalar(rounds, 4),
        Scalar(4, 4),
    ]
    return prepare(
        module("heap", origin), arguments, grid=(2, 1, 1), block=(threads // 2, 1, 1), heap=heap
    )


def check_heap(memory: Memory, launch: Launch, sizes: list[int], rounds: int) -> None:
    """Checks the blocks of the last round, all of them allocated: in the heap, disjoint, at
    multiples of 16.
    """
    base, size = launch.memory.regions[HEAP_MEMORY]
    blocks = []
    for at, address in enumerate(numbers(memory, launch.buffers["out"], 8)):
        length = sizes[(at + rounds - 1) % len(sizes)]
        assert (address == 0) == (length == 0)
        if address:
            blocks.append((address, length))
    assert all(
        address % 16 == 0 and base <= address and address + length <= base + size
        for address, length in blocks
    )
    blocks.sort()
    assert all(first + length <= second for (first, length), (second, _) in pairwise(blocks))


@pytest.mark.parametrize("origin", ORIGINS)
def test_blocks_are_apart_and_are_used_again(origin):
    sizes = sizes_of(4, 32)
    used = []
    for rounds in (1, 3):
        launch = heap_launch(origin, 32, rounds, sizes)
        memory = on_warps(launch, LIMIT).memory
        check_heap(memory, launch, sizes, rounds)
        used.append(
            memory.read_number(launch.output + 32 + 16, 8) if launch.output is not None else 0
        )
    least = sum(1 << max(5, (size + 15).bit_length()) for size in sizes if size) * 4
    assert used[0] == least and used[1] <= 2 * least


def test_threads_by_themselves_allocate():
    sizes = sizes_of(5, 64)
    launch = heap_launch("O3.cubin", 64, 2, sizes)
    run_threads(launch)
    check_heap(launch.memory, launch, sizes, 2)


def test_a_heap_that_is_full_has_no_more_blocks():
    launch = heap_launch("O3.cubin", 64, 1, [48] * 64, heap=64 * 100)
    found = numbers(on_warps(launch, LIMIT).memory, launch.buffers["out"], 8)
    assert sum(address != 0 for address in found) == 100
    launch = heap_launch("O3.cubin", 64, 1, [1 << 30] * 64)
    assert not any(numbers(on_warps(launch, LIMIT).memory, launch.buffers["out"], 8))


@pytest.mark.parametrize(
    "offset, again, ends",
    [(0, 0, True), (0, 1, False), (32, 0, False), (-200, 0, False), (1 << 20, 0, False)],
)
def test_only_blocks_can_be_freed_and_only_once(offset, again, ends):
    launch = prepare(
        module("frees", "O3.cubin"), [Scalar(offset, 4), Scalar(again, 4)], block=(1, 1, 1)
    )
    result = WarpModel(launch).run(LIMIT)
    assert (result.status == "ok") == ends, result


@pytest.mark.parametrize("engine", ["model", pytest.param("compiled", marks=needs_compiled)])
def test_addresses_of_functions_may_stand_in_a_constant_bank(run_program, engine):
    """CUDA 12.9 calls vprintf, malloc, free and __assertfail in this way."""
    code, written = run_program(
        FOLDER / "cuda12" / "bank.cubin",
        "--block",
        "4",
        "--engine",
        engine,
        "--preset",
        "tiny",
        "--arg",
        "buf:out=u32[4]",
        "--arg",
        "u32:3",
    )
    assert code == 1
    lines = ["thread 0: even, 0", "thread 1: odd, 100", "thread 2: even, 200", "thread 3: odd, 300"]
    assert sorted(written["output"].splitlines()) == lines
    assert written["buffers"]["out"] == [3] * 4  # conversions of the format
    assert written["assertions"] == [
        "bank.cu:11: k: block: [0,0,0], thread: [3,0,0] Assertion `threadIdx.x < n` failed."
    ]


@pytest.mark.parametrize("engine", ["model", pytest.param("compiled", marks=needs_compiled)])
@pytest.mark.parametrize("origin", ORIGINS)
def test_a_failed_assertion_ends_the_run_with_its_place(run_program, capsys, origin, engine):
    code, written = run_program(
        FOLDER / f"asserts.{origin}",
        "--block",
        "34",
        "--engine",
        engine,
        "--preset",
        "tiny",
        "--arg",
        "buf:out=u32[34]",
        "--arg",
        "u32:32",
    )
    assert code == 1
    expected = [
        f'asserts.cu:8: k: block: [0,0,0], thread: [{thread},0,0] Assertion `i < n && "few enough"` failed.'
        for thread in (32, 33)
    ]
    assert written["assertions"] == expected and written["output"] == ""
    text = capsys.readouterr().out
    assert "status        error" in text and all(
        f"assertion     {line}" in text for line in expected
    )


def test_the_command_prints_before_it_reports(capsys):
    assert (
        main(
            [
                str(FOLDER / "hello.O3.cubin"),
                "--block",
                "2",
                "--engine",
                "model",
                "--arg",
                "buf:out=u32[20]",
            ]
        )
        == 0
    )
    printed, _, report = capsys.readouterr().out.partition("kernel ")
    assert printed.splitlines() == [
        "thread  0 of block 0: shared, global, 1073741824",
        "thread  1 of block 0: shared, global, 2147483648",
        "bcd1",
    ]
    assert "status        ok" in report


def test_a_function_of_the_runtime_is_declared_as_it_is():
    text = (
        ".version 7.8\n.target sm_50\n.extern .func (.param .b32 r) vprintf (.param .b64 f);\n"
        ".entry k() {\n.reg .b32 %r;\ncall (%r), vprintf, (0);\nret;\n}\n"
    )
    with pytest.raises(ProgramError, match=r"^t:3:31: vprintf takes and gives something else$"):
        parse_ptx(text, "t")


def test_a_program_may_have_a_function_of_that_name():
    text = (
        ".version 7.8\n.target sm_50\n.func (.reg .b32 r) vprintf (.reg .b32 f) { add.u32 r, f, 1; ret; }\n"
        ".entry k() {\n.reg .b32 %r;\ncall (%r), vprintf, (0);\nret;\n}\n"
    )
    assert not any(variable.name == OUTPUT for variable in parse_ptx(text, "t").variables)


@needs_compiled
@pytest.mark.parametrize("kernel", ["formats", "hello", "heap"])
def test_the_hardware_in_lockstep(kernel):
    hardware = Hardware(PRESETS["tiny"], CompiledEngine, check=True)
    cases, sizes = cases_of(6), sizes_of(7, 64)
    launch = (
        formats_launch(module(kernel, "O3.cubin"), cases)
        if kernel == "formats"
        else heap_launch("O3.cubin", 64, 3, sizes)
        if kernel == "heap"
        else prepare(module(kernel, "O3.cubin"), [Buffer("out", bytes(4 * 96))], block=(33, 1, 1))
    )
    memory = in_lockstep(hardware, launch, LIMIT).memory
    if kernel == "formats":
        check_formats(memory, launch, cases)
    elif kernel == "heap":
        check_heap(memory, launch, sizes, 3)
    else:
        assert set(output_of(memory, launch.output).text.splitlines(keepends=True)) == hello(33, 1)


def test_the_runtime_is_code_of_its_own_behind_that_of_the_program():
    path = sorted(Path(__file__).parent.glob("*.O3.cubin"))[0]
    program = read_cubin(path)
    made = supplied(program)
    before, (*others, last) = program.sections, made.sections
    assert (*before, last) == made.sections and tuple(others) == before
    assert last.start >= before[-1].stop and last.stop == len(made.code.content)
    added = made.code.symbols.keys() - program.code.symbols.keys()
    assert added and all(made.code.symbols[name] in last for name in added)
