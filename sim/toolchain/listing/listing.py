"""Listing of a cubin as assembly text, which assembles to the same code, constants, variables and
records.

Relocatable files are listed after linking. The listing does not preserve the contents of a kernel's
bank 0, debug information, symbols without a place in the file, unknown records whose size is no
multiple of a word, and from the ELF format the order of strings, relocations and foreign records,
padding and file offsets.
"""

import re
from collections.abc import Iterator, Mapping

from sim.support.alignment import round_up
from sim.toolchain.assembly.assembler import assemble
from sim.toolchain.assembly.program import natural_alignment
from sim.toolchain.assembly.records import FORMATS
from sim.toolchain.cubin.linking import link
from sim.toolchain.cubin.loader import load, records_of
from sim.toolchain.cubin.nvinfo import WORD_BYTES, Attribute, KernelParameter, Record, RecordFormat
from sim.toolchain.cubin.object_file import (
    INFO,
    Binding,
    ObjectFile,
    Section,
    SectionKind,
    SectionRole,
    Symbol,
    info_name,
    shared_name,
)
from sim.toolchain.module import ProgramError

from .code_listing import CodeLister, instructions
from .data_listing import binding_text, data_lines, memory_lines, shared_line

__all__ = ["listing"]

_SYMBOL_FIRST = (
    Attribute.REGCOUNT,
    Attribute.FRAME_SIZE,
    Attribute.MIN_STACK_SIZE,
    Attribute.MAX_STACK_SIZE,
    Attribute.PARAM_CBANK,
)
"""Records whose first word is a symbol index."""
_NAME = re.compile(r"[A-Za-z_.$][A-Za-z0-9_.$?]*")
_DEBUG = (".debug", ".nv_debug")
_Records = Mapping[int, list[Record]]


def listing(file: ObjectFile) -> str:
    """Returns the assembly text of an object file.

    The text is assembled, and whatever the result lacks is added to the text. Only damaged files
    have text that the assembler refuses.

    Raises:
        ProgramError: The file cannot be written as assembly text.
    """
    lister = _Lister(link(file), file.relocatable)
    text = lister.text()
    while lister.learn(assemble(text, f"{file.name}: can't be written as assembly text")):
        text = lister.text()
    return text


