"""Scopes of names in assembly text.

Inside a kernel, labels and functions are offsets in its code, and parameters, constants and shared
variables are offsets in their memory. The module's constants and functions inside kernels have the
same value in the whole file. Global variables and separate functions have addresses, which are
known only when a program is placed in memory.
"""

from lark import Token

from sim.toolchain.module import SHARED_BANK

from .program import AssemblyProgram, CodeSection, DataBlock, label_place
from .source import SourceError

__all__ = ["CodeScope", "FileScope"]


def _names(*memories: DataBlock) -> dict[str, int]:
    """Returns the offsets of the named pieces in some memories."""
    return {
        str(piece.name): piece.place
        for memory in memories
        for piece in memory.pieces
        if piece.name is not None
    }


class FileScope:
    """The names of the whole file. ``addressed`` are those with addresses, ``constants`` those with
    both an offset in the common bank of all kernels and a generic address.
    """

    def __init__(self, program: AssemblyProgram) -> None:
        self.addressed = {str(code.name) for code in program.codes if not code.kernel}
        self.addressed |= _names(program.zeroed, program.initialised).keys()
        self.constants = (
            _names(program.banks[SHARED_BANK]).keys() if SHARED_BANK in program.banks else set()
        )
        self._kernels = {str(code.name) for code in program.codes if code.kernel}
        self._numbers = _names(*program.banks.values())
        for code in program.codes:
            for part in code.parts[1:]:
                self._numbers[str(part.name)] = label_place(part.begin)

    def value(self, name: Token) -> int:
        """Returns the value of a name."""
        if name in self._numbers:
            return self._numbers[name]
        if name in self.addressed or name in self._kernels:
            raise SourceError(
                name,
                f"{name} has an address, which is not known yet: "
                f"expected 32@lo({name}) and 32@hi({name})",
            )
        raise SourceError(name, f"{name} is not defined")


class CodeScope:
    """The names of one code section."""

    def __init__(self, code: CodeSection, file: FileScope) -> None:
        self._file = file
        self._code = code
        self._labels = {name: label_place(index) for name, index in code.labels.items()}
        self._numbers = _names(code.shared, *code.banks.values())
        self._numbers |= {str(parameter.name): parameter.offset for parameter in code.parameters}

    def value(self, name: Token) -> int:
        """Returns the value of a name."""
        if name in self._labels:
            return self._labels[name]
        return self._numbers[name] if name in self._numbers else self._file.value(name)

    def target(self, name: Token) -> int:
        """Returns the offset of a label or function in this code."""
        if name in self._labels:
            return self._labels[name]
        if name in self._file.addressed:
            raise SourceError(
                name, f"{name} is not in {self._code.name}: only JMP and JCAL reach it"
            )
        raise SourceError(name, f"{name} is no label in {self._code.name}")
