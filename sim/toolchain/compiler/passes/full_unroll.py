"""Full unrolling of loops of one block with a known trip count, if the code does not become too
long.
"""

from rtl.isa.kinds import Boolean
from sim.toolchain.compiler.ir import Block, Function, Terminator
from sim.toolchain.compiler.opcodes import RELATIONS

from .counted_loops import copied, first_source, only_definition

__all__ = ["unroll_fully"]

_LONGEST_WRITTEN = 1200
_MOST_ITERATIONS = 64


def unroll_fully(function: Function) -> bool:
    """Unrolls loops of one block whose trip count is known. Returns whether there was one."""
    before = function.predecessors()
    changed = False
    for block in function.blocks:
        if block.terminator is not Terminator.BRANCH or block not in block.successors:
            continue
        entries = [source for source in before[block] if source is not block]
        if len(entries) != 1:
            continue
        trip_count = _trip_count(function, block, entries[0], before)
        if trip_count is None or trip_count * len(block.ops) > _LONGEST_WRITTEN:
            continue
        behind = next(successor for successor in block.successors if successor is not block)
        block.ops = [copied(op) for _ in range(trip_count) for op in block.ops]
        block.go_to(behind)
        changed = True
    return changed


def _trip_count(
    function: Function, block: Block, entry: Block, before: dict[Block, list[Block]]
) -> int | None:
    """Returns the trip count of a loop of one block, found by simulating its counter, or None."""
    condition = block.condition
    if condition is None or condition.value is None:
        return None
    test = only_definition(block, condition.value)
    if (
        test is None
        or test.name != "ISETP"
        or test.fields["combine"] is not Boolean.AND
        or test.takes_carry
    ):
        return None
    counter, limit, third = test.sources
    if (
        limit.number is None
        or counter.value is None
        or third.value is not None
        or not counter.plain
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
    if step.sources[0] != counter or step.sources[1].number is None:
        return None
    first = first_source(counter.value, entry, before)
    if first is None or first.number is None:
        return None
    value = first.number
    relation, signed = RELATIONS[test.fields["compare"]], bool(test.fields["signed"])
    stays = block.successors[0] is block
    stepped = block.ops.index(step) < block.ops.index(test)
    for iteration in range(1, _MOST_ITERATIONS + 1):
        following = value + step.sources[1].number & 0xFFFF_FFFF
        seen = following if stepped else value
        holds = relation(_as(seen, signed), _as(limit.number, signed)) != condition.inverted
        if holds != stays:
            return iteration
        value = following
    return None


def _as(value: int, signed: bool) -> int:
    return value - (value >> 31 << 32) if signed else value
