"""Real programs: kernels in PTX, each as NVIDIA's assembler compiled it at -O0 and at -O3, and in ``manifest.toml`` how
they are run. :mod:`testbench.kernels` reads it, and knows what they must leave in memory.
"""

from pathlib import Path

PROGRAMS = Path(__file__).parent
CUBINS = sorted(PROGRAMS.glob("*.cubin"))
"""Each kernel in machine language."""
ADD, TRAP, RECURSION = (
    str(PROGRAMS / f"{name}.O3.cubin")
    for name in ("k01_vecadd", "k47_trap_brkpt", "k08_fib_recursion")
)
"""What commands run: a sum of two buffers, one that may trap, and one that calls itself."""
BUFFERS = ["--arg", "buf:a=u32[40]", "--arg", "buf:b=u32[40]", "--arg", "buf:c=u32[40]"]
"""Those of the sum."""
