"""The builder for instruction selection: the function under construction, its blocks, and its
registers.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from rtl.isa.kinds import Compare
from sim.toolchain.compiler.ir import (
    PT,
    Block,
    ConstantWord,
    Function,
    Global,
    Op,
    Source,
    Terminator,
    Value,
    number,
)
from sim.toolchain.compiler.layout import DriverWord, MemoryLayout
from sim.toolchain.compiler.opcodes import opcode
from sim.toolchain.module import ProgramError
from sim.toolchain.ptx.module import (
    Negated,
    Operand,
    PtxFunction,
    PtxGuard,
    PtxImmediate,
    PtxInstruction,
    PtxLabel,
    PtxRegister,
    PtxVariable,
    PtxVector,
    Sink,
    Type,
    VariableRef,
)

__all__ = ["Builder", "CompileError", "ComputeKind", "Handler", "handles", "select"]


class CompileError(ProgramError):
    """A construct that this compiler does not support, at ``line`` and ``column``."""

    def __init__(self, line: int, column: int, message: str) -> None:
        super().__init__(message)
        self.line, self.column = line, column


@dataclass
class Builder:
    """The state of one function during selection.

    Attributes:
        function: The function under construction.
        layout: The layout of the module's variables.
        locals: Offsets of the function's variables in its frame, in bytes.
        stack: The stack pointer.
        words: The virtual registers of each PTX register, and of each variable that holds a
            parameter.
        labels: The block of each label.
        block: The current block.
        current: The current instruction.
        guard: The guard of the current instruction.
        temporaries: The number of temporaries and blocks so far, for their names.
        named: The virtual registers in ``words``.
        library: The other functions of the runtime library if the function is one of them or
            inlines one.
        numbers: Arguments of inlined functions that are numbers.
    """

    function: Function
    layout: MemoryLayout
    locals: Mapping[PtxVariable, int]
    stack: Value
    words: dict[PtxRegister | PtxVariable, list[Value]] = field(default_factory=dict)
    labels: dict[PtxLabel, Block] = field(default_factory=dict)
    block: Block = field(default_factory=lambda: Block("entry"))
    current: PtxInstruction | None = None
    guard: Source | None = None
    temporaries: int = 0
    named: set[Value] = field(default_factory=set)
    library: Mapping[str, PtxFunction] = field(default_factory=dict)
    numbers: dict[Value, Source] = field(default_factory=dict)

    # Values

    def temporary(self, predicate: bool = False, fixed: int | None = None) -> Value:
        """Returns a new virtual register."""
        self.temporaries += 1
        return Value(f"{'p' if predicate else 't'}{self.temporaries}", predicate, fixed)

    def pair(self) -> list[Value]:
        """Returns two new virtual registers."""
        return [self.temporary(), self.temporary()]

    def registers(self, register: PtxRegister) -> list[Value]:
        """Returns the virtual registers of a PTX register: two for 64 bits, else one."""
        if register not in self.words:
            count = 2 if register.type.bits == 64 else 1
            self.words[register] = [
                Value(f"{register.name}{'_hi' * at}", register.type is Type.PRED)
                for at in range(count)
            ]
            self.named.update(self.words[register])
        return self.words[register]

    def variable_words(self, variable: PtxVariable) -> list[Value]:
        """Returns the virtual registers of a variable that holds a parameter."""
        if variable not in self.words:
            self.words[variable] = [
                Value(f"{variable.name}.{at}") for at in range(-(-variable.size // 4))
            ]
            self.named.update(self.words[variable])
        return self.words[variable]

    def read(self, operand: Operand, bits: int = 32) -> list[Source]:
        """Returns an operand's 32-bit words, as many as ``bits`` need."""
        count = 2 if bits == 64 else 1
        match operand:
            case PtxRegister():
                found = [
                    self.numbers.get(value) or Source(value) for value in self.registers(operand)
                ]
            case PtxImmediate(value):
                found = [number(value), number(value >> 32)]
            case VariableRef(variable, offset):
                found = self.address_of(variable, offset)
            case _:
                raise self.failure(f"{type(operand).__name__} can't be read here")
        return [*found, number(0)][:count]

    def word(self, operand: Operand) -> Source:
        """Returns an operand of at most 32 bits."""
        return self.read(operand)[0]

    def predicate(self, operand: Operand | PtxGuard) -> Source:
        """Returns a predicate operand as a source."""
        match operand:
            case PtxRegister():
                return Source(self.registers(operand)[0])
            case Negated(register):
                return Source(self.registers(register)[0], inverted=True)
            case PtxGuard(register, negated):
                return Source(self.registers(register)[0], inverted=negated)
            case PtxImmediate(value):
                return number(value & 1)
        raise self.failure("expected a predicate")

    def write(self, operand: Operand, bits: int = 32) -> list[Value | None]:
        """Returns the virtual registers for a result of ``bits`` bits, None for each word of an
        unused result.
        """
        count = 2 if bits == 64 else 1
        if isinstance(operand, Sink):
            return [None] * count
        if not isinstance(operand, PtxRegister):
            raise self.failure("expected a register for the result")
        return self.registers(operand)[:count]  # type: ignore[return-value]

    def elements(self, operand: Operand) -> tuple[Operand, ...]:
        """Returns the elements of a vector, or the operand itself."""
        return operand.elements if isinstance(operand, PtxVector) else (operand,)

    def address_of(self, variable: PtxVariable, offset: int) -> list[Source]:
        """Returns a variable's address in its space, as two words."""
        if variable in self.locals:
            low = self.temporary()
            self.op("IADD", [low], Source(self.stack), number(self.locals[variable] + offset))
            return [Source(low), number(0)]
        if variable in self.layout.locals:
            below = self.layout.locals[variable] - self.layout.local_bytes
            return [
                self.compute("IADD", constant(0, DriverWord.STACK), number(below + offset)),
                number(0),
            ]
        place = self.layout.offsets.get(variable)
        if place is None:
            return [
                Source(Global(variable.name, offset)),
                Source(Global(variable.name, offset, True)),
            ]
        return [number(place + offset), number(0)]

    # Operations

    def op(
        self,
        name: str,
        results: list[Value | None],
        *sources: Source,
        sets_carry: bool = False,
        takes_carry: bool = False,
        offset: int = 0,
        in_caller: bool = False,
        symbol: str = "",
        clobbers: frozenset[int] = frozenset(),
        **fields: Any,
    ) -> Op:
        """Adds an operation.

        It gets the instruction's guard if it has side effects or writes a register of the PTX
        program. ``fields`` are the modifiers that differ from their defaults.
        """
        made = Op(
            opcode(name, tuple(fields.items())),
            list(results),
            list(sources),
            sets_carry,
            takes_carry,
            offset=offset,
            in_caller=in_caller,
            symbol=symbol,
            clobbers=clobbers,
        )
        if self.current is not None:
            made.line, made.column = self.current.line, self.current.column
        if self.guard is not None and (
            not made.is_pure or any(value in self.named for value in made.writes())
        ):
            made.guard = self.guard
            made.fresh = not any(value in self.named for value in made.writes())
        self.block.ops.append(made)
        return made

    def compute(
        self,
        name: str,
        *sources: Source,
        sets_carry: bool = False,
        takes_carry: bool = False,
        symbol: str = "",
        **fields: Any,
    ) -> Source:
        """Adds an operation with one new result, and returns the result."""
        result = self.temporary()
        self.op(
            name,
            [result],
            *sources,
            sets_carry=sets_carry,
            takes_carry=takes_carry,
            symbol=symbol,
            **fields,
        )
        return Source(result)

    def compute_pair(self, name: str, *sources: Source, **fields: Any) -> list[Source]:
        """Adds an operation with two new results, and returns the results."""
        results = self.pair()
        self.op(name, list(results), *sources, **fields)
        return [Source(result) for result in results]

    def move(self, results: list[Value | None], sources: list[Source]) -> None:
        """Copies words. A destination may also be a source."""
        held = {source.value for source in sources[1:]} & set(results[:-1])
        if held:
            sources = [self.compute("MOV", source) for source in sources]
        for result, source in zip(results, sources, strict=True):
            if result is not None:
                self.op("MOV", [result], source)

    def compare(
        self,
        result: Value | None,
        relation: Compare,
        x: Source,
        y: Source,
        with_: Source = PT,
        signed: bool = True,
    ) -> None:
        """Adds an ISETP that writes ``result``."""
        self.op("ISETP", [result, None], x, y, with_, compare=relation, signed=signed)

    def test(
        self, relation: Compare, x: Source, y: Source, with_: Source = PT, signed: bool = True
    ) -> Source:
        """Adds an ISETP with a new predicate, and returns the predicate."""
        result = self.temporary(True)
        self.compare(result, relation, x, y, with_, signed)
        return Source(result)

    def test_unsigned(self, relation: Compare, x: Source, y: Source, with_: Source = PT) -> Source:
        """Adds an unsigned comparison with a new predicate, and returns the predicate."""
        return self.test(relation, x, y, with_, signed=False)

    # Blocks

    def label(self, label: PtxLabel) -> Block:
        """Returns the block that begins at a label."""
        if label not in self.labels:
            self.labels[label] = Block(label.name)
        return self.labels[label]

    def begin(self, block: Block) -> None:
        """Makes another block the current one, and appends it to the function."""
        self.function.blocks.append(block)
        self.block = block

    def new_block(self, name: str) -> Block:
        """Returns a new block that is not in the function yet."""
        self.temporaries += 1
        return Block(f"{name}{self.temporaries}")

    def end(
        self,
        terminator: Terminator,
        *successors: Block,
        condition: Source | None = None,
        uniform: bool = False,
    ) -> None:
        """Sets the terminator of the current block."""
        self.block.terminator, self.block.successors = terminator, list(successors)
        self.block.condition, self.block.uniform = condition, uniform

    def guarded_end(self, terminator: Terminator) -> None:
        """Ends the current block by an exit or ret for the threads of the guard; the others
        continue in a new block.
        """
        if self.guard is None:
            self.end(terminator)
            self.begin(self.new_block("after"))
            return
        leave, stay = self.new_block("leave"), self.new_block("stay")
        self.end(Terminator.BRANCH, leave, stay, condition=self.guard)
        self.begin(leave)
        self.end(terminator)
        self.begin(stay)

    def guarded_block(self) -> Block | None:
        """Begins a block for the threads of the guard only.

        Returns:
            The block after it, for :meth:`leave_guarded_block`; None if the instruction has no
            guard.
        """
        if self.guard is None:
            return None
        body, behind = self.new_block("body"), self.new_block("behind")
        self.end(Terminator.BRANCH, body, behind, condition=self.guard)
        self.begin(body)
        self.guard = None
        return behind

    def leave_guarded_block(self, behind: Block | None) -> None:
        """Ends the block that :meth:`guarded_block` began, and begins the one after it."""
        if behind is not None:
            self.end(Terminator.GOTO, behind)
            self.begin(behind)

    def failure(self, message: str) -> CompileError:
        """Returns an error at the current instruction, to be raised."""
        assert self.current is not None
        return CompileError(self.current.line, self.current.column, message)


