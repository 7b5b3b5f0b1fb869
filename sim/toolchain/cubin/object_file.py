"""An object file for sm_50 in memory: sections, symbols, relocations.

It has the contents of a cubin without the offsets and indices of the ELF format.
:mod:`sim.toolchain.cubin.elf_reader` and :mod:`sim.toolchain.cubin.elf_writer` convert it from and
to bytes, the assembler produces it, and :mod:`sim.toolchain.cubin.loader` builds a program of it.
Numbers are those of NVIDIA's files.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum, IntFlag

from rtl.isa.constant_banks import PARAMETER_BASE
from sim.toolchain.module import SHARED_BANK

__all__ = [
    "ALIGNMENTS",
    "CODE_GRANULE",
    "CONSTANTS_SIZE",
    "DEBUG_SHARED",
    "GLOBAL",
    "GLOBAL_INIT",
    "INFO",
    "PARAMETER_BASE",
    "TOOLKIT",
    "Binding",
    "ObjectFile",
    "Relocation",
    "Section",
    "SectionFlag",
    "SectionKind",
    "SectionRole",
    "Symbol",
    "SymbolKind",
    "constant_name",
    "info_name",
    "shared_name",
    "text_name",
]

TOOLKIT = 0x76
"""The toolkit whose conventions files follow: 11.8."""
CODE_GRANULE = 64
"""The alignment of the start and the size of code sections in bytes."""
ALIGNMENTS = tuple(1 << power for power in range(13))
"""The possible alignments of a section in bytes."""
GLOBAL = ".nv.global"
"""The section of zeroed global variables."""
GLOBAL_INIT = ".nv.global.init"
"""The section of initialised global variables."""
INFO = ".nv.info"
"""The section of records about all functions; that of one function has its name as suffix."""

CONSTANTS_SIZE = ".nv.ptx.const0.size"
"""The symbol, without a section in a relocatable file, whose value is the size of the constant bank
common to all kernels.
"""
DEBUG_SHARED = ".nv_debug.shared"
"""The section for debuggers with the shared arrays without a size."""

_TEXT, _CONSTANT, _SHARED = ".text", ".nv.constant", ".nv.shared"
_NAME = re.compile(
    r"(?P<text>\.text\.(?P<code>.+))|(?P<constant>\.nv\.constant(?P<bank>\d+)(\.(?P<constant_of>.+))?)"
    rf"|(?P<shared>\.nv\.shared\.(?P<shared_of>.+)|{re.escape(DEBUG_SHARED)})"
    r"|(?P<info>\.nv\.info(\.(?P<info_of>.+))?)"
    r"|(?P<init>\.nv\.global\.init)|(?P<zeroed>\.nv\.global)"
)


class SectionKind(IntEnum):
    """Types of sections, ``sh_type`` in the file."""

    PROGBITS = 1
    SYMBOLS = 2
    STRINGS = 3
    RELOCATIONS_WITH_ADDEND = 4
    NOBITS = 8
    RELOCATIONS = 9
    CUDA_INFO = 0x7000_0000
    CUDA_GLOBAL = 0x7000_0007
    CUDA_LOCAL = 0x7000_0009
    CUDA_SHARED = 0x7000_000A


_EMPTY_KINDS = frozenset(
    {SectionKind.NOBITS, SectionKind.CUDA_GLOBAL, SectionKind.CUDA_LOCAL, SectionKind.CUDA_SHARED}
)


class SectionFlag(IntFlag):
    """Properties of a section in a running program, ``sh_flags`` in the file."""

    WRITE = 1
    ALLOCATE = 2
    EXECUTE = 4


class Binding(IntEnum):
    """The visibility of a symbol."""

    LOCAL = 0
    GLOBAL = 1
    WEAK = 2


class SymbolKind(IntEnum):
    """The kind of a symbol. CUDA_OBJECT is a variable of a relocatable file."""

    NONE = 0
    OBJECT = 1
    FUNCTION = 2
    SECTION = 3
    TEXTURE = 10
    SAMPLER = 11
    SURFACE = 12
    CUDA_OBJECT = 13


class SectionRole(Enum):
    """The purpose of a section, according to its name."""

    CODE = "text"
    CONSTANT = "constant"
    SHARED = "shared"
    GLOBAL_INIT = "init"
    GLOBAL = "zeroed"
    INFO = "info"
    OTHER = "other"


@dataclass(frozen=True)
class Relocation:
    """A relocation: completes the place ``offset`` bytes into its section. ``symbol`` is an index
    into the file's symbols.

    ``addend`` is None if the place itself contains it. Kinds are in
    :mod:`sim.toolchain.cubin.relocation`.
    """

    offset: int
    kind: int
    symbol: int
    addend: int | None = None


@dataclass(frozen=True)
class Section:
    """A section. ``content`` is empty if the file has no bytes for it; ``size`` is its size in
    memory in any case.

    ``registers`` and ``barriers`` are the requirements of code.
    """

    name: str
    kind: int
    flags: int
    content: bytes
    size: int
    alignment: int
    entry_size: int = 0
    registers: int = 0
    barriers: int = 0
    relocations: tuple[Relocation, ...] = ()

    REGISTERS_AT = 24
    """The position of the register count in sh_info of code, above the index of its symbol."""
    REGISTERS_MASK = 0xFF
    BARRIERS_AT, BARRIERS_MASK = 20, 0x1F
    """The position of the barrier count in sh_flags of code."""

    @classmethod
    def split_flags(cls, flags: int) -> tuple[int, int]:
        """Returns sh_flags of code without the barrier count, and the barrier count."""
        return flags & ~(
            cls.BARRIERS_MASK << cls.BARRIERS_AT
        ), flags >> cls.BARRIERS_AT & cls.BARRIERS_MASK

    @property
    def has_content(self) -> bool:
        """Whether the file holds the section's bytes; otherwise they are zeros."""
        return self.kind not in _EMPTY_KINDS

    @property
    def role(self) -> SectionRole:
        """The purpose of the section."""
        match = _NAME.fullmatch(self.name)
        return (
            SectionRole.OTHER
            if match is None
            else next(role for role in SectionRole if match[role.value])
        )

    @property
    def owner(self) -> str | None:
        """The function that the section belongs to, or None for a section of the whole file."""
        match = _NAME.fullmatch(self.name)
        return match and (
            match["code"] or match["constant_of"] or match["shared_of"] or match["info_of"]
        )

    @property
    def bounds_symbols(self) -> bool:
        """Whether its symbols lie within its size. The debug section of shared arrays without a
        size is itself empty: its symbols are offsets in the shared memory of every kernel.
        """
        return self.name != DEBUG_SHARED

    @property
    def bank(self) -> int:
        """The number of the constant bank in the section.

        Raises:
            ValueError: The section is no constant bank.
        """
        match = _NAME.fullmatch(self.name)
        if match is None or match["bank"] is None:
            raise ValueError(f"{self.name} is no constant bank")
        return int(match["bank"])


