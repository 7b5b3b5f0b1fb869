"""A code section of an object file as assembly text: labels, control codes, instructions."""

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from rtl.isa.control_code import GROUP_BYTES, INSTRUCTION_BYTES, ControlCode, next_address, unpack
from rtl.isa.syntax import Target
from rtl.isa.table import find
from sim.toolchain.assembly.control_text import control_text
from sim.toolchain.assembly.operands import NEXT
from sim.toolchain.assembly.records import CODE_MARKS
from sim.toolchain.assembly.spelling import ILLEGAL, spell
from sim.toolchain.cubin.nvinfo import CALL, Attribute, BranchTargets, Record
from sim.toolchain.cubin.object_file import Binding, ObjectFile, Relocation, Section
from sim.toolchain.cubin.relocation import PATCHES, held_number
from sim.toolchain.module import PatchKind, ProgramError

from .data_listing import address_text, binding_text
from .refusals import absent_text

__all__ = ["CodeLister", "CodeWord", "instructions"]

_CODE_COLUMN = 24
_HALVES = {PatchKind.IMMEDIATE_HIGH: "32@hi", PatchKind.IMMEDIATE_LOW: "32@lo"}


class CodeWord(NamedTuple):
    """An instruction in code: its offset in bytes, its word, its control code."""

    address: int
    word: int
    control: ControlCode


def instructions(content: bytes) -> Iterator[CodeWord]:
    """Yields every instruction of code that consists of whole groups."""
    for group in range(0, len(content), GROUP_BYTES):
        word, *words = (
            int.from_bytes(content[at : at + INSTRUCTION_BYTES], "little")
            for at in range(group, group + GROUP_BYTES, INSTRUCTION_BYTES)
        )
        for slot, (code, instruction) in enumerate(zip(unpack(word), words, strict=True), start=1):
            yield CodeWord(group + slot * INSTRUCTION_BYTES, instruction, code)


def _places(section: Section) -> dict[int, int]:
    """Returns the places of labels, and the address of the instruction at each. The label of a
    group's first instruction is at the group.
    """
    return {
        address - INSTRUCTION_BYTES
        if address % GROUP_BYTES == INSTRUCTION_BYTES
        else address: address
        for address, _, _ in instructions(section.content)
    }


