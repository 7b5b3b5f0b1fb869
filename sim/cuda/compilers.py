"""Compilers of PTX: the project's own, or NVIDIA's assembler where it is installed.

Results are cached by text, options and compiler.
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
"""CUDA's default level of optimisation, the highest."""
_HIGHEST_LEVEL = 3
"""The highest level that the assembler supports."""
_INVALID_IMAGE, _INVALID_PTX = 200, 218


@dataclass(frozen=True)
class JitOptions:
    """A program's options for the compiler.

    Attributes:
        max_registers: The most registers of a thread, 0 for no limit.
        level: Level of optimisation; the project's own compiler has only one.
    """

    max_registers: int = 0
    level: int = DEFAULT_LEVEL


class Compiler(ABC):
    """Compiles PTX to cubins."""

    @abstractmethod
    def _identity(self, options: JitOptions) -> bytes:
        """Returns everything on which the results for the same text depend."""

    @abstractmethod
    def _compile(self, text: str, options: JitOptions) -> bytes:
        """Compiles a text to a cubin; CudaError, one line with the reason, if that fails."""

    @abstractmethod
    def link(self, texts: Sequence[tuple[str, JitOptions]], cubins: Sequence[bytes]) -> bytes:
        """Links PTX texts, each with its options, and relocatable cubins to one cubin; CudaError if
        that fails.
        """

    def cubin(self, text: str, options: JitOptions) -> bytes:
        """Returns the cubin of a text, from the cache if it is there."""
        key = hashlib.sha256(b"\0".join((text.encode(), self._identity(options)))).hexdigest()
        place = cache_folder() / f"{key[:24]}.cubin"
        content = load_kept(place) if is_on() else None
        if content is None:
            content = self._compile(text, options)
            if is_on():
                with suppress(
                    OSError
                ):  # The cache is not writable: the text is compiled again next time
                    store(place, content)
        return content


@cache
def _toolchain() -> bytes:
    """Returns a digest of the compiler: its sources, and those of the machine language."""
    root = Path(__file__).parents[2]
    files = [
        path
        for folder in ("sim/toolchain", "rtl/isa")
        for path in sorted((root / folder).rglob("*"))
        if path.suffix in (".py", ".lark", ".ptx")
    ]
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in files)).digest()


def _linked(cubins: Sequence[bytes]) -> bytes:
    """Links several relocatable cubins to one complete cubin."""
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
        """Links texts with each other, or cubins with each other; see Compiler.

        Texts are compiled as one module, so that the lowest register limit holds for all.
        """
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
    """NVIDIA's assembler. ``program`` is its path."""

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
        """Links texts and cubins; see Compiler."""
        if len(texts) == 1 and not cubins:
            return self.cubin(*texts[0])
        return _linked(
            [
                *(self._assembled(text, *self._flags(options), "-c") for text, options in texts),
                *cubins,
            ]
        )
