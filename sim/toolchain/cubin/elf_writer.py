"""Writes a complete :class:`~sim.toolchain.cubin.object_file.ObjectFile` as an ELF file for
NVIDIA's tools.

The order is that of NVIDIA's files: string and symbol tables, records, relocations, constants,
code, variables, section headers, program headers.
"""

import struct
from dataclasses import dataclass, field

from .elf_reader import ARCHITECTURE, MAGIC, RELOCATION_ENTRY, SYMBOL_ENTRY
from .object_file import (
    TOOLKIT,
    Binding,
    ObjectFile,
    Relocation,
    Section,
    SectionFlag,
    SectionKind,
    SectionRole,
    Symbol,
    text_name,
)

__all__ = ["write_object"]

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION_HEADER = struct.Struct("<IIQQQQIIQQ")
_PROGRAM_HEADER = struct.Struct("<IIQQQQQQ")
_WORD_64, _LITTLE_ENDIAN, _VERSION, _OS_CUDA, _ABI_CUDA = 2, 1, 1, 0x33, 7
_EXECUTABLE = 2
_MACHINE_CUDA = 190
_TEXMODE_AND_64BIT = 0x500
_VIRTUAL_ARCHITECTURE_AT = 16
_LOAD, _PROGRAM_HEADERS = 1, 6
_READ_EXECUTE, _READ_WRITE = 5, 6
_TABLE_ALIGNMENT = 8
_TABLES = (".shstrtab", ".strtab", ".symtab")
_SYMBOLS_INDEX = 3


class _Strings:
    """A string table under construction."""

    def __init__(self) -> None:
        self.content = bytearray(1)
        self._places = {"": 0}

    def place(self, text: str) -> int:
        """Returns the offset of a text in the table; adds it if it is new."""
        if text not in self._places:
            self._places[text] = len(self.content)
            self.content += text.encode() + b"\0"
        return self._places[text]


@dataclass
class _Entry:
    """A section to be written."""

    name: str
    kind: int
    flags: int
    content: bytes
    size: int
    link: int = 0
    info: int = 0
    alignment: int = 1
    entry_size: int = 0
    offset: int = field(init=False)


def _string_entry(name: str, strings: _Strings) -> _Entry:
    """Returns the section of a string table."""
    return _Entry(name, SectionKind.STRINGS, 0, bytes(strings.content), len(strings.content))


def write_object(file: ObjectFile) -> bytes:
    """Returns the bytes of an ELF file.

    Raises:
        ValueError: The file is relocatable: its call graph contains string table offsets.
    """
    if file.relocatable:
        raise ValueError(f"{file.name} is relocatable")
    return _ElfWriter(file).file_content()


