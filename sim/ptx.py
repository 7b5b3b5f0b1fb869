"""Compiles a PTX program into a cubin: ``python -m sim.ptx IN.ptx -o OUT.cubin``.

``docs/ptx.md`` describes the language. With ``-o OUT.sass`` the assembly text is written. Exit code
2: there is an error in the text or with a file; one line on stderr names it and its place, and no
file is written. A kernel that uses textures is left out, and a line on stderr names it, unless the
file has no other.
"""

import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from sim.support.activity import activity
from sim.support.command import Parser, check_file, write_file
from sim.support.garbage_collection import without_garbage_collection
from sim.toolchain.compiler import compile_module
from sim.toolchain.cubin.elf_writer import write_object
from sim.toolchain.from_ptx import compiled_object
from sim.toolchain.ptx.front_end import read_ptx

__all__ = ["main"]


def _parser() -> Parser:
    """Returns the parser of the command line."""
    parser = Parser(
        "sim.ptx",
        "Compiles a program in PTX into a cubin.",
        "testbench/programs/tour/call.ptx -o call.cubin",
    )
    parser.add_argument("input", metavar="IN", help="PTX text")
    parser.add_argument(
        "-o",
        "--output",
        metavar="OUT",
        required=True,
        help="the cubin to write; with suffix .sass, the assembly text",
    )
    return parser


def _compile(options: Namespace) -> None:
    check_file(options.output, options.input)
    with without_garbage_collection(), activity(f"compiling {options.input}"):
        module = read_ptx(options.input)
        if Path(options.output).suffix == ".sass":
            content = compile_module(module).encode()
        else:
            content = write_object(compiled_object(module, options.input))
    write_file(options.output, content)
    for reason in module.refused.values():
        print(f"left out: {reason}", file=sys.stderr)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    return _parser().run(arguments, _compile, exits=False)


if __name__ == "__main__":
    sys.exit(main())