def constant(bank: int, offset: int) -> Source:
    """Returns a word of a constant bank."""
    return Source(ConstantWord(bank, offset))


Handler = Callable[[Builder, PtxInstruction], None]


class ComputeKind(Enum):
    """The kind of numbers that an instruction computes with; each may have handlers of its own."""

    WORDS = "words"
    LONGS = "double words"
    SINGLES = "single precision"
    DOUBLES = "double precision"
    HALVES = "half precision"


_handlers: dict[tuple[str, ComputeKind], Handler] = {}
"""The handler of each PTX opcode, for some opcodes also of 64-bit and floating-point numbers."""
_MOVES = frozenset({"atom", "ld", "ldu", "mov", "red", "selp", "set", "slct", "st"})
"""Opcodes that treat a floating-point number as bits, unless they have a handler for its kind."""


def handles(*opcodes: str, kind: ComputeKind = ComputeKind.WORDS) -> Callable[[Handler], Handler]:
    """Returns a decorator that registers the handler of some opcodes for one kind of numbers."""

    def enter(handler: Handler) -> Handler:
        _handlers.update(dict.fromkeys(((opcode, kind) for opcode in opcodes), handler))
        return handler

    return enter


def _kind(i: PtxInstruction) -> ComputeKind:
    """Returns the kind of numbers that an instruction computes with, from any type of a cvt and the
    last type of others.
    """
    kinds = i.types if i.opcode == "cvt" else i.types[-1:]
    if Type.F16 in kinds:
        return ComputeKind.HALVES
    if Type.F64 in kinds:
        return ComputeKind.DOUBLES
    if Type.F32 in kinds:
        return ComputeKind.SINGLES
    return ComputeKind.LONGS if i.types and i.type.bits == 64 else ComputeKind.WORDS


def _handler_of(i: PtxInstruction) -> Handler | None:
    """Returns the handler of an instruction, or None."""
    kind = _kind(i)
    found = _handlers.get((i.opcode, kind))
    if found is not None:
        return found
    if kind in (ComputeKind.SINGLES, ComputeKind.DOUBLES) and i.opcode not in _MOVES:
        raise CompileError(i.line, i.column, f"{i.opcode} in {kind.value} is not supported")
    return _handlers.get((i.opcode, ComputeKind.WORDS))


def select(b: Builder, item: PtxLabel | PtxInstruction) -> None:
    """Adds the operations of an instruction, or begins the block at a label."""
    if isinstance(item, PtxLabel):
        block = b.label(item)
        if b.block.terminator is Terminator.GOTO and not b.block.successors:
            b.end(Terminator.GOTO, block)
        b.begin(block)
        return
    b.guard = b.predicate(item.guard) if item.guard is not None else None
    handler = _handler_of(item)
    if handler is None:
        raise CompileError(item.line, item.column, f"{item.opcode} is not translated")
    handler(b, item)
    b.guard = None
