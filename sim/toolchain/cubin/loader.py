"""Loads cubins: NVIDIA's binary programs for sm_50, complete ones and relocatable ones (``ptxas
-c``).

The sections of a file become the following parts of a :class:`~sim.toolchain.module.Module`:

=============================  =====================================================================
``.text.K``                    code; sections are concatenated at multiples of 64 bytes
``.nv.constantB.K``            bank B of kernel K; of bank 0, which a launch fills, the size only
``.nv.constantB``              bank B of all kernels
``.nv.global.init`` ``.nv.global``   data, with the zeroed variables last
``.nv.shared.K``               size of kernel K's shared memory
``.nv.info`` ``.nv.info.K``    parameters and stack sizes
=============================  =====================================================================

In a complete file every function that a kernel calls is in the kernel's own section, and addresses
within it are relative. A relocatable file is linked first, see :mod:`sim.toolchain.cubin.linking`.
"""

from collections.abc import Mapping
from pathlib import Path

from sim.support.alignment import round_up
from sim.support.reading import why_unreadable
from sim.toolchain.module import (
    EntryParameter,
    EntryPoint,
    LaunchBounds,
    Module,
    Patch,
    PatchKind,
    ProgramError,
    SectionData,
)

from .elf_reader import read_object
from .linking import link
from .nvinfo import UNKNOWN_SIZE, Attribute, KernelParameter, Record, decode
from .object_file import (
    CODE_GRANULE,
    INFO,
    PARAMETER_BASE,
    ObjectFile,
    Relocation,
    Section,
    SectionRole,
    Symbol,
    SymbolKind,
    constant_name,
    info_name,
    shared_name,
    text_name,
)
from .relocation import CLEARED, GENERIC, NO_ADDRESS, PATCHES, REFUSED, held_number, place_bytes

__all__ = ["load", "read_cubin", "records_of"]


def read_cubin(path: str | Path) -> Module:
    """Returns the program in a cubin file.

    Raises:
        ProgramError: The file cannot be read, or is not valid.
    """
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise ProgramError(why_unreadable(path, error)) from error
    return load(read_object(content, str(path)))


def load(file: ObjectFile) -> Module:
    """Returns the program in an object file.

    Raises:
        ProgramError: The file is not valid.
    """
    return _CubinLoader(link(file)).module()


def records_of(file: ObjectFile, name: str) -> Mapping[int, list[Record]]:
    """Returns the records of a section by attribute; none if the section does not exist.

    Raises:
        ProgramError: The records are damaged.
    """
    section = file.sections.get(name)
    found: dict[int, list[Record]] = {}
    try:
        for record in decode(section.content) if section is not None else ():
            found.setdefault(record.attribute, []).append(record)
    except ValueError as error:
        raise ProgramError(f"{file.name}: {name}: {error}") from error
    return found


def _cleared(section: Section) -> bytes:
    """Returns the content of a section with zeros in places that are not used."""
    content = bytearray(section.content)
    for relocation in section.relocations:
        if relocation.kind in CLEARED:
            size = place_bytes(relocation.kind)
            content[relocation.offset : relocation.offset + size] = bytes(size)
    return bytes(content)


