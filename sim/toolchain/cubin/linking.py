"""Links a relocatable file: determines the offsets of shared variables and constants.

Functions keep their code sections, and references to code and global variables remain relocations.
In each kernel's shared memory and constant banks, those of functions, which all kernels may call,
are before the kernel's own (ours).
"""

from collections.abc import Iterable
from dataclasses import replace

from sim.support.alignment import round_up
from sim.toolchain.module import SHARED_BANK, ProgramError

from .object_file import (
    CONSTANTS_SIZE,
    ObjectFile,
    Relocation,
    Section,
    SectionKind,
    SectionRole,
    Symbol,
    SymbolKind,
    constant_name,
    shared_name,
)
from .relocation import (
    GENERIC,
    NO_ADDRESS,
    PATCHES,
    REFUSED,
    Filling,
    place_bytes,
    with_constant,
    with_number,
)

__all__ = ["link"]

_KINDS = {
    SectionRole.CONSTANT: SectionKind.PROGBITS,
    SectionRole.GLOBAL_INIT: SectionKind.PROGBITS,
    SectionRole.SHARED: SectionKind.NOBITS,
    SectionRole.GLOBAL: SectionKind.NOBITS,
}


def link(file: ObjectFile) -> ObjectFile:
    """Links a relocatable file; returns a complete file unchanged.

    Raises:
        ProgramError: The file cannot be linked, or has no kernel; linking with other files is not
            supported here.
    """
    if not any(symbol.is_kernel for symbol in file.symbols):
        raise ProgramError(f"{file.name}: has no kernel")
    return _Linker(file).linked() if file.relocatable else file


