"""Post-dominators within each loop level: the reconvergence points of branches.

A level is the body of a loop, or the whole function. Its paths end at the loop's next iteration, or
at the function's last return. Paths that leave the level earlier are ignored, so a branch's join is
the first block that all remaining paths have in common.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from sim.toolchain.compiler.ir import Block, Function

from .graphs import immediate_dominators
from .loops import Loop, find_loops, innermost

__all__ = ["Level", "LoopLevels"]

_END = "end"
_Backwards = dict[Block | str, list[Block | str]]
"""A graph of blocks and the end node; it maps each node to its predecessors."""


@dataclass(eq=False)
class Level:
    """The body of a loop or, if ``loop`` is None, the function.

    ``next`` maps each block to its immediate post-dominator among the paths that stay in the level:
    a block, or ``end`` for the loop's next iteration.
    """

    loop: Loop | None
    next: dict[Block, Block | str] = field(default_factory=dict)
    ends: dict[Block, Block] = field(default_factory=dict)
    """The return that a block's paths reach; the last one in the code if there are several."""

    def join(self, block: Block) -> Block | None:
        """Returns the join of the paths from a block. At a loop's end it is the loop's header. None
        if there is no join.
        """
        place = self.next.get(block)
        if place == _END:
            return self.loop.header if self.loop is not None else None
        return place  # type: ignore[return-value]

    def stays_inside(self, source: Block, target: Block) -> bool:
        """Whether the edge from ``source`` to ``target`` stays in the level."""
        if self.loop is not None and target is self.loop.header:
            return True
        return target in self.next and self.ends.get(source) is self.ends.get(target)

    def meeting(self, blocks: Iterable[Block]) -> Block | None:
        """Returns the nearest common post-dominator of some blocks, which may be one of them; None
        if there is none.
        """
        common: list[Block | str] | None = None
        for block in blocks:
            at_end = self.loop is not None and block is self.loop.header
            chain: list[Block | str] = [_END] if at_end else self._chain(block)
            common = chain if common is None else [place for place in common if place in chain]
        if not common:
            return None
        if common[0] == _END:
            return self.loop.header if self.loop is not None else None
        return common[0]  # type: ignore[return-value]

    def _chain(self, block: Block) -> list[Block | str]:
        found: list[Block | str] = [block]
        while found[-1] in self.next:
            found.append(self.next[found[-1]])  # type: ignore[index]
        return found


class LoopLevels:
    """The loops and levels of a function."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.loops = find_loops(function)
        self.inner = innermost(self.loops)
        self.levels = {loop: _loop_level(loop) for loop in self.loops}
        self.top = _top_level(function)

    def level(self, block: Block) -> Level:
        """Returns the level of a block: that of its innermost loop."""
        loop = self.inner.get(block)
        return self.top if loop is None else self.levels[loop]

    def outer(self, loop: Loop) -> Level:
        """Returns the level around a loop."""
        return self.top if loop.parent is None else self.levels[loop.parent]

    def span(self, block: Block) -> set[Block]:
        """Returns the blocks of a branch's level between the branch and its join."""
        level = self.level(block)
        return self._between([block], level, level.join(block))

    @staticmethod
    def _between(branches: Iterable[Block], level: Level, join: Block | None) -> set[Block]:
        """Returns the union of the spans of branches of one level that have the same join."""
        found: set[Block] = set()
        waiting = [
            successor
            for block in branches
            if len(set(block.successors)) > 1
            for successor in block.successors
        ]
        while waiting:
            current = waiting.pop()
            if current is join or current in found:
                continue
            if level.loop is not None and (
                current not in level.loop.blocks or current is level.loop.header
            ):
                continue
            found.add(current)
            waiting.extend(current.successors)
        return found

    def _spans(self, divergent: set[Block]) -> dict[Level, set[Block]]:
        """Returns for each level the union of the spans of its branches."""
        groups: dict[tuple[Level, Block | None], list[Block]] = {}
        for block in divergent:
            level = self.level(block)
            groups.setdefault((level, level.join(block)), []).append(block)
        found: dict[Level, set[Block]] = {}
        for (level, join), branches in groups.items():
            found.setdefault(level, set()).update(self._between(branches, level, join))
        return found

    def left_apart(self, divergent: set[Block]) -> list[Loop]:
        """Returns the loops that threads may leave at different times or by different exits, in the
        order of :attr:`loops`.
        """
        return self._left_apart(divergent, self._spans(divergent))

    def _left_apart(self, divergent: set[Block], spans: Mapping[Level, set[Block]]) -> list[Loop]:
        apart: dict[Loop, set[Block]] = {loop: set() for loop in self.loops}
        for level, span in spans.items():
            for loop in _loops_around(level.loop):
                apart[loop] |= span
        found: set[Loop] = set()
        for loop in reversed(self.loops):  # inner ones first
            if any(source in apart[loop] or source in divergent for source, _ in loop.exits()):
                found.add(loop)
                for outer in _loops_around(loop.parent):
                    apart[outer] |= loop.blocks
        return [loop for loop in self.loops if loop in found]

    def blocks_apart(self, divergent: set[Block]) -> set[Block]:
        """Returns the blocks that a part of the threads may run without the others."""
        spans = self._spans(divergent)
        return set().union(
            *spans.values(), *(loop.blocks for loop in self._left_apart(divergent, spans))
        )


def _loops_around(loop: Loop | None) -> Iterator[Loop]:
    """Yields a loop and the loops around it, from inner to outer."""
    while loop is not None:
        yield loop
        loop = loop.parent


def _loop_level(loop: Loop) -> Level:
    backwards: _Backwards = {_END: [], **{block: [] for block in loop.blocks}}
    for block in loop.blocks:
        for successor in block.successors:
            if successor is loop.header:
                backwards[_END].append(block)
            elif successor in loop.blocks:
                backwards[successor].append(block)
    return Level(loop, _parents(backwards))


def _parents(backwards: _Backwards) -> dict[Block, Block | str]:
    """Returns the immediate post-dominator of every block from which the end can be reached."""
    found = immediate_dominators(_END, backwards)
    return {block: parent for block, parent in found.items() if isinstance(block, Block)}


def _top_level(function: Function) -> Level:
    """Returns the level of the whole function.

    Blocks from which the last return cannot be reached get the post-dominators towards an earlier
    return.
    """
    level = Level(None)
    remaining = list(function.blocks)
    for last in reversed(function.blocks):
        if last.successors or last not in remaining:
            continue
        backwards: _Backwards = {_END: [last], **{block: [] for block in remaining}}
        for block in remaining:
            for successor in block.successors:
                if successor in backwards:
                    backwards[successor].append(block)
        found = _parents(backwards)
        level.next.update(found)
        level.ends.update(dict.fromkeys(found, last))
        remaining = [block for block in remaining if block not in found]
    return level
