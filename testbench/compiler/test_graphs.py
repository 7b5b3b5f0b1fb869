"""Algorithms on graphs, beside what the definitions say."""

from random import Random

import pytest

from sim.toolchain.compiler.analysis.dominators import Dominators
from sim.toolchain.compiler.analysis.graphs import (
    immediate_dominators,
    reachable,
    strongly_connected_components,
)
from sim.toolchain.compiler.ir import Block, Function, Terminator

_Graph = dict[int, list[int]]


def _random_graph(random: Random) -> _Graph:
    nodes = range(random.randint(1, 12))
    return {
        node: [random.choice(nodes) for _ in range(random.choice((0, 1, 1, 2, 2, 3)))]
        for node in nodes
    }


def _without(graph: _Graph, node: int) -> _Graph:
    return {
        other: [successor for successor in successors if successor != node] if other != node else []
        for other, successors in graph.items()
    }


@pytest.mark.parametrize("seed", range(100))
def test_a_dominator_is_on_every_path_from_the_entry_and_the_immediate_one_is_the_last_of_them(
    seed,
):
    graph = _random_graph(Random(seed))
    parents = immediate_dominators(0, graph)
    assert {0, *parents} == reachable([0], graph)
    for node in parents:
        found, above = set(), node
        while above:
            above = parents[above]
            found.add(above)
        assert found - {0} == {
            other
            for other in graph
            if other not in (0, node)
            and node in reachable([0], graph) - reachable([0], _without(graph, other))
        }


@pytest.mark.parametrize("seed", range(100))
def test_nodes_of_a_component_lead_to_each_other_and_components_come_behind_those_they_lead_to(
    seed,
):
    graph = _random_graph(Random(seed))
    components = strongly_connected_components(graph)
    assert sorted(node for component in components for node in component) == sorted(graph)
    ahead = {node: reachable([node], graph) for node in graph}
    done: set[int] = set()
    for component in components:
        for node in component:
            assert set(component) == {other for other in ahead[node] if node in ahead[other]}
            assert ahead[node] <= done | set(component)
        done.update(component)


def test_a_block_that_is_not_reached_dominates_itself_alone():
    entry, end, unreached = (
        Block(name, terminator=Terminator.EXIT) for name in ("entry", "end", "unreached")
    )
    entry.terminator, entry.successors, unreached.successors = Terminator.GOTO, [end], [end]
    blocks = [entry, end, unreached]
    dominators = Dominators(Function("f", True, blocks))
    found = {
        (first.name, second.name)
        for first in blocks
        for second in blocks
        if dominators.dominates(first, second)
    }
    assert found == {(block.name, block.name) for block in blocks} | {("entry", "end")}
