"""Disassembles a cubin: ``python -m sim.dis IN.cubin``.

Prints a line an instruction, or with ``--source`` what the assembler reads back. ``python -m sim.dis --refused`` prints
what no machine here executes. Exit code 2: the file can't be disassembled; one line on stderr has
the reason.
"""

import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from sim.support.command import Parser, print_text
from sim.support.reading import why_unreadable
from sim.toolchain.cubin.elf_reader import read_object
from sim.toolchain.listing.disassembly import disassembly, raw_disassembly
from sim.toolchain.listing.listing import listing
from sim.toolchain.listing.refusals import refused_table
from sim.toolchain.module import ProgramError

__all__ = ["main"]


def _parser() -> Parser:
    """Returns the parser of the command line."""
    parser = Parser(
        "sim.dis",
        "Prints the machine code of a cubin as text.",
        "testbench/programs/k08_fib_recursion.O3.cubin",
    )
    parser.add_argument("input", metavar="IN", nargs="?", help="a cubin")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--raw", action="store_true", help="IN is bare code: groups of 32 bytes")
    kind.add_argument("--source", action="store_true", help="print what sim.asm reads back")
    kind.add_argument(
        "--refused",
        action="store_true",
        help="without IN: print the instructions of sm_50 that the hardware does not implement, and why",
    )
    return parser


def _text(path: str, raw: bool, source: bool) -> str:
    """Returns the text to print."""
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise ProgramError(why_unreadable(path, error)) from error
    if raw:
        return raw_disassembly(content, path)
    file = read_object(content, path)
    return listing(file) if source else disassembly(file)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = _parser()

    def print_it(options: Namespace) -> None:
        if (options.input is None) != options.refused:
            parser.error(
                "--refused takes no file"
                if options.refused
                else "the following arguments are required: IN"
            )
        print_text(
            refused_table()
            if options.refused
            else _text(options.input, options.raw, options.source)
        )

    return parser.run(arguments, print_it, exits=False)


if __name__ == "__main__":
    sys.exit(main())
