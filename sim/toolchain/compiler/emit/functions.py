"""Emits a function's blocks as assembly statements: prologue, epilogue, branches and tokens."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from sim.support.alignment import round_up
from sim.toolchain.assembly import statements
from sim.toolchain.assembly.program import Line
from sim.toolchain.assembly.source import SassLabel, SassOperand, SassTargets
from sim.toolchain.compiler.abi import FRAME_ALIGNMENT, STACK_POINTER, STANDARD_CLOBBERS
from sim.toolchain.compiler.ir import Block, Function, Op, Source, Terminator, Value
from sim.toolchain.compiler.layout import DriverWord
from sim.toolchain.compiler.passes.reconvergence import TokenPlan

from .encode import InstructionEncoder, names_a_copy

__all__ = ["Finished", "FunctionCode"]

_STACK = statements.register(STACK_POINTER, "")


@dataclass
class Finished:
    """A function after register allocation.

    ``frame`` is the frame's size in bytes with the saved registers; ``needs_stack`` says whether
    the function or a callee has a frame.
    """

    function: Function
    registers: Mapping[Value, int]
    plan: TokenPlan
    frame: int
    saved: list[int]
    saves_at: int
    needs_stack: bool = False

    @classmethod
    def of(cls, function: Function, registers: Mapping[Value, int], plan: TokenPlan) -> "Finished":
        """Lays out the frame of a function."""
        saved: list[int] = []
        if function.standard:
            used = {number for value, number in registers.items() if not value.predicate}
            changed = used.union(*(op.clobbers for op in function.ops()))
            saved = sorted(changed - STANDARD_CLOBBERS - {STACK_POINTER})
        saves_at = round_up(function.frame, 4)
        frame = round_up(saves_at + 4 * len(saved) + function.reserved, FRAME_ALIGNMENT)
        return cls(function, registers, plan, frame, saved, saves_at)

    @property
    def clobbers(self) -> frozenset[int]:
        """The registers that the function's own code changes."""
        return frozenset(
            number
            for value, number in self.registers.items()
            if not value.predicate and number != STACK_POINTER
        ) - set(self.saved)

    @cached_property
    def code(self) -> "FunctionCode":
        """The function's code, emitted at the first access."""
        return FunctionCode(self)


class FunctionCode:
    """The code of a function.

    The copies for different kernels differ only in the names of functions and tables. The lines
    with such names are made for each kernel; all others are shared.
    """

    def __init__(self, finished: Finished) -> None:
        writer = _FunctionWriter(finished)
        self._statements = writer.statements()
        self._finished = finished
        self._named = writer.named

    def statements(self, prefix: str) -> list[SassLabel | Line]:
        """Returns the statements for a kernel; ``prefix`` precedes the names of functions and
        tables.
        """
        writer = InstructionEncoder(self._finished.registers, self._finished.frame, prefix)
        return [
            statement
            if isinstance(statement, SassLabel) or statement not in self._named
            else writer.line(self._named[statement])
            for statement in self._statements
        ]


