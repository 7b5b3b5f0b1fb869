"""The intermediate representation between PTX and assembly: operations on virtual registers of 32
bits.

A 64-bit value is a pair of virtual registers. An operation has the name of its machine instruction,
or is one of a few pseudo-instructions (see :mod:`.passes.expand`). Any source may be a number or a
constant until :mod:`.passes.legalise` moves those that cannot be encoded into registers.
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
"""A register with all bits set."""
SIGN = 0x8000_0000
"""The sign bit of a number in single precision."""


@dataclass(eq=False, slots=True)
class Value:
    """A virtual register of 32 bits, or a virtual predicate. ``fixed`` is the number of the machine
    register that it must be assigned, or None.
    """

    name: str
    predicate: bool = False
    fixed: int | None = None

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True)
class ConstantWord:
    """The constant ``c[bank][offset]``; the offset is in bytes."""

    bank: int
    offset: int


@dataclass(frozen=True)
class Global:
    """The upper or the lower 32 bits of the address that is ``addend`` bytes into a global
    variable.
    """

    name: str
    addend: int
    upper: bool = False


class RegisterPart(Enum):
    """The part of a register that an operand selects, as the instruction table spells it.

    The lowest byte and the lowest half have no member: other fields of the operation select them.
    """

    B1 = ".B1"
    B2 = ".B2"
    B3 = ".B3"
    H1 = ".H1"

    def __str__(self) -> str:
        return self.value


@dataclass(unsafe_hash=True, slots=True)
class Source:
    """A source of an operation: an operand (a value, a number of 32 bits, a constant or an address)
    and its modifiers.

    ``absolute`` is applied first, ``negated`` last. A constant predicate is the number 1 or 0.
    Without a ``part`` the source is the whole register, or its lowest part. Sources are immutable
    by convention only: there are many of them, and frozen objects take three times as long to
    create.
    """

    operand: Value | int | ConstantWord | Global
    negated: bool = False
    inverted: bool = False
    absolute: bool = False
    part: RegisterPart | None = None

    @property
    def value(self) -> Value | None:
        """The virtual register, or None if the operand is none."""
        return self.operand if isinstance(self.operand, Value) else None

    @property
    def plain(self) -> bool:
        """Whether it has no modifiers."""
        return not (self.negated or self.inverted or self.absolute or self.part)

    @property
    def number(self) -> int | None:
        """The number with its modifiers applied, or None if the operand is no number."""
        if not isinstance(self.operand, int) or self.part:
            return None
        value = self.operand
        if self.absolute and value >> 31:
            value = -value
        if self.inverted:
            value = ~value
        return (-value if self.negated else value) & WORD

    def with_operand(self, operand: "Value | int | ConstantWord | Global") -> "Source":
        """Returns a source with another operand and the same modifiers."""
        return Source(operand, self.negated, self.inverted, self.absolute, self.part)

    def negate(self) -> "Source":
        """Returns the negated source."""
        return replace(self, negated=not self.negated)

    def invert(self) -> "Source":
        """Returns the source with all bits inverted; a predicate is negated."""
        return replace(self, inverted=not self.inverted)


def number(value: int) -> Source:
    """Returns a number of 32 bits as a source; higher bits are dropped."""
    return Source(value & WORD)


RZ = Source(0)
PT = Source(1)
MOVE, ADD, COPY_PREDICATE = opcode("MOV"), opcode("IADD"), opcode("PSETP")
"""Opcodes that many passes create: a copy, a sum, and a copy of a predicate (its conjunction with
two true ones).
"""


def real(source: Source) -> Source:
    """Returns a source in single precision; the modifiers of a number are applied to its sign
    bit.
    """
    if not isinstance(source.operand, int) or source.plain or not source.operand:
        return source
    bits = source.operand & (WORD >> 1 if source.absolute else WORD)
    return number(bits ^ (SIGN if source.negated else 0))


@dataclass(eq=False, slots=True)
class Op:
    """An operation.

    Attributes:
        opcode: The instruction or pseudo-instruction with its modifiers.
        results: The values written, None for an unused result, in the table's order.
        sources: The sources read, in the table's order.
        sets_carry: Whether CC is written (``.CC``).
        takes_carry: Whether CC is read (``.X``).
        guard: The predicate of the threads that execute the operation.
        fresh: Whether the previous contents of a guarded operation's results are dead.
        offset: The offset in an address, in bytes.
        in_caller: Whether the offset starts at the end of the function's own frame.
        symbol: The function that is called, or the table that is read.
        line: The line in the PTX source.
        column: The column in the PTX source.
        clobbers: Registers that a call changes besides its results.
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
        """The name of the opcode."""
        return self.opcode.name

    @property
    def fields(self) -> Fields:
        """The values of the opcode's modifiers."""
        return self.opcode.fields

    @property
    def shape(self) -> OpcodeShape:
        """The roles of the operands."""
        return self.opcode.shape(len(self.results), len(self.sources))

    @property
    def is_pure(self) -> bool:
        """Whether it has no effect except its results, which depend on its sources alone."""
        return self.opcode.pure and not self.sets_carry

    def reads(self) -> list[Value]:
        """Returns all values that it reads, with the guard."""
        found = [source.operand for source in self.sources if isinstance(source.operand, Value)]
        if self.guard is not None and isinstance(self.guard.operand, Value):
            found.append(self.guard.operand)
        return found

    def writes(self) -> list[Value]:
        """Returns all values that it writes."""
        return [value for value in self.results if value is not None]

    @property
    def replaces(self) -> bool:
        """Whether the previous contents of the results are dead after it."""
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
    """The targets of an indexed branch, which are in a constant bank."""

    name: str
    targets: list["Block"]
    labels: list[str] = field(default_factory=list)


