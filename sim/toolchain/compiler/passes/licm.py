"""Loop-invariant code motion: moves operations whose result is the same in each iteration before
the loop.
"""

from collections.abc import Container

from sim.toolchain.compiler.analysis.definitions import Definitions
from sim.toolchain.compiler.analysis.loops import Loop, find_loops
from sim.toolchain.compiler.ir import Block, Function, Op, Terminator

__all__ = ["hoist_invariants"]

_MOST = 32
"""The most operations that are moved out of one loop. It limits the register pressure."""


def hoist_invariants(function: Function) -> None:
    """Moves invariant operations to the preheaders of loops, from inner loops to outer ones."""
    known = Definitions(function)
    predecessors = function.predecessors()
    position = {block: at for at, block in enumerate(function.blocks)}
    for loop in reversed(find_loops(function)):
        before = [block for block in predecessors[loop.header] if block not in loop.blocks]
        if len(before) == 1 and before[0].terminator is Terminator.GOTO:
            _hoist(sorted(loop.blocks, key=position.__getitem__), loop, before[0], known)


def _hoist(blocks: list[Block], loop: Loop, before: Block, known: Definitions) -> None:
    """Moves invariant operations of a loop to its preheader. ``blocks`` are the loop's blocks in
    the order of the code.
    """
    moved: dict[Op, None] = {}
    for block in blocks:
        if len(moved) == _MOST:
            break
        kept = []
        for op in block.ops:
            if len(moved) < _MOST and _is_invariant(op, known, loop, moved):
                moved[op] = None
            else:
                kept.append(op)
        block.ops = kept
    for op in moved:
        known.dominators.append(op, before)


def _is_invariant(op: Op, known: Definitions, loop: Loop, moved: Container[Op]) -> bool:
    if not op.is_pure or op.takes_carry or op.guard is not None or not op.results:
        return False
    if any(
        value is not None and (value not in known.only or value.predicate) for value in op.results
    ):
        return False
    for source in op.sources:
        value = source.value
        if value is None or value is known.function.stack:
            continue
        made = known.only.get(value)
        if made is None or not known.steady(source, op):
            return False
        if made not in moved and known.dominators.at[made][0] in loop.blocks:
            return False
    return True
