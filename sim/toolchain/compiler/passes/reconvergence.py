"""Reconvergence: where divergent threads meet again, and which tokens on the call/return stack take them there.

A region is the code between a push and the place where the threads that passed the push meet. Ways to that place leave
the region by the instruction that fits its token: SYNC for SSY; BRK, CONT and LONGJMP for the tokens that they unwind
to, which may have others above them. A divergent branch outside of any region is right, too: one path runs first,
up to where the region around it is left, or the thread ends, then the other. So regions are proposed as the
program's shape suggests, and those whose tokens would not balance on every way are dropped. None is proposed that
would only gather threads for the short end of a function that calls itself: it would double the tokens of a recursion.
"""

import math
from dataclasses import dataclass, field
from enum import Enum

from sim.toolchain.compiler.analysis.divergence import divergent_blocks
from sim.toolchain.compiler.analysis.dominators import Dominators
from sim.toolchain.compiler.analysis.loops import Loop
from sim.toolchain.compiler.analysis.post_dominators import Level, LoopLevels
from sim.toolchain.compiler.ir import Block, Function, Terminator
from sim.toolchain.compiler.opcodes import TOGETHER

__all__ = ["ReconvergenceRegion", "TokenPair", "TokenPlan", "plan"]

_SHORT_END = 6
"""Operations of a function's end, at most, that threads run apart rather than wait for others through a recursion."""


class TokenPair(Enum):
    """A pair of instructions: what pushes a token, and what takes threads to it."""

    SYNC = ("SSY", "SYNC")
    BREAK = ("PBK", "BRK")
    CONTINUE = ("PCNT", "CONT")
    LONGJMP = ("PLONGJMP", "LONGJMP")

    @property
    def push(self) -> str:
        """What pushes it."""
        return self.value[0]

    @property
    def leave(self) -> str:
        """What threads leave by."""
        return self.value[1]


@dataclass(eq=False)
class ReconvergenceRegion:
    """The code from the end of ``entry`` to ``join``. ``loop`` is the one whose threads it collects, if there is
    one.
    """

    entry: Block
    join: Block
    loop: Loop | None = None
    token: TokenPair = TokenPair.SYNC


@dataclass
class TokenPlan:
    """Which tokens a function pushes, and where threads leave by them.

    Attributes:
        pushes: The regions whose tokens are pushed at the end of a block, the outermost first.
        leaves: For a path from one block to another the region that it leaves; none for other paths.
        depth: The most tokens of these regions that are on the stack at once.
        divergent: The blocks at whose end threads may diverge.
        has_divergent_loop: Whether one of these is in a loop.
    """

    pushes: dict[Block, list[ReconvergenceRegion]] = field(default_factory=dict)
    leaves: dict[tuple[Block, Block], ReconvergenceRegion] = field(default_factory=dict)
    depth: int = 0
    divergent: set[Block] = field(default_factory=set)
    has_divergent_loop: bool = False


def plan(function: Function) -> TokenPlan:
    """The regions of a function. Every loop has a preheader."""
    graph = LoopLevels(function)
    divergent = divergent_blocks(function, graph)
    dominators = Dominators(function)
    branches = _branch_regions(function, graph, dominators, divergent)
    # A branch before a loop, to where that is left, collects the loop's threads as well.
    regions = [
        region
        for region in _loop_regions(function, graph, divergent)
        if not any(
            other.join is region.join and dominators.dominates(other.entry, region.entry)
            for other in branches
        )
    ] + branches
    while True:
        outcome = _Balance(function, regions, dominators).check()
        if isinstance(outcome, TokenPlan):
            outcome.divergent = divergent
            outcome.has_divergent_loop = any(divergent & loop.blocks for loop in graph.loops)
            return outcome
        regions.remove(outcome)


def _loop_regions(
    function: Function, graph: LoopLevels, divergent: set[Block]
) -> list[ReconvergenceRegion]:
    """A region around each loop that threads leave at different times."""
    regions = []
    for loop in graph.left_apart(divergent):
        level = graph.outer(loop)
        before = next(
            (
                block
                for block in function.blocks
                if block not in loop.blocks and loop.header in block.successors
            ),
            None,
        )
        if before is None:
            continue
        targets = {target for _, target in loop.exits() if level.stays_inside(before, target)}
        join = level.meeting(targets)
        if (
            join is not None
            and not _ends_at_once(join)
            and not _recurses(function, graph, join, loop)
        ):
            regions.append(ReconvergenceRegion(before, join, loop))
    return regions


def _ends_at_once(block: Block) -> bool:
    """Whether threads that come here are done: there is no use in waiting for others."""
    return not block.ops and block.terminator in (Terminator.EXIT, Terminator.RETURN)


def _recurses(function: Function, graph: LoopLevels, join: Block, within: Block | Loop) -> bool:
    """Whether it is better not to meet at a join behind a branch or a loop: the way there calls the function again,
    with a token more on the stack each time, and the join is its short end, which threads may run apart.
    """
    if (
        not (function.recursion or function.indirect)
        or join.terminator is not Terminator.RETURN
        or len(join.ops) > _SHORT_END
    ):
        return False
    if any(op.name in TOGETHER for op in join.ops):
        return False
    span = within.blocks if isinstance(within, Loop) else graph.span(within)
    return any(function.recurses(block) for block in span)