class _Lister:
    """The listing of one complete file.

    Attributes:
        raw: Addresses of instructions that are written as numbers, by section.
        infos: Records that are written as directives, by section and attribute.
        order: The order of the symbols.
    """

    def __init__(self, file: ObjectFile, linked: bool) -> None:
        for name in (
            *file.sections,
            *(symbol.name for symbol in file.symbols if symbol.section is not None),
        ):
            if not _NAME.fullmatch(name):
                raise ProgramError(
                    f"{file.name}: the name {name!r} can't be written in assembly text"
                )
        self.file = file
        self.linked = linked
        self.kernels = load(file).kernels
        self.raw: dict[str, set[int]] = {
            section.name: set() for section in file.by_role[SectionRole.CODE]
        }
        self.infos: dict[str, dict[int, list[Record]]] = {}
        self.order: list[str] = []
        self.records = {
            section.name: records_of(file, section.name)
            for section in file.by_role[SectionRole.INFO]
        }
        self.stacks = self._stacks()
        self.codes = {
            section.name: CodeLister(
                file, section, self.records.get(info_name(section.owner or ""), {}), self.stacks
            )
            for section in file.by_role[SectionRole.CODE]
        }

    def _stacks(self) -> dict[int, tuple[int, int]]:
        """Returns the stack sizes of every function in bytes: in total, and of its own frame."""
        found = {}
        records = self.records.get(INFO, {})
        whole, alone = (
            {record.words[0]: record.words[1] for record in records.get(attribute, ())}
            for attribute in (Attribute.MIN_STACK_SIZE, Attribute.FRAME_SIZE)
        )
        kernels = self.kernels if self.linked else {}
        for index, symbol in enumerate(self.file.symbols):
            size = whole.get(index, alone.get(index, 0))
            if symbol.name in kernels and symbol.is_kernel:
                size = kernels[symbol.name].local
            found[index] = size, alone.get(index, 0)
        return found

    def text(self) -> str:
        """Returns the text by what is known so far."""
        lines = [f".symbols {', '.join(self.order)}"] if self.order else []
        lines += self._info_lines(INFO)
        lines += self._variable_lines()
        for section in self.file.by_role[SectionRole.CODE]:
            lines += ["", *self._code_lines(section)]
        lines += self._other_lines()
        return "\n".join(lines).strip("\n") + "\n"

    def _variable_lines(self) -> Iterator[str]:
        """Yields the lines of the constants and variables of the whole file."""
        for section in self.file.by_role[SectionRole.CONSTANT]:
            if section.owner is None:
                yield from memory_lines(self.file, section, f".const {section.bank}", {})
        for role in (SectionRole.GLOBAL_INIT, SectionRole.GLOBAL):
            for section in self.file.by_role[role]:
                yield from memory_lines(self.file, section, ".global", {})

    def _code_lines(self, section: Section) -> Iterator[str]:
        """Yields the lines of a kernel or function with everything that belongs to it."""
        name = section.owner or ""
        index, symbol = next(
            (
                (index, symbol)
                for index, symbol in self.file.functions(section.name)
                if symbol.name == name
            ),
            (0, None),
        )
        kernel = symbol is not None and symbol.is_kernel
        usual = Binding.GLOBAL if kernel else Binding.LOCAL
        binding = binding_text(symbol.binding, usual) if symbol is not None else ""
        if not kernel:
            yield ".end"
        yield f"{'.kernel' if kernel else '.function'} {name}{binding}"
        yield f".registers {section.registers}"
        yield f".barriers {section.barriers}"
        code = self.codes[section.name]
        yield from code.stack_lines(index)
        records = self.records.get(info_name(name), {})
        yield from (
            f".crs {record.words[0]:#x}" for record in records.get(Attribute.CRS_STACK_SIZE, ())
        )
        yield from _parameter_lines(records)
        yield from self._info_lines(info_name(name))
        if (shared := self.file.sections.get(shared_name(name))) is not None and kernel:
            yield shared_line(shared)
        for bank in self.file.by_role[SectionRole.CONSTANT]:
            if bank.owner == name and bank.bank:
                labels = {
                    place: code.labels[place]
                    for targets in code.targets.values()
                    for place in targets.target_offsets
                    if place in code.labels
                }
                yield from memory_lines(self.file, bank, f".const {bank.bank}", labels)
        yield ""
        yield from code.lines(self.raw[section.name])

    def _other_lines(self) -> Iterator[str]:
        """Yields the lines of sections that have no meaning here."""
        for section in self.file.by_role[SectionRole.OTHER]:
            if (
                section.kind >= SectionKind.CUDA_INFO
                and section.has_content
                and not section.name.startswith(_DEBUG)
                and not section.flags
                and not section.relocations
                and not self.linked
            ):
                entry = f" entry {section.entry_size}" if section.entry_size else ""
                yield ""
                yield f".section {section.name} {section.kind:#x} align {section.alignment}{entry}"
                yield from data_lines(self.file, section, 0, section.size, {})

    def _info_lines(self, section: str) -> Iterator[str]:
        """Yields the directives for records in ``infos``."""
        for attribute, records in self.infos.get(section, {}).items():
            name = Attribute(attribute).name if attribute in tuple(Attribute) else f"{attribute:#x}"
            for record in records:
                formats = {form: text for text, form in FORMATS.items()}
                if record.format is RecordFormat.SIZED:
                    first = (
                        [self.file.symbols[record.words[0]].name]
                        if attribute in _SYMBOL_FIRST
                        else []
                    )
                    values = [*first, *(f"{word:#x}" for word in record.words[len(first) :])]
                    yield f".info {name} {', '.join(values)}"
                else:
                    yield f".info {name}" + (
                        f" {formats[record.format]} {record.value:#x}"
                        if record.format in formats
                        else ""
                    )

    def learn(self, assembled: ObjectFile) -> bool:
        """Compares the assembled text with the file, and records the differences for the next text.
        Returns whether there were new ones.
        """
        before = (
            {name: set(addresses) for name, addresses in self.raw.items()},
            str(self.infos),
            list(self.order),
        )
        for name in self.raw:
            found = {
                address: word for address, word, _ in instructions(assembled.sections[name].content)
            }
            self.raw[name] |= {
                address
                for address, word, _ in instructions(self.file.sections[name].content)
                if found.get(address) != word
            }
        self._learn_records(assembled)
        if not self.linked:
            known = {symbol.name for symbol in assembled.symbols}
            order = [symbol.name for symbol in self.file.symbols if symbol.name in known]
            if order != [symbol.name for symbol in assembled.symbols]:
                self.order = order[1:]
        return before != (self.raw, str(self.infos), self.order)

    def _learn_records(self, assembled: ObjectFile) -> None:
        known = {symbol.name for symbol in assembled.symbols}
        for name, records in self.records.items():
            found = records_of(assembled, name)
            for attribute, mine in records.items():
                named = [_named(record, self.file.symbols) for record in mine]
                theirs = [_named(record, assembled.symbols) for record in found.get(attribute, ())]
                whole_words = all(len(record.payload) % WORD_BYTES == 0 for record in mine)
                if (
                    sorted(named) != sorted(theirs)
                    and whole_words
                    and all(entry[0] in known for entry in named)
                ):
                    self.infos.setdefault(name, {})[attribute] = mine


def _named(
    record: Record, symbols: tuple[Symbol, ...]
) -> tuple[str, RecordFormat, int, tuple[int, ...]]:
    """Returns a record with the name of its symbol instead of the index."""
    if record.attribute not in _SYMBOL_FIRST:
        return "", record.format, record.value, tuple(record.payload)
    index, *rest = record.words
    return (
        (symbols[index].name if index < len(symbols) else f"#{index}"),
        record.format,
        record.value,
        tuple(rest),
    )


def _parameter_lines(records: _Records) -> Iterator[str]:
    """Yields the directives of a kernel's parameters. Files do not contain their names."""
    end = 0
    infos = sorted(
        (KernelParameter.of(record) for record in records.get(Attribute.KPARAM_INFO, ())),
        key=lambda info: info.ordinal,
    )
    for number, info in enumerate(infos):
        alignment = natural_alignment(info.size)
        at = f" at {info.position:#x}" if info.position != round_up(end, alignment) else ""
        yield f".param p{number} {info.size}{at}"
        end = max(end, info.position + info.size)