class _Linker:
    """Links one file.

    Attributes:
        file: The relocatable file.
        kernels: The names of its kernels.
        places: Offsets of shared and constant symbols in their memory, by symbol index.
        sections: The sections of the complete file.
        ends: The end of the variables in each kernel's shared memory. A shared array without a size
            begins there, at a different offset in each kernel.
    """

    def __init__(self, file: ObjectFile) -> None:
        self.file = file
        self.kernels = [symbol.name for symbol in file.symbols if symbol.is_kernel]
        self.places: dict[int, int] = {}
        self.sections: dict[str, Section] = {}
        self.ends: dict[str, int] = {}

    def linked(self) -> ObjectFile:
        """Returns the complete file."""
        self._place_shared()
        self._place_constants()
        for section in self.file.sections.values():
            if section.role not in (SectionRole.SHARED, SectionRole.CONSTANT):
                self.sections[section.name] = replace(
                    section, kind=_KINDS.get(section.role, section.kind)
                )
        for name, section in self.sections.items():
            if section.relocations:
                self.sections[name] = self._completed(section)
        symbols = tuple(
            self._symbol(index, symbol) for index, symbol in enumerate(self.file.symbols)
        )
        return ObjectFile(self.file.name, self.sections, symbols)

    def _place_shared(self) -> None:
        """Assigns the offsets of shared variables: those of functions, then those of each
        kernel.
        """
        common = [
            section
            for section in self.file.by_role[SectionRole.SHARED]
            if section.owner not in self.kernels
        ]
        begin = self._placed_variables(common, 0)
        own = {section.owner: section for section in self.file.by_role[SectionRole.SHARED]}
        for kernel in self.kernels:
            parts = [own[kernel]] if kernel in own else []
            self.ends[kernel] = end = self._placed_variables(parts, begin)
            if end:
                alignment = max(section.alignment for section in (*common, *parts))
                name = shared_name(kernel)
                self.sections[name] = Section(
                    name, SectionKind.NOBITS, (parts or common)[0].flags, b"", end, alignment
                )

    def _placed_variables(self, sections: Iterable[Section], position: int) -> int:
        """Assigns offsets to the variables of some shared sections from ``position``. Returns their
        end.
        """
        names = {section.name for section in sections}
        for index, symbol in enumerate(self.file.symbols):
            if symbol.is_shared and symbol.section in names:
                self.places[index] = position = round_up(position, max(symbol.value, 1))
                position += symbol.size
        return position

    def _place_constants(self) -> None:
        """Assigns the offsets of constants. Banks common to all kernels are unchanged; banks of
        functions come first in every kernel's.
        """
        banks: dict[int, list[Section]] = {}
        for section in self.file.by_role[SectionRole.CONSTANT]:
            if section.owner is None:
                self._keep_bank(section)
            else:
                banks.setdefault(section.bank, []).append(section)
        for bank, sections in banks.items():
            common = [section for section in sections if section.owner not in self.kernels]
            for kernel in self.kernels:
                own = [section for section in sections if section.owner == kernel]
                if common or own:
                    self._join_bank(constant_name(bank, kernel), [*common, *own])

    def _keep_bank(self, section: Section) -> None:
        self.sections[section.name] = replace(section, kind=SectionKind.PROGBITS)
        self._place_constant_symbols(section, 0)

    def _join_bank(self, name: str, parts: list[Section]) -> None:
        content = b""
        relocations: list[Relocation] = []
        for part in parts:
            content = content.ljust(round_up(len(content), part.alignment), b"\0")
            relocations += [
                replace(relocation, offset=relocation.offset + len(content))
                for relocation in part.relocations
            ]
            self._place_constant_symbols(part, len(content))
            content += part.content
        self.sections[name] = replace(
            parts[0],
            name=name,
            kind=SectionKind.PROGBITS,
            content=content,
            size=len(content),
            alignment=max(part.alignment for part in parts),
            relocations=tuple(relocations),
        )

    def _place_constant_symbols(self, section: Section, base: int) -> None:
        for index, symbol in enumerate(self.file.symbols):
            if symbol.section == section.name:
                self.places[index] = base + symbol.value

    def _symbol(self, index: int, symbol: Symbol) -> Symbol:
        """Returns a symbol of the complete file. A shared variable of a function has no section
        there.
        """
        if symbol.kind == SymbolKind.CUDA_OBJECT:
            symbol = replace(
                symbol, kind=SymbolKind.OBJECT, other=0, value=self.places.get(index, symbol.value)
            )
        return symbol if symbol.section in self.sections else replace(symbol, section=None)

    def _completed(self, section: Section) -> Section:
        """Returns a section whose relocations to shared variables and constants are resolved."""
        content = bytearray(section.content)
        kept = []
        for relocation in section.relocations:
            symbol = self.file.symbols[relocation.symbol]
            place = slice(relocation.offset, relocation.offset + place_bytes(relocation.kind))
            try:
                found = self._place(section, relocation, symbol)
                if found is None:
                    kept.append(relocation)
                else:
                    content[place] = _filled(bytes(content[place]), section, relocation, *found)
            except (ValueError, OverflowError) as error:
                raise ProgramError(
                    f"{self.file.name}: {section.name}+{relocation.offset:#x}: relocation to "
                    f"{symbol.name}: {error}"
                ) from error
        return replace(section, content=bytes(content), relocations=tuple(kept))

    def _place(
        self, section: Section, relocation: Relocation, symbol: Symbol
    ) -> tuple[int, int | None] | None:
        """Returns the value of a relocation's symbol, and its constant bank; None if it depends on
        an address.
        """
        addend = relocation.addend or 0
        if symbol.is_texture or relocation.kind in NO_ADDRESS:
            return None
        if symbol.is_shared:
            place = self.places.get(relocation.symbol)
            return (self._open_array(section, symbol) if place is None else place) + addend, None
        if symbol.section is None and symbol.name == CONSTANTS_SIZE:
            bank = self.sections.get(constant_name(SHARED_BANK))
            return (0 if bank is None else bank.size) + addend, None
        if relocation.kind in GENERIC and self.file.is_constant(symbol):
            return None
        home = self.file.sections.get(symbol.section or "")
        if home is not None and home.role is SectionRole.CONSTANT:
            return self.places[relocation.symbol] + addend, home.bank
        if relocation.kind in PATCHES:
            return None
        why = REFUSED.get(relocation.kind, "unknown, or not what such a symbol can have")
        raise ValueError(f"its kind {relocation.kind:#x}: {why}")

    def _open_array(self, section: Section, symbol: Symbol) -> int:
        """Returns the offset of a shared array without a size: the end of the kernel's other
        variables.
        """
        own = self.ends.get(section.owner or "")
        ends = self.ends.values() if own is None else (own,)
        places = {round_up(end, max(symbol.value, 1)) for end in ends}
        if len(places) != 1:
            raise ProgramError(
                f"{self.file.name}: {section.name} uses {symbol.name}, which is not at the same "
                f"place in all kernels"
            )
        return places.pop()


def _filled(
    place: bytes, section: Section, relocation: Relocation, value: int, bank: int | None
) -> bytes:
    """Returns the bytes of a place with a value filled in, and with the constant bank if it is an
    instruction that has one.
    """
    word = int.from_bytes(place, "little")
    if section.role is not SectionRole.CODE:
        filling: Filling | None = PATCHES.get(relocation.kind)
        if filling is None:
            raise ValueError(f"its kind {relocation.kind:#x} is not for data")
        word = value >> filling.shift & (1 << 8 * len(place)) - 1
    elif bank is None:
        word = with_number(word, value)
    else:
        word = with_constant(word, bank, value)
    return word.to_bytes(len(place), "little")
