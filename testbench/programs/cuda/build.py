"""Makes the files of the kernels of CUDA C++ from their sources.

    python -m testbench.programs.cuda.build [--check] [NAME ...]

For each kernel: ``NAME.ptx`` and, not optimised, ``NAME.G.ptx`` by NVRTC; ``NAME.O0.cubin``,
``NAME.O3.cubin`` and ``NAME.G.cubin`` by ptxas; the expected results of each of its runs, by a host
compiler. Needs g++ and ``pip install -e '.[cuda]'``. With ``--check`` no file is written: files
that would change are named (exit code 1).
"""

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from sim.support.command import OutputError, Parser, write_file
from sim.toolchain.cuda import CompilerError, cubin_of_ptx, ptx_of_cuda
from testbench.kernels.manifest import DEBUG, LEVELS, Run
from testbench.programs.cuda.host import HostError, words_left
from testbench.programs.cuda.runs import CUDA_RUNS, expectation_file


def optimised(source: Path) -> Iterator[tuple[Path, bytes]]:
    """Yields the files that NVIDIA's compilers make of a source, except those for a debugger."""
    ptx = ptx_of_cuda(source.read_text(), source.name, debug=False)
    yield source.with_suffix(".ptx"), ptx.encode()
    for level in LEVELS:
        yield source.with_suffix(f".{level}.cubin"), cubin_of_ptx(ptx, f"-{level}")


def compiled(source: Path) -> Iterator[tuple[Path, bytes]]:
    """Yields the files that NVIDIA's compilers make of a source."""
    yield from optimised(source)
    ptx = ptx_of_cuda(source.read_text(), source.name, debug=True)
    yield source.with_suffix(f".{DEBUG}.ptx"), ptx.encode()
    yield source.with_suffix(f".{DEBUG}.cubin"), cubin_of_ptx(ptx, "-g")


def expectation(run: Run) -> tuple[Path, bytes]:
    """Returns the file with the results of a run, and its content."""
    lines = (f"{json.dumps(name)}: {json.dumps(words)}" for name, words in words_left(run).items())
    return expectation_file(run), ("{" + ",\n ".join(lines) + "}\n").encode()


def update(files: Iterable[tuple[Path, bytes]], check: bool) -> int:
    """Writes the files with a changed content, or only checks them, and prints their names; returns
    the exit code.
    """
    code = 0
    for path, content in files:
        if not path.exists() or path.read_bytes() != content:
            print(path.name)
            if check:
                code = 1
            else:
                write_file(path, content)
    return code


def _parser(kernels: Sequence[str]) -> Parser:
    """Returns the parser of the command line."""
    parser = Parser(
        "testbench.programs.cuda.build",
        "Compiles the kernels of CUDA C++.",
        f"--check {kernels[0]}",
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; name the files that would change"
    )
    parser.add_argument(
        "kernels", metavar="NAME", nargs="*", help=f"a kernel, such as {kernels[0]}; all by default"
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit code."""
    sources = {run.kernel: run.folder / f"{run.kernel}.cu" for run in CUDA_RUNS.values()}
    parser = _parser(list(sources))
    options = parser.parse_args(arguments)
    if unknown := set(options.kernels) - sources.keys():
        parser.error(f"no kernels of the manifest: {', '.join(sorted(unknown))}")
    code = 0
    for kernel in options.kernels or sources:
        try:
            files = [
                *compiled(sources[kernel]),
                *(expectation(run) for run in CUDA_RUNS.values() if run.kernel == kernel),
            ]
            code |= update(files, options.check)
        except (CompilerError, HostError, OutputError, OSError) as error:
            print(f"{kernel}: {error}", file=sys.stderr)
            return 2
    return code


if __name__ == "__main__":
    sys.exit(main())
