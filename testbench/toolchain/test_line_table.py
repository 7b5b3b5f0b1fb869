"""Line tables of cubins, compared with the `.loc` statements of the PTX that the same compiler
wrote.
"""

import re
from pathlib import Path

import pytest

from rtl.isa.control_code import INSTRUCTION_BYTES
from sim.toolchain.cubin.line_table import source_lines
from sim.toolchain.cubin.loader import read_cubin
from sim.toolchain.cuda import CompilerError, cubin_of_ptx, ptx_of_cuda

CUDA = Path(__file__).parents[1] / "programs" / "cuda"


@pytest.mark.parametrize("name", ["c01_tile_votes", "c24_gcd_inverse"])
def test_lines_are_those_of_the_statements_in_the_ptx(name):
    path = CUDA / f"{name}.G.cubin"
    module = read_cubin(path)
    lines = source_lines(str(path), module)
    assert {file for file, _ in lines.values()} == {f"{name}.cu"}
    assert all(pc % INSTRUCTION_BYTES == 0 for pc in lines)
    located = re.findall(r"\.loc\s+1 (\d+)", (CUDA / f"{name}.G.ptx").read_text())
    assert {line for _, line in lines.values()} <= {int(line) for line in located}
    begins = [module.code.symbols[kernel] for kernel in module.kernels]
    assert all(begin in lines or begin + INSTRUCTION_BYTES in lines for begin in begins)


def test_a_file_without_a_table_has_no_lines(tmp_path):
    path = CUDA / "c01_tile_votes.O3.cubin"
    assert source_lines(str(path), read_cubin(path)) == {}
    text = tmp_path / "text.cubin"
    text.write_text("no file of machine code")
    assert source_lines(str(text), read_cubin(path)) == {}


FIRST = """extern "C" __global__ void k(volatile int *o)
{
  o[0] = 1;
#line 50 "other.h"
  o[1] = 2;
#line 7 "third.h"
  o[2] = 3;
#line 8 "main.cu"
  o[3] = 4;
}
"""
SECOND = """extern "C" __global__ void j(volatile int *o)
{
  o[0] = 1;
}
"""
LINES = {
    "k": [
        ("main.cu", 1),
        ("main.cu", 3),
        ("other.h", 50),
        ("third.h", 7),
        ("main.cu", 8),
        ("main.cu", 9),
    ],
    "j": [("main.cu", 10), ("main.cu", 12), ("main.cu", 13)],
}


def content_of(source: str) -> bytes:
    """Returns the cubin of a source, with a debugger's line table."""
    try:
        return cubin_of_ptx(ptx_of_cuda(source, "main.cu", debug=True), "-g")
    except CompilerError as error:
        pytest.skip(str(error))


def changes(lines: dict[int, tuple[str, int]]) -> dict[int, tuple[str, int]]:
    """Returns the address at which each run of one line begins, and its line."""
    before = INSTRUCTION_BYTES
    return {pc: line for pc, line in sorted(lines.items()) if lines.get(pc - before) != line}


def test_a_line_has_the_name_of_its_file_and_the_place_of_its_function(tmp_path):
    """Files are named by ``#line``; each of the two kernels has addresses from 0 in the table."""
    path = tmp_path / "two.cubin"
    path.write_bytes(content_of(FIRST + SECOND))
    module = read_cubin(path)
    found = changes(source_lines(str(path), module))
    begins = {name: module.code.symbols[name] for name in LINES}
    assert set(begins.values()) <= found.keys()
    end = max(begins.values())
    first, second = (name for name, _ in sorted(begins.items(), key=lambda item: item[1]))
    assert [line for pc, line in found.items() if pc < end] == LINES[first]
    assert [line for pc, line in found.items() if pc >= end] == LINES[second]


def test_a_table_without_relocations_counts_from_the_begin_of_the_code(tmp_path):
    content = content_of(FIRST)
    path, changed = tmp_path / "one.cubin", tmp_path / "none.cubin"
    path.write_bytes(content)
    changed.write_bytes(content.replace(b".rel.debug_line\0", b".not.debug_line\0"))
    module = read_cubin(path)
    assert module.code.symbols["k"] == 0
    lines = source_lines(str(path), module)
    assert [*changes(lines).values()] == LINES["k"]
    assert source_lines(str(changed), module) == lines
