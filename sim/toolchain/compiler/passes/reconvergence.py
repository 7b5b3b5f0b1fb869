"""Reconvergence: where divergent threads meet again, and which tokens on the call/return stack take
them there.

A region is the code between a push and the join, where the threads that executed the push
reconverge. A path to the join leaves the region by the instruction of its token: SYNC for SSY; BRK,
CONT and LONGJMP for the tokens that these unwind to, which may have others above them. A divergent
branch outside of any region is also correct: one path runs until the region around it is left or
the thread ends, then the other. So regions are proposed from the control-flow graph, and those
whose tokens would not balance on every path are dropped. No region is proposed only to reconverge
threads at the short end of a recursive function: it would double the tokens of each recursion
level.
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

__all__ = ["ReconvergenceRegion", "TokenBalance", "TokenPair", "TokenPlan", "plan"]

_SHORT_END = 6
"""The most operations in the end of a recursive function that threads run without reconverging
first.
"""


class TokenPair(Enum):
    """A pair of instructions: one pushes a token, the other takes threads to its target."""

    SYNC = ("SSY", "SYNC")
    BREAK = ("PBK", "BRK")
    CONTINUE = ("PCNT", "CONT")
    LONGJMP = ("PLONGJMP", "LONGJMP")

    @property
    def push(self) -> str:
        """The instruction that pushes the token."""
        return self.value[0]

    @property
    def leave(self) -> str:
        """The instruction by which threads leave."""
        return self.value[1]


@dataclass(eq=False)
class ReconvergenceRegion:
    """The code from the end of ``entry`` to ``join``. ``loop`` is the loop whose threads reconverge
    there, or None.
    """

    entry: Block
    join: Block
    loop: Loop | None = None
    token: TokenPair = TokenPair.SYNC


@dataclass
class TokenPlan:
    """The tokens that a function pushes, and the edges on which threads leave by them.

    Attributes:
        pushes: The regions whose tokens are pushed at the end of a block, the outermost first.
        leaves: The region that an edge between two blocks leaves; edges that leave none are absent.
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
    """Returns the token plan of a function. Every loop must have a preheader."""
    graph = LoopLevels(function)
    divergent = divergent_blocks(function, graph)
    dominators = Dominators(function)
    branches = _branch_regions(function, graph, dominators, divergent)
    # A region from a branch before a loop to the loop's exit target also collects the loop's
    # threads.
    regions = [
        region
        for region in _loop_regions(function, graph, divergent)
        if not any(
            other.join is region.join and dominators.dominates(other.entry, region.entry)
            for other in branches
        )
    ] + branches
    while True:
        outcome = TokenBalance(function, regions, dominators).check()
        if isinstance(outcome, TokenPlan):
            outcome.divergent = divergent
            outcome.has_divergent_loop = any(divergent & loop.blocks for loop in graph.loops)
            return outcome
        regions.remove(outcome)


def _loop_regions(
    function: Function, graph: LoopLevels, divergent: set[Block]
) -> list[ReconvergenceRegion]:
    """Returns a region around each loop that threads leave at different times."""
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
    """Whether threads are done at this block, so that there is no use in reconverging."""
    return not block.ops and block.terminator in (Terminator.EXIT, Terminator.RETURN)


def _recurses(function: Function, graph: LoopLevels, join: Block, within: Block | Loop) -> bool:
    """Whether reconvergence at a join costs more than it saves: the code before the join calls the
    function again, with one more token on the stack each time, and the join is the function's short
    end.
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
    """Returns regions for the divergent branches: one for all branches of a level with the same
    join, if possible.
    """
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
    """Returns the blocks that push the token: one before all branches if the join post-dominates
    it, else one for each group.
    """
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


class TokenBalance:
    """Checks that tokens balance on all paths."""

    def __init__(
        self, function: Function, regions: list[ReconvergenceRegion], dominators: Dominators
    ) -> None:
        self.function = function
        self.dominators = dominators
        self.regions = regions
        self.joins = {region.join for region in regions}
        self.meets = self._blocks_that_meet()

    def _blocks_that_meet(self) -> set[Block]:
        """Returns the blocks from which a join can be reached. The tokens matter only there."""
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
        """Returns the plan, or a region that must be dropped."""
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
        """Returns the tokens on the stack after an edge."""
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
        """Returns the innermost region that is open on only one of two paths."""
        only = [region for region in one if region not in other] + [
            region for region in other if region not in one
        ]
        return only[-1] if only else (one or other)[-1]

    @staticmethod
    def _choose_tokens(
        made: TokenPlan, passed: dict[ReconvergenceRegion, set[ReconvergenceRegion]]
    ) -> TokenPlan | ReconvergenceRegion:
        """Assigns the tokens: a region that is left past others needs another token than these.

        Returns:
            The plan, or a region without a free token.
        """
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
