"""Short bodies of branches become guarded operations: a branch that threads take both ways costs more than they do."""

from .dataflow import Liveness
from .instructions import ARRIVALS, is_pure
from .ir import Block, Function, Op, Source, Value

__all__ = ["predicate"]

_LONGEST = 6
_LONGEST_OF_TWO = 4
_TOGETHER = ARRIVALS | {"VOTE", "SHFL", "B2R", "CAL", "ICAL", "BPT", "MEMBAR", "PRET"}
"""What threads do together, or cannot be guarded."""


def predicate(function: Function) -> None:
    """Converts all bodies that are short enough, inner ones first."""
    while _convert_one(function):
        pass


def _convert_one(function: Function) -> bool:
    before = function.predecessors()
    for block in function.blocks:
        if block.ending != "branch" or block.condition is None or block.condition.value is None:
            continue
        first, second = block.successors
        bodies = [body for body in (first, second) if _is_body(body, block, before)]
        if len(bodies) == 2 and bodies[0].successors == bodies[1].successors and all(
                _short(body, block.condition.value, _LONGEST_OF_TWO) for body in bodies):
            _convert(function, block, bodies, first.successors[0])
            return True
        for body in bodies:
            other = second if body is first else first
            if body.successors[0] is other and _short(body, block.condition.value, _LONGEST):
                _convert(function, block, [body], other)
                return True
    return False


def _is_body(body: Block, block: Block, before: dict[Block, list[Block]]) -> bool:
    return body.ending == "goto" and before[body] == [block] and body is not block


def _short(body: Block, condition: Value, limit: int) -> bool:
    return len(body.ops) <= limit and all(
        op.guard is None and op.name not in _TOGETHER and condition not in op.results for op in body.ops)


def _convert(function: Function, block: Block, bodies: list[Block], behind: Block) -> None:
    live = Liveness(function)
    condition = block.condition
    assert condition is not None
    for body in bodies:
        guard = condition if body is block.successors[0] else condition.invert()
        block.ops += [_guarded(op, guard, live, live.live_in[behind]) for op in body.ops]
    block.ending, block.condition, block.successors = "goto", None, [behind]
    function.blocks = [other for other in function.blocks if other not in bodies]


def _guarded(op: Op, guard: Source, live: Liveness, wanted: int) -> Op:
    """The operation for the threads of the guard. What nobody sees behind the body all threads may compute: the other
    body does not read it, as each meaning of a value has a name of its own.
    """
    seen = live.mask(op.writes()) & wanted
    if not seen and (is_pure(op) or op.sets_carry):
        return op
    op.guard, op.fresh = guard, not seen
    return op