class _CubinLoader:
    """Builds a module from one complete file. ``bases`` are the offsets of sections in code or
    data.
    """

    def __init__(self, file: ObjectFile) -> None:
        self.file = file
        self.bases: dict[str, int] = {}
        self.names: set[str] = set()
        self.records: Mapping[int, list[Record]] = {}
        self.named_sections = {
            symbol.section
            for section in file.sections.values()
            for relocation in section.relocations
            if (symbol := file.symbols[relocation.symbol]).kind == SymbolKind.SECTION
        }

    def module(self) -> Module:
        """Returns the whole program."""
        kernels = [symbol for symbol in self.file.symbols if symbol.is_kernel]
        self.records = records_of(self.file, INFO)
        code = self._joined(self.file.by_role[SectionRole.CODE], CODE_GRANULE)
        data = self._joined(
            (*self.file.by_role[SectionRole.GLOBAL_INIT], *self.file.by_role[SectionRole.GLOBAL])
        )
        banks = self.file.by_role[SectionRole.CONSTANT]
        return Module(
            self.file.name,
            code,
            {
                symbol.name: self._kernel(
                    symbol,
                    {
                        section.bank: self._joined((section,))
                        for section in banks
                        if section.owner == symbol.name and section.bank
                    },
                )
                for symbol in kernels
            },
            {section.bank: self._joined((section,)) for section in banks if section.owner is None},
            data,
            tuple(
                range(self.bases[section.name], self.bases[section.name] + section.size)
                for section in self.file.by_role[SectionRole.CODE]
            ),
        )

    def _joined(self, sections: tuple[Section, ...], granule: int = 1) -> SectionData:
        """Concatenates sections, with their symbols and patches."""
        content = b""
        patches: list[Patch] = []
        symbols: dict[str, int] = {}
        for section in sections:
            base = round_up(len(content), max(granule, section.alignment))
            self.bases[section.name] = base
            content = content.ljust(base, b"\0") + (_cleared(section) or bytes(section.size))
            patches += [
                self._patch(section, base, relocation)
                for relocation in section.relocations
                if relocation.kind not in NO_ADDRESS
            ]
            symbols |= self._symbols(section, base)
        patches.sort(key=lambda patch: patch.offset)
        names = {section.name for section in sections}
        sizes = {
            symbol.name: symbol.size
            for symbol in self.file.symbols
            if symbol.section in names and symbol.kind == SymbolKind.OBJECT and symbol.size
        }
        return SectionData(
            content,
            max((granule, *(section.alignment for section in sections))),
            symbols,
            tuple(patches),
            sizes,
        )

    def _symbols(self, section: Section, base: int) -> dict[str, int]:
        """Returns the offsets of the functions and variables in a section, and of the section
        itself if a relocation refers to it.
        """
        found = {
            symbol.name: base + symbol.value
            for symbol in self.file.symbols
            if symbol.section == section.name
            and symbol.kind in (SymbolKind.OBJECT, SymbolKind.FUNCTION)
        }
        if section.name in self.named_sections:
            found[section.name] = base
        if twice := self.names & found.keys():
            raise ProgramError(f"{self.file.name}: two symbols are called {min(twice)}")
        self.names |= found.keys()
        return found

    def _patch(self, section: Section, base: int, relocation: Relocation) -> Patch:
        symbol = self.file.symbols[relocation.symbol]
        where = f"{self.file.name}: {section.name}+{relocation.offset:#x}"
        if symbol.is_texture:
            return Patch(base + relocation.offset, PatchKind.TEXTURE, symbol.name)
        if relocation.kind not in PATCHES:
            raise ProgramError(
                f"{where}: relocation of kind {relocation.kind:#x}: "
                f"{REFUSED.get(relocation.kind, 'unknown, or of no complete file')}"
            )
        filling = PATCHES[relocation.kind]
        try:
            addend = (
                self._held_addend(section, relocation)
                if relocation.addend is None
                else relocation.addend
            )
        except ValueError as error:
            raise ProgramError(f"{where}: relocation to {symbol.name}: {error}") from error
        return Patch(
            base + relocation.offset,
            filling.kind,
            _linked_name(symbol),
            addend,
            relocation.kind in GENERIC and self.file.is_constant(symbol),
            filling.shift,
        )

    @staticmethod
    def _held_addend(section: Section, relocation: Relocation) -> int:
        """Returns the addend that is stored in the place of a relocation."""
        place = section.content[
            relocation.offset : relocation.offset + place_bytes(relocation.kind)
        ]
        word = int.from_bytes(place, "little")
        filling = PATCHES[relocation.kind]
        if filling.kind in (PatchKind.BYTE, PatchKind.WORD, PatchKind.DOUBLE_WORD):
            return word << filling.shift
        number = held_number(word)
        return number << 32 if filling.kind is PatchKind.IMMEDIATE_HIGH else number

    def _kernel(self, symbol: Symbol, constants: Mapping[int, SectionData]) -> EntryPoint:
        """Returns one kernel with the requirements of its code and of functions in other sections
        that it may call.
        """
        code = self._section(text_name(symbol.name))
        if code is None or symbol.section != code.name:
            raise ProgramError(
                f"{self.file.name}: kernel {symbol.name} is not in a section of its own"
            )
        if symbol.value >= code.size:
            raise ProgramError(
                f"{self.file.name}: kernel {symbol.name} begins at {symbol.value:#x}, behind its code"
            )
        kernels = {text_name(other.name) for other in self.file.symbols if other.is_kernel}
        reached = [
            code,
            *(other for other in self.file.by_role[SectionRole.CODE] if other.name not in kernels),
        ]
        shared = self._section(shared_name(symbol.name))
        records = records_of(self.file, info_name(symbol.name))
        bank0 = self._section(constant_name(0, symbol.name))
        return EntryPoint(
            symbol.name,
            self.bases[code.name] + symbol.value,
            max(section.registers for section in reached),
            max(section.barriers for section in reached),
            shared.size if shared is not None else 0,
            self._stack(symbol, reached),
            _crs(records),
            _parameter_base(records, bank0),
            _parameters(records),
            constants,
            self._textures(bank0),
            _bounds(records),
        )

    def _textures(self, bank0: Section | None) -> tuple[str, ...]:
        """Returns the names of the textures for which a driver fills in bank 0 of a kernel."""
        if bank0 is None:
            return ()
        symbols = [self.file.symbols[relocation.symbol] for relocation in bank0.relocations]
        return tuple(dict.fromkeys(symbol.name for symbol in symbols if symbol.is_texture))

    def _section(self, name: str) -> Section | None:
        return self.file.sections.get(name)

    def _stack(self, kernel: Symbol, reached: list[Section]) -> int:
        """Returns the stack size of a thread in bytes: the kernel's total if the file has it, else
        the sum of all functions' frames (ours; recursion needs more, which only the user can know).
        """
        sizes = {
            attribute: {
                record.words[0]: record.words[1] for record in self.records.get(attribute, ())
            }
            for attribute in (Attribute.MIN_STACK_SIZE, Attribute.FRAME_SIZE)
        }
        whole = sizes[Attribute.MIN_STACK_SIZE].get(self.file.symbols.index(kernel), UNKNOWN_SIZE)
        if whole != UNKNOWN_SIZE:
            return whole
        return sum(
            sizes[Attribute.FRAME_SIZE].get(index, 0)
            for section in reached
            for index, _ in self.file.functions(section.name)
        )