def _branch_regions(
    function: Function, graph: LoopLevels, dominators: Dominators, divergent: set[Block]
) -> list[ReconvergenceRegion]:
    """A region for all branches of a level that meet at the same place and can be entered together."""
    groups: dict[tuple[Level, Block], list[list[Block]]] = {}
    for block in function.blocks:
        level = graph.level(block)
        if block not in divergent:
            continue
        inside = {target for target in block.successors if level.stays_inside(block, target)}
        if len(inside) < 2:
            continue
        join = level.join(block)
        if join is None or _ends_at_once(join) or _recurses(function, graph, join, block):
            continue
        members = groups.setdefault((level, join), [])
        own = next(
            (
                group
                for group in members
                if any(dominators.dominates(other, block) for other in group)
            ),
            None,
        )
        if own is None:
            members.append([block])
        else:
            own.append(block)
    regions = []
    for (level, join), members in groups.items():
        entries = _together(members, level, join, dominators)
        if any(_recurses(function, graph, join, entry) for entry in entries):
            entries = [group[0] for group in members]
        regions += [ReconvergenceRegion(entry, join) for entry in entries]
    return regions


def _together(
    members: list[list[Block]], level: Level, join: Block, dominators: Dominators
) -> list[Block]:
    """The blocks to push in: one before all branches if all ways from it come to the join, else one for each group."""
    heads = [group[0] for group in members]
    if len(heads) == 1:
        return heads
    common: Block | None = heads[0]
    while common is not None and not all(dominators.dominates(common, head) for head in heads):
        common = dominators.parents.get(common)
    inside = common is not None and (level.loop is None or common in level.loop.blocks)
    if common is not None and inside and level.join(common) is join and common not in heads:
        return [common]
    return heads


class _Balance:
    """Follows the tokens along all ways."""

    def __init__(
        self, function: Function, regions: list[ReconvergenceRegion], dominators: Dominators
    ) -> None:
        self.function = function
        self.dominators = dominators
        self.regions = regions
        self.joins = {region.join for region in regions}
        self.meets = self._blocks_that_meet()

    def _blocks_that_meet(self) -> set[Block]:
        """The blocks from which a join may be reached: only there the tokens matter."""
        before = self.function.predecessors()
        found: set[Block] = set()
        waiting = list(self.joins)
        while waiting:
            for source in before[waiting.pop()]:
                if source not in found:
                    found.add(source)
                    waiting.append(source)
        return found

    def check(self) -> TokenPlan | ReconvergenceRegion:
        """The plan, or a region to be dropped."""
        made = TokenPlan()
        for region in self.regions:
            made.pushes.setdefault(region.entry, []).append(region)
        for pushed in made.pushes.values():
            pushed.sort(
                key=lambda region: (
                    region.loop is None,
                    region.loop.depth if region.loop is not None else 0,
                )
            )
        passed: dict[ReconvergenceRegion, set[ReconvergenceRegion]] = {
            region: set() for region in self.regions
        }
        entry = self.function.blocks[0]
        stacks: dict[Block, tuple[ReconvergenceRegion, ...]] = {entry: ()}
        waiting = [entry]
        while waiting:
            block = waiting.pop()
            stack = (*stacks[block], *made.pushes.get(block, []))
            made.depth = max(made.depth, len(stack))
            for successor in dict.fromkeys(block.successors):
                below = self._follow(block, successor, stack, made, passed)
                known = stacks.get(successor)
                if known is None:
                    stacks[successor] = below
                    waiting.append(successor)
                elif known != below and (successor in self.meets or successor in self.joins):
                    return self._worst(known, below)
        unused = [region for region in self.regions if region not in made.leaves.values()]
        if unused:
            return unused[0]
        return self._choose_tokens(made, passed)

    @staticmethod
    def _follow(
        block: Block,
        successor: Block,
        stack: tuple[ReconvergenceRegion, ...],
        made: TokenPlan,
        passed: dict[ReconvergenceRegion, set[ReconvergenceRegion]],
    ) -> tuple[ReconvergenceRegion, ...]:
        """The tokens behind a way out of a block."""
        for at in range(len(stack) - 1, -1, -1):
            region = stack[at]
            if region.join is successor:
                made.leaves[block, successor] = region
                passed[region].update(stack[at + 1 :])
                return stack[:at]
        return stack

    @staticmethod
    def _worst(
        one: tuple[ReconvergenceRegion, ...], other: tuple[ReconvergenceRegion, ...]
    ) -> ReconvergenceRegion:
        """A region that is open on one way only, the innermost of them."""
        only = [region for region in one if region not in other] + [
            region for region in other if region not in one
        ]
        return only[-1] if only else (one or other)[-1]

    @staticmethod
    def _choose_tokens(
        made: TokenPlan, passed: dict[ReconvergenceRegion, set[ReconvergenceRegion]]
    ) -> TokenPlan | ReconvergenceRegion:
        """A region that is left past others needs a token that none of these has."""
        for region, others in sorted(
            passed.items(), key=lambda item: item[0].loop.depth if item[0].loop else math.inf
        ):
            if not others:
                region.token = TokenPair.SYNC
        order = [region for region, others in passed.items() if others]
        chosen: dict[ReconvergenceRegion, TokenPair] = {}
        for region in order:
            conflicts = {
                chosen[other]
                for other in chosen
                if other in passed[region] or region in passed[other]
            }
            free = [
                token
                for token in (TokenPair.BREAK, TokenPair.CONTINUE, TokenPair.LONGJMP)
                if token not in conflicts
            ]
            if not free:
                return region
            chosen[region] = region.token = free[0]
        return made
