"""The order in which words are computed: which are stored, the dependencies of a cluster, and words
computed on access only.
"""

from itertools import pairwise
from random import Random

import pytest

from sim.engine.graph import Graph
from sim.engine.registers import readers_first
from sim.engine.schedule import CLUSTER, DEEP, Schedule, operands


def states(graph, count, width=8):
    return [graph.add("state", width, place) for place in range(count)]


def scheduled(graph, nexts=(), roots=(), shown=(), modules=None):
    return Schedule(graph, modules or [0] * len(graph.nodes), nexts, roots, shown)


# Operands of nodes


def test_operands_are_all_nodes_that_a_node_is_made_of():
    graph = Graph()
    a, b, c = states(graph, 3)
    bit = graph.add("state", 1, 3)
    for node, expected in (
        (a, []),
        (graph.const(8, 5), []),
        (graph.add("slice", 4, a, 2), [a]),
        (graph.add("cat", 16, ((a, 0), (b, 8))), [a, b]),
        (graph.add("rep", 4, bit), [bit]),
        (graph.add("not", 8, a), [a]),
        (graph.add("parity", 1, a), [a]),
        (graph.add("sub", 8, b, a), [b, a]),
        (graph.add("mux", 8, bit, a, b), [bit, a, b]),
        (graph.add("pick", 8, c, (a, b, a)), [c, a, b, a]),
        (graph.add("read", 8, 77, 1, c), [c]),
    ):
        assert list(operands(graph.nodes[node])) == expected


def test_the_bits_of_words_that_an_expression_depends_on():
    graph = Graph()
    a, b = states(graph, 2)
    bit = graph.add("state", 1, 2)
    index = graph.add("state", 2, 3)
    five = graph.const(8, 0x35)

    def sliced(node, shift, width):
        return graph.add("slice", width, node, shift)

    plus = graph.add("add", 8, a, b)
    for node, expected in (
        (sliced(a, 2, 3), {a: 0b11100}),
        (graph.add("cat", 12, ((sliced(a, 0, 4), 0), (b, 4))), {a: 0xF, b: 0xFF}),
        (sliced(graph.add("cat", 16, ((a, 0), (b, 8))), 6, 4), {a: 0xC0, b: 0x3}),
        (sliced(graph.add("cat", 16, ((a, 0), (b, 8))), 8, 4), {b: 0xF}),
        (sliced(graph.add("cat", 16, ((a, 0), (b, 8))), 4, 4), {a: 0xF0}),
        (sliced(graph.add("not", 8, a), 3, 2), {a: 0x18}),
        (sliced(graph.add("xor", 8, a, b), 3, 2), {a: 0x18, b: 0x18}),
        (sliced(graph.add("or", 8, a, b), 0, 2), {a: 0x3, b: 0x3}),
        (sliced(graph.add("and", 8, a, b), 7, 1), {a: 0x80, b: 0x80}),
        (graph.add("and", 8, a, five), {a: 0x35}),
        (sliced(graph.add("and", 8, five, b), 4, 4), {b: 0x30}),
        (sliced(graph.add("mux", 8, bit, a, b), 1, 1), {bit: 1, a: 2, b: 2}),
        (graph.add("mux", 1, sliced(a, 5, 1), bit, bit), {a: 0x20, bit: 1}),
        (sliced(plus, 0, 1), {a: 0xFF, b: 0xFF}),
        (graph.add("eq", 1, a, b), {a: 0xFF, b: 0xFF}),
        (graph.add("neg", 8, a), {a: 0xFF}),
        (graph.add("rep", 8, bit), {bit: 1}),
        (graph.add("read", 8, 77, 0, index), {index: 3}),
        (graph.add("xor", 4, sliced(a, 0, 4), sliced(a, 2, 4)), {a: 0x3F}),
    ):
        assert scheduled(graph).reads(node) == expected, graph.nodes[node]
    picked = graph.add("pick", 8, index, (a, b))
    assert scheduled(graph).reads(graph.add("slice", 1, picked, 6)) == {index: 3, a: 64, b: 64}


# Stored words


def test_words_that_are_needed_twice_are_kept_and_others_are_part_of_an_expression():
    graph = Graph()
    a, b, c = states(graph, 3)
    once, twice = graph.add("xor", 8, a, b), graph.add("add", 8, a, b)
    first, second = graph.add("sub", 8, twice, once), graph.add("mul", 8, twice, c)
    found = scheduled(graph, nexts=[first, second])
    assert found.kept == {twice} == found.placed
    assert [cluster.nodes for cluster in found.clusters] == [[twice]]
    assert found.sources(first) == {twice: 0xFF, a: 0xFF, b: 0xFF}
    assert found.sources(twice) == {twice: 0xFF} and found.sources(a) == {a: 0xFF}
    assert found.reads(twice) == {a: 0xFF, b: 0xFF}


