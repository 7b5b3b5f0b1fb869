"""What is the same each turn is computed before the loop."""

from .definitions import Definitions
from .instructions import is_pure
from .ir import Block, Function, Op
from .loops import Loop, find_loops

__all__ = ["hoist"]

_MOST = 32
"""Values that one loop gives away, so that they do not fill the registers."""


def hoist(function: Function) -> None:
    """Moves operations to loops' preheaders, from inner loops to outer ones."""
    for loop in reversed(find_loops(function)):
        before = [block for block in function.blocks if block not in loop.blocks and loop.header in block.successors]
        if len(before) == 1 and before[0].ending == "goto":
            _empty(function, loop, before[0])


def _empty(function: Function, loop: Loop, before: Block) -> None:
    known = Definitions(function)
    moved: set[Op] = set()
    for block in function.blocks:
        if block not in loop.blocks:
            continue
        for op in block.ops:
            if len(moved) < _MOST and _same_each_turn(op, known, loop, moved):
                moved.add(op)
                before.ops.append(op)
        block.ops = [op for op in block.ops if op not in moved]


def _same_each_turn(op: Op, known: Definitions, loop: Loop, moved: set[Op]) -> bool:
    if not is_pure(op) or op.takes_carry or op.guard is not None or not op.results:
        return False
    if any(value is not None and (value not in known.only or value.predicate) for value in op.results):
        return False
    for source in op.sources:
        value = source.value
        if value is None or value is known.function.stack:
            continue
        made = known.only.get(value)
        if made is None or not known.steady(source, op):
            return False
        if made not in moved and known.places.at[made][0] in loop.blocks:
            return False
    return True
