"""Bits that are computed alike become operations of words, with equal values on both engines."""

from random import Random

import pytest
from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from sim.engine import ENGINES
from sim.engine.graph import Graph
from sim.engine.wakes import Wakes
from testbench.engine.designs import needs_compiled
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
    """What the outputs are in each cycle."""
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