def test_uses_of_slices_are_uses_of_what_they_are_slices_of():
    graph = Graph()
    a, b = states(graph, 2)
    total = graph.add("add", 8, a, b)
    low, high = graph.slice(total, 0, 4), graph.slice(total, 4, 4)
    assert scheduled(graph, nexts=[graph.add("sub", 4, low, high)]).kept == {total}
    assert scheduled(graph, nexts=[low, high]).kept == {total}
    assert scheduled(graph, roots=[low]).kept == {total}
    assert scheduled(graph, shown=[low]).kept == {total}
    assert scheduled(graph, nexts=[graph.add("sub", 8, total, total)]).kept == set()


def test_next_values_are_kept_where_two_registers_take_them_and_shown_words_always():
    graph = Graph()
    a, b = states(graph, 2)
    total = graph.add("add", 8, a, b)
    assert scheduled(graph, nexts=[total]).kept == set()
    for needed in (
        {"nexts": [total, total]},
        {"roots": [total]},
        {"shown": [total]},
    ):
        found = scheduled(graph, **needed)
        assert found.kept == found.placed == {total}


def test_words_that_are_picked_or_read_are_kept_and_constants_and_registers_are_not():
    graph = Graph()
    a, b, index = states(graph, 3)
    picked, read = graph.add("pick", 8, index, (a, b)), graph.add("read", 8, 9, 0, index)
    assert scheduled(graph, nexts=[graph.add("xor", 8, picked, read)]).kept == {picked, read}
    assert scheduled(graph, roots=[a, graph.const(8, 3)], shown=[b]).kept == set()


@pytest.mark.parametrize(("count", "kept"), [(DEEP, 0), (DEEP + 1, 1), (2 * DEEP + 2, 2)])
def test_an_expression_has_at_most_so_many_operations(count, kept):
    assert DEEP == 40
    graph = Graph()
    node, other = states(graph, 2)
    for number in range(count):
        node = graph.add(("add", "sub")[number % 2], 8, node, other)
    assert len(scheduled(graph, nexts=[node]).kept) == kept


def test_words_that_are_kept_are_no_operations_of_an_expression():
    graph = Graph()
    a, b, c = states(graph, 3)
    kept = graph.add("add", 8, a, b)
    for count in (DEEP, DEEP + 1):
        node = kept
        for number in range(count):
            node = graph.add(("add", "sub")[number % 2], 8, node, c)
        assert scheduled(graph, nexts=[node], roots=[kept]).kept - {kept} == (
            {node} if count > DEEP else set()
        )


# Clusters


def chain(graph, a, count):
    """Returns words that are each computed from the previous one, and are all outputs."""
    found = []
    for _ in range(count):
        a = graph.add("neg", 8, a)
        found.append(a)
    return found


def test_a_cluster_has_at_most_32_words():
    assert CLUSTER == 32
    for count, sizes in ((32, [32]), (33, [32, 1]), (70, [32, 32, 6])):
        graph = Graph()
        (a,) = states(graph, 1)
        words = chain(graph, a, count)
        found = scheduled(graph, roots=words)
        assert [len(cluster.nodes) for cluster in found.clusters] == sizes
        assert [node for cluster in found.clusters for node in cluster.nodes] == words
        assert found.clusters[0].reads == {a: 0xFF}
        assert all(
            cluster.reads == {before.nodes[-1]: 0xFF}
            for before, cluster in pairwise(found.clusters)
        )


def test_what_only_signals_show_is_computed_on_access():
    graph = Graph()
    a, b = states(graph, 2)
    both, seen = graph.add("add", 8, a, b), graph.add("neg", 8, a)
    found = scheduled(graph, roots=[both], shown=[both, graph.add("slice", 4, seen, 1)])
    assert [cluster.nodes for cluster in found.clusters] == [[both]]
    assert [cluster.nodes for cluster in found.looked_at] == [[seen]]
    assert found.placed == {both, seen}
    assert found.looked_at[0].reads == {a: 0xFF}


def test_words_that_only_their_cluster_needs_have_no_place():
    graph = Graph()
    a, b = states(graph, 2)
    inner = graph.add("add", 8, a, b)
    outer = graph.add("mul", 8, inner, graph.add("neg", 8, inner))
    found = scheduled(graph, roots=[outer])
    assert found.kept == {inner, outer}
    assert found.placed == {outer}
    (cluster,) = found.clusters
    assert cluster.nodes == [inner, outer] and cluster.reads == {a: 0xFF, b: 0xFF}
    split = scheduled(graph, roots=[outer], modules=[0, 0, 0, 1, 1])
    assert split.placed == {inner, outer} and len(split.clusters) == 2
    assert split.clusters[1].reads == {inner: 0xFF}


