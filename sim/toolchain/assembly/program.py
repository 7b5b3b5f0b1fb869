"""An assembly program, sorted: the statements of each kernel, function, bank and variable.

The collector reads statements in order and assigns each to its owner; nothing is encoded here. The
offsets of variables are determined, as they follow from the statements alone.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from lark import Token

from rtl.isa.control_code import GROUP_BYTES, GROUP_INSTRUCTIONS, INSTRUCTION_BYTES
from sim.support.alignment import round_up
from sim.toolchain.cubin.nvinfo import LARGEST_PARAMETER, LARGEST_WORD
from sim.toolchain.cubin.object_file import (
    ALIGNMENTS,
    PARAMETER_BASE,
    Binding,
    Section,
    SectionKind,
    SectionRole,
)
from sim.toolchain.module import SHARED_BANK

from . import source
from .encoding import Encoded
from .operands import NEXT, is_reserved
from .source import Leaf, Number, SassInstruction, SassRaw, SourceError, Statement, at_most
from .spelling import spell

__all__ = [
    "BANK_BYTES",
    "BINDINGS",
    "ELEMENT_BYTES",
    "ZERO",
    "AssemblyProgram",
    "CodeSection",
    "DataBlock",
    "DeclaredParameter",
    "Emitted",
    "Line",
    "Piece",
    "SectionFunction",
    "collect",
    "label_place",
    "line_address",
    "natural_alignment",
]

BANK_BYTES = 1 << 16
"""The size of a constant bank in bytes."""
ELEMENT_BYTES = {".byte": 1, ".half": 2, ".word": 4, ".dword": 8}
"""The size of a value in bytes, by directive."""
ZERO = ".zero"
"""The directive for a number of zero bytes."""
BINDINGS = {"local": Binding.LOCAL, "visible": Binding.GLOBAL, "weak": Binding.WEAK}
"""The words of the text for a symbol's visibility."""
_LARGEST_ALIGNMENT = 8
_LARGEST = 1 << 28
_LARGEST_BANK = 31
_LARGEST_AMOUNTS = {".registers": Section.REGISTERS_MASK, ".barriers": Section.BARRIERS_MASK}
"""Directives whose number is in a section's header, with its largest value; others are 32-bit
words.
"""


def natural_alignment(size: int) -> int:
    """Returns the default alignment of a variable: the largest power of two up to 8 that divides
    its size.
    """
    return min(size & -size, _LARGEST_ALIGNMENT) or 1


def line_address(index: int) -> int:
    """Returns the address of the instruction with this index, in bytes from the beginning of its
    code.
    """
    group, slot = divmod(index, GROUP_INSTRUCTIONS)
    return group * GROUP_BYTES + (slot + 1) * INSTRUCTION_BYTES


def label_place(index: int) -> int:
    """Returns the address of a label before the instruction with this index. The first one of a
    group has the address of the group.
    """
    return line_address(index) - (0 if index % GROUP_INSTRUCTIONS else INSTRUCTION_BYTES)


@dataclass(frozen=True)
class Emitted:
    """An instruction that a compiler encoded, with the place in its source, ``line`` and
    ``column``.
    """

    word: int
    line: int | None
    column: int | None
    control: None = None

    @property
    def token(self) -> "Emitted":
        """The place for messages: the instruction itself."""
        return self

    def __str__(self) -> str:
        return spell(self.word)


@dataclass(eq=False)
class Line:
    """An instruction, and its derived properties."""

    node: SassInstruction | SassRaw | Emitted
    marks: frozenset[str] = frozenset()
    encoded: Encoded | None = None
    """The encoding if it is independent of the address; several kernels may share a line."""

    def __str__(self) -> str:
        return f"        {self.node}"


@dataclass
class SectionFunction:
    """A function within a code section. ``begin`` is the index of its first instruction."""

    name: Token
    binding: int
    begin: int
    frame: int | None = None
    local: int | None = None


