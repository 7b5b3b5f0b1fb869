"""If-conversion: short bodies of branches become guarded operations, which cost less than a
divergent branch.
"""

from heapq import heappop, heappush

from sim.toolchain.compiler.analysis.liveness import Liveness
from sim.toolchain.compiler.ir import Block, Function, Op, Source, Terminator, Value
from sim.toolchain.compiler.opcodes import TOGETHER

__all__ = ["if_convert"]

_LONGEST = 6
_LONGEST_OF_TWO = 4


def if_convert(function: Function) -> None:
    """Converts all bodies that are short enough, inner ones first. The sets of values live at block
    entries stay valid.
    """
    live, before, blocks = Liveness(function), function.predecessors(), function.blocks
    position = {block: at for at, block in enumerate(blocks)}
    gone: set[Block] = set()
    waiting = list(range(len(blocks)))  # a heap: the first block of the code comes first
    while waiting:
        block = blocks[heappop(waiting)]
        bodies = _bodies(block, before) if block not in gone else []
        if not bodies:
            continue
        behind = bodies[0].successors[0]
        _convert(block, bodies, behind, live)
        gone.update(bodies)
        before[behind] = [
            other for other in before[behind] if other not in bodies and other is not block
        ] + [block]
        # The block no longer ends in a branch: it may be a body itself.
        for other in before[block]:
            heappush(waiting, position[other])
    function.blocks = [block for block in blocks if block not in gone]


def _bodies(block: Block, before: dict[Block, list[Block]]) -> list[Block]:
    """Returns the bodies of a block's branch that can be converted: one, two or none."""
    if (
        block.terminator is not Terminator.BRANCH
        or block.condition is None
        or block.condition.value is None
    ):
        return []
    first, second = block.successors
    bodies = [body for body in (first, second) if _is_body(body, block, before)]
    if (
        len(bodies) == 2
        and bodies[0].successors == bodies[1].successors
        and all(_short(body, block.condition.value, _LONGEST_OF_TWO) for body in bodies)
    ):
        return bodies
    for body in bodies:
        other = second if body is first else first
        if body.successors[0] is other and _short(body, block.condition.value, _LONGEST):
            return [body]
    return []


def _is_body(body: Block, block: Block, before: dict[Block, list[Block]]) -> bool:
    return body.terminator is Terminator.GOTO and before[body] == [block] and body is not block


def _short(body: Block, condition: Value, limit: int) -> bool:
    return len(body.ops) <= limit and all(
        op.guard is None and op.name not in TOGETHER and condition not in op.results
        for op in body.ops
    )


def _convert(block: Block, bodies: list[Block], behind: Block, live: Liveness) -> None:
    condition = block.condition
    assert condition is not None
    for body in bodies:
        guard = condition if body is block.successors[0] else condition.invert()
        block.ops += [_guarded(op, guard, live, live.live_in[behind]) for op in body.ops]
    block.go_to(behind)


def _guarded(op: Op, guard: Source, live: Liveness, wanted: int) -> Op:
    """Returns the operation, guarded if needed. An operation whose results are dead after the body
    may run in all threads: the other body does not read them, as each web has a name of its own.
    """
    seen = live.written_by(op) & wanted
    if not seen and (op.is_pure or op.sets_carry):
        return op
    op.guard, op.fresh = guard, not seen
    return op
