r"""The assembler: from text to an object file.

A program is lines; ``;`` ends a line, too. ``//`` and ``#`` begin a comment, ``/* */`` encloses one. Instructions
are written as NVIDIA's disassembler prints them::

    // out[i] = in[i] + 1 for every i below n
    .kernel increment
    .param in 8
    .param out 8
    .param n 4
            S2R R0, SR_TID.X
            ISETP.GE.U32.AND P0, PT, R0, c[0x0][n], PT
        @P0 EXIT
            ISCADD R2.CC, R0, c[0x0][in], 0x2
            IADD.X R3, RZ, c[0x0][in+4]
            LDG.E R4, [R2]
            ISCADD R2.CC, R0, c[0x0][out], 0x2
            IADD.X R3, RZ, c[0x0][out+4]
            IADD32I R4, R4, 0x1
            STG.E [R2], R4
            EXIT

============================== =================================================================================
``.kernel NAME``               begins a kernel, up to the next ``.kernel`` or ``.end``
``.function NAME``             begins a function: within a kernel for CAL; after ``.end`` one for JCAL, of its own
``.param NAME BYTES``          the kernel's next parameter, in ``c[0x0]``
``.registers N``               registers of a thread; what the code uses unless given. Likewise ``.barriers``
``.local N`` ``.frame N``      bytes of stack of the function with all it calls, and alone
``.crs N``                     bytes of call/return stack that a warp may fill
``.shared [NAME] BYTES``       shared memory
``.const [BANK] [NAME]``       constants: bank 3 is everyone's, others are the kernel's; data follow
``.global NAME [BYTES]``       a global variable: zeros, unless data follow
``.byte .half .word .dword``   data, ``.zero N`` that many zero bytes
``.info NAME values``          a record for NVIDIA's loader (:mod:`sim.toolchain.cubin.nvinfo`), which replaces the
                               usual one; ``half`` or ``byte`` before the value where the record has no payload
``.raw WORD``                  an instruction as a number
``.section NAME KIND``         a section that is carried as it is; data follow
``.symbols NAMES``             the first symbols of the file, in order
============================== =================================================================================

``align N`` and ``at OFFSET`` behind a variable say where it is, ``visible``, ``weak`` or ``local`` behind a name
who sees it. Numbers may be sums with names: a parameter, a constant, a shared variable, a label and a function
inside a kernel stand for their offsets; ``.next`` is the place behind the instruction (``BRX R0 -.next`` goes to
R0 bytes into the code). A global variable or a function of its own has an address: ``32@lo(NAME)`` and
``32@hi(NAME)`` are its halves, ``.word`` and ``.dword`` take it whole, JMP and JCAL go there. ``generic(NAME)`` in
data is the generic address of a variable or of a constant in bank 3. In ``.byte``, ``8@N(NAME)`` and
``8@N(generic(NAME))`` are the byte of an address that begins at bit N, a multiple of 8.

Control codes may stand before an instruction, see :mod:`sim.toolchain.assembly.control_text`, ``.reuse`` behind a
register. An instruction without them gets them from :mod:`sim.toolchain.assembly.schedule`. Behind an instruction
``-> L1, L2`` says where it may go and ``-> call`` that it calls, ``.coop_group`` and ``.warp_wide`` before it
that it works across threads: records for NVIDIA's tools. A name that means something else, such as ``R5``, stands
behind a backslash: ``.global \R5 4``. Code ends in a branch to itself and NOPs, added where
they are missing.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from sim.toolchain.cubin.loader import load
from sim.toolchain.cubin.nvinfo import encode
from sim.toolchain.cubin.object_file import (
    GLOBAL,
    GLOBAL_INIT,
    INFO,
    PARAMETER_BASE,
    Binding,
    ObjectFile,
    Relocation,
    Section,
    SectionFlag,
    SectionKind,
    Symbol,
    SymbolKind,
    constant_name,
    info_name,
    shared_name,
    text_name,
)
from sim.toolchain.cubin.relocation import GENERIC
from sim.toolchain.grammar import read_text
from sim.toolchain.module import Module, ProgramError

from .code_builder import BuiltCode, build_code
from .data_builder import build_memory
from .operands import ESCAPE, Reference
from .program import AssemblyProgram, CodeSection, DataBlock, Line, collect, label_place
from .records import code_records, file_records
from .scope import CodeScope, FileScope
from .source import SourceError, Statement, parse

__all__ = ["assemble", "assemble_statements", "read_sass"]

_CONSTANT_FLAGS = SectionFlag.ALLOCATE
_CODE_FLAGS = SectionFlag.ALLOCATE | SectionFlag.EXECUTE
_VARIABLE_FLAGS = SectionFlag.ALLOCATE | SectionFlag.WRITE
_CODE_ALIGNMENT = 32
_WORD_ALIGNMENT = 4


def read_sass(path: str | Path) -> Module:
    """The program in an assembly file; ProgramError when there is none."""
    return load(assemble(read_text(path), str(path)))


def assemble(text: str, name: str) -> ObjectFile:
    """The object file of assembly text. ``name`` stands in messages; ProgramError says what is wrong, and where."""
    return _assemble(lambda: parse(text), name)


def assemble_statements(statements: Iterable[Statement | Line], name: str) -> ObjectFile:
    """The object file of an assembly program that never was a text."""
    return _assemble(lambda: statements, name)


def _assemble(statements: Callable[[], Iterable[Statement | Line]], name: str) -> ObjectFile:
    try:
        program = collect(statements())
        if not any(code.kernel for code in program.codes):
            raise ProgramError(f"{name}: has no kernel")
        return _Assembler(program, name).object_file()
    except SourceError as error:
        raise ProgramError(f"{name}:{error.line}:{error.column}: {error}") from error


def _plain(name: str) -> str:
    """A name without the backslash that the text has before it."""
    return name.replace(ESCAPE, "")


@dataclass
class _Open:
    """A section whose references are not relocations yet, and the code that names in them belong to."""

    section: Section
    references: tuple[tuple[int, Reference], ...]
    code: CodeSection | None


class _Assembler:
    """One program on its way into an object file."""

    def __init__(self, program: AssemblyProgram, name: str) -> None:
        self.program = program
        self.name = name
        self.scope = FileScope(program)
        self.built = [build_code(code, self.scope) for code in program.codes]
        self.addressed = self.scope.addressed | {
            str(part.name) for code in program.codes for part in code.parts
        }
        self.sections: dict[str, _Open] = {}

    def object_file(self) -> ObjectFile:
        """The whole file."""
        self._add_data()
        self._add_code()
        symbols = self._ordered(self._symbols())
        indices = {symbol.name: index for index, symbol in enumerate(symbols)}
        sections = {section.name: section for section in self._info_sections(indices)}
        for entry in self.sections.values():
            relocations = tuple(
                self._relocation(offset, reference, entry.code, indices)
                for offset, reference in entry.references
            )
            sections[entry.section.name] = replace(entry.section, relocations=relocations)
        named = {
            _plain(name): replace(section, name=_plain(name)) for name, section in sections.items()
        }
        return ObjectFile(
            self.name,
            named,
            tuple(
                replace(
                    symbol,
                    name=_plain(symbol.name),
                    section=_plain(symbol.section) if symbol.section else None,
                )
                for symbol in symbols
            ),
        )

    def _add(
        self,
        section: Section,
        references: tuple[tuple[int, Reference], ...] = (),
        code: CodeSection | None = None,
    ) -> None:
        self.sections[section.name] = _Open(section, references, code)

    def _add_memory(
        self, name: str, memory: DataBlock, flags: int, code: CodeSection | None = None
    ) -> None:
        """A section of data."""
        scope = CodeScope(code, self.scope) if code is not None else self.scope
        content, references = build_memory(memory, scope, self.scope.addressed)
        self._add(
            Section(
                name,
                SectionKind.PROGBITS,
                flags,
                content,
                len(content),
                max(memory.alignment, _WORD_ALIGNMENT),
            ),
            tuple(references),
            code,
        )

    def _add_empty(self, name: str, memory: DataBlock) -> None:
        """A section of zeros."""
        self._add(
            Section(
                name,
                SectionKind.NOBITS,
                _VARIABLE_FLAGS,
                b"",
                memory.size,
                max(memory.alignment, _WORD_ALIGNMENT),
            )
        )

    def _add_data(self) -> None:
        for node, piece in self.program.sections:
            content, references = build_memory(
                DataBlock([piece], piece.size), self.scope, self.scope.addressed
            )
            if references:
                raise SourceError(references[0][1].name, f"{node.name} can't hold addresses")
            self._add(
                Section(
                    str(node.name),
                    int(node.kind),
                    0,
                    content,
                    len(content),
                    piece.alignment,
                    int(node.entry or 0),
                )
            )
        for bank, memory in self.program.banks.items():
            self._add_memory(constant_name(bank), memory, _CONSTANT_FLAGS)
        for code in self.program.codes:
            for bank, memory in code.banks.items():
                self._add_memory(constant_name(bank, code.name), memory, _CONSTANT_FLAGS, code)
            if code.kernel:
                size = PARAMETER_BASE + code.parameter_bytes
                self._add(
                    Section(
                        constant_name(0, code.name),
                        SectionKind.PROGBITS,
                        _CONSTANT_FLAGS,
                        bytes(size),
                        size,
                        _WORD_ALIGNMENT,
                    )
                )
            if code.shared.pieces:
                self._add_empty(shared_name(code.name), code.shared)
        if self.program.initialised.pieces:
            self._add_memory(GLOBAL_INIT, self.program.initialised, _VARIABLE_FLAGS)
        if self.program.zeroed.pieces:
            self._add_empty(GLOBAL, self.program.zeroed)

    def _add_code(self) -> None:
        for built in self.built:
            amounts = built.code.amounts
            self._add(
                Section(
                    text_name(built.code.name),
                    SectionKind.PROGBITS,
                    _CODE_FLAGS,
                    built.content,
                    len(built.content),
                    _CODE_ALIGNMENT,
                    registers=amounts[".registers"],
                    barriers=amounts[".barriers"],
                ),
                built.references,
                built.code,
            )

    def _symbols(self) -> list[Symbol]:
        """All symbols in NVIDIA's order: section by section with what is in them, visible ones at the end. Shared
        memory without bytes, which stands for an array that gets its size at launch, has none."""
        found = [Symbol("", SymbolKind.NONE, Binding.LOCAL, None)]
        for position, built in enumerate(self.built):
            code = built.code
            found += self._section_symbols(text_name(code.name))
            if code.shared.size:
                found += self._section_symbols(shared_name(code.name))
            if position == 0:
                found += self._variable_symbols()
            for bank, memory in code.banks.items():
                found += self._section_symbols(constant_name(bank, code.name))
                found += _objects(constant_name(bank, code.name), memory)
            found += self._function_symbols(built)
            found += self._section_symbols(constant_name(0, code.name))
        found += self._section_symbols(*(str(node.name) for node, _ in self.program.sections))
        return found

    def _section_symbols(self, *names: str) -> list[Symbol]:
        return [
            Symbol(name, SymbolKind.SECTION, Binding.LOCAL, name)
            for name in names
            if name in self.sections
        ]

    def _variable_symbols(self) -> list[Symbol]:
        banks = {constant_name(bank): memory for bank, memory in self.program.banks.items()}
        memories = {GLOBAL_INIT: self.program.initialised, **banks, GLOBAL: self.program.zeroed}
        return [
            *self._section_symbols(*memories),
            *(symbol for name, memory in memories.items() for symbol in _objects(name, memory)),
        ]

    def _function_symbols(self, built: BuiltCode) -> list[Symbol]:
        """The functions in a code section. The first one's is all of the section."""
        code, size = built.code, len(built.content)
        section = text_name(code.name)
        ends = [*(label_place(part.begin) for part in code.parts[1:]), size]
        first = Symbol(
            str(code.name),
            SymbolKind.FUNCTION,
            code.parts[0].binding,
            section,
            0,
            size,
            Symbol.ENTRY if code.kernel else 0,
        )
        inner = [
            Symbol(str(part.name), SymbolKind.FUNCTION, part.binding, section, begin, end - begin)
            for part, begin, end in zip(code.parts[1:], ends, ends[1:], strict=False)
        ]
        return [*inner, first]

    def _ordered(self, symbols: list[Symbol]) -> tuple[Symbol, ...]:
        """The symbols as ``.symbols`` has them, visible ones behind all others."""
        by_name = {symbol.name: symbol for symbol in symbols}
        for token in self.program.symbol_order:
            if str(token) not in by_name:
                raise SourceError(token, f"{token} is no symbol of the file")
        first = [by_name[""], *(by_name[str(token)] for token in self.program.symbol_order)]
        rest = [symbol for symbol in symbols if symbol not in first]
        return tuple(sorted([*first, *rest], key=lambda symbol: symbol.binding == Binding.GLOBAL))

    def _info_sections(self, indices: dict[str, int]) -> list[Section]:
        """The records about the file and about every function of it."""
        contents = {INFO: encode(file_records(self.program, indices))}
        for built in self.built:
            bank0 = indices.get(constant_name(0, built.code.name))
            contents[info_name(built.code.name)] = encode(
                code_records(built.code, built.words, built.targets, indices, bank0)
            )
        return [
            Section(name, SectionKind.CUDA_INFO, 0, content, len(content), _WORD_ALIGNMENT)
            for name, content in contents.items()
        ]

    def _relocation(
        self, offset: int, reference: Reference, code: CodeSection | None, indices: dict[str, int]
    ) -> Relocation:
        """The relocation of a reference: to the name's symbol, or to the code section of a label."""
        name, addend = str(reference.name), reference.addend
        if name in self.addressed or (reference.kind in GENERIC and name in self.scope.constants):
            symbol = indices[name]
        elif code is not None and name in code.labels:
            symbol = indices[text_name(code.name)]
            addend += label_place(code.labels[name])
        else:
            raise SourceError(reference.name, f"{name} has no address")
        if not -1 << 63 <= addend < 1 << 63:
            raise SourceError(
                reference.name, f"{addend:#x}, which is added to {name}, does not fit 64 bits"
            )
        return Relocation(offset, reference.kind, symbol, addend or None)


def _objects(section: str, memory: DataBlock) -> list[Symbol]:
    """The named pieces of a memory."""
    return [
        Symbol(str(piece.name), SymbolKind.OBJECT, piece.binding, section, piece.place, piece.size)
        for piece in memory.pieces
        if piece.name is not None
    ]
