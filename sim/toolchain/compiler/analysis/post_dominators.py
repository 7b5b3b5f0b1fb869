"""Post-dominators, level by level of the loops: where paths meet again.

A level is a loop's body, or the whole function. Its ways end at the loop's next turn, or at the function's last
return; threads that leave it before that are not waited for. So the place where a branch's ways meet is found among
those that stay.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from sim.toolchain.compiler.ir import Block, Function

from .graphs import immediate_dominators
from .loops import Loop, find_loops, innermost

__all__ = ["Level", "LoopLevels"]

_END = "end"
_Backwards = dict[Block | str, list[Block | str]]
"""A graph of blocks and the end, from each to what leads to it."""


@dataclass(eq=False)
class Level:
    """A loop's body or, with ``loop`` None, the function. ``next`` has for each block where all ways from it that stay
    meet next: a block, or ``end``, the loop's next turn.
    """

    loop: Loop | None
    next: dict[Block, Block | str] = field(default_factory=dict)
    ends: dict[Block, Block] = field(default_factory=dict)
    """The function's return that a block's ways get to, the last one if there are several."""

    def join(self, block: Block) -> Block | None:
        """Where the ways behind a block meet; for a loop's end its header."""
        place = self.next.get(block)
        if place == _END:
            return self.loop.header if self.loop is not None else None
        return place  # type: ignore[return-value]

    def stays_inside(self, source: Block, target: Block) -> bool:
        """Whether a way stays in the level."""
        if self.loop is not None and target is self.loop.header:
            return True
        return target in self.next and self.ends.get(source) is self.ends.get(target)

    def meeting(self, blocks: Iterable[Block]) -> Block | None:
        """The first place that the ways from all these blocks have in common, the blocks among them."""
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
        """The level that a block belongs to."""
        loop = self.inner.get(block)
        return self.top if loop is None else self.levels[loop]

    def outer(self, loop: Loop) -> Level:
        """The level around a loop."""
        return self.top if loop.parent is None else self.levels[loop.parent]

    def span(self, block: Block) -> set[Block]:
        """The blocks between a branch and where its ways meet, as far as they are in its level."""
        level = self.level(block)
        return self._between([block], level, level.join(block))

    @staticmethod
    def _between(branches: Iterable[Block], level: Level, join: Block | None) -> set[Block]:
        """The union of the spans of branches of a level whose ways meet at the same place."""
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
        """For each level the union of the spans of the branches that are in it."""
        groups: dict[tuple[Level, Block | None], list[Block]] = {}
        for block in divergent:
            level = self.level(block)
            groups.setdefault((level, level.join(block)), []).append(block)
        found: dict[Level, set[Block]] = {}
        for (level, join), branches in groups.items():
            found.setdefault(level, set()).update(self._between(branches, level, join))
        return found

    def left_apart(self, divergent: set[Block]) -> list[Loop]:
        """The loops that threads may leave at different times or places, in the order of :attr:`loops`."""
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
        """The blocks that only some of the threads that came may run."""
        spans = self._spans(divergent)
        return set().union(
            *spans.values(), *(loop.blocks for loop in self._left_apart(divergent, spans))
        )


def _loops_around(loop: Loop | None) -> Iterator[Loop]:
    """A loop and all that it is in."""
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
    """The next meeting place of every block that gets to the end."""
    found = immediate_dominators(_END, backwards)
    return {block: parent for block, parent in found.items() if isinstance(block, Block)}


def _top_level(function: Function) -> Level:
    """The function's level. Blocks that do not get to the last return meet on the way to another one."""
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