class Terminator(Enum):
    """How a block ends. The value is the name in listings.

    - GOTO continues at ``successors[0]``.
    - BRANCH continues at ``successors[0]`` if ``condition`` is true, else at ``successors[1]``.
    - SWITCH continues at the entry of ``table`` with the byte offset ``condition``.
    - EXIT ends threads.
    - RETURN returns from the function.
    """

    GOTO = "goto"
    BRANCH = "branch"
    SWITCH = "switch"
    EXIT = "exit"
    RETURN = "ret"


@dataclass(eq=False)
class Block:
    """A basic block: operations without a branch between them, and a terminator.

    ``uniform`` is set if all threads of a warp take the same branch.
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
    """A function between instruction selection and code emission.

    Attributes:
        name: Its name in the PTX module.
        entry: Whether it is a kernel.
        blocks: The blocks in the order of the code; the first one is the entry block.
        parameters: The values of arguments in registers, each with its fixed register.
        results: The values of results in registers, each with its fixed register.
        frame: The size in bytes of its variables in local memory; spill slots are added above them.
        reserved: Bytes at the upper end of a kernel's frame for the module's variables in local
            space.
        calls: The functions that it calls by name.
        library_calls: Those of them that are functions of the runtime library.
        indirect: Whether it calls functions by address.
        standard: Whether it uses the standard convention of :mod:`.abi`; callers of other functions
            know the registers that these change.
        recursion: The functions that may call it again while it runs, with itself if it calls
            itself.
        clobbers: The registers that a call of it may change; known after it is compiled.
        barriers: The number of barriers that it uses, from barrier 0.
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
        """Yields all operations."""
        for block in self.blocks:
            yield from block.ops

    def recurses(self, block: Block) -> bool:
        """Whether a block has a call that may lead to this function again."""
        return not self.entry and any(
            op.name == "ICAL" or (op.name == "CAL" and op.symbol in self.recursion)
            for op in block.ops
        )

    def predecessors(self) -> dict[Block, list[Block]]:
        """Returns the predecessors of each block, one entry for each edge."""
        found: dict[Block, list[Block]] = {block: [] for block in self.blocks}
        for block in self.blocks:
            for successor in block.successors:
                found[successor].append(block)
        return found
