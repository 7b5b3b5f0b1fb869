"""Makes the files of kernels from their sources in CUDA C++.

    python -m testbench.programs.build [--check] [FOLDER ...]

For each kernel: ``NAME.ptx`` by NVRTC, ``NAME.O0.cubin`` and ``NAME.O3.cubin`` by ptxas; for those
that call the runtime, both for a debugger as well. Needs ``pip install -e '.[cuda]'``. With
``--check`` no file is written: files that would change are named (exit code 1).
"""

import sys
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from sim.support.command import CommandError, Parser
from sim.toolchain.cuda import CompilerError
from testbench.programs.cuda.build import compiled, optimised, update

MAKERS = {"double": optimised, "runtime": compiled, "single": optimised}
"""Folder -> function that compiles its sources."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit code."""
    parser = Parser("testbench.programs.build", "Compiles kernels.", "--check single")
    parser.add_argument(
        "--check", action="store_true", help="write nothing; name the files that would change"
    )
    parser.add_argument(
        "folders", metavar="FOLDER", nargs="*", help=f"of {', '.join(MAKERS)}; default all"
    )
    return parser.run(
        arguments, lambda options: _build(options.folders or list(MAKERS), options.check)
    )


def _build(folders: Sequence[str], check: bool) -> int:
    for folder in folders:
        if folder not in MAKERS:
            raise CommandError(f"no folder {folder}; there are {', '.join(MAKERS)}")
    files = (
        MAKERS[folder](source)
        for folder in folders
        for source in sorted((Path(__file__).parent / folder).glob("*.cu"))
    )
    try:
        return update(chain.from_iterable(files), check)
    except (CompilerError, OSError) as error:
        raise CommandError(str(error)) from error


if __name__ == "__main__":
    sys.exit(main())
