"""Builders of object files for tests."""

from sim.toolchain.cubin.nvinfo import Record, encode
from sim.toolchain.cubin.object_file import (
    Binding,
    ObjectFile,
    Relocation,
    Section,
    SectionFlag,
    SectionKind,
    Symbol,
    SymbolKind,
)

NULL = Symbol("", 0, 0, None)
_FLAGS = {
    ".text": SectionFlag.ALLOCATE | SectionFlag.EXECUTE,
    ".nv.constant": SectionFlag.ALLOCATE,
    ".nv.shared": SectionFlag.ALLOCATE | SectionFlag.WRITE,
    ".nv.global": SectionFlag.ALLOCATE | SectionFlag.WRITE,
}


def section(
    name: str,
    content: bytes | int,
    alignment: int = 1,
    *relocations: Relocation,
    registers: int = 0,
    barriers: int = 0,
) -> Section:
    """Returns a section with its content, or with a size and no bytes in the file if ``content`` is
    a number.
    """
    flags = next((flags for prefix, flags in _FLAGS.items() if name.startswith(prefix)), 0)
    empty = isinstance(content, int)
    return Section(
        name,
        SectionKind.NOBITS if empty else SectionKind.PROGBITS,
        flags,
        b"" if empty else content,
        content if empty else len(content),
        alignment,
        registers=registers,
        barriers=barriers,
        relocations=relocations,
    )


def records(name: str, *entries: Record) -> Section:
    """Returns a section of ``.nv.info`` records."""
    content = encode(entries)
    return Section(name, SectionKind.CUDA_INFO, 0, content, len(content), 1)


def function(
    name: str, place: int = 0, section: str | None = None, *, entry: bool = False
) -> Symbol:
    """Returns the symbol of a function, by default in a section of its own."""
    home = section or f".text.{name}"
    other = Symbol.ENTRY if entry else 0
    return Symbol(name, SymbolKind.FUNCTION, Binding.GLOBAL, home, place, 8, other)


def variable(
    name: str, section: str | None, place: int = 0, size: int = 4, binding: int = Binding.LOCAL
) -> Symbol:
    return Symbol(name, SymbolKind.OBJECT, binding, section, place, size)


def shared(name: str, section: str, alignment: int, size: int) -> Symbol:
    """Returns the symbol of a shared variable in a relocatable file, whose value is its alignment."""
    kind = SymbolKind.CUDA_OBJECT
    return Symbol(name, kind, Binding.LOCAL, section, alignment, size, Symbol.SHARED)


def of_section(name: str) -> Symbol:
    return Symbol(name, SymbolKind.SECTION, Binding.LOCAL, name)


def object_file(sections: list[Section], *symbols: Symbol, relocatable: bool = False) -> ObjectFile:
    """Returns an object file named x; symbols are numbered from 1."""
    return ObjectFile(
        "x", {section.name: section for section in sections}, (NULL, *symbols), relocatable
    )
