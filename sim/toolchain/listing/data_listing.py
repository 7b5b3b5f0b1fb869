"""Constants and variables of an object file as assembly text."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sim.support.alignment import round_up
from sim.toolchain.assembly.program import BINDINGS, ELEMENT_BYTES, ZERO, natural_alignment
from sim.toolchain.cubin.object_file import (
    Binding,
    ObjectFile,
    Relocation,
    Section,
    SectionRole,
    SymbolKind,
)
from sim.toolchain.cubin.relocation import GENERIC, PATCHES, place_bytes
from sim.toolchain.module import PatchKind, ProgramError

__all__ = ["address_text", "binding_text", "data_lines", "memory_lines", "shared_line"]

_INDENT = " " * 8
_VALUES_A_LINE = 4
_LONG_ZEROS = 32
_SHORTEST_ALIGNMENT = 4
_DIRECTIVES = {size: directive for directive, size in ELEMENT_BYTES.items()}
_BINDINGS = {binding: text for text, binding in BINDINGS.items()}


@dataclass(frozen=True)
class _DataRange:
    """A range of bytes in a section: a variable, or bytes without a name."""

    name: str | None
    binding: int
    place: int
    size: int


def _runs(file: ObjectFile, section: Section) -> Iterator[_DataRange]:
    """Yields the variables of a section in order, and the bytes between them that are more than
    padding.
    """
    end = 0
    variables = sorted(
        (
            (symbol.value, -symbol.size, symbol)
            for symbol in file.symbols
            if symbol.section == section.name and symbol.kind == SymbolKind.OBJECT
        ),
        key=lambda entry: entry[:2],
    )
    for place, _, symbol in variables:
        if place < end:
            continue
        if any(section.content[end:place]):
            yield _DataRange(None, Binding.LOCAL, end, place - end)
        yield _DataRange(symbol.name, symbol.binding, place, symbol.size)
        end = place + symbol.size
    if end < section.size and (section.role is SectionRole.CONSTANT or any(section.content[end:])):
        yield _DataRange(None, Binding.LOCAL, end, section.size - end)


def binding_text(binding: int, usual: int) -> str:
    """Returns the visibility of a symbol after a space, or nothing if it is the default."""
    return f" {_BINDINGS[Binding(binding)]}" if binding != usual else ""


def memory_lines(
    file: ObjectFile, section: Section, directive: str, labels: Mapping[int, str]
) -> Iterator[str]:
    """Yields the lines of a constant bank or a section of variables. ``labels`` are names for words
    that are code offsets.
    """
    end = 0
    longest = section.alignment
    for number, run in enumerate(_runs(file, section)):
        alignment = natural_alignment(run.size)
        given = (
            longest
            if alignment > longest or (not number and max(alignment, _SHORTEST_ALIGNMENT) < longest)
            else 0
        )
        alignment = given or alignment
        words = [directive, *([run.name] if run.name is not None else _nameless(section, run))]
        words += [f"{run.size:#x}"] if not section.has_content else []
        words += [f"align {given}"] if given else []
        words += [f"at {run.place:#x}"] if run.place != round_up(end, alignment) else []
        yield " ".join(words) + binding_text(run.binding, Binding.LOCAL)
        if section.has_content:
            yield from data_lines(file, section, run.place, run.size, labels)
        end = run.place + run.size


def _nameless(section: Section, run: _DataRange) -> list[str]:
    """Returns a generated name for bytes without one; variables need a name, constants do not."""
    return [] if section.role is SectionRole.CONSTANT else [f".nameless_{run.place:#x}"]


def data_lines(
    file: ObjectFile, section: Section, offset: int, size: int, labels: Mapping[int, str]
) -> Iterator[str]:
    """Yields the data directives for some bytes of a section."""
    addresses = {}
    for relocation in section.relocations:
        width = place_bytes(relocation.kind)
        filling = PATCHES.get(relocation.kind)
        if filling is None or file.symbols[relocation.symbol].is_texture:
            continue
        held = (
            int.from_bytes(section.content[relocation.offset : relocation.offset + width], "little")
            << filling.shift
        )
        text = address_text(file, relocation, held)
        if filling.kind is PatchKind.BYTE:
            text = f"8@{filling.shift}({text})"
        addresses[relocation.offset] = width, text
    position, end = offset, offset + size
    # Words, except at an unaligned end, or between addresses.
    bounds = [size]
    for at, (width, _) in addresses.items():
        if offset <= at < end:
            bounds += [at - offset, width]
    unit = 1 if any(bound % _SHORTEST_ALIGNMENT for bound in bounds) else _SHORTEST_ALIGNMENT
    values: list[str] = []
    kind = _DIRECTIVES[unit]
    while position < end:
        width, text = addresses.get(position, (unit, None))
        zeros = _zeros(section.content, position, end, addresses)
        value = int.from_bytes(section.content[position : position + width], "little")
        directive = ZERO if zeros >= _LONG_ZEROS else _DIRECTIVES[width]
        if values and (directive != kind or directive == ZERO or len(values) == _VALUES_A_LINE):
            yield f"{_INDENT}{kind} {', '.join(values)}"
            values = []
        kind = directive
        values.append(
            f"{zeros:#x}" if directive == ZERO else text or labels.get(value) or f"{value:#x}"
        )
        position += zeros if directive == ZERO else width
    if values:
        yield f"{_INDENT}{kind} {', '.join(values)}"


def address_text(file: ObjectFile, relocation: Relocation, held: int) -> str:
    """Returns the address in a relocation, as a name and a number. ``held`` is the number in its
    place.

    A place in a section is relative to the last name before it.
    """
    symbol = file.symbols[relocation.symbol]
    addend = held if relocation.addend is None else relocation.addend
    if symbol.kind == SymbolKind.SECTION:
        named = [
            other
            for other in file.symbols
            if other.section == symbol.section
            and other.value <= addend
            and other.kind in (SymbolKind.OBJECT, SymbolKind.FUNCTION)
        ]
        symbol = max(named, key=lambda other: other.value, default=symbol)
        addend -= symbol.value
    if symbol.section is None or symbol.kind == SymbolKind.SECTION:
        raise ProgramError(f"{file.name}: symbol {symbol.name} is not defined")
    text = symbol.name + (f"{addend:+#x}" if addend else "")
    return f"generic({text})" if relocation.kind in GENERIC and file.is_constant(symbol) else text


def _zeros(content: bytes, position: int, end: int, addresses: Mapping[int, object]) -> int:
    """Returns the number of consecutive zero bytes from a position, in whole words without an
    address.
    """
    at = position
    while (
        at + _SHORTEST_ALIGNMENT <= end
        and addresses.keys().isdisjoint(range(at, at + _SHORTEST_ALIGNMENT))
        and not any(content[at : at + _SHORTEST_ALIGNMENT])
    ):
        at += _SHORTEST_ALIGNMENT
    return at - position


def shared_line(section: Section) -> str:
    """Returns the directive for a kernel's shared memory."""
    expected = max(natural_alignment(section.size), _SHORTEST_ALIGNMENT)
    return f".shared {section.size:#x}" + (
        f" align {section.alignment}" if expected != section.alignment else ""
    )
