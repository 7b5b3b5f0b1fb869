"""Reads NVIDIA's ELF files as :class:`~sim.toolchain.cubin.object_file.ObjectFile`."""

import io
import struct
from dataclasses import replace

from elftools.common.exceptions import ELFError
from elftools.construct import ConstructError
from elftools.elf.elffile import ELFFile
from elftools.elf.enums import ENUM_SH_TYPE_BASE
from elftools.elf.sections import Section as ElfSection
from elftools.elf.sections import SymbolTableSection

from sim.toolchain.module import ProgramError

from .object_file import (
    ALIGNMENTS,
    Binding,
    ObjectFile,
    Relocation,
    Section,
    SectionKind,
    SectionRole,
    Symbol,
)
from .relocation import place_bytes

__all__ = ["ARCHITECTURE", "MAGIC", "RELOCATION_ENTRY", "SYMBOL_ENTRY", "read_object"]

MAGIC = b"\x7fELF"
ARCHITECTURE = 50
"""The SM version of supported files."""
_ABI = 7
"""The version of the ELF ABI that sm_50 has, up to CUDA 12; CUDA 13 writes a later one."""
_EMPTY_LIMIT = 1 << 30
_BINDINGS = frozenset(Binding)
SYMBOL_ENTRY = struct.Struct("<IBBHQQ")
"""A symbol: name, kind and binding, st_other, section, value, size."""
RELOCATION_ENTRY = {
    SectionKind.RELOCATIONS: struct.Struct("<QQ"),
    SectionKind.RELOCATIONS_WITH_ADDEND: struct.Struct("<QQq"),
}
"""A relocation: offset, symbol and kind, addend."""
_UNDEFINED = 0
_RESERVED_INDICES = 0xFF00
_OF_THE_FORMAT = (SectionKind.SYMBOLS, SectionKind.STRINGS, *RELOCATION_ENTRY)


def read_object(content: bytes, name: str) -> ObjectFile:
    """Returns the object file in ``content``. ``name`` appears in messages.

    Raises:
        ProgramError: The content is damaged or not supported.
    """
    if not content.startswith(MAGIC):
        raise ProgramError(f"{name}: not an ELF file")
    try:
        elf = ELFFile(io.BytesIO(content))
        _check_target(elf, name)
        end = elf["e_shoff"] + elf["e_shnum"] * elf["e_shentsize"]
        if end > len(content):
            raise ProgramError(
                f"{name}: truncated: the section table ends at {end:#x}, the file at {len(content):#x}"
            )
        return _Reader(elf, content, name).read()
    except (ELFError, ConstructError, struct.error, UnicodeDecodeError, OverflowError) as error:
        raise ProgramError(f"{name}: not a sound ELF file: {error}") from error


def _check_target(elf: ELFFile, name: str) -> None:
    """Checks that a file is a 64-bit little-endian CUDA file for this architecture. Raises
    ProgramError otherwise.
    """
    if not elf.little_endian:
        raise ProgramError(f"{name}: an ELF file of another kind, not a little-endian one")
    machine = elf["e_machine"]
    if machine != "EM_CUDA":
        raise ProgramError(f"{name}: for machine {machine}, not EM_CUDA")
    if elf.elfclass != 64:
        raise ProgramError(f"{name}: for 32-bit addresses (-m32); there are only 64-bit ones")
    abi = elf["e_ident"]["EI_ABIVERSION"]
    architecture = _architecture(elf["e_flags"], abi)
    if architecture != ARCHITECTURE:
        raise ProgramError(
            f"{name}: for sm_{architecture}, not sm_{ARCHITECTURE}: "
            f"compile with -arch=sm_{ARCHITECTURE}"
        )
    if abi > _ABI:
        raise ProgramError(f"{name}: of ELF ABI version {abi}, files for sm_50 have version {_ABI}")
    if elf["e_type"] not in ("ET_EXEC", "ET_REL"):
        raise ProgramError(f"{name}: of type {elf['e_type']}, neither ET_EXEC nor ET_REL")


def _architecture(flags: int, abi: int) -> int:
    """The SM version in ``e_flags``: the lowest byte; since ABI version 8 the byte above it."""
    return (flags if abi <= _ABI else flags >> 8) & 0xFF


def _kind(section: ElfSection) -> int:
    """Returns the type number of a section; the ELF library returns names for common types."""
    kind = section["sh_type"]
    return kind if isinstance(kind, int) else ENUM_SH_TYPE_BASE[kind]


