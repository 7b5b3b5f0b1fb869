"""Graph algorithms, compared with their definitions."""

from random import Random

import pytest

from sim.toolchain.compiler.analysis.dominators import Dominators
from sim.toolchain.compiler.analysis.graphs import (
    immediate_dominators,
    reachable,
    strongly_connected_components,
)
from sim.toolchain.compiler.analysis.loops import Loop
from sim.toolchain.compiler.analysis.post_dominators import Level
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


def _blocks(count: int) -> list[Block]:
    return [Block(f"b{number}") for number in range(count)]


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ([0], 0),
        ([0, 1], 2),
        ([1, 0], 2),
        ([0, 2], 2),
        ([2, 0], 2),
        ([0, 3], 3),
        ([0, 1, 3], 3),
        ([0, 4], "end"),
        ([4], 4),
        ([0, 5], None),
        ([5], 5),
        ([], None),
    ],
)
@pytest.mark.parametrize("is_loop", [True, False])
def test_paths_meet_at_the_first_place_that_all_of_them_come_to(given, found, is_loop):
    """The successor of blocks 0 and 1 is 2, that of 2 is 3; 3 and 4 lead to the end, 5 does not.

    The end of a loop is its header.
    """
    blocks = _blocks(6)
    header = Block("header")
    zero, one, two, three, four, _ = blocks
    after: dict[Block, Block | str] = {zero: two, one: two, two: three, three: "end", four: "end"}
    level = Level(Loop(header, {header, *blocks}) if is_loop else None, after)
    end = header if is_loop else None
    expected = end if found == "end" else None if found is None else blocks[found]
    assert level.meeting([blocks[number] for number in given]) is expected


def test_a_path_to_the_header_of_a_loop_is_at_its_end():
    inside, header = Block("inside"), Block("header")
    after: dict[Block, Block | str] = {inside: "end", header: inside}
    level = Level(Loop(header, {header, inside}), after)
    assert level.meeting([header]) is header
    assert level.meeting([header, inside]) is header
    assert Level(None, after).meeting([header, inside]) is inside
