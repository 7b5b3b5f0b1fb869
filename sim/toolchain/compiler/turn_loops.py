"""Loops that test at their end, and short ones written out.

A loop that tests at its begin gets a copy of the test at its end, which saves a branch a turn. A loop of one block
that runs a known number of times is written out, if that is not too long.
"""

from dataclasses import replace

from rtl.isa.kinds import Boolean

from .ir import Block, Function, Op, Source, Value
from .loops import Loop, find_loops
from .opcodes import RELATIONS

__all__ = ["copied", "first_source", "only_definition", "rotate", "write_out"]

_LONGEST_TEST = 8
_LONGEST_WRITTEN = 1200
_MOST_TURNS = 64


def copied(op: Op) -> Op:
    """The same operation once more."""
    return replace(op, results=list(op.results), sources=list(op.sources))


def rotate(function: Function) -> None:
    """Copies the tests at loops' begins to their ends."""
    turned: set[Block] = set()
    changed = True
    while changed:
        changed = False
        for loop in reversed(find_loops(function)):     # inner ones first
            if loop.header not in turned and _tests_first(loop):
                # What follows the test is the loop's header now; a test there stays where it is.
                turned.update(loop.header.successors, [loop.header])
                _turn(function, loop)
                changed = True


def _tests_first(loop: Loop) -> bool:
    header = loop.header
    if header.ending != "branch" or len(header.ops) > _LONGEST_TEST or len(loop.blocks) == 1:
        return False
    inside = [successor in loop.blocks for successor in header.successors]
    return inside.count(True) == 1 and header not in header.successors


def _turn(function: Function, loop: Loop) -> None:
    header = loop.header
    test = Block(f"{header.name}.again", [copied(op) for op in header.ops], "branch", header.condition,
                 list(header.successors), uniform=header.uniform)
    backs = [block for block in loop.blocks if header in block.successors]
    last = max(map(function.blocks.index, backs))
    for block in backs:
        block.successors = [test if successor is header else successor for successor in block.successors]
        if block.table is not None:
            block.table.targets = list(block.successors)
    function.blocks.insert(last + 1, test)
    outer = loop.parent
    while outer is not None:
        outer.blocks.add(test)
        outer = outer.parent


def write_out(function: Function) -> bool:
    """Writes out loops of one block whose turns can be counted; whether there was one."""
    before = function.predecessors()
    changed = False
    for block in function.blocks:
        if block.ending != "branch" or block not in block.successors:
            continue
        entries = [source for source in before[block] if source is not block]
        if len(entries) != 1:
            continue
        turns = _turns(function, block, entries[0], before)
        if turns is None or turns * len(block.ops) > _LONGEST_WRITTEN:
            continue
        behind = next(successor for successor in block.successors if successor is not block)
        block.ops = [copied(op) for _ in range(turns) for op in block.ops]
        block.ending, block.condition, block.successors = "goto", None, [behind]
        changed = True
    return changed


def _turns(function: Function, block: Block, entry: Block, before: dict[Block, list[Block]]) -> int | None:
    """How often a loop of one block runs, found by counting."""
    condition = block.condition
    if condition is None or condition.value is None:
        return None
    test = only_definition(block, condition.value)
    if test is None or test.name != "ISETP" or test.fields["combine"] is not Boolean.AND or test.takes_carry:
        return None
    counter, limit, third = test.sources
    if limit.number is None or counter.value is None or third.value is not None or not counter.plain:
        return None
    step = only_definition(block, counter.value)
    if step is None or step.name != "IADD" or step.sets_carry or step.takes_carry or not step.opcode.plain:
        return None
    if step.sources[0] != counter or step.sources[1].number is None:
        return None
    first = first_source(counter.value, entry, before)
    if first is None or first.number is None:
        return None
    value = first.number
    relation, signed = RELATIONS[test.fields["compare"]], bool(test.fields["signed"])
    stays = block.successors[0] is block
    stepped = block.ops.index(step) < block.ops.index(test)
    for turn in range(1, _MOST_TURNS + 1):
        following = value + step.sources[1].number & 0xFFFF_FFFF
        seen = following if stepped else value
        holds = relation(_as(seen, signed), _as(limit.number, signed)) != condition.inverted
        if holds != stays:
            return turn
        value = following
    return None


def _as(value: int, signed: bool) -> int:
    return value - (value >> 31 << 32) if signed else value


def only_definition(block: Block, value: Value) -> Op | None:
    """The one operation of a block that writes a value, for all threads."""
    found = [op for op in block.ops if value in op.results]
    return found[0] if len(found) == 1 and found[0].guard is None else None


def first_source(value: Value, block: Block, before: dict[Block, list[Block]]) -> Source | None:
    """What has been copied to a value at a block's end, if a copy is the last that wrote it on the way there."""
    ops = block.ops
    for _ in range(_MOST_TURNS):
        at = next((at for at in range(len(ops) - 1, -1, -1) if value in ops[at].results), None)
        if at is None:
            if len(before[block]) != 1:
                return None
            block = before[block][0]
            ops = block.ops
            continue
        last = ops[at]
        if last.name != "MOV" or last.guard is not None or not last.sources[0].plain:
            return None
        if last.sources[0].value is None:
            return last.sources[0]
        value, ops = last.sources[0].value, ops[:at]
    return None
