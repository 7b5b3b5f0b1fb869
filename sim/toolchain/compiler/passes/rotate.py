"""Loop rotation: copies the test at a loop's beginning to its end, which saves a branch in each
iteration.
"""

from sim.toolchain.compiler.analysis.loops import Loop, find_loops
from sim.toolchain.compiler.ir import Block, Function, Terminator

from .counted_loops import copied

__all__ = ["rotate"]

_LONGEST_TEST = 8


def rotate(function: Function) -> None:
    """Copies tests at the beginnings of loops to their ends."""
    rotated: set[Block] = set()
    changed = True
    while changed:
        changed = False
        for loop in reversed(find_loops(function)):  # inner ones first
            if loop.header not in rotated and _tests_first(loop):
                # The successor of the test is the new header; a test there is not moved.
                rotated.update(loop.header.successors, [loop.header])
                _rotate(function, loop)
                changed = True


def _tests_first(loop: Loop) -> bool:
    header = loop.header
    if (
        header.terminator is not Terminator.BRANCH
        or len(header.ops) > _LONGEST_TEST
        or len(loop.blocks) == 1
    ):
        return False
    inside = [successor in loop.blocks for successor in header.successors]
    return inside.count(True) == 1 and header not in header.successors


def _rotate(function: Function, loop: Loop) -> None:
    header = loop.header
    test = Block(
        f"{header.name}.again",
        [copied(op) for op in header.ops],
        Terminator.BRANCH,
        header.condition,
        list(header.successors),
        uniform=header.uniform,
    )
    backs = [block for block in loop.blocks if header in block.successors]
    last = max(map(function.blocks.index, backs))
    for block in backs:
        block.successors = [
            test if successor is header else successor for successor in block.successors
        ]
        if block.table is not None:
            block.table.targets = list(block.successors)
    function.blocks.insert(last + 1, test)
    outer = loop.parent
    while outer is not None:
        outer.blocks.add(test)
        outer = outer.parent
