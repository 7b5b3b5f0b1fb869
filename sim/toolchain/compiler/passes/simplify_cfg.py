"""Simplification of the control-flow graph: jump threading, block merging, removal of unreachable
blocks.
"""

from collections.abc import Collection

from sim.toolchain.compiler.ir import Block, Function, Terminator

from .reconvergence import TokenPlan

__all__ = ["drop_unreachable", "simplify_cfg", "skip_empty"]


def simplify_cfg(function: Function) -> None:
    """Simplifies the control-flow graph until nothing changes."""
    changed = True
    while changed:
        changed = (
            _same_targets(function)
            | _thread(function)
            | _merge(function)
            | drop_unreachable(function)
        )


def _same_targets(function: Function) -> bool:
    """Replaces branches whose two targets are the same. Returns whether there were any."""
    changed = False
    for block in function.blocks:
        if block.terminator is Terminator.BRANCH and block.successors[0] is block.successors[1]:
            block.go_to(block.successors[0])
            changed = True
    return changed


def _thread(function: Function) -> bool:
    """Redirects edges past empty blocks. Returns whether there were any."""
    changed = False
    for block in function.blocks:
        for at, successor in enumerate(block.successors):
            target = successor
            seen = {target}
            while (
                not target.ops
                and target.terminator is Terminator.GOTO
                and target.successors[0] not in seen
            ):
                target = target.successors[0]
                seen.add(target)
            if target is not successor:
                block.successors[at] = target
                changed = True
        if block.table is not None:
            block.table.targets = list(block.successors)
    return changed


def _merge(function: Function) -> bool:
    """Merges a block with its only successor if that has no other predecessor. Returns whether
    there were any.
    """
    before = function.predecessors()
    changed = False
    gone: set[Block] = set()
    for block in function.blocks:
        while block not in gone and block.terminator is Terminator.GOTO:
            target = block.successors[0]
            if (
                target is block
                or target is function.blocks[0]
                or len(before[target]) != 1
                or target in gone
            ):
                break
            block.ops += target.ops
            block.terminator = target.terminator
            block.condition = target.condition
            block.successors = target.successors
            block.table = target.table
            block.uniform = target.uniform
            gone.add(target)
            changed = True
    function.blocks = [block for block in function.blocks if block not in gone]
    return changed


def skip_empty(function: Function, plan: TokenPlan) -> None:
    """Redirects edges past blocks that became empty after the token plan was made. If such a block
    leaves a region, the redirected edge leaves it.
    """
    for block in function.blocks:
        for at, target in enumerate(block.successors):
            seen = {block}
            while (
                not target.ops
                and target.terminator is Terminator.GOTO
                and target not in plan.pushes
                and (block, target) not in plan.leaves
                and target not in seen
            ):
                seen.add(target)
                beyond = target.successors[0]
                if (target, beyond) in plan.leaves:
                    plan.leaves[block, beyond] = plan.leaves[target, beyond]
                block.successors[at] = target = beyond
        if block.table is not None:
            block.table.targets = list(block.successors)
    _same_targets(function)
    drop_unreachable(
        function, {region.join for pushed in plan.pushes.values() for region in pushed}
    )


def drop_unreachable(function: Function, kept: Collection[Block] = ()) -> bool:
    """Removes unreachable blocks except those in ``kept``. Returns whether there were any."""
    found, waiting = {function.blocks[0], *kept}, [function.blocks[0], *kept]
    while waiting:
        for successor in waiting.pop().successors:
            if successor not in found:
                found.add(successor)
                waiting.append(successor)
    changed = len(found) != len(function.blocks)
    function.blocks = [block for block in function.blocks if block in found]
    return changed
