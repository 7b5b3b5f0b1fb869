"""Decides which words are stored, and the order in which they are computed.

Words that are needed more than once, or that a signal shows, are computed once and stored; other
words are part of the expression that needs them. The words of one module are computed together, in
a cluster; a cluster whose inputs have not changed is skipped.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from sim.engine.graph import (
    Binary,
    Cat,
    Const,
    Graph,
    Mux,
    Node,
    Pick,
    Read,
    Rep,
    Slice,
    StateWord,
    Unary,
)

__all__ = ["Cluster", "Schedule", "operands"]

CLUSTER = 32
"""Approximate number of words of a cluster.

Clusters of 8 words with similar inputs compute fewer words whose inputs have not changed, but are
slower: a jump to code outside the first-level cache takes as long as many instructions.
"""
DEEP = 40
"""Approximate limit of operations in one expression."""


def operands(node: Node) -> Iterator[int]:
    """Yields the operands of a node."""
    match node:
        case Const() | StateWord():
            return
        case Binary():
            yield node.a
            yield node.b
        case Slice():
            yield node.source
        case Mux():
            yield node.condition
            yield node.if_true
            yield node.if_false
        case Cat():
            for part, _ in node.parts:
                yield part
        case Unary():
            yield node.operand
        case Rep():
            yield node.bit
        case Pick():
            yield node.index
            yield from node.picks
        case Read():
            yield node.row


def _operand_bits(nodes: Sequence[Node], number: int, bits: int) -> list[tuple[int, int]]:
    """Returns the nodes, and which of their bits, from which some bits of a node are computed."""

    def mask(operand: int) -> int:
        made = nodes[operand]
        return made.value if isinstance(made, Const) else -1

    def whole(operand: int) -> tuple[int, int]:
        return operand, _ones(nodes[operand].width)

    node = nodes[number]
    match node:
        case Slice():
            return [(node.source, bits << node.shift)]
        case Cat():
            parts = [(part, bits >> at & whole(part)[1]) for part, at in node.parts]
            return [(part, needed) for part, needed in parts if needed]
        case Unary(kind="not"):
            return [(node.operand, bits)]
        case Binary(kind="or" | "xor"):
            return [(node.a, bits), (node.b, bits)]
        case Binary(kind="and"):
            return [(node.a, bits & mask(node.b)), (node.b, bits & mask(node.a))]
        case Mux():
            return [(node.condition, 1), (node.if_true, bits), (node.if_false, bits)]
        case Pick():
            return [whole(node.index), *((pick, bits) for pick in node.picks)]
    return [whole(operand) for operand in operands(node)]


def _ones(width: int) -> int:
    return (1 << width) - 1


@dataclass
class Cluster:
    """Words that are computed together, in this order.

    Attributes:
        reads: Stored words that the cluster depends on, and which of their bits.
        memories: Memories that it depends on.
    """

    nodes: list[int] = field(default_factory=list)
    reads: dict[int, int] = field(default_factory=dict)
    memories: set[int] = field(default_factory=set)


class Schedule:
    """Decides what is stored and computes the order.

    Parameters:
        modules (sequence of int): The module of each node.
        nexts (iterable of int): Next values of registers.
        roots (iterable of int): Nodes that memories, checks and asynchronous resets need.
        shown (iterable of int): Nodes that signals show.

    Attributes:
        clusters: Clusters that are computed whenever their inputs change, in order.
        looked_at: Clusters that only signals need; they are computed when one is read.
        kept: Nodes that are computed once, besides states.
        placed: Those of them that are used outside the cluster that computes them.
    """

    def __init__(
        self,
        graph: Graph,
        modules: Sequence[int],
        nexts: Iterable[int],
        roots: Iterable[int],
        shown: Iterable[int],
    ) -> None:
        self._nodes = graph.nodes
        self._modules = modules
        nexts, roots, shown = list(nexts), list(roots), [self._source(node) for node in shown]
        live = self._reachable([*nexts, *roots])
        everything = self._reachable([*nexts, *roots, *shown])
        uses: dict[int, int] = defaultdict(int)
        for node in everything:
            for operand in set(operands(self._nodes[node])):
                uses[self._source(operand)] += 1
        for node in nexts:
            uses[self._source(node)] += 1
        for root in roots:
            uses[self._source(root)] += 2
        for node in shown:
            uses[node] += 2
        self.kept = self._choose(sorted(everything), uses)
        self.clusters = self._arrange([node for node in sorted(live) if node in self.kept])
        self.looked_at = self._arrange(
            [node for node in sorted(everything - live) if node in self.kept]
        )
        self.placed = set(shown)
        for node in {*nexts, *roots}:
            self.placed.update(self.sources(node))
        for cluster in (*self.clusters, *self.looked_at):
            self.placed.update(cluster.reads)
        self.placed &= self.kept

    def _source(self, node: int) -> int:
        """Returns the node below slices."""
        while isinstance(what := self._nodes[node], Slice):
            node = what.source
        return node

    def _reachable(self, roots: Iterable[int]) -> set[int]:
        found: set[int] = set()
        todo = list(roots)
        while todo:
            node = todo.pop()
            if node not in found:
                found.add(node)
                todo.extend(operands(self._nodes[node]))
        return found

    def _choose(self, nodes: Sequence[int], uses: dict[int, int]) -> set[int]:
        """Returns the nodes to store. The indices of nodes ascend from operands to results."""
        kept: set[int] = set()
        size: dict[int, int] = {}
        for node in nodes:
            what = self._nodes[node]
            if isinstance(what, Const | StateWord):
                size[node] = 0
                continue
            total = 1 + sum(size.get(operand, 0) for operand in operands(what))
            if not isinstance(what, Slice) and (
                uses[node] > 1 or total > DEEP or isinstance(what, Pick | Read)
            ):
                kept.add(node)
                total = 0
            size[node] = total
        return kept

    def reads(self, node: int) -> dict[int, int]:
        """Returns the stored nodes and states from which the expression of a node is computed, and
        which of their bits.
        """
        found: dict[int, int] = {}
        self._collect(_operand_bits(self._nodes, node, _ones(self._nodes[node].width)), found)
        return found

    def sources(self, node: int) -> dict[int, int]:
        """Returns what a use of a node reads: the node itself if it is stored."""
        if node in self.kept or isinstance(self._nodes[node], StateWord):
            return {node: _ones(self._nodes[node].width)}
        return self.reads(node)

    def needs(self, nodes: Iterable[int]) -> tuple[dict[int, int], set[int]]:
        """Returns what uses of nodes read: stored nodes and states, with their bits; and memories."""
        found: dict[int, int] = {}
        memories: set[int] = set()
        for node in nodes:
            for operand, bits in self.sources(node).items():
                found[operand] = found.get(operand, 0) | bits
            if node not in self.kept:
                memories |= self.memories(node)
        return found, memories

    def _collect(self, todo: list[tuple[int, int]], found: dict[int, int]) -> None:
        done: dict[int, int] = {}
        while todo:
            node, bits = todo.pop()
            bits &= ~done.get(node, 0)
            if not bits:
                continue
            done[node] = done.get(node, 0) | bits
            if node in self.kept or isinstance(self._nodes[node], StateWord):
                found[node] = found.get(node, 0) | bits
            else:
                todo += _operand_bits(self._nodes, node, bits)

    def memories(self, node: int) -> set[int]:
        """Returns the memories that the computation of a node reads."""
        found: set[int] = set()
        todo = [node]
        while todo:
            what = self._nodes[todo.pop()]
            if isinstance(what, Read):
                found.add(what.memory)
            todo.extend(operand for operand in operands(what) if operand not in self.kept)
        return found

    def _arrange(self, nodes: Sequence[int]) -> list[Cluster]:
        """Returns clusters of nodes, each after those that it depends on."""
        inside = set(nodes)
        inputs = {node: self.reads(node) for node in nodes}
        waits = {node: len(inputs[node].keys() & inside) for node in nodes}
        users: dict[int, list[int]] = defaultdict(list)
        for node in nodes:
            for operand in inputs[node].keys() & inside:
                users[operand].append(node)
        ready: dict[int, list[int]] = defaultdict(list)
        for node in reversed(nodes):
            if not waits[node]:
                ready[self._modules[node]].append(node)
        clusters: list[Cluster] = []
        while ready:
            module = max(ready, key=lambda one: (len(ready[one]), one))
            cluster = Cluster()
            mine = ready[module]
            while mine and len(cluster.nodes) < CLUSTER:
                node = mine.pop()
                cluster.nodes.append(node)
                for operand, bits in inputs[node].items():
                    cluster.reads[operand] = cluster.reads.get(operand, 0) | bits
                cluster.memories |= self.memories(node)
                for user in users[node]:
                    waits[user] -= 1
                    if not waits[user]:
                        ready[self._modules[user]].append(user)
            if not mine:
                del ready[module]
            for node in cluster.nodes:
                cluster.reads.pop(node, None)
            clusters.append(cluster)
        return clusters
