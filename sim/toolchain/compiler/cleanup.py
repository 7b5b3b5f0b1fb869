"""Blocks that do nothing go, and those that follow each other alone become one."""

from .ir import Block, Function

__all__ = ["clean", "drop_unreachable"]


def clean(function: Function) -> None:
    """Simplifies the ways between blocks until nothing changes."""
    changed = True
    while changed:
        changed = _same_targets(function) | _thread(function) | _merge(function) | drop_unreachable(function)


def _same_targets(function: Function) -> bool:
    """A branch to one place is none."""
    changed = False
    for block in function.blocks:
        if block.ending == "branch" and block.successors[0] is block.successors[1]:
            block.ending, block.condition, block.successors = "goto", None, block.successors[:1]
            changed = True
    return changed


def _thread(function: Function) -> bool:
    """Ways through a block that only leads on skip it."""
    changed = False
    for block in function.blocks:
        for at, successor in enumerate(block.successors):
            target = successor
            seen = {target}
            while not target.ops and target.ending == "goto" and target.successors[0] not in seen:
                target = target.successors[0]
                seen.add(target)
            if target is not successor:
                block.successors[at] = target
                changed = True
        if block.table is not None:
            block.table.targets = list(block.successors)
    return changed


def _merge(function: Function) -> bool:
    """A block that only one leads to, and that leads nowhere else, is part of that."""
    before = function.predecessors()
    changed = False
    gone: set[Block] = set()
    for block in function.blocks:
        while block not in gone and block.ending == "goto":
            target = block.successors[0]
            if target is block or target is function.blocks[0] or len(before[target]) != 1 or target in gone:
                break
            block.ops += target.ops
            block.ending, block.condition, block.successors = target.ending, target.condition, target.successors
            block.table, block.uniform = target.table, target.uniform
            gone.add(target)
            changed = True
    function.blocks = [block for block in function.blocks if block not in gone]
    return changed


def drop_unreachable(function: Function) -> bool:
    """Blocks that nothing leads to go."""
    found, waiting = {function.blocks[0]}, [function.blocks[0]]
    while waiting:
        for successor in waiting.pop().successors:
            if successor not in found:
                found.add(successor)
                waiting.append(successor)
    changed = len(found) != len(function.blocks)
    function.blocks = [block for block in function.blocks if block in found]
    return changed
