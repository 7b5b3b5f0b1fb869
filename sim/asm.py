"""Assembles a program into a cubin: ``python -m sim.asm IN.sass -o OUT.cubin``.

:mod:`sim.toolchain.assembly.assembler` describes the language. Exit code 2: there is an error in the text or with a
file; one line on stderr says what and where, and no file is written.
"""

import sys
from argparse import Namespace
from collections.abc import Sequence

from sim.support.activity import activity
from sim.support.command import Parser, check_file, write_file
from sim.toolchain.assembly.assembler import assemble
from sim.toolchain.cubin.elf_writer import write_object
from sim.toolchain.grammar import read_text

__all__ = ["main"]


def _parser() -> Parser:
    """Returns the parser of the command line."""
    parser = Parser(
        "sim.asm",
        "Assembles a program into a cubin.",
        "testbench/programs/tour/divergence.sass -o divergence.cubin",
    )
    parser.add_argument("input", metavar="IN", help="assembly text")
    parser.add_argument("-o", "--output", metavar="OUT", required=True, help="the cubin to write")
    return parser


def _assemble(options: Namespace) -> None:
    check_file(options.output, options.input)
    with activity(f"assembling {options.input}"):
        content = write_object(assemble(read_text(options.input), options.input))
    write_file(options.output, content)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    return _parser().run(arguments, _assemble, exits=False)


if __name__ == "__main__":
    sys.exit(main())