class _ElfWriter:
    """Writes one object file."""

    def __init__(self, file: ObjectFile) -> None:
        self.file = file
        self.sections = sorted(file.sections.values(), key=_group)
        resident = [section for section in self.sections if section.flags & SectionFlag.ALLOCATE]
        other = [section for section in self.sections if not section.flags & SectionFlag.ALLOCATE]
        kinds = [
            (section, kind)
            for section in self.sections
            for kind in dict.fromkeys(map(_kind, section.relocations))
        ]
        names = [
            *_TABLES,
            *(section.name for section in other),
            *(_relocation_name(section, kind) for section, kind in kinds),
            *(section.name for section in resident),
        ]
        self.indices = {name: index for index, name in enumerate(names, start=1)}
        self.names = _Strings()
        for name in names:
            self.names.place(name)
        self.entries = [
            *self._tables(),
            *(self._entry(section) for section in other),
            *(self._relocation_entry(section, kind) for section, kind in kinds),
            *(self._entry(section) for section in resident),
        ]

    def _tables(self) -> list[_Entry]:
        """Returns the string and symbol tables."""
        strings = _Strings()
        symbols = b"".join(self._symbol(symbol, strings) for symbol in self.file.symbols)
        first_global = next(
            (
                index
                for index, symbol in enumerate(self.file.symbols)
                if symbol.binding == Binding.GLOBAL
            ),
            len(self.file.symbols),
        )
        return [
            _string_entry(_TABLES[0], self.names),
            _string_entry(_TABLES[1], strings),
            _Entry(
                _TABLES[2],
                SectionKind.SYMBOLS,
                0,
                symbols,
                len(symbols),
                link=2,
                info=first_global,
                alignment=_TABLE_ALIGNMENT,
                entry_size=SYMBOL_ENTRY.size,
            ),
        ]

    def _symbol(self, symbol: Symbol, strings: _Strings) -> bytes:
        section = self.indices[symbol.section] if symbol.section is not None else 0
        return SYMBOL_ENTRY.pack(
            strings.place(symbol.name),
            symbol.kind | symbol.binding << 4,
            symbol.other,
            section,
            symbol.value,
            symbol.size,
        )

    def _entry(self, section: Section) -> _Entry:
        entry = _Entry(
            section.name,
            section.kind,
            section.flags,
            section.content,
            section.size,
            alignment=section.alignment,
            entry_size=section.entry_size,
        )
        if section.role is SectionRole.CODE:
            symbol = next(
                (
                    index
                    for index, symbol in self.file.functions(section.name)
                    if symbol.name == section.owner
                ),
                0,
            )
            entry.flags |= section.barriers << Section.BARRIERS_AT
            entry.info = symbol | section.registers << Section.REGISTERS_AT
            entry.link = _SYMBOLS_INDEX
        elif section.owner is not None:
            entry.info = self.indices.get(text_name(section.owner), 0)
        if section.role is SectionRole.INFO:
            entry.link = _SYMBOLS_INDEX
        return entry

    def _relocation_entry(self, section: Section, kind: SectionKind) -> _Entry:
        """Returns the section for a section's relocations, with or without addends."""
        layout = RELOCATION_ENTRY[kind]
        content = b"".join(
            layout.pack(
                relocation.offset,
                relocation.symbol << 32 | relocation.kind,
                *(() if relocation.addend is None else (relocation.addend,)),
            )
            for relocation in section.relocations
            if _kind(relocation) is kind
        )
        return _Entry(
            _relocation_name(section, kind),
            kind,
            0,
            content,
            len(content),
            _SYMBOLS_INDEX,
            self.indices[section.name],
            _TABLE_ALIGNMENT,
            layout.size,
        )

    def file_content(self) -> bytes:
        """Returns the bytes of the file."""
        content = bytearray(_HEADER.size)
        for entry in self.entries:
            _pad(content, entry.alignment)
            entry.offset = len(content)
            content += entry.content
        _pad(content, _TABLE_ALIGNMENT)
        section_headers = len(content)
        content += bytes(_SECTION_HEADER.size)
        for entry in self.entries:
            content += _SECTION_HEADER.pack(
                self.names.place(entry.name),
                entry.kind,
                entry.flags,
                0,
                entry.offset,
                entry.size,
                entry.link,
                entry.info,
                entry.alignment,
                entry.entry_size,
            )
        program_headers = len(content)
        segments = self._segments(program_headers)
        for kind, flags, offset, size, memory in segments:
            content += _PROGRAM_HEADER.pack(
                kind, flags, offset, 0, 0, size, memory, _TABLE_ALIGNMENT
            )
        content[: _HEADER.size] = self._header(section_headers, program_headers, len(segments))
        return bytes(content)

    def _segments(self, at: int) -> list[tuple[int, int, int, int, int]]:
        """Returns the program headers for a table at offset ``at``: type, flags, offset, size in
        the file and size in memory of each.
        """
        found = []
        for flags, rights in ((0, _READ_EXECUTE), (SectionFlag.WRITE, _READ_WRITE)):
            entries = [
                entry
                for entry in self.entries
                if entry.flags & SectionFlag.ALLOCATE and entry.flags & SectionFlag.WRITE == flags
            ]
            if entries:
                start, end = (
                    entries[0].offset,
                    max(entry.offset + len(entry.content) for entry in entries),
                )
                empty = sum(entry.size - len(entry.content) for entry in entries)
                found.append((_LOAD, rights, start, end - start, end - start + empty))
        size = (len(found) + 2) * _PROGRAM_HEADER.size
        itself = (_READ_EXECUTE, at, size, size)
        return [(_PROGRAM_HEADERS, *itself), *found, (_LOAD, *itself)]

    def _header(self, section_headers: int, program_headers: int, segments: int) -> bytes:
        ident = MAGIC + bytes((_WORD_64, _LITTLE_ENDIAN, _VERSION, _OS_CUDA, _ABI_CUDA))
        return _HEADER.pack(
            ident,
            _EXECUTABLE,
            _MACHINE_CUDA,
            TOOLKIT,
            0,
            program_headers,
            section_headers,
            ARCHITECTURE | _TEXMODE_AND_64BIT | ARCHITECTURE << _VIRTUAL_ARCHITECTURE_AT,
            _HEADER.size,
            _PROGRAM_HEADER.size,
            segments,
            _SECTION_HEADER.size,
            len(self.entries) + 1,
            1,
        )


def _group(section: Section) -> tuple[bool, bool, bool]:
    """Returns the sort key for the order in the file: not loaded, read-only, writable, without
    content.
    """
    is_loaded = bool(section.flags & SectionFlag.ALLOCATE)
    is_written = is_loaded and bool(section.flags & SectionFlag.WRITE)
    return is_loaded, is_written, is_written and not section.has_content


def _kind(relocation: Relocation) -> SectionKind:
    """Returns the kind of section that contains a relocation."""
    return (
        SectionKind.RELOCATIONS
        if relocation.addend is None
        else SectionKind.RELOCATIONS_WITH_ADDEND
    )


def _relocation_name(section: Section, kind: SectionKind) -> str:
    return (".rela" if kind is SectionKind.RELOCATIONS_WITH_ADDEND else ".rel") + section.name


def _pad(content: bytearray, alignment: int) -> None:
    content += bytes(-len(content) % alignment)
