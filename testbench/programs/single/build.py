"""Makes the files of the kernels in single precision from their sources.

    python -m testbench.programs.single.build [--check]

Of each kernel ``NAME.ptx`` by NVRTC, ``NAME.O0.cubin`` and ``NAME.O3.cubin`` by ptxas. Needs ``pip install -e
'.[cuda]'``. With ``--check`` nothing is written: files that would change are named (exit code 1).
"""

import sys
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from sim.command import OutputError, Parser
from sim.toolchain.cuda import CompilerError
from testbench.programs.cuda.build import optimised, update


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit code."""
    parser = Parser("testbench.programs.single.build", "Compiles the kernels.")
    parser.add_argument("--check", action="store_true", help="write nothing; name the files that would change")
    options = parser.parse_args(arguments)
    files = chain.from_iterable(optimised(source) for source in sorted(Path(__file__).parent.glob("*.cu")))
    try:
        return update(files, options.check)
    except (CompilerError, OutputError, OSError) as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
