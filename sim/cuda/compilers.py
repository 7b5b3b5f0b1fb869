"""What makes programs of PTX: the project's own compiler, or NVIDIA's assembler where it is installed.

What was compiled once is kept in the cache, found by text, options and compiler.
"""

import hashlib
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from sim.cuda.errors import CudaError
from sim.engine.cache import cache_folder, is_on, store
from sim.engine.cache import load as load_kept
from sim.toolchain.compiler.regalloc.color import REGISTERS
from sim.toolchain.cubin.elf_reader import read_object
from sim.toolchain.cubin.elf_writer import write_object
from sim.toolchain.cubin.joining import join_objects
from sim.toolchain.cubin.linking import link
from sim.toolchain.cuda import CompilerError, cubin_of_ptx
from sim.toolchain.from_ptx import compiled_object
from sim.toolchain.module import ProgramError
from sim.toolchain.ptx.front_end import parse_ptx
from sim.toolchain.ptx.joining import join

__all__ = ["DEFAULT_LEVEL", "Compiler", "JitOptions", "OwnCompiler", "Ptxas"]

DEFAULT_LEVEL = 4
"""CUDA's level of optimisation by default: the highest."""
_HIGHEST_LEVEL = 3
"""The highest that the assembler knows."""
_INVALID_IMAGE, _INVALID_PTX = 200, 218


@dataclass(frozen=True)
class JitOptions:
    """A program's options for the compiler: the most registers of a thread, 0 for no limit, and how
    much it optimises, of which the project's own compiler has one level only."""

    max_registers: int = 0
    level: int = DEFAULT_LEVEL


class Compiler(ABC):
    """Makes cubins of PTX."""

    @abstractmethod
    def _identity(self, options: JitOptions) -> bytes:
        """What its results for the same text depend on."""

    @abstractmethod
    def _compile(self, text: str, options: JitOptions) -> bytes:
        """The cubin of a text. CudaError, one line with the reason, where there is none."""

    @abstractmethod
    def link(self, texts: Sequence[tuple[str, JitOptions]], cubins: Sequence[bytes]) -> bytes:
        """One cubin of PTX texts, each with its options, and relocatable cubins. CudaError where they can't be
        linked."""

    def cubin(self, text: str, options: JitOptions) -> bytes:
        """The cubin of a text, from the cache if it is there."""
        key = hashlib.sha256(b"\0".join((text.encode(), self._identity(options)))).hexdigest()
        place = cache_folder() / f"{key[:24]}.cubin"
        content = load_kept(place) if is_on() else None
        if content is None:
            content = self._compile(text, options)
            if is_on():
                with suppress(
                    OSError
                ):  # a folder that can't be written: it is compiled again next time
                    store(place, content)
        return content


@cache
def _toolchain() -> bytes:
    """A digest of the compiler: its sources, and those of the machine language."""
    root = Path(__file__).parents[2]
    files = [
        path
        for folder in ("sim/toolchain", "rtl/isa")
        for path in sorted((root / folder).rglob("*"))
        if path.suffix in (".py", ".lark", ".ptx")
    ]
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in files)).digest()


def _linked(cubins: Sequence[bytes]) -> bytes:
    """One complete cubin of several relocatable ones."""
    try:
        files = [read_object(cubin, f"input {number}") for number, cubin in enumerate(cubins, 1)]
        return write_object(link(join_objects(files, "the linked program")))
    except ProgramError as error:
        raise CudaError(_INVALID_IMAGE, str(error)) from error


class OwnCompiler(Compiler):
    """The project's own compiler."""

    def _identity(self, options: JitOptions) -> bytes:
        return str(options.max_registers).encode() + b"\0" + _toolchain()

    def _compile(self, text: str, options: JitOptions) -> bytes:
        limit = min(options.max_registers, REGISTERS) if options.max_registers else REGISTERS
        try:
            return write_object(compiled_object(parse_ptx(text, "PTX"), "PTX", limit))
        except ProgramError as error:
            raise CudaError(_INVALID_PTX, str(error)) from error

    def link(self, texts: Sequence[tuple[str, JitOptions]], cubins: Sequence[bytes]) -> bytes:
        """See Compiler: texts with each other or cubins with each other. Texts are compiled as one, so that the lowest
        limit of registers holds for all."""
        if texts and cubins:
            raise CudaError(
                _INVALID_IMAGE, "PTX is linked with cubins by NVIDIA's assembler only: --ptxas"
            )
        if cubins:
            return _linked(cubins)
        try:
            limits = [options.max_registers for _, options in texts if options.max_registers]
            return self.cubin(join([text for text, _ in texts]), JitOptions(min(limits, default=0)))
        except ProgramError as error:
            raise CudaError(_INVALID_PTX, str(error)) from error


class Ptxas(Compiler):
    """NVIDIA's assembler. ``program``: where it is."""

    def __init__(self, program: Path) -> None:
        self._program = program
        result = subprocess.run([program, "--version"], capture_output=True, check=False)
        self._version = result.stdout

    @staticmethod
    def _flags(options: JitOptions) -> tuple[str, ...]:
        limit = (f"--maxrregcount={options.max_registers}",) if options.max_registers else ()
        return f"-O{min(options.level, _HIGHEST_LEVEL)}", *limit

    def _identity(self, options: JitOptions) -> bytes:
        return b"ptxas\0" + "\0".join(self._flags(options)).encode() + b"\0" + self._version

    def _assembled(self, text: str, *flags: str) -> bytes:
        try:
            return cubin_of_ptx(text, *flags, program=self._program)
        except CompilerError as error:
            raise CudaError(_INVALID_PTX, str(error)) from error

    def _compile(self, text: str, options: JitOptions) -> bytes:
        return self._assembled(text, *self._flags(options))

    def link(self, texts: Sequence[tuple[str, JitOptions]], cubins: Sequence[bytes]) -> bytes:
        """See Compiler."""
        if len(texts) == 1 and not cubins:
            return self.cubin(*texts[0])
        return _linked(
            [
                *(self._assembled(text, *self._flags(options), "-c") for text, options in texts),
                *cubins,
            ]
        )