@dataclass(frozen=True)
class Symbol:
    """A name for ``size`` bytes at offset ``value`` of ``section``, which is None for a section
    outside the file.

    ``other`` is st_other, NVIDIA's flags: ENTRY for kernels, SHARED and others in relocatable
    files. The ``value`` of a shared variable in a relocatable file is its alignment, not its
    offset.
    """

    name: str
    kind: int
    binding: int
    section: str | None
    value: int = 0
    size: int = 0
    other: int = 0

    ENTRY = 0x10
    SHARED = 0x40

    @property
    def is_kernel(self) -> bool:
        """Whether it is a kernel."""
        return (
            self.kind == SymbolKind.FUNCTION
            and bool(self.other & self.ENTRY)
            and self.section is not None
        )

    @property
    def is_texture(self) -> bool:
        """Whether it is a texture, sampler or surface reference, to which a driver binds an
        image.
        """
        return self.kind in (SymbolKind.TEXTURE, SymbolKind.SAMPLER, SymbolKind.SURFACE)

    @property
    def is_shared(self) -> bool:
        """Whether it is a variable in shared memory whose offset is not yet assigned."""
        return self.kind == SymbolKind.CUDA_OBJECT and bool(self.other & self.SHARED)


@dataclass(frozen=True)
class ObjectFile:
    """A whole file. ``symbols[0]`` is the null symbol. Sections are in the file's order, without
    those of symbols, strings and relocations.
    """

    name: str
    sections: Mapping[str, Section]
    symbols: tuple[Symbol, ...]
    relocatable: bool = False
    by_role: Mapping[SectionRole, tuple[Section, ...]] = field(init=False)
    """The sections by purpose."""

    def __post_init__(self) -> None:
        by_role: dict[SectionRole, tuple[Section, ...]] = dict.fromkeys(SectionRole, ())
        for section in self.sections.values():
            by_role[section.role] = (*by_role[section.role], section)
        object.__setattr__(self, "by_role", by_role)

    def is_constant(self, symbol: Symbol) -> bool:
        """Whether a symbol is a constant in the bank common to all kernels, or that section."""
        section = self.sections.get(symbol.section or "")
        return section is not None and section.name == constant_name(SHARED_BANK)

    def functions(self, section: str) -> Iterator[tuple[int, Symbol]]:
        """Yields index and symbol of every function in a section."""
        for index, symbol in enumerate(self.symbols):
            if symbol.kind == SymbolKind.FUNCTION and symbol.section == section:
                yield index, symbol


def text_name(function: str) -> str:
    """Returns the name of a function's code section."""
    return f"{_TEXT}.{function}"


def info_name(function: str) -> str:
    """Returns the name of the section of records about one function."""
    return f"{INFO}.{function}"


def shared_name(kernel: str) -> str:
    """Returns the name of the section for a kernel's shared memory."""
    return f"{_SHARED}.{kernel}"


def constant_name(bank: int, kernel: str | None = None) -> str:
    """Returns the section name of a constant bank: a kernel's own, or one common to all kernels."""
    return f"{_CONSTANT}{bank}" + ("" if kernel is None else f".{kernel}")
