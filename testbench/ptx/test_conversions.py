"""cvt between all integer types, into registers of every width: interpreter and compiled code
against Python.
"""

import random

import pytest

from sim.launch import Buffer, prepare
from sim.model.ptx.launch import place
from sim.model.ptx.run import run as interpret
from sim.toolchain.ptx.front_end import parse_ptx
from sim.toolchain.ptx.module import Type
from testbench.compiler.runs import compiled
from testbench.ended import on_warps
from testbench.ptx.text import HEADER, refused

TYPES = ("u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64")
THREADS = 64
EDGES = [
    sign * ((1 << bits) + step)
    for bits in (0, 7, 8, 15, 16, 31, 32, 63)
    for step in (-1, 0, 1)
    for sign in (1, -1)
]
SOURCES = {8: "h", 16: "h", 32: "r", 64: "d"}
BYTES = 8 * 16
"""Number of bytes of a thread in the buffer: its number, and the results."""


def limits(kind: str) -> tuple[int, int]:
    """Returns the smallest and the largest number of a type."""
    bits = int(kind[1:])
    return (-1 << bits - 1, (1 << bits - 1) - 1) if kind[0] == "s" else (0, (1 << bits) - 1)


def cut(value: int, kind: str) -> int:
    """Returns the number of a type in the low bits."""
    least, largest = limits(kind)
    return (value - least) % (largest - least + 1) + least


def converted(value: int, to: str, source: str, saturates: bool) -> int:
    least, largest = limits(to)
    number = cut(value, source)
    return min(max(number, least), largest) if saturates else cut(number, to)


def can_saturate(to: str, source: str) -> bool:
    return limits(source)[0] < limits(to)[0] or limits(source)[1] > limits(to)[1]


def conversions(source: str, saturates: bool) -> list[tuple[str, int]]:
    """Returns the destination types, each with the register widths for it."""
    return [
        (to, width)
        for to in TYPES
        for width in (16, 32, 64)
        if width >= int(to[1:]) and (not saturates or can_saturate(to, source))
    ]


def text(source: str, saturates: bool, chosen: list[tuple[str, int]]) -> str:
    lines = []
    for at, (to, width) in enumerate(chosen):
        register = SOURCES[width]
        lines.append(
            f"cvt{'.sat' * saturates}.{to}.{source} {register}1, {SOURCES[int(source[1:])]}0; "
            f"st.global.b{width} [p+{8 + 8 * at}], {register}1;"
        )
    return f"""{HEADER}.visible .entry k(.param .u64 o)
{{ .reg .b16 h<2>; .reg .b32 r<2>, t; .reg .b64 d<2>, p, q;
  ld.param.u64 p, [o]; mov.u32 t, %tid.x; mul.wide.u32 q, t, {BYTES}; add.u64 p, p, q;
  ld.global.u64 d0, [p]; ld.global.u32 r0, [p]; ld.global.u16 h0, [p];
{chr(10).join(lines)}
  ret; }}
"""


def content(seed: str) -> bytes:
    source = random.Random(seed)
    numbers = [*EDGES, *(source.getrandbits(64) for _ in range(THREADS - len(EDGES)))]
    return b"".join(
        (number & (1 << 64) - 1).to_bytes(8, "little") + bytes(BYTES - 8) for number in numbers
    )


@pytest.mark.parametrize("saturates", [False, True], ids=["cut", "sat"])
@pytest.mark.parametrize("source", TYPES)
def test_a_conversion_gives_the_number_in_registers_of_every_width(source, saturates):
    chosen = conversions(source, saturates)
    for part in (chosen[:15], chosen[15:]):
        before, program = content(source), text(source, saturates, part)
        wanted = bytearray(before)
        for thread in range(THREADS):
            value = int.from_bytes(before[BYTES * thread : BYTES * thread + 8], "little")
            for at, (to, width) in enumerate(part):
                result = converted(value, to, source, saturates) & (1 << width) - 1
                first = BYTES * thread + 8 + 8 * at
                wanted[first : first + width // 8] = result.to_bytes(width // 8, "little")
        meant = place(parse_ptx(program, "t.ptx"), [Buffer("o", before)], block=(THREADS, 1, 1))
        interpret(meant)
        assert meant.memory.read(*meant.buffers["o"]) == wanted
        launch = on_warps(prepare(compiled(program), [Buffer("o", before)], block=(THREADS, 1, 1)))
        assert launch.memory.read(*launch.buffers["o"]) == wanted


@pytest.mark.parametrize("to", TYPES)
@pytest.mark.parametrize("source", TYPES)
def test_saturation_that_is_impossible_is_refused(to, source):
    assert Type(to).holds(Type(source)) != can_saturate(to, source)
    if not can_saturate(to, source):
        registers = {16: "h0", 32: "r0", 64: "d0", 8: "h0"}
        message = refused(
            f"cvt.sat.{to}.{source} {registers[int(to[1:])]}, {registers[int(source[1:])]};"
        )
        assert (
            message
            == f"1: cvt.sat.{to}.{source} has nothing to saturate: .{to} has every number of .{source}"
        )
