r"""The assembler: translates text to an object file.

A program consists of lines; ``;`` also ends a line. ``//`` and ``#`` begin a comment, ``/* */``
encloses one. Instructions are written as NVIDIA's disassembler prints them::

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

============================== =====================================================================
``.kernel NAME``               begins a kernel, up to the next ``.kernel`` or ``.end``
``.function NAME``             begins a function: within a kernel for CAL; after ``.end`` a separate
                               one for JCAL
``.param NAME BYTES``          the kernel's next parameter, in ``c[0x0]``
``.registers N``               registers of a thread; by default those that the code uses. Likewise
                               ``.barriers``
``.local N`` ``.frame N``      bytes of stack of the function with all it calls, and of the function
                               alone
``.crs N``                     bytes of call/return stack that a warp may fill
``.shared [NAME] BYTES``       shared memory
``.const [BANK] [NAME]``       constants: bank 3 is common to all kernels, others are the kernel's;
                               data follow
``.global NAME [BYTES]``       a global variable: zeros, unless data follow
``.byte .half .word .dword``   data; ``.zero N`` is N zero bytes
``.info NAME values``          a record for NVIDIA's loader (:mod:`sim.toolchain.cubin.nvinfo`),
                               which replaces the
                               default one; ``half`` or ``byte`` before the value if the record has
                               no payload
``.raw WORD``                  an instruction as a number
``.section NAME KIND``         a section that is copied unchanged; data follow
``.symbols NAMES``             the first symbols of the file, in order
============================== =====================================================================

``align N`` and ``at OFFSET`` after a variable give its location; ``visible``, ``weak`` or ``local``
after a name give its visibility. Numbers may be sums with names. The value of a parameter, a
constant, a shared variable, a label, or a function inside a kernel is its offset; ``.next`` is the
address after the instruction (``BRX R0 -.next`` branches to byte R0 of the code). A global variable
or a separate function has an address: ``32@lo(NAME)`` and ``32@hi(NAME)`` are its halves, ``.word``
and ``.dword`` hold it whole, JMP and JCAL branch to it. ``generic(NAME)`` in data is the generic
address of a variable or of a constant in bank 3. In ``.byte``, ``8@N(NAME)`` and
``8@N(generic(NAME))`` are the byte of an address that begins at bit N, a multiple of 8.

An instruction may be preceded by control codes, see :mod:`sim.toolchain.assembly.control_text`; a
register may be followed by ``.reuse``. Instructions without control codes get them from
:mod:`sim.toolchain.assembly.schedule`. ``-> L1, L2`` after an instruction lists its possible
targets, ``-> call`` marks it as a call; ``.coop_group`` and ``.warp_wide`` before it mark an
operation across threads: these become records for NVIDIA's tools. A name that has another meaning,
such as ``R5``, is written with a backslash: ``.global \R5 4``. Code ends in a branch to itself and
NOPs, which are added if they are missing.
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
    """Returns the program in an assembly file.

    Raises:
        ProgramError: The file cannot be read, or has an error.
    """
    return load(assemble(read_text(path), str(path)))


def assemble(text: str, name: str) -> ObjectFile:
    """Returns the object file of an assembly text. ``name`` appears in messages.

    Raises:
        ProgramError: The text has an error; the message gives the place.
    """
    return _assemble(lambda: parse(text), name)


def assemble_statements(statements: Iterable[Statement | Line], name: str) -> ObjectFile:
    """Returns the object file of an assembly program that is given as statements."""
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
    """Returns a name without the backslash that escapes it in text."""
    return name.replace(ESCAPE, "")


@dataclass
class _Open:
    """A section with references that are not yet relocations, and the code section that resolves
    their names.
    """

    section: Section
    references: tuple[tuple[int, Reference], ...]
    code: CodeSection | None


class _Assembler:
    """Builds the object file of one program."""

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
        """Returns the object file."""
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
        """Adds a section of data."""
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
        """Adds a section of zeros."""
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
        """Returns all symbols in NVIDIA's order: by section, visible ones at the end. Shared memory
        without bytes, which is an array sized at launch, has no symbol.
        """
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
        """Returns the symbols of the functions in a code section. The first function covers the
        whole section.
        """
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
        """Returns the symbols in the order of ``.symbols``, visible ones after all others."""
        by_name = {symbol.name: symbol for symbol in symbols}
        for token in self.program.symbol_order:
            if str(token) not in by_name:
                raise SourceError(token, f"{token} is no symbol of the file")
        first = [by_name[""], *(by_name[str(token)] for token in self.program.symbol_order)]
        rest = [symbol for symbol in symbols if symbol not in first]
        return tuple(sorted([*first, *rest], key=lambda symbol: symbol.binding == Binding.GLOBAL))

    def _info_sections(self, indices: dict[str, int]) -> list[Section]:
        """Returns the sections of records about the file and about each function."""
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
        """Returns the relocation of a reference: to the name's symbol, or to the code section of a
        label.
        """
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
    """Returns the symbols of the named pieces of a memory."""
    return [
        Symbol(str(piece.name), SymbolKind.OBJECT, piece.binding, section, piece.place, piece.size)
        for piece in memory.pieces
        if piece.name is not None
    ]