@dataclass
class DeclaredParameter:
    """A kernel's parameter, ``position`` bytes into the parameters."""

    name: Token
    position: int
    size: int

    @property
    def offset(self) -> int:
        """Its offset in constant bank 0, in bytes."""
        return PARAMETER_BASE + self.position


@dataclass
class Piece:
    """A variable, or bytes without a name, in a memory. ``size`` is 0 until its data are known."""

    name: Token | None
    binding: int
    given_alignment: int | None
    given_place: int | None
    size: int = 0
    data: list[source.SassData] = field(default_factory=list)
    place: int = 0

    @property
    def data_size(self) -> int:
        """The size of the piece's data in bytes."""
        return sum(
            value.token if line.kind == ZERO else ELEMENT_BYTES[line.kind]
            for line in self.data
            for value in line.values
        )

    @property
    def alignment(self) -> int:
        """The alignment in bytes."""
        return self.given_alignment or natural_alignment(self.size)


@dataclass
class DataBlock:
    """Consecutive pieces: a constant bank, the global variables or the shared variables."""

    pieces: list[Piece] = field(default_factory=list)
    size: int = 0

    def settle(self) -> None:
        """Sets size and offset of every piece."""
        self.size = 0
        for piece in self.pieces:
            piece.size = max(piece.size, piece.data_size)
            piece.place = round_up(self.size, piece.alignment)
            if piece.given_place is not None:
                piece.place = piece.given_place
            self.size = max(self.size, piece.place + piece.size)

    @property
    def alignment(self) -> int:
        """The alignment of the whole block in bytes."""
        return max((piece.alignment for piece in self.pieces), default=1)


@dataclass
class CodeSection:
    """A kernel or a separate function, with everything that belongs to it."""

    name: Token
    kernel: bool
    parts: list[SectionFunction]
    lines: list[Line] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    """The index of the instruction after each label, by name; also of functions."""
    parameters: list[DeclaredParameter] = field(default_factory=list)
    shared: DataBlock = field(default_factory=DataBlock)
    banks: dict[int, DataBlock] = field(default_factory=dict)
    amounts: dict[str, int] = field(default_factory=dict)
    infos: list[source.SassInfo] = field(default_factory=list)

    @property
    def parameter_bytes(self) -> int:
        """The size of all parameters in bytes."""
        return max(
            (parameter.position + parameter.size for parameter in self.parameters), default=0
        )


@dataclass
class AssemblyProgram:
    """The contents of a whole text."""

    codes: list[CodeSection] = field(default_factory=list)
    zeroed: DataBlock = field(default_factory=DataBlock)
    initialised: DataBlock = field(default_factory=DataBlock)
    banks: dict[int, DataBlock] = field(default_factory=dict)
    infos: list[source.SassInfo] = field(default_factory=list)
    sections: list[tuple[source.SassNamedSection, Piece]] = field(default_factory=list)
    symbol_order: list[Token] = field(default_factory=list)


def collect(statements: Iterable[Statement | Line]) -> AssemblyProgram:
    """Returns the sorted statements.

    Raises:
        SourceError: A statement is not allowed at its place.
    """
    collector = _Collector()
    for statement in statements:
        collector.take(statement)
    return collector.finish()


