"""Partial unrolling of loops of one block that count up to a limit which the launch determines:
four iterations at a time.

Before the loop, and after each four iterations, the remaining count shows whether four more
iterations follow; these run without a test between them. The original loop runs the rest. Counter
and limit are the same for all threads, so these branches are uniform.
"""

from dataclasses import dataclass, replace

from rtl.isa.kinds import Boolean, Compare
from sim.toolchain.compiler.ir import (
    ADD,
    PT,
    Block,
    ConstantWord,
    Function,
    Op,
    Source,
    Terminator,
    Value,
    number,
)
from sim.toolchain.compiler.opcodes import ARRIVALS, opcode

from .counted_loops import copied, first_source, only_definition

__all__ = ["unroll"]

_UNROLL_FACTOR = 4
_LONGEST = 40
_IS_MORE = opcode("ISETP", (("compare", Compare.GT), ("signed", False)))
_SIDE_EFFECTS_APART = ARRIVALS | {"CAL", "ICAL"}


@dataclass
class _Count:
    """A counted loop.

    Attributes:
        step: The operation that increments the counter.
        test: The operation that compares the counter with the limit.
        counter: The counter.
        limit: The limit.
        by: The increment.
    """

    step: Op
    test: Op
    counter: Value
    limit: Source
    by: int


def unroll(function: Function) -> None:
    """Unrolls all such loops four times."""
    before = function.predecessors()
    for block in list(function.blocks):
        if (
            block.terminator is not Terminator.BRANCH
            or block not in block.successors
            or len(block.ops) > _LONGEST
        ):
            continue
        entries = [source for source in before[block] if source is not block]
        count = _counting(block, entries[0], before) if len(entries) == 1 else None
        if count is not None and not any(op.name in _SIDE_EFFECTS_APART for op in block.ops):
            _repeat(function, block, entries[0], count)


def _counting(block: Block, entry: Block, before: dict[Block, list[Block]]) -> _Count | None:
    """Returns the counter of a loop that adds a number until it reaches a constant limit, or
    None.
    """
    condition = block.condition
    if (
        condition is None
        or condition.value is None
        or condition.inverted == (block.successors[0] is block)
    ):
        return None
    test = only_definition(block, condition.value)
    if test is None or test.name != "ISETP" or test.takes_carry or test.results[1]:
        return None
    if test.fields["compare"] is not Compare.LT or test.fields["combine"] is not Boolean.AND:
        return None
    counter, limit, third = test.sources
    if (
        counter.value is None
        or limit.value is None
        or third != PT
        or not counter.plain
        or not limit.plain
    ):
        return None
    step = only_definition(block, counter.value)
    if (
        step is None
        or step.name != "IADD"
        or step.sets_carry
        or step.takes_carry
        or not step.opcode.plain
    ):
        return None
    by = step.sources[1].number
    if step.sources[0] != counter or by is None or not 0 < by < 1 << 8:
        return None
    if block.ops.index(step) > block.ops.index(test) or any(
        limit.value in op.results for op in block.ops
    ):
        return None
    if any(condition.value in op.reads() for op in block.ops):
        return None
    first, bound = (first_source(value, entry, before) for value in (counter.value, limit.value))
    if (
        first is None
        or first.number is None
        or bound is None
        or not isinstance(bound.operand, ConstantWord)
    ):
        return None
    return _Count(step, test, counter.value, limit, by)


def _repeat(function: Function, block: Block, entry: Block, count: _Count) -> None:
    behind = next(successor for successor in block.successors if successor is not block)
    name = block.name
    less, room = Value(f"{name}.less", True), Value(f"{name}.room", True)
    many = Block(f"{name}.many", [], Terminator.BRANCH, Source(room), [])
    rest = Block(f"{name}.rest", [], Terminator.BRANCH, Source(less), [block, behind], uniform=True)
    gate = Block(
        f"{name}.gate",
        _tests(count, less, room),
        Terminator.BRANCH,
        Source(room),
        [many, block],
        uniform=True,
    )
    for _ in range(_UNROLL_FACTOR):
        many.ops += [copied(op) for op in block.ops if op is not count.test]
    many.ops += _tests(count, less, room)
    many.successors, many.uniform = [many, rest], True
    entry.successors = [gate if successor is block else successor for successor in entry.successors]
    if entry.table is not None:
        entry.table.targets = list(entry.successors)
    at = function.blocks.index(block)
    function.blocks[at:at] = [gate, many, rest]


def _tests(count: _Count, less: Value, room: Value) -> list[Op]:
    """Returns the tests for at least one and for at least four remaining iterations. The difference
    is valid if the first test is true.
    """
    left = Value("left")
    counter, line, column = Source(count.counter), count.test.line, count.test.column
    return [
        Op(ADD, [left], [count.limit, counter.negate()], line=line, column=column),
        replace(count.test, results=[less, None], sources=[counter, count.limit, PT]),
        Op(
            _IS_MORE,
            [room, None],
            [Source(left), number((_UNROLL_FACTOR - 1) * count.by), Source(less)],
            line=line,
            column=column,
        ),
    ]
