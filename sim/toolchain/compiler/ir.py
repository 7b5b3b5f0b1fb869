"""What is between PTX and assembly text: operations on virtual registers of 32 bits.

A 64-bit value is two of them. An operation has the name that its instruction has, or one of a few that stand for
several instructions (see :mod:`.passes.expand`). Sources may be numbers and constants anywhere until
:mod:`.passes.legalise` puts what cannot be encoded into registers.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import Enum

from .opcodes import Fields, Opcode, OpcodeShape, opcode

__all__ = [
    "ADD",
    "COPY_PREDICATE",
    "MOVE",
    "PT",
    "RZ",
    "SIGN",
    "WORD",
    "Block",
    "ConstantWord",
    "Function",
    "Global",
    "JumpTable",
    "Op",
    "RegisterPart",
    "Source",
    "Terminator",
    "Value",
    "number",
    "real",
]

WORD = 0xFFFF_FFFF
"""All bits of a register."""
SIGN = 0x8000_0000
"""The sign of a number in single precision."""


@dataclass(eq=False, slots=True)
class Value:
    """A virtual register: 32 bits, or a predicate. ``fixed`` is the register it must have, if there is one."""

    name: str
    predicate: bool = False
    fixed: int | None = None

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True)
class ConstantWord:
    """``c[bank][offset]``, the offset in bytes."""

    bank: int
    offset: int


@dataclass(frozen=True)
class Global:
    """The upper or the lower 32 bits of the address ``addend`` bytes into a global variable."""

    name: str
    addend: int
    upper: bool = False


class RegisterPart(Enum):
    """A part of a register that an operand may be, by the table's spelling of it. The lowest byte and the lowest half
    have none: an operation tells by its other fields that it reads these.
    """

    B1 = ".B1"
    B2 = ".B2"
    B3 = ".B3"
    H1 = ".H1"

    def __str__(self) -> str:
        return self.value


@dataclass(unsafe_hash=True, slots=True)
class Source:
    """What an operation reads: an operand (a value, a number of 32 bits, a constant or an address) and its modifiers.

    ``absolute`` is applied first, ``negated`` last. A predicate that is no value is the number 1 or 0. Without a
    ``part`` it is the whole register, or the lowest part.
    Nobody changes a source; it is not frozen because there are many, and frozen objects take three times as long to
    make.
    """

    operand: Value | int | ConstantWord | Global
    negated: bool = False
    inverted: bool = False
    absolute: bool = False
    part: RegisterPart | None = None

    @property
    def value(self) -> Value | None:
        """The virtual register, if it is one."""
        return self.operand if isinstance(self.operand, Value) else None

    @property
    def plain(self) -> bool:
        """Whether it has no modifiers."""
        return not (self.negated or self.inverted or self.absolute or self.part)

    @property
    def number(self) -> int | None:
        """The number with its modifiers applied, if it is one."""
        if not isinstance(self.operand, int) or self.part:
            return None
        value = self.operand
        if self.absolute and value >> 31:
            value = -value
        if self.inverted:
            value = ~value
        return (-value if self.negated else value) & WORD

    def with_operand(self, operand: "Value | int | ConstantWord | Global") -> "Source":
        """Another operand with the same modifiers."""
        return Source(operand, self.negated, self.inverted, self.absolute, self.part)

    def negate(self) -> "Source":
        """The same, negated."""
        return replace(self, negated=not self.negated)

    def invert(self) -> "Source":
        """The same with all bits the other way round; a predicate negated."""
        return replace(self, inverted=not self.inverted)


def number(value: int) -> Source:
    """A number of 32 bits."""
    return Source(value & WORD)


RZ = Source(0)
PT = Source(1)
MOVE, ADD, COPY_PREDICATE = opcode("MOV"), opcode("IADD"), opcode("PSETP")
"""What many passes make: a copy, a sum, and a copy of a predicate (its conjunction with two that are true)."""


def real(source: Source) -> Source:
    """A source in single precision; the modifiers of a number are applied to its sign."""
    if not isinstance(source.operand, int) or source.plain or not source.operand:
        return source
    bits = source.operand & (WORD >> 1 if source.absolute else WORD)
    return number(bits ^ (SIGN if source.negated else 0))


@dataclass(eq=False, slots=True)
class Op:
    """An operation.

    Attributes:
        opcode: What it does.
        results, sources: What is written, None where nobody wants it, and what is read, in the table's order.
        sets_carry, takes_carry: Whether CC is written (``.CC``) and read (``.X``).
        guard: The predicate that lets threads take part.
        fresh: Of a guarded operation: what its results held before is not needed.
        offset: Of an address. ``in_caller``: behind the function's own frame.
        symbol: The function that is called, or the table that is read.
        clobbers: Registers that a call changes beside its results.
        line, column: Where the PTX has it.
    """

    opcode: Opcode
    results: list[Value | None]
    sources: list[Source]
    sets_carry: bool = False
    takes_carry: bool = False
    guard: Source | None = None
    fresh: bool = False
    offset: int = 0
    in_caller: bool = False
    symbol: str = ""
    line: int = 0
    column: int = 0
    clobbers: frozenset[int] = frozenset()

    @property
    def name(self) -> str:
        """The name of what it does."""
        return self.opcode.name

    @property
    def fields(self) -> Fields:
        """The values of its modifiers."""
        return self.opcode.fields

    @property
    def shape(self) -> OpcodeShape:
        """The roles of its operands."""
        return self.opcode.shape(len(self.results), len(self.sources))

    @property
    def is_pure(self) -> bool:
        """Whether it does nothing but compute its results, the same each time."""
        return self.opcode.pure and not self.sets_carry

    def reads(self) -> list[Value]:
        """All values that it reads, the guard's too."""
        found = [source.operand for source in self.sources if isinstance(source.operand, Value)]
        if self.guard is not None and isinstance(self.guard.operand, Value):
            found.append(self.guard.operand)
        return found

    def writes(self) -> list[Value]:
        """All values that it writes."""
        return [value for value in self.results if value is not None]

    @property
    def replaces(self) -> bool:
        """Whether what its results held before is gone in every thread that matters."""
        return self.guard is None or self.fresh

    def __repr__(self) -> str:
        guard = (
            f"@{'!' if self.guard.inverted else ''}{self.guard.operand} "
            if self.guard is not None
            else ""
        )
        sources = ", ".join(
            f"{'-' * s.negated}{'~' * s.inverted}{s.operand}{s.part or ''}" for s in self.sources
        )
        carry = f"{'.X' * self.takes_carry}{'.CC' * self.sets_carry}"
        return f"{guard}{self.opcode}{carry} {self.results} <- {sources} {self.symbol}".rstrip()


