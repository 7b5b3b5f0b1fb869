"""A function's blocks as lines of assembly text: what is between its operations."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from .abi import FRAME_ALIGNMENT, STACK_POINTER, STANDARD_CLOBBERS
from .convergence import Plan
from .emit import Printer
from .ir import Block, Function, Op, Source, Value
from .layout import DriverWord, aligned

__all__ = ["CodeLine", "Finished", "function_lines"]


class CodeLine(str):
    """A line of assembly text, and the line and column of the PTX that it was made of, 0 where there is none."""

    __slots__ = ("column", "line")
    line: int
    column: int

    def __new__(cls, text: str, line: int, column: int) -> "CodeLine":
        """The line."""
        made = super().__new__(cls, text)
        made.line = line
        made.column = column
        return made


@dataclass
class Finished:
    """A function that has its registers. ``frame`` has the registers that it keeps, too; ``needs_stack`` tells whether
    it, or what it calls, has a frame.
    """

    function: Function
    registers: Mapping[Value, int]
    plan: Plan
    frame: int = 0
    saved: list[int] = field(default_factory=list)
    saves_at: int = 0
    needs_stack: bool = False

    @classmethod
    def of(cls, function: Function, registers: Mapping[Value, int], plan: Plan) -> "Finished":
        """With its frame laid out."""
        saved: list[int] = []
        if function.standard:
            used = {number for value, number in registers.items() if not value.predicate}
            changed = used.union(*(op.clobbers for op in function.ops()))
            saved = sorted(changed - STANDARD_CLOBBERS - {STACK_POINTER})
        saves_at = aligned(function.frame, 4)
        frame = aligned(saves_at + 4 * len(saved), FRAME_ALIGNMENT)
        return cls(function, registers, plan, frame, saved, saves_at)

    @property
    def clobbers(self) -> frozenset[int]:
        """The registers that it changes itself."""
        return frozenset(number for value, number in self.registers.items()
                         if not value.predicate and number != STACK_POINTER) - set(self.saved)


def function_lines(finished: Finished, prefix: str) -> list[str]:
    """The code of a function; ``prefix`` stands before the names of functions, labels and tables."""
    return _Writer(finished, prefix).lines()


class _Writer:
    def __init__(self, finished: Finished, prefix: str) -> None:
        self.finished = finished
        self.function = finished.function
        self.plan = finished.plan
        self.prefix = prefix
        self.printer = Printer(finished.registers, finished.frame, prefix)
        self.written: list[str] = []
        self.stubs: list[str] = []
        self.own = f".L.{prefix}{self.function.name}"        # names in PTX have no dots
        self.names = {block: f"{self.own}.{number}" for number, block in enumerate(self.function.blocks)}
        self.used: set[str] = set()

    def lines(self) -> list[str]:
        """All lines; labels that nobody uses left out."""
        self._prologue()
        blocks = self.function.blocks
        for block, following in zip(blocks, [*blocks[1:], None], strict=True):
            self.written.append(f"{self.names[block]}:")
            for op in block.ops:
                self._operation(op)
            for region in self.plan.pushes.get(block, []):
                self._add(f"{region.token.push} {self._label(region.join)}")
            self._ending(block, following)
            self.written += self.stubs
            self.stubs = []
        return [line for line in self.written if not line.endswith(":") or line[:-1] in self.used]

    def _add(self, line: str, op: Op | None = None) -> None:
        """Adds a line, of an operation or of what is between them."""
        place = (op.line, op.column) if op is not None else (0, 0)
        self.written.append(CodeLine(f"        {line}", *place))

    def _label(self, block: Block) -> str:
        self.used.add(self.names[block])
        return self.names[block]

    def _prologue(self) -> None:
        if self.function.entry and self.finished.needs_stack:
            self._add(f"MOV R1, c[0x0][{DriverWord.STACK:#x}]")
        if self.finished.frame:
            self._add(f"IADD32I R1, R1, -{self.finished.frame:#x}")
        for at, number in enumerate(self.finished.saved):
            self._add(f"STL [R1+{self.finished.saves_at + 4 * at:#x}], R{number}")

    def _epilogue(self) -> None:
        for at, number in enumerate(self.finished.saved):
            self._add(f"LDL R{number}, [R1+{self.finished.saves_at + 4 * at:#x}]")
        if self.finished.frame:
            self._add(f"IADD32I R1, R1, {self.finished.frame:#x}")

    def _operation(self, op: Op) -> None:
        if op.name == "CAL":
            self._add(f"CAL {self.prefix}{op.text}", op)
        elif op.name == "ICAL":
            label = f"{self.own}.call{len(self.written)}"
            self.used.add(label)
            self._add(f"PRET {label}")
            self._add(f"BRX {self.printer.source(op.sources[0])} -.next -> call")
            self.written.append(f"{label}:")
        else:
            self._add(self.printer.line(op), op)

    def _ending(self, block: Block, following: Block | None) -> None:
        match block.ending:
            case "exit":
                self._add("EXIT")
            case "ret":
                self._epilogue()
                self._add("RET")
            case "goto":
                self._go(block, block.successors[0], None, following)
            case "branch":
                self._branch(block, following)
            case "switch":
                self._switch(block)

    def _leaving(self, block: Block, target: Block) -> str | None:
        """The instruction that takes threads out of a block without a branch, if there is one."""
        region = self.plan.leaves.get((block, target))
        if region is not None:
            return f"{region.token.leave} -> {self._label(region.join)}"
        if not target.ops and target.ending == "exit":
            return "EXIT"
        if not target.ops and target.ending == "ret" and not self.finished.frame:
            return "RET"
        return None

    def _go(self, block: Block, target: Block, guard: Source | None, following: Block | None) -> None:
        leave = self._leaving(block, target)
        if leave is not None:
            self._add(f"{self.printer.guard(guard)}{leave}")
        elif target is not following:
            self._add(f"{self.printer.guard(guard)}BRA {self._label(target)}")

    def _branch(self, block: Block, following: Block | None) -> None:
        condition = block.condition
        assert condition is not None
        first, second = block.successors
        leaves = [self._leaving(block, target) is not None for target in (first, second)]
        # The way that needs the guard goes first. Of a way that leaves and one that branches this is the branch:
        # threads that leave later cost less than all that stay.
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
            self.stubs += [f"{labels[target]}:", f"        {region.token.leave} -> {self._label(region.join)}"]
        block.table.labels = [labels[target] for target in block.successors]
        self._add(f"BRX {self.printer.source(block.condition)} -.next -> {', '.join(labels.values())}")