class _Reader:
    """Reads the sections of one file."""

    def __init__(self, elf: ELFFile, content: bytes, name: str) -> None:
        self.elf = elf
        self.content = content
        self.name = name
        self.raw = list(elf.iter_sections())

    def read(self) -> ObjectFile:
        """Returns the object file."""
        sections: dict[str, Section] = {}
        for number, raw in enumerate(self.raw):
            if number and _kind(raw) not in _OF_THE_FORMAT:
                self._check_name(raw.name)
                if raw.name in sections:
                    raise ProgramError(f"{self.name}: two sections are called {raw.name}")
                sections[raw.name] = self._section(raw)
        symbols = self._symbols()
        for symbol in symbols:
            home = sections.get(symbol.section or "")
            bounded = home is not None and home.bounds_symbols and not symbol.is_shared
            if home is not None and bounded and symbol.value + symbol.size > home.size:
                raise ProgramError(
                    f"{self.name}: {symbol.name} ends at {symbol.value + symbol.size:#x}, "
                    f"{home.name} at {home.size:#x}"
                )
        for name, relocations in self._relocations(len(symbols)).items():
            if name in sections:
                sections[name] = replace(sections[name], relocations=tuple(relocations))
        return ObjectFile(self.name, sections, symbols, self.elf["e_type"] == "ET_REL")

    def _bytes(self, raw: ElfSection) -> bytes:
        """Returns the bytes of a section in the file."""
        start, size = raw["sh_offset"], raw["sh_size"]
        if start + size > len(self.content):
            raise ProgramError(
                f"{self.name}: truncated: section {raw.name} ends at {start + size:#x}, "
                f"the file at {len(self.content):#x}"
            )
        return self.content[start : start + size]

    def _check_name(self, name: str) -> str:
        """Checks that a name fits in one line of text. Raises ProgramError otherwise."""
        if not name.isprintable():
            raise ProgramError(
                f"{self.name}: the name {name!r} holds characters that can't be printed"
            )
        return name

    def _section(self, raw: ElfSection) -> Section:
        section = Section(
            raw.name,
            _kind(raw),
            raw["sh_flags"],
            b"",
            raw["sh_size"],
            max(raw["sh_addralign"], 1),
            raw["sh_entsize"],
        )
        if section.has_content:
            section = replace(section, content=self._bytes(raw))
        elif section.size > _EMPTY_LIMIT:
            raise ProgramError(
                f"{self.name}: section {raw.name} has {section.size:#x} bytes, which is too many"
            )
        if section.alignment not in ALIGNMENTS:
            raise ProgramError(
                f"{self.name}: section {raw.name} is aligned to {section.alignment:#x}, not to a power "
                f"of two up to {ALIGNMENTS[-1]:#x}"
            )
        if section.role is SectionRole.CODE:
            flags, barriers = Section.split_flags(section.flags)
            section = replace(
                section,
                flags=flags,
                barriers=barriers,
                registers=raw["sh_info"] >> Section.REGISTERS_AT,
            )
        return section

    def _name_at(self, index: int) -> str | None:
        """Returns the name of the section with an index, or None for the undefined and reserved
        indices.
        """
        if index == _UNDEFINED or index >= _RESERVED_INDICES:
            return None
        if index >= len(self.raw):
            raise ProgramError(
                f"{self.name}: a symbol is in section {index}, there are {len(self.raw)}"
            )
        return self.raw[index].name

    def _symbols(self) -> tuple[Symbol, ...]:
        """Returns all symbols. They are decoded here because the ELF library drops NVIDIA's bits of
        st_other.
        """
        tables = [raw for raw in self.raw if _kind(raw) == SectionKind.SYMBOLS]
        if not tables:
            return ()
        table = tables[0]
        assert isinstance(table, SymbolTableSection)
        content = self._bytes(table)
        return tuple(
            self._symbol(
                self._check_name(table.stringtable.get_string(at)),
                info,
                self._name_at(section),
                value,
                size,
                other,
            )
            for at, info, other, section, value, size in SYMBOL_ENTRY.iter_unpack(content)
        )

    def _symbol(
        self, name: str, info: int, section: str | None, value: int, size: int, other: int
    ) -> Symbol:
        """Returns a symbol after a check of its binding."""
        kind, binding = info & 15, info >> 4
        if binding not in _BINDINGS:
            raise ProgramError(
                f"{self.name}: symbol {name} has binding {binding}, which there is not"
            )
        return Symbol(name, kind, binding, section, value, size, other)

    def _relocations(self, symbols: int) -> dict[str, list[Relocation]]:
        """Returns the relocations by the name of the section that they complete."""
        found: dict[str, list[Relocation]] = {}
        for raw in self.raw:
            entry = RELOCATION_ENTRY.get(_kind(raw))  # type: ignore[call-overload]
            if entry is None:
                continue
            if raw["sh_info"] >= len(self.raw):
                raise ProgramError(
                    f"{self.name}: {raw.name} completes section {raw['sh_info']}, "
                    f"there are {len(self.raw)}"
                )
            target = self.raw[raw["sh_info"]]
            for offset, info, *addend in entry.iter_unpack(self._bytes(raw)):
                relocation = Relocation(
                    offset, info & 0xFFFF_FFFF, info >> 32, addend[0] if addend else None
                )
                if relocation.symbol >= symbols:
                    raise ProgramError(
                        f"{self.name}: {raw.name} names symbol {relocation.symbol}, "
                        f"there are {symbols}"
                    )
                if offset + place_bytes(relocation.kind) > target["sh_size"]:
                    raise ProgramError(
                        f"{self.name}: {raw.name} completes {offset:#x}, "
                        f"{target.name} ends at {target['sh_size']:#x}"
                    )
                found.setdefault(target.name, []).append(relocation)
        return found