class _FunctionWriter:
    """Writes the statements of a function. ``named`` maps lines to operations whose names depend on
    the kernel.
    """

    def __init__(self, finished: Finished) -> None:
        self.finished = finished
        self.function = finished.function
        self.plan = finished.plan
        self.writer = InstructionEncoder(finished.registers, finished.frame, "")
        self.written: list[SassLabel | Line] = []
        self.stubs: list[SassLabel | Line] = []
        self.named: dict[Line, Op] = {}
        self.own = f".L.{self.function.name}"  # names in PTX have no dots
        self.names = {
            block: f"{self.own}.{number}" for number, block in enumerate(self.function.blocks)
        }
        self.used: set[str] = set()

    def statements(self) -> list[SassLabel | Line]:
        """Returns all statements, without the labels that no instruction uses."""
        self._prologue()
        blocks = self.function.blocks
        for block, following in zip(blocks, [*blocks[1:], None], strict=True):
            self.written.append(statements.label(self.names[block]))
            for op in block.ops:
                self._operation(op)
            for region in self.plan.pushes.get(block, []):
                self._add(region.token.push, statements.name(self._label(region.join)))
            self._terminate(block, following)
            self.written += self.stubs
            self.stubs = []
        return [item for item in self.written if isinstance(item, Line) or item.name in self.used]

    def _add(
        self,
        mnemonic: str,
        *operands: SassOperand,
        guard: Source | None = None,
        targets: SassTargets | None = None,
    ) -> None:
        """Adds an instruction."""
        self.written.append(
            Line(
                statements.instruction(
                    mnemonic, operands, self.writer.guard(guard), branch_targets=targets
                )
            )
        )

    def _label(self, block: Block) -> str:
        self.used.add(self.names[block])
        return self.names[block]

    def _prologue(self) -> None:
        if self.function.entry and self.finished.needs_stack:
            self._add("MOV", _STACK, statements.constant(0, DriverWord.STACK))
        if self.finished.frame:
            self._add("IADD32I", _STACK, _STACK, statements.number(-self.finished.frame))
        for at, number in enumerate(self.finished.saved):
            self._add("STL", self._saved(at), statements.register(number, ""))

    def _epilogue(self) -> None:
        for at, number in enumerate(self.finished.saved):
            self._add("LDL", statements.register(number, ""), self._saved(at))
        if self.finished.frame:
            self._add("IADD32I", _STACK, _STACK, statements.number(self.finished.frame))

    def _saved(self, at: int) -> SassOperand:
        """Returns the operand for the frame slot of saved register ``at``."""
        return statements.memory(STACK_POINTER, self.finished.saves_at + 4 * at)

    def _operation(self, op: Op) -> None:
        if op.name == "ICAL":
            label = f"{self.own}.call{len(self.written)}"
            self.used.add(label)
            self._add("PRET", statements.name(label))
            self._add(
                "BRX", self._indexed(op.sources[0]), targets=statements.targets((), call=True)
            )
            self.written.append(statements.label(label))
            return
        line = self.writer.line(op)
        if names_a_copy(op):
            self.named[line] = op
        self.written.append(line)

    def _indexed(self, index: Source) -> SassOperand:
        """Returns BRX's operand: a register that holds a byte offset into the code."""
        assert index.value is not None
        return statements.indexed(self.writer.registers[index.value])

    def _terminate(self, block: Block, following: Block | None) -> None:
        match block.terminator:
            case Terminator.EXIT:
                self._add("EXIT")
            case Terminator.RETURN:
                self._epilogue()
                self._add("RET")
            case Terminator.GOTO:
                self._go(block, block.successors[0], None, following)
            case Terminator.BRANCH:
                self._branch(block, following)
            case Terminator.SWITCH:
                self._switch(block)

    def _leaving(self, block: Block, target: Block) -> tuple[str, SassTargets | None] | None:
        """Returns the instruction that takes threads out of a block instead of a branch, and its
        targets; None where a branch is needed.
        """
        region = self.plan.leaves.get((block, target))
        if region is not None:
            return region.token.leave, statements.targets([self._label(region.join)])
        if not target.ops and target.terminator is Terminator.EXIT:
            return "EXIT", None
        if not target.ops and target.terminator is Terminator.RETURN and not self.finished.frame:
            return "RET", None
        return None

    def _go(
        self, block: Block, target: Block, guard: Source | None, following: Block | None
    ) -> None:
        leave = self._leaving(block, target)
        if leave is not None:
            self._add(leave[0], guard=guard, targets=leave[1])
        elif target is not following:
            self._add("BRA", statements.name(self._label(target)), guard=guard)

    def _branch(self, block: Block, following: Block | None) -> None:
        condition = block.condition
        assert condition is not None
        first, second = block.successors
        leaves = [self._leaving(block, target) is not None for target in (first, second)]
        # The guarded instruction goes first. Of a path that leaves a region and one that branches,
        # the branch goes first: delaying the threads that leave costs less than delaying all that
        # stay.
        swap = first is following or (leaves[0] and not leaves[1] and second is not following)
        if second is following and not leaves[1]:
            swap = False
        if swap:
            first, second, condition = second, first, condition.invert()
        self._go(block, first, condition, None)
        self._go(block, second, None, following)

    def _switch(self, block: Block) -> None:
        assert block.condition is not None and block.table is not None
        labels = {}
        for target in dict.fromkeys(block.successors):
            region = self.plan.leaves.get((block, target))
            if region is None:
                labels[target] = self._label(target)
                continue
            labels[target] = f"{self.names[block]}.{len(labels)}"
            self.used.add(labels[target])
            leave = statements.instruction(
                region.token.leave, branch_targets=statements.targets([self._label(region.join)])
            )
            self.stubs += [statements.label(labels[target]), Line(leave)]
        block.table.labels = [labels[target] for target in block.successors]
        self._add(
            "BRX", self._indexed(block.condition), targets=statements.targets(list(labels.values()))
        )
