"""Bits with the same operation become operations of words, with equal values on both engines."""

from random import Random

import pytest
from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from sim.engine import ENGINES, nodes
from sim.engine.graph import Graph
from sim.engine.wakes import Wakes
from testbench.engine.designs import needs_compiled
from testbench.engine.test_graph import evaluator
from testbench.simulation import simulate

WIDTH = 40


def states(graph, *widths):
    return [graph.add("state", width, place) for place, width in enumerate(widths)]


def bits(graph, node):
    return [graph.slice(node, bit, 1) for bit in range(graph.width(node))]


def side_by_side(graph, nodes):
    return graph.cat([(node, at) for at, node in enumerate(nodes)], len(nodes))


@pytest.mark.parametrize("kind", ["and", "or", "xor"])
def test_operations_of_neighbours_are_one_operation(kind):
    graph = Graph()
    a, b = states(graph, 8, 8)
    pairs = zip(bits(graph, a), bits(graph, b), strict=True)
    word = side_by_side(graph, [graph.binary(kind, *pair) for pair in pairs])
    assert word == graph.binary(kind, a, b)


def test_inverted_neighbours_are_an_inverted_word():
    graph = Graph()
    (a,) = states(graph, 8)
    assert side_by_side(graph, [graph.invert(bit) for bit in bits(graph, a)]) == graph.invert(a)


@pytest.mark.parametrize("first", [0, 2])
def test_comparisons_with_neighbouring_numbers_are_a_shift(first):
    graph = Graph()
    (a,) = states(graph, 3)
    numbers = range(first, first + 4)
    compared = [graph.binary("eq", a, graph.const(3, number)) for number in numbers]
    shifted = graph.add("shl", first + 4, graph.const(first + 4, 1), a)
    assert side_by_side(graph, compared) == graph.slice(shifted, first, 4)


def test_parts_that_one_condition_chooses_are_one_choice():
    graph = Graph()
    c, a, b, d = states(graph, 1, 4, 4, 1)
    mixed = [
        (graph.mux(c, a, b), 0),
        (graph.binary("and", c, d), 4),
        (graph.binary("or", graph.invert(c), d), 6),
    ]
    zero, one = graph.const(1, 0), graph.const(1, 1)
    expected = graph.mux(
        c, graph.cat([(a, 0), (d, 4), (d, 6)], 7), graph.cat([(b, 0), (zero, 4), (one, 6)], 7)
    )
    assert graph.cat(mixed, 7) == expected


def test_operations_whose_operands_are_no_words_stay_single():
    graph = Graph()
    singles = states(graph, *[1] * 8)
    pairs = zip(singles[::2], singles[1::2], strict=True)
    word = side_by_side(graph, [graph.binary("xor", *pair) for pair in pairs])
    assert graph.nodes[word].kind == "cat"


def test_words_with_the_same_readers_wake_them_together():
    wakes = Wakes()
    for place in (1, 2):
        wakes.note(40, place, 0xFF)
    wakes.note(41, 2, 0x0F)
    changes = wakes.change_together([(1, "a", 8), (2, "b", 8), (3, "c", 8)])
    assert changes.declarations == ["word g0 = 0;"]
    assert changes.wakes == ["if (g0) { d[1] |= 0x100; }"]
    assert changes.statements == [
        "{ const word x = a ^ w[1]; w[1] = a; g0 |= x; }",
        "{ const word x = b ^ w[2]; w[2] = b; g0 |= x; if (x & 0xfull) { d[1] |= 0x200; } }",
        "w[3] = c;",
    ]


class Bits(wiring.Component):
    """Words that are computed bit by bit."""

    a: In(WIDTH)
    b: In(WIDTH)
    choice: In(1)
    number: In(6)
    backwards: Out(WIDTH)
    spread: Out(WIDTH)
    both: Out(WIDTH)
    chosen: Out(WIDTH + 2)
    decoded: Out(50)
    none: Out(1)
    kept: Out(WIDTH)

    def elaborate(self, platform):
        m = Module()
        held = Signal(WIDTH)
        m.d.sync += held.eq(self.a)
        m.d.comb += [
            self.backwards.eq(Cat(reversed(list(held)))),
            self.spread.eq(Cat(*(held[start::step] for start, step in ((0, 11), (1, 3), (2, 7))))),
            self.both.eq(Cat(x & ~y for x, y in zip(held, self.b, strict=True))),
            self.decoded.eq(Cat(self.number == number for number in range(3, 53))),
            self.none.eq(Cat(x & y for x, y in zip(held[::5], self.b[::3], strict=False)) == 0),
            self.chosen.eq(
                Cat(
                    Mux(self.choice, held, self.b),
                    self.choice & self.b[0],
                    ~self.choice | held[3],
                )
            ),
        ]
        with m.If(self.choice):
            m.d.sync += self.kept.eq(self.backwards ^ self.spread)
        return m


