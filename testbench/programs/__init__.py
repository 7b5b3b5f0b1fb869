"""Real programs: kernels in PTX, each compiled by NVIDIA's assembler at -O0 and at -O3;
``manifest.toml`` has their runs.

:mod:`testbench.kernels` reads the manifest and defines the memory that each run must leave.
"""

from pathlib import Path

PROGRAMS = Path(__file__).parent
CUBINS = sorted(PROGRAMS.glob("*.cubin"))
"""Files of all kernels in machine language."""
ADD, TRAP, RECURSION = (
    str(PROGRAMS / f"{name}.O3.cubin")
    for name in ("k01_vecadd", "k47_trap_brkpt", "k08_fib_recursion")
)
"""Kernels that tests of commands run: a sum of two buffers, one that may trap, and one that is
recursive.
"""
BUFFERS = ["--arg", "buf:a=u32[40]", "--arg", "buf:b=u32[40]", "--arg", "buf:c=u32[40]"]
"""Options for the buffers of the sum."""
