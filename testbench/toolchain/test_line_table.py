"""Lines of the source in a cubin, compared with the `.loc` statements of the PTX that the same compiler wrote."""

import re
from pathlib import Path

import pytest

from rtl.isa.control_code import INSTRUCTION_BYTES
from sim.toolchain.cubin.line_table import source_lines
from sim.toolchain.cubin.loader import read_cubin

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
