"""In which order words are computed, and what need not be computed again.

Words that are needed more than once, or that a signal shows, are computed once and kept; the rest is part of the
expression that needs it. Those of one module are computed together, in a cluster; a cluster whose inputs have not
changed is left alone.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from sim.engine.graph import Graph, Node

__all__ = ["Cluster", "Schedule", "operands"]

CLUSTER = 120
"""Words of a cluster, about."""
DEEP = 40
"""Operations of one expression, about."""
_PLAIN = frozenset({"const", "state"})


def operands(node: Node) -> Iterator[int]:
    """The nodes that a node is made of."""
    match node[0]:
        case "const" | "state":
            return
        case "slice" | "rep" | "not" | "neg" | "parity":
            yield node[2]
        case "cat":
            for part, _ in node[2]:
                yield part
        case "pick":
            yield node[2]
            yield from node[3]
        case "read":
            yield node[4]
        case _:
            yield from node[2:]


@dataclass
class Cluster:
    """Words that are computed together, in this order, and the kept words and memories they depend on."""

    nodes: list[int] = field(default_factory=list)
    reads: set[int] = field(default_factory=set)
    memories: set[int] = field(default_factory=set)


class Schedule:
    """Decides what is kept and computes the order.

    Parameters
    ----------
    graph : Graph
    modules : sequence of int
        The module of each node.
    roots : iterable of int
        What registers, memories, checks need.
    shown : iterable of int
        What signals show.

    Attributes
    ----------
    clusters : list[Cluster]
        What is computed whenever its inputs change, in order.
    looked_at : list[Cluster]
        What is computed when somebody looks: what only signals need.
    kept : set[int]
        Nodes that are kept, beside states.
    """

    def __init__(self, graph: Graph, modules: Sequence[int], roots: Iterable[int], shown: Iterable[int]) -> None:
        self._nodes = graph.nodes
        self._modules = modules
        roots, shown = list(roots), [self._source(node) for node in shown]
        live = self._reachable(roots)
        everything = self._reachable([*roots, *shown])
        uses: dict[int, int] = defaultdict(int)
        for node in everything:
            for operand in set(operands(self._nodes[node])):
                uses[self._source(operand)] += 1
        for root in roots:
            uses[self._source(root)] += 2
        for node in shown:
            uses[node] += 2
        self.kept = self._choose(sorted(everything), uses)
        self.clusters = self._arrange([node for node in sorted(live) if node in self.kept])
        self.looked_at = self._arrange([node for node in sorted(everything - live) if node in self.kept])

    def _source(self, node: int) -> int:
        """The node that a slice is of."""
        while self._nodes[node][0] == "slice":
            node = self._nodes[node][2]
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
        """What is kept. Numbers of nodes grow from operands to what is made of them."""
        kept: set[int] = set()
        size: dict[int, int] = {}
        for node in nodes:
            what = self._nodes[node]
            if what[0] in _PLAIN:
                size[node] = 0
                continue
            total = 1 + sum(size.get(operand, 0) for operand in operands(what))
            if what[0] != "slice" and (uses[node] > 1 or total > DEEP or what[0] in ("pick", "read")):
                kept.add(node)
                total = 0
            size[node] = total
        return kept

    def inputs(self, node: int) -> set[int]:
        """Kept nodes and states that a node is computed from."""
        found: set[int] = set()
        todo = list(operands(self._nodes[node]))
        while todo:
            operand = todo.pop()
            if operand in self.kept or self._nodes[operand][0] == "state":
                found.add(operand)
            else:
                todo.extend(operands(self._nodes[operand]))
        return found

    def memories(self, node: int) -> set[int]:
        """Memories that are read where a node is computed."""
        found: set[int] = set()
        todo = [node]
        while todo:
            what = self._nodes[todo.pop()]
            if what[0] == "read":
                found.add(what[2])
            todo.extend(operand for operand in operands(what) if operand not in self.kept)
        return found

    def _arrange(self, nodes: Sequence[int]) -> list[Cluster]:
        """Clusters of nodes, each behind those that it depends on."""
        inside = set(nodes)
        inputs = {node: self.inputs(node) for node in nodes}
        waits = {node: len(inputs[node] & inside) for node in nodes}
        users: dict[int, list[int]] = defaultdict(list)
        for node in nodes:
            for operand in inputs[node] & inside:
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
                cluster.reads |= inputs[node]
                cluster.memories |= self.memories(node)
                for user in users[node]:
                    waits[user] -= 1
                    if not waits[user]:
                        ready[self._modules[user]].append(user)
            if not mine:
                del ready[module]
            cluster.reads -= set(cluster.nodes)
            clusters.append(cluster)
        return clusters