def _linked_name(symbol: Symbol) -> str:
    """Returns the name of a symbol in patches: a section symbol has the name of its section."""
    return (symbol.section or "") if symbol.kind == SymbolKind.SECTION else symbol.name


def _crs(records: Mapping[int, list[Record]]) -> int:
    """Returns the bytes of call/return stack of a warp; 0 if the file does not have the size, as
    with recursion.
    """
    sizes = [record.words[0] for record in records.get(Attribute.CRS_STACK_SIZE, ())]
    return sum(size for size in sizes if size != UNKNOWN_SIZE)


def _parameter_base(records: Mapping[int, list[Record]], bank0: Section | None) -> int:
    """Returns the offset of the parameters in bank 0: the end of the bank if the kernel has
    none.
    """
    for record in records.get(Attribute.PARAM_CBANK, ()):
        return record.words[1] & 0xFFFF
    return bank0.size if bank0 is not None else PARAMETER_BASE


def _bounds(records: Mapping[int, list[Record]]) -> LaunchBounds:
    """Returns the launch bounds of a kernel."""

    def dimensions(attribute: Attribute) -> tuple[int, int, int] | None:
        for record in records.get(attribute, ()):
            x, y, z = record.words
            return x, y, z
        return None

    return LaunchBounds(dimensions(Attribute.MAX_THREADS), dimensions(Attribute.REQNTID))


def _parameters(records: Mapping[int, list[Record]]) -> tuple[EntryParameter, ...]:
    """Returns a kernel's parameters in order."""
    infos = sorted(
        (KernelParameter.of(record) for record in records.get(Attribute.KPARAM_INFO, ())),
        key=lambda info: info.ordinal,
    )
    return tuple(EntryParameter(info.ordinal, info.position, info.size) for info in infos)