def values(engine):
    """Returns the outputs in each cycle."""
    dut, log = Bits(), []

    async def testbench(ctx):
        chance = Random(5)
        for _ in range(300):
            for signal in (dut.a, dut.b, dut.choice, dut.number):
                if chance.random() < 0.7:
                    sparse = chance.getrandbits(WIDTH) & chance.getrandbits(WIDTH)
                    ctx.set(signal, sparse & (1 << len(signal)) - 1)
            await ctx.tick()
            log.append(
                [
                    ctx.get(signal)
                    for signal in (
                        dut.backwards,
                        dut.spread,
                        dut.both,
                        dut.chosen,
                        dut.decoded,
                        dut.none,
                        dut.kept,
                    )
                ]
            )

    simulate(dut, testbench, engine=engine)
    return log


@needs_compiled
def test_words_that_are_computed_bit_by_bit_are_alike_on_both_engines():
    expected, found = (values(engine) for engine in ENGINES.values())
    assert found == expected
    assert all(len(set(column)) > 1 for column in zip(*expected, strict=True))


# Values


@pytest.mark.parametrize("seed", range(25))
def test_a_concatenation_has_the_values_of_its_parts_however_it_is_packed(seed):
    random, graph = Random(seed), Graph()
    words = states(graph, 8, 8, 1, 1, 3, 6)
    numbers = [random.getrandbits(width) for width in (8, 8, 1, 1, 3, 6)]
    a, b, c, d, small, large = words

    def bit(node):
        return graph.slice(node, random.randrange(graph.width(node)), 1)

    def runs():
        """Returns concatenations of bits with the same operation."""
        start, down = random.randrange(4), random.random() < 0.3
        places = [start + at for at in range(4)][:: -1 if down else 1]
        x, y, test = random.choice([a, b]), random.choice([a, b]), random.choice([c, d])
        first = random.randrange(5)
        kind = random.choice(["and", "or", "xor"])
        return random.choice(
            [
                [graph.binary(kind, graph.slice(x, at, 1), graph.slice(y, at, 1)) for at in places],
                [graph.binary(kind, graph.slice(y, at, 1), test) for at in places],
                [graph.invert(graph.slice(x, at, 1)) for at in places],
                [graph.mux(test, graph.slice(x, at, 1), bit(y)) for at in places],
                [
                    graph.binary("eq", small, graph.const(3, number & 7))
                    for number in range(first, first + 4)
                ],
                [graph.binary("and", test, bit(x)), graph.binary("or", graph.invert(test), bit(y))],
                [graph.binary("or", test, bit(x)), graph.mux(test, bit(x), bit(y))],
                [graph.binary("and", graph.invert(test), bit(x)) for _ in range(3)],
                [graph.binary("eq", large, graph.const(6, at)) for at in (61, 62, 63)],
                [bit(x), graph.const(1, random.randrange(2))],
                [graph.copies(bit(x), 3)],
                [graph.slice(x, 1, 3), graph.slice(x, 4, 2)],
            ]
        )

    value = evaluator(graph, numbers)
    for _ in range(20):
        parts, at, expected = [], 0, 0
        for node in [node for _ in range(random.randrange(1, 5)) for node in runs()]:
            parts.append((node, at))
            expected |= value(node) << at
            at += graph.width(node) + random.choice([0, 0, 0, 0, 1, 2])
        found = graph.cat(parts, at)
        assert graph.width(found) == at and value(found) == expected
        low = random.randrange(at)
        width = random.randrange(1, at - low + 1)
        assert value(graph.slice(found, low, width)) == expected >> low & (1 << width) - 1


# Limits


def kinds(graph, node):
    """Returns the kinds of the parts of a concatenation, or the kind of another node."""
    made = graph.nodes[node]
    return [graph.nodes[part].kind for part, _ in made.parts] if made.kind == "cat" else [made.kind]


