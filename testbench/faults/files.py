"""Files from users: with any content they are read, or refused with a message of one line."""

from collections.abc import Callable, Iterator

from sim.launch import Scalar, prepare
from sim.toolchain.assembly.assembler import assemble
from sim.toolchain.compiler import compile_module
from sim.toolchain.cubin.elf_reader import read_object
from sim.toolchain.cubin.loader import load
from sim.toolchain.cubin.object_file import ObjectFile
from sim.toolchain.listing.disassembly import disassembly
from sim.toolchain.listing.listing import listing
from sim.toolchain.module import ProgramError
from sim.toolchain.ptx.front_end import parse_ptx
from testbench.programs import PROGRAMS

__all__ = ["READERS", "read_or_refuse", "samples"]

NAME = "x"
"""Name of the files in messages."""
_LONGEST = 1000
"""Largest number of characters of a readable line."""


def read_or_refuse(kind: str, content: bytes) -> bool:
    """Processes a file as commands process one of its kind, of :data:`READERS`; returns whether it
    was read.

    Raises AssertionError if it is refused with more than one line; any other exception is an error
    of the reader.
    """
    try:
        READERS[kind](content)
    except ProgramError as error:
        line = str(error)
        assert line and line.isprintable() and len(line) < _LONGEST, f"not a line: {line!r}"
        return False
    return True


def samples(kind: str) -> Iterator[bytes]:
    """Yields files of a kind, smallest first."""
    yield from sorted((path.read_bytes() for path in PROGRAMS.rglob(f"*.{kind}")), key=len)


def _use(file: ObjectFile) -> None:
    """Prepares a launch of each kernel of a file, with zeros for its parameters."""
    module = load(file)
    for name, kernel in module.kernels.items():
        prepare(module, [Scalar(0, parameter.size) for parameter in kernel.parameters], entry=name)


def _cubin(content: bytes) -> None:
    file = read_object(content, NAME)
    disassembly(file)
    listing(file)
    _use(file)


def _sass(content: bytes) -> None:
    _use(assemble(content.decode("latin-1"), NAME))


def _ptx(content: bytes) -> None:
    _use(assemble(compile_module(parse_ptx(content.decode("latin-1"), NAME)), NAME))


READERS: dict[str, Callable[[bytes], None]] = {"cubin": _cubin, "sass": _sass, "ptx": _ptx}
"""Reader of each kind of file, which raises ProgramError if the file has no program."""