class _Collector:
    """The program so far, and the owner of the next statement."""

    def __init__(self) -> None:
        self.program = AssemblyProgram()
        self.code: CodeSection | None = None
        self.piece: Piece | None = None
        self.marks: list[Token] = []
        self.variables: list[Piece] = []
        self.names: dict[tuple[Token | None, str], Token] = {}

    def take(self, statement: Statement | Line) -> None:
        """Assigns one statement to its owner."""
        match statement:
            case Line():
                self._open(statement.node.token).lines.append(statement)
            case SassInstruction() | SassRaw():
                self._line(statement)
            case source.SassLabel(name):
                code = self._open(name)
                self._define(name, code.name)
                code.labels[str(name)] = len(code.lines)
            case source.SassKernel(name, binding):
                self._code(name, True, binding, Binding.GLOBAL)
            case source.SassFunction(name, binding):
                self._function(name, binding)
            case source.SassEnd():
                self.code = self.piece = None
            case source.SassAmount(kind, value):
                self._amount(kind, value)
            case source.SassParam():
                self._param(statement)
            case source.SassShared(name, size, align):
                self._shared(name, size, align)
            case source.SassBank():
                self._bank(statement)
            case source.SassVariable(name, size, align, at, binding):
                self._define(name)
                self.piece = Piece(
                    name, _binding(binding), _alignment(align), _place(at), _size(size)
                )
                self.variables.append(self.piece)
            case source.SassData():
                self._data(statement)
            case source.SassInfo():
                (self.program if self.code is None else self.code).infos.append(statement)
            case source.SassMark(kind):
                self._open(kind)
                self.marks.append(kind)
            case source.SassNamedSection():
                self._section(statement)
            case source.SassSymbols(names):
                self.program.symbol_order += names

    def finish(self) -> AssemblyProgram:
        """Returns the whole program with the offsets of all variables."""
        if self.marks:
            raise SourceError(self.marks[0], f"no instruction follows {self.marks[0]}")
        for piece in self.variables:
            memory = self.program.initialised if piece.data else self.program.zeroed
            memory.pieces.append(piece)
            if not piece.size and not piece.data and piece.name is not None:
                raise SourceError(piece.name, f"{piece.name} has neither a size nor data")
        memories = [self.program.zeroed, self.program.initialised, *self.program.banks.values()]
        for code in self.program.codes:
            memories += [code.shared, *code.banks.values()]
        for memory in memories:
            memory.settle()
        for _, piece in self.program.sections:
            piece.size = piece.data_size
        return self.program

    def _open(self, token: Leaf | Emitted) -> CodeSection:
        """Returns the current kernel or function."""
        if self.code is None:
            raise SourceError(
                token, f"{token} stands outside of any kernel: expected .kernel before it"
            )
        return self.code

    def _define(self, name: Token, *scopes: Token | None) -> None:
        """Records that a name is used in some scopes: the name of a code section, or None for the
        file.
        """
        if is_reserved(name) or name == NEXT:
            raise SourceError(name, f"{name} can't be defined: it has a meaning already")
        for scope in scopes or (None,):
            taken = self.names.setdefault((scope, str(name)), name)
            if taken is not name:
                raise SourceError(name, f"{name} is defined twice, first in line {taken.line}")

    def _line(self, node: SassInstruction | SassRaw) -> None:
        if isinstance(node, SassInstruction) and node.mnemonic.startswith("."):
            raise SourceError(node.mnemonic, f"unknown directive {node.mnemonic}")
        code = self._open(node.token)
        code.lines.append(Line(node, frozenset(str(mark) for mark in self.marks)))
        self.marks = []
        self.piece = None

    def _code(self, name: Token, kernel: bool, binding: Token | None, default: int) -> None:
        self._define(name, None, name)
        self.piece = None
        self.code = CodeSection(
            name,
            kernel,
            [SectionFunction(name, _binding(binding, default), 0)],
            labels={str(name): 0},
        )
        self.program.codes.append(self.code)

    def _function(self, name: Token, binding: Token | None) -> None:
        if self.code is None:
            self._code(name, False, binding, Binding.LOCAL)
            return
        self._define(name, None, self.code.name)
        self.code.parts.append(SectionFunction(name, _binding(binding), len(self.code.lines)))
        self.code.labels[str(name)] = len(self.code.lines)

    def _amount(self, kind: Token, given: Number) -> None:
        code = self._open(kind)
        part = code.parts[-1]
        value = at_most(given, _LARGEST_AMOUNTS.get(str(kind), LARGEST_WORD))
        if kind == ".local":
            part.local = value
        elif kind == ".frame":
            part.frame = value
        else:
            code.amounts[str(kind)] = value

    def _param(self, node: source.SassParam) -> None:
        code = self._open(node.name)
        if not code.kernel:
            raise SourceError(node.name, f"{code.name} is no kernel: only kernels have parameters")
        self._define(node.name, code.name)
        size = at_most(node.size, LARGEST_PARAMETER)
        alignment = natural_alignment(size)
        place = round_up(code.parameter_bytes, alignment) if node.at is None else _size(node.at)
        if PARAMETER_BASE + place + size > BANK_BYTES:
            raise SourceError(
                node.name,
                f"{node.name} ends at {place + size:#x}: parameters have "
                f"{BANK_BYTES - PARAMETER_BASE:#x} bytes at most",
            )
        code.parameters.append(DeclaredParameter(node.name, place, size))

    def _shared(self, name: Token | None, size: Number, align: Number | None) -> None:
        code = self._open(size if name is None else name)
        if not code.kernel:
            raise SourceError(size, f"{code.name} is no kernel: only kernels have shared memory")
        if name is not None:
            self._define(name, code.name)
        code.shared.pieces.append(Piece(name, Binding.LOCAL, _alignment(align), None, _size(size)))

    def _bank(self, node: source.SassBank) -> None:
        bank = SHARED_BANK if node.number is None else at_most(node.number, _LARGEST_BANK)
        if node.number == 0:
            raise SourceError(node.number, "bank 0 holds the parameters: expected another one")
        owner: AssemblyProgram | CodeSection = self.program
        if bank != SHARED_BANK:
            owner = self._open(node.token)
            if not owner.kernel:
                raise SourceError(
                    node.token, f"{owner.name} is no kernel: only kernels have constant banks"
                )
        if node.name is not None:
            self._define(
                node.name, *([None, owner.name] if isinstance(owner, CodeSection) else [None])
            )
        self.piece = Piece(
            node.name, _binding(node.binding), _alignment(node.align), _place(node.at)
        )
        owner.banks.setdefault(bank, DataBlock()).pieces.append(self.piece)

    def _section(self, node: source.SassNamedSection) -> None:
        kind = at_most(node.kind, LARGEST_WORD)
        if kind < SectionKind.CUDA_INFO:
            raise SourceError(
                node.kind,
                f"{node.kind} is no kind of section that is carried: "
                f"{SectionKind.CUDA_INFO:#x} at least",
            )
        if Section(str(node.name), kind, 0, b"", 0, 1).role is not SectionRole.OTHER:
            raise SourceError(node.name, f"{node.name} is a section that the assembler makes")
        self._define(node.name)
        if node.entry is not None:
            at_most(node.entry, LARGEST_WORD)
        self.piece = Piece(None, Binding.LOCAL, _alignment(node.align), None)
        self.program.sections.append((node, self.piece))

    def _data(self, node: source.SassData) -> None:
        if self.piece is None:
            raise SourceError(
                node.kind, f"{node.kind} belongs to nothing: expected .const or .global before it"
            )
        for value in node.values if node.kind == ZERO else ():
            if not (
                isinstance(value, source.SassSum)
                and len(value.items) == 1
                and isinstance(value.items[0], Number)
            ):
                raise SourceError(value.token, "expected a number of bytes")
            _size(value.items[0])
        self.piece.data.append(node)


def _binding(token: Token | None, default: int = Binding.LOCAL) -> int:
    return default if token is None else BINDINGS[token]


def _size(number: Number | None) -> int:
    """Returns a number of bytes, 0 if none is given."""
    if number is not None and number > _LARGEST:
        raise SourceError(number, f"{number} bytes are too many: {_LARGEST:#x} at most")
    return int(number or 0)


def _place(number: Number | None) -> int | None:
    return None if number is None else _size(number)


def _alignment(number: Number | None) -> int | None:
    if number is not None and number not in ALIGNMENTS:
        raise SourceError(number, f"{number} is no power of two up to {ALIGNMENTS[-1]:#x}")
    return None if number is None else int(number)