def test_words_of_a_module_are_computed_together_that_with_the_most_first():
    graph = Graph()
    kept = states(graph, 6)
    words = [graph.add("neg", 8, node) for node in kept]
    modules = [0] * 6 + [4, 2, 4, 7, 2, 2]
    found = scheduled(graph, roots=words, modules=modules)
    assert [cluster.nodes for cluster in found.clusters] == [
        [words[1], words[4], words[5]],
        [words[0], words[2]],
        [words[3]],
    ]
    even = scheduled(graph, roots=words, modules=[0] * 6 + [4, 2, 4, 7, 2, 7])
    assert [modules[0] for modules in (cluster.nodes for cluster in even.clusters)] == [
        words[3],
        words[0],
        words[1],
    ]


def test_the_bits_and_memories_that_a_cluster_depends_on_are_those_of_all_its_words():
    graph = Graph()
    a, b = states(graph, 2)
    words = [
        graph.add("and", 8, a, graph.const(8, 0x0F)),
        graph.add("and", 8, a, graph.const(8, 0x11)),
        graph.add("not", 8, graph.add("read", 8, 5, 0, b)),
        graph.add("read", 8, 6, 0, b),
    ]
    found = scheduled(graph, roots=words)
    (cluster,) = found.clusters
    assert cluster.reads == {a: 0x1F, b: 0xFF} and cluster.memories == {5, 6}
    assert found.memories(words[2]) == set()  # what it reads is stored
    assert found.memories(words[3]) == {6}
    other = scheduled(graph, nexts=[words[0], words[1]])
    assert other.needs(words[:2]) == ({a: 0x1F}, set())
    read = scheduled(graph)
    assert read.needs([words[2], a]) == ({a: 0xFF, b: 0xFF}, {5})
    assert found.needs([words[3]]) == ({words[3]: 0xFF}, set())


def test_every_word_comes_behind_those_that_it_needs():
    for seed in range(20):
        random, graph = Random(seed), Graph()
        nodes = states(graph, 6)
        for _ in range(150):
            kind = random.choice(["add", "and", "xor", "sub"])
            nodes.append(graph.add(kind, 8, *random.choices(nodes[-30:], k=2)))
        modules = [random.randrange(5) for _ in graph.nodes]
        chosen = random.sample(nodes, 12)
        found = Schedule(graph, modules, chosen[:4], chosen[4:8], chosen[8:])
        done = set(nodes[:6])
        for cluster in (*found.clusters, *found.looked_at):
            assert len(cluster.nodes) <= CLUSTER
            assert {modules[node] for node in cluster.nodes} == {modules[cluster.nodes[0]]}
            assert set(cluster.reads) <= done & (found.placed | set(nodes[:6]))
            for node in cluster.nodes:
                assert set(found.reads(node)) <= done
                done.add(node)
        assert done == found.kept | set(nodes[:6])
        for node in chosen:
            assert set(found.sources(node)) <= done


# Order of registers


def test_a_function_comes_before_those_that_change_what_it_reads():
    for seed in range(20):
        random = Random(seed)
        order = random.sample(range(10), 10)
        reads = {  # each reads words that later ones change
            100 + one: {*random.sample(order[at + 1 :], min(2, 9 - at)), 50, one}
            for at, one in enumerate(order)
        }
        functions = [[(place, 100 + place)] for place in range(10)]
        found = [words[0][0] for words in readers_first(functions, reads.__getitem__)]
        assert sorted(found) == list(range(10))
        for at, one in enumerate(found):
            assert not reads[100 + one] & set(found[:at])


def test_in_a_ring_the_function_that_others_need_least_comes_first():
    """Its words are the least read by others; states that no function changes do not count."""
    reads = {10: {2}, 11: {2}, 12: {2, 7}, 20: {0}, 30: {5}}
    first, second, third = [(0, 10), (1, 11)], [(2, 20), (3, 12)], [(4, 30)]
    assert readers_first([second, first], reads.__getitem__) == [first, second]
    assert readers_first([first, second], reads.__getitem__) == [first, second]
    assert readers_first([second, third, first], reads.__getitem__) == [third, first, second]
    ring = {1: {1}, 2: {0}}
    same = [[(0, 1)], [(1, 2)]]
    assert readers_first(same, ring.__getitem__) == same
    assert readers_first([], ring.__getitem__) == []