class CodeLister:
    """Lists one code section.

    Attributes:
        labels: The names of places.

    Args:
        records: The records about the section by attribute.
        stacks: The stack sizes of functions in bytes, in total and of the frame, by symbol index.
    """

    def __init__(
        self,
        file: ObjectFile,
        section: Section,
        records: Mapping[int, list[Record]],
        stacks: Mapping[int, tuple[int, int]],
    ) -> None:
        self.file = file
        self.section = section
        self.stacks = stacks
        if len(section.content) % GROUP_BYTES:
            raise ProgramError(
                f"{file.name}: {section.name} has {len(section.content)} bytes, which are no whole "
                f"groups of {GROUP_BYTES}"
            )
        self.targets = self._indirect_targets(records)
        self.marks = {
            mark: {offset for record in records.get(attribute, ()) for offset in record.words}
            for mark, attribute in CODE_MARKS.items()
        }
        self.functions = {
            symbol.value: (index, symbol)
            for index, symbol in file.functions(section.name)
            if symbol.name != section.owner
        }
        self.labels = self._labels()
        self.relocations = {relocation.offset: relocation for relocation in section.relocations}

    @staticmethod
    def _indirect_targets(records: Mapping[int, list[Record]]) -> dict[int, BranchTargets]:
        """Returns the targets in records, by the address of the instruction."""
        found: dict[int, BranchTargets] = {}
        for record in records.get(Attribute.INDIRECT_BRANCH_TARGETS, ()):
            found |= {entry.offset: entry for entry in BranchTargets.of(record)}
        return found

    def _labels(self) -> dict[int, str]:
        """Returns names of all places that are targets of instructions or records."""
        places = _places(self.section)
        wanted = {place for targets in self.targets.values() for place in targets.target_offsets}
        for address, word, _ in instructions(self.section.content):
            form = find(word)
            for operand in form.operands.values() if form is not None else ():
                if (
                    isinstance(operand, Target)
                    and operand.relative
                    and operand.index is None
                    and form is not None
                ):
                    wanted.add(form.fields[operand.field].get(word) + next_address(address))
        own = {0: self.section.owner or ""} if 0 in wanted else {}
        names = {place: symbol.name for place, (_, symbol) in self.functions.items()} | own
        unnamed = sorted((wanted & places.keys()) - names.keys())
        return names | {place: f".L{number}" for number, place in enumerate(unnamed, start=1)}

    def stack_lines(self, index: int) -> Iterator[str]:
        """Yields the stack directives of a function."""
        whole, alone = self.stacks.get(index, (0, 0))
        if whole or alone:
            yield f".local {whole:#x}"
        if whole != alone:
            yield f".frame {alone:#x}"

    def lines(self, raw: Collection[int]) -> Iterator[str]:
        """Yields all lines of the code. Instructions at the addresses in ``raw`` are written as
        numbers.
        """
        starts = {address: place for place, address in _places(self.section).items()}
        for address, word, code in instructions(self.section.content):
            place = starts.get(address)
            if place in self.functions:
                index, symbol = self.functions[place]
                yield ""
                yield f".function {symbol.name}{binding_text(symbol.binding, Binding.LOCAL)}"
                yield from self.stack_lines(index)
            elif place in self.labels and place:
                yield f"{self.labels[place]}:"
            yield from (mark for mark, offsets in self.marks.items() if address in offsets)
            yield self._line(address, word, code, address in raw)

    def _line(self, address: int, word: int, code: ControlCode, raw: bool) -> str:
        """Returns the line of one instruction."""
        text = spell(word, address, code.reuse, self._target_text, self._number_text(address, word))
        if raw or text == ILLEGAL:
            return f"{control_text(code, reuse=bool(code.reuse))} .raw {word:#018x}  // {absent_text(word) or text}"
        guard, text = text.split(" ", 1) if text.startswith("@") else ("", text)
        line = f"{control_text(code):{_CODE_COLUMN}}{guard:>4} {text}"
        if address in self.targets:
            targets = self.targets[address]
            names = ", ".join(self._target_text(place) for place in targets.target_offsets)
            line += f" -> {'call ' if targets.kind == CALL else ''}{names}".rstrip()
        return line

    def _target_text(self, place: int) -> str:
        return self.labels.get(place, f"{place:#x}")

    def _number_text(self, address: int, word: int) -> str | None:
        """Returns the text for the number of an instruction if it is an address or relative to the
        next instruction, else None.
        """
        relocation = self.relocations.get(address)
        if relocation is not None and self.file.symbols[relocation.symbol].is_texture:
            return None
        if relocation is not None:
            return self._address_text(relocation, word)
        form = find(word)
        for operand in form.operands.values() if form is not None else ():
            if (
                isinstance(operand, Target)
                and operand.index is not None
                and operand.relative
                and form is not None
            ):
                offset = form.fields[operand.field].get(word)
                return f"-{NEXT}" if offset == -next_address(address) else None
        return None

    def _address_text(self, relocation: Relocation, word: int) -> str:
        name = address_text(
            self.file, relocation, held_number(word) if relocation.addend is None else 0
        )
        form = find(word)
        if form is not None and any(
            isinstance(operand, Target) for operand in form.operands.values()
        ):
            return name
        half = _HALVES.get(PATCHES[relocation.kind].kind)
        if half is None:
            raise ProgramError(
                f"{self.file.name}: {self.section.name}+{relocation.offset:#x}: a relocation of kind "
                f"{relocation.kind:#x}, which is for data"
            )
        return f"{half}({name})"