@dataclass(eq=False)
class JumpTable:
    """The targets of a branch by index, in a constant bank."""

    name: str
    targets: list["Block"]
    labels: list[str] = field(default_factory=list)


class Terminator(Enum):
    """How a block ends, by its name in listings.

    GOTO goes to ``successors[0]``; BRANCH there where ``condition`` holds, else to ``successors[1]``; SWITCH through
    ``table``, by the byte offset in ``condition``. EXIT ends threads, RETURN returns from the function.
    """

    GOTO = "goto"
    BRANCH = "branch"
    SWITCH = "switch"
    EXIT = "exit"
    RETURN = "ret"


@dataclass(eq=False)
class Block:
    """A basic block: operations without a branch between them, and its terminator.

    ``uniform`` says that all threads go the same way.
    """

    name: str
    ops: list[Op] = field(default_factory=list)
    terminator: Terminator = Terminator.GOTO
    condition: Source | None = None
    successors: list["Block"] = field(default_factory=list)
    table: JumpTable | None = None
    uniform: bool = False

    def __repr__(self) -> str:
        return self.name

    def go_to(self, target: "Block") -> None:
        """Replaces the terminator by a GOTO."""
        self.terminator = Terminator.GOTO
        self.condition = None
        self.successors = [target]


@dataclass(eq=False)
class Function:
    """A function between instruction selection and code.

    Attributes:
        entry: Whether it is a kernel.
        blocks: In the order of the code; the first one is where the function begins.
        parameters, results: The values that are passed in registers, each with its fixed register.
        frame: Bytes of its variables in local memory; spilled values are added above these.
        reserved: Bytes at the upper end of a kernel's frame: the module's variables in local space.
        calls: The functions that it calls by name.
        library_calls: Those of them that are functions of the runtime library.
        indirect: Whether it calls functions by their addresses.
        standard: Whether it keeps the registers that :mod:`.abi` says; callers of others know what they change.
        recursion: The functions that may call it again while it runs, itself among them if it calls itself.
        clobbers: The registers that a call of it may change, once it is compiled.
        barriers: How many barriers it uses, from number 0 on.
        stack: The stack pointer.
    """

    name: str
    entry: bool
    blocks: list[Block]
    parameters: list[Value] = field(default_factory=list)
    results: list[Value] = field(default_factory=list)
    frame: int = 0
    calls: list[str] = field(default_factory=list)
    library_calls: set[str] = field(default_factory=set)
    indirect: bool = False
    standard: bool = False
    recursion: frozenset[str] = frozenset()
    clobbers: frozenset[int] = frozenset()
    barriers: int = 0
    reserved: int = 0
    stack: Value = field(default_factory=lambda: Value("stack", fixed=1))

    def ops(self) -> Iterator[Op]:
        """All operations."""
        for block in self.blocks:
            yield from block.ops

    def recurses(self, block: Block) -> bool:
        """Whether a block has a call that may lead to this function again."""
        return not self.entry and any(
            op.name == "ICAL" or (op.name == "CAL" and op.symbol in self.recursion)
            for op in block.ops
        )

    def predecessors(self) -> dict[Block, list[Block]]:
        """The blocks before each block; one stands there once for each way."""
        found: dict[Block, list[Block]] = {block: [] for block in self.blocks}
        for block in self.blocks:
            for successor in block.successors:
                found[successor].append(block)
        return found
