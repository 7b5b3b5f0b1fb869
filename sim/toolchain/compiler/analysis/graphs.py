"""Algorithms on directed graphs. Their time is nearly linear in the size of the graph.

A graph is a mapping from each node to its successors. Nodes are visited in the order of the mapping
and of the successors, so that results are deterministic.
"""

from collections.abc import Hashable, Iterable, Mapping
from typing import TypeVar

__all__ = ["Graph", "immediate_dominators", "reachable", "strongly_connected_components"]

Node = TypeVar("Node", bound=Hashable)
Graph = Mapping[Node, Iterable[Node]]


def reachable(start: Iterable[Node], successors: Graph[Node]) -> set[Node]:
    """Returns the nodes that are reachable from the nodes of ``start``, with these."""
    found = set(start)
    waiting = list(found)
    while waiting:
        for successor in successors[waiting.pop()]:
            if successor not in found:
                found.add(successor)
                waiting.append(successor)
    return found


def strongly_connected_components(successors: Graph[Node]) -> list[list[Node]]:
    """Returns the strongly connected components in reverse topological order, successors first
    (Tarjan).
    """
    components: list[list[Node]] = []
    number: dict[Node, int] = {}
    lowest: dict[Node, int] = {}
    open_nodes: list[Node] = []
    is_open: set[Node] = set()
    for root in successors:
        if root in number:
            continue
        path = [(root, iter(successors[root]))]
        while path:
            node, rest = path[-1]
            if node not in number:
                number[node] = lowest[node] = len(number)
                open_nodes.append(node)
                is_open.add(node)
            following = next(rest, None)
            if following is None:
                path.pop()
                if path:
                    parent = path[-1][0]
                    lowest[parent] = min(lowest[parent], lowest[node])
                if lowest[node] == number[node]:
                    component = _taken_down_to(node, open_nodes)
                    is_open.difference_update(component)
                    components.append(component)
            elif following not in number:
                path.append((following, iter(successors[following])))
            elif following in is_open:
                lowest[node] = min(lowest[node], number[following])
    return components


def _taken_down_to(node: Node, stack: list[Node]) -> list[Node]:
    """Pops the nodes of a stack down to ``node``, and returns them."""
    taken = [stack.pop()]
    while taken[-1] is not node:
        taken.append(stack.pop())
    return taken


def immediate_dominators(entry: Node, successors: Graph[Node]) -> dict[Node, Node]:
    """Returns the immediate dominator of every node that is reachable from ``entry``, except
    ``entry`` itself.

    The algorithm is SEMI-NCA: the semidominators of Lengauer and Tarjan with path compression, and
    the dominators from these as in Georgiadis, "Linear-time algorithms for dominators and related
    problems", 2005. Nodes are numbered in the order of a depth-first search.
    """
    nodes, parents = _depth_first(entry, successors)
    number = {node: at for at, node in enumerate(nodes)}
    predecessors: list[list[int]] = [[] for _ in nodes]
    for at, node in enumerate(nodes):
        for successor in successors[node]:
            predecessors[number[successor]].append(at)
    semi = list(range(len(nodes)))
    best = list(range(len(nodes)))
    ancestor = [-1] * len(nodes)
    for node in range(len(nodes) - 1, 0, -1):
        lowest = node
        for predecessor in predecessors[node]:
            lowest = min(lowest, semi[_lowest_above(predecessor, ancestor, semi, best)])
        semi[node] = lowest
        ancestor[node] = parents[node]
    dominators = parents
    for node in range(1, len(nodes)):
        dominator = dominators[node]
        while dominator > semi[node]:
            dominator = dominators[dominator]
        dominators[node] = dominator
    return {nodes[at]: nodes[dominators[at]] for at in range(1, len(nodes))}


def _depth_first(entry: Node, successors: Graph[Node]) -> tuple[list[Node], list[int]]:
    """Returns the nodes in the order of a depth-first search, and for each the number of its parent
    in the search tree.
    """
    nodes: list[Node] = []
    parents: list[int] = []
    found: set[Node] = set()
    waiting = [(entry, 0)]
    while waiting:
        node, parent = waiting.pop()
        if node in found:
            continue
        found.add(node)
        parents.append(parent)
        waiting.extend(
            (successor, len(nodes)) for successor in successors[node] if successor not in found
        )
        nodes.append(node)
    return nodes, parents


def _lowest_above(node: int, ancestor: list[int], semi: list[int], best: list[int]) -> int:
    """Returns the node with the lowest semidominator among a node and its ancestors in the forest
    so far, except the root. Compresses the path.
    """
    path = []
    while ancestor[node] >= 0 and ancestor[ancestor[node]] >= 0:
        path.append(node)
        node = ancestor[node]
    top = ancestor[node]
    for below in reversed(path):
        above = ancestor[below]
        if semi[best[above]] < semi[best[below]]:
            best[below] = best[above]
        ancestor[below] = top
    return best[path[0] if path else node]
