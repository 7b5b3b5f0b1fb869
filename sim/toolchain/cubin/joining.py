"""Merges several relocatable files into one, as a linker does: local names belong to their file.

Sections of functions are kept; those of a local function get another name if another file also has
its name. Variables and constants of all files are concatenated. Of several weak definitions the
first is kept, or a global one. Sections for tools only, such as debug tables, are dropped.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sim.support.alignment import round_up
from sim.toolchain.module import ProgramError

from .nvinfo import Attribute, Record, decode, encode
from .object_file import (
    INFO,
    Binding,
    ObjectFile,
    Relocation,
    Section,
    SectionRole,
    Symbol,
    SymbolKind,
)

__all__ = ["join_objects"]

_OF_SYMBOLS = (Attribute.FRAME_SIZE, Attribute.REGCOUNT)
"""Records that begin with a symbol index. Others of this kind are dropped: the stack sizes of
kernels were computed without the other files.
"""


def join_objects(files: Sequence[ObjectFile], name: str) -> ObjectFile:
    """Merges files.

    Raises:
        ProgramError: A file is not relocatable, or a name has two definitions.
    """
    for file in files:
        if not file.relocatable:
            raise ProgramError(
                f"{file.name}: it is linked already: only relocatable files are linked (nvcc -rdc=true, "
                "ptxas -c)"
            )
    return _Joined(files, name).joined()


def _is_defined(symbol: Symbol) -> bool:
    return symbol.section is not None


@dataclass
class _InputFile:
    """One of the files.

    Attributes:
        file: The file.
        suffix: The suffix for new names.
        names: New names of its functions and variables.
        dropped: Functions whose definition in another file is kept.
        bases: Offsets of its sections in the merged sections.
        numbers: The indices of its symbols in the merged file.
    """

    file: ObjectFile
    suffix: str
    names: dict[str, str] = field(default_factory=dict)
    dropped: set[str] = field(default_factory=set)
    bases: dict[str, int] = field(default_factory=dict)
    numbers: list[int] = field(default_factory=list)

    def section_name(self, section: Section) -> str:
        """Returns the name of a section in the merged file."""
        owner = section.owner
        if owner not in self.names or owner is None:
            return section.name
        return f"{section.name.removesuffix(owner)}{self.names[owner]}"


class _Joined:
    """Builds the merged file."""

    def __init__(self, files: Sequence[ObjectFile], name: str) -> None:
        self.name = name
        self.parts = [_InputFile(file, f"${number}") for number, file in enumerate(files, 1)]
        self.kept: dict[str, tuple[int, Symbol]] = {}
        self.symbols: list[Symbol] = [Symbol("", 0, 0, None)]
        self.sections: dict[str, Section] = {}

    def joined(self) -> ObjectFile:
        """Returns the merged file."""
        self._choose_definitions()
        self._name_locals()
        for part in self.parts:
            self._add_sections(part)
        for part in self.parts:
            self._add_symbols(part)
        for part in self.parts:
            self._add_relocations(part)
        self._add_records()
        return ObjectFile(self.name, self.sections, tuple(self.symbols), True)

    def _choose_definitions(self) -> None:
        """Chooses the symbol that is kept for each visible name: a global definition, else a weak
        one, else a declaration.
        """
        for number, part in enumerate(self.parts):
            for symbol in part.file.symbols:
                if symbol.binding == Binding.LOCAL or not symbol.name:
                    continue
                first, before = self.kept.get(symbol.name, (number, symbol))
                if first != number and _rank(symbol) == _rank(before) == _STRONG:
                    raise ProgramError(
                        f"{symbol.name} is defined in {self.parts[first].file.name} and in "
                        f"{part.file.name}"
                    )
                if symbol is before or _rank(symbol) > _rank(before):
                    self.kept[symbol.name] = number, symbol
        for number, part in enumerate(self.parts):
            part.dropped = {
                symbol.name
                for symbol in part.file.symbols
                if symbol.kind == SymbolKind.FUNCTION
                and symbol.binding != Binding.LOCAL
                and _is_defined(symbol)
                and self.kept[symbol.name][0] != number
            }

    def _name_locals(self) -> None:
        """Gives new names to local functions and variables whose name another file has, too."""
        taken = set(self.kept)
        for part in self.parts:
            for symbol in part.file.symbols:
                if (
                    symbol.binding == Binding.LOCAL
                    and symbol.name
                    and symbol.kind != SymbolKind.SECTION
                ):
                    if symbol.name in taken:
                        part.names[symbol.name] = f"{symbol.name}{part.suffix}"
                    taken.add(symbol.name)

    def _add_sections(self, part: _InputFile) -> None:
        for section in part.file.sections.values():
            if (
                section.role is SectionRole.OTHER
                or section.owner in part.dropped
                or section.name == INFO
            ):
                continue
            name = part.section_name(section)
            before = self.sections.get(name)
            if before is None:
                part.bases[section.name] = 0
                self.sections[name] = replace(section, name=name, relocations=())
                continue
            if section.owner is not None:
                raise ProgramError(f"{self.name}: two files have a section {name}")
            base = round_up(before.size, section.alignment)
            part.bases[section.name] = base
            content = before.content
            if section.has_content:
                content = content.ljust(base, b"\0") + section.content
            self.sections[name] = replace(
                before,
                content=content,
                size=base + section.size,
                alignment=max(before.alignment, section.alignment),
            )

    def _add_symbols(self, part: _InputFile) -> None:
        for symbol in part.file.symbols:
            if symbol.name in self.kept and symbol.binding != Binding.LOCAL:
                part.numbers.append(self._common_symbol(symbol.name))
            elif symbol.section is None or symbol.section not in part.bases:
                part.numbers.append(0)
            else:
                part.numbers.append(self._added(self._placed(part, symbol)))

    def _added(self, symbol: Symbol) -> int:
        self.symbols.append(symbol)
        return len(self.symbols) - 1

    def _common_symbol(self, name: str) -> int:
        """Returns the index of a visible symbol; adds it if it is new."""
        found = next(
            (
                at
                for at, one in enumerate(self.symbols)
                if one.name == name and one.binding != Binding.LOCAL
            ),
            None,
        )
        if found is not None:
            return found
        number, symbol = self.kept[name]
        return self._added(self._placed(self.parts[number], symbol))

    def _placed(self, part: _InputFile, symbol: Symbol) -> Symbol:
        """Returns a symbol of the merged file. A section symbol becomes a variable if its section
        is not the first of that name.
        """
        if symbol.section is None:
            return symbol
        section = part.file.sections[symbol.section]
        base, home = part.bases[section.name], part.section_name(section)
        if symbol.kind == SymbolKind.SECTION:
            if base:
                return Symbol(
                    f"{section.name}{part.suffix}", SymbolKind.OBJECT, Binding.LOCAL, home, base
                )
            return replace(symbol, name=home, section=home)
        value = symbol.value if symbol.is_shared else symbol.value + base
        return replace(
            symbol, name=part.names.get(symbol.name, symbol.name), section=home, value=value
        )

    def _add_relocations(self, part: _InputFile) -> None:
        for section in part.file.sections.values():
            if section.name not in part.bases:
                continue
            name, base = part.section_name(section), part.bases[section.name]
            moved = tuple(
                Relocation(one.offset + base, one.kind, part.numbers[one.symbol], one.addend)
                for one in section.relocations
            )
            self.sections[name] = replace(
                self.sections[name], relocations=(*self.sections[name].relocations, *moved)
            )

    def _add_records(self) -> None:
        """Adds the records about functions, with symbol indices of the merged file."""
        records: list[Record] = []
        first = None
        for part in self.parts:
            section = part.file.sections.get(INFO)
            if section is None:
                continue
            first = first or section
            try:
                records += [
                    Record.sized(
                        record.attribute, (part.numbers[record.words[0]], *record.words[1:])
                    )
                    for record in decode(section.content)
                    if record.attribute in _OF_SYMBOLS and part.numbers[record.words[0]]
                ]
            except (ValueError, IndexError) as error:
                raise ProgramError(f"{part.file.name}: {INFO}: {error}") from error
        if first is not None:
            content = encode(records)
            self.sections[INFO] = replace(first, content=content, size=len(content), relocations=())


_STRONG = 2


def _rank(symbol: Symbol) -> int:
    """Returns the rank of a symbol: of several with one name, the highest is kept."""
    return 0 if not _is_defined(symbol) else _STRONG if symbol.binding == Binding.GLOBAL else 1