@pytest.mark.parametrize(
    ("numbers", "is_shift"),
    [
        ([0, 1], False),
        ([0, 1, 2], True),
        ([5, 6, 7, 8], True),
        ([2, 1, 0], False),
        ([0, 2, 4], False),
        ([61, 62, 63], True),
        ([62, 63, 64], False),
        ([64, 65, 66], False),
    ],
)
def test_three_comparisons_with_numbers_below_64_are_a_decoder(numbers, is_shift):
    graph = Graph()
    (x,) = states(graph, 8)
    compared = [graph.binary("eq", x, graph.const(8, number)) for number in numbers]
    found = side_by_side(graph, compared)
    shifts = [node for node in graph.nodes if node.kind == "shl"]
    assert len(shifts) == is_shift
    if is_shift:
        assert shifts[0].width == numbers[-1] + 1
        assert kinds(graph, found) == ["slice" if numbers[0] else "shl"]
    else:
        assert kinds(graph, found) == ["eq"] * len(numbers)


def test_comparisons_of_two_values_or_with_a_gap_are_no_decoder():
    graph = Graph()
    x, y = states(graph, 8, 8)
    first = [graph.binary("eq", x, graph.const(8, number)) for number in range(2)]
    second = [graph.binary("eq", y, graph.const(8, number)) for number in range(2, 4)]
    side_by_side(graph, first + second)
    graph.cat([(first[0], 0), (first[1], 1), (graph.binary("eq", x, graph.const(8, 3)), 3)], 4)
    assert not [node for node in graph.nodes if node.kind == "shl"]


@pytest.mark.parametrize(("kind", "least"), [("not", 2), ("and", 3), ("xor", 3)])
def test_operations_of_so_many_neighbours_are_one(kind, least):
    for count in (least - 1, least):
        graph = Graph()
        a, b = states(graph, 8, 8)
        nodes = [
            graph.invert(x) if kind == "not" else graph.binary(kind, x, y)
            for x, y in zip(bits(graph, a)[:count], bits(graph, b)[:count], strict=True)
        ]
        found = side_by_side(graph, nodes)
        assert kinds(graph, found) == ([kind] if count == least else [kind] * count)


def test_operands_change_places_to_be_bits_of_one_word():
    """Nodes are numbered so that some operations have their operands in reverse order."""
    graph = Graph()
    (a,) = states(graph, 4)
    low = bits(graph, a)
    b = graph.add("state", 4, 1)
    other = bits(graph, b)
    nodes = [
        graph.binary("xor", low[0], other[0]),
        graph.binary("xor", other[1], low[1]),
        graph.add("xor", 1, other[2], low[2]),
        graph.binary("xor", low[3], other[3]),
    ]
    assert side_by_side(graph, nodes) == graph.binary("xor", a, b)


@pytest.mark.parametrize(("count", "packs"), [(3, False), (4, True), (8, True)])
def test_operations_are_one_where_their_operands_are_not_more_than_half_as_many(count, packs):
    """Two words and a bit between them are three pieces: at most half the number of operations plus
    one.
    """
    graph = Graph()
    a, b, c = states(graph, 16, 16, 16)
    first = [*bits(graph, a)[: count // 2], *bits(graph, b)[: count - count // 2]]
    nodes = [graph.binary("and", x, y) for x, y in zip(first, bits(graph, c), strict=False)]
    assert (kinds(graph, side_by_side(graph, nodes)) == ["and"]) == packs


def test_a_condition_of_one_part_is_no_choice_and_the_oldest_of_several_is_taken():
    graph = Graph()
    c, d, a, b = states(graph, 1, 1, 4, 4)
    alone = [(graph.mux(c, a, b), 0), (graph.mux(d, a, b), 4)]
    assert kinds(graph, graph.cat(alone, 8)) == ["mux", "mux"]
    x, y = graph.slice(a, 0, 1), graph.slice(b, 0, 1)
    two = [(graph.add("and", 1, c, d), 0), (graph.add("and", 1, d, c), 2)]
    found = graph.nodes[graph.cat(two, 3)]
    assert isinstance(found, nodes.Mux) and found.condition == c
    ends = [(graph.binary("and", c, x), 0), (graph.binary("and", d, y), 1)]
    assert kinds(graph, graph.cat(ends, 2)) == ["and", "and"]
