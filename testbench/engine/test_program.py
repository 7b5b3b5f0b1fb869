"""The C++ of a design: its functions, their numbers and flags, initial values, and the locations of
signals.
"""

import re
from typing import Any

import pytest
from amaranth.hdl import Cat, ClockDomain, Const, Module, Mux, Signal
from amaranth.hdl._nir import Net
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from sim.engine.graph import WORD
from sim.engine.internals import (
    AssignmentList,
    FlipFlop,
    Matches,
    Operation,
    PartSelect,
    PriorityMatch,
)
from sim.engine.lower import Lowering, OutputBits, concatenation_places, split_output
from testbench.engine.random_designs import RandomDesign
from testbench.engine.test_translation import Translated, compared

ONES = (1 << WORD) - 1


def array(text, name):
    """Returns the numbers of a table."""
    (found,) = re.findall(rf"{name}\[\] = {{ ([\d, ul]+) }};", text)
    return [int(number.rstrip("ul")) for number in found.split(", ")]


@pytest.mark.parametrize("seed", [0, 7])
def test_tables_have_the_words_that_are_not_0_at_the_beginning(seed):
    made = Translated(RandomDesign(100 + seed, one_clock=True))
    text = made.program.units[-1]
    states = made.states([signal.init & (1 << len(signal)) - 1 for signal, _ in made.places])
    expected = {
        place: states[place]
        for place, (number, _) in enumerate(made.lowering.states)
        if isinstance(made.netlist.cells[number], FlipFlop) and states[place]
    }
    places, values = array(text, "init_places"), array(text, "init_values")
    assert dict(zip(places, values, strict=True)) == (expected or {0: 0})
    inputs = [place for place in range(len(states)) if made.lowering.is_input(place)]
    assert array(text, "input_places") == inputs
    rows = {}
    for cell, data in made.memories.items():
        memory = made.lowering.memories[cell]
        for number, row in enumerate(data.init._raw):
            for word in range(len(memory.widths)):
                if part := row >> WORD * word & ONES:
                    rows[memory.base + number * len(memory.widths) + word] = part
    places, values = array(text, "row_places"), array(text, "row_values")
    assert dict(zip(places, values, strict=True)) == (rows or {0: 0})
    counts = dict(re.findall(r"(\w+) = (\d+)[, }]", text[text.rindex("enum { WORDS") :]))
    assert counts == {
        "WORDS": str(made.emitter.words),
        "MEMORY_WORDS": str(
            sum(memory.depth * len(memory.widths) for memory in made.lowering.memories.values())
        ),
        "FLAG_WORDS": counts["FLAG_WORDS"],
        "EDGES": "1",
        "FALLS": "0",
        "INPUTS": str(len(inputs)),
        "INITS": str(len(expected)),
        "ROWS": str(len(rows)),
    }


def numbers_in(text, name):
    """Returns the groups of numbers of a table of structs."""
    (found,) = re.findall(rf"{name}\[\] = {{ (.*) }};", text)
    return [
        tuple(int(one, 0) for one in re.findall(r"\b\d+\b", row))
        for row in re.findall(r"{([^}]*)}", found)
    ]


@pytest.mark.parametrize(("seed", "one_clock"), [(100, True), (202, False)])
def test_functions_are_numbered_by_ranges_that_begin_with_a_word_of_flags(seed, one_clock):
    """The ranges are: the words that all others depend on, the registers of each edge, the words
    computed on access.
    """
    made = Translated(RandomDesign(seed, one_clock=one_clock))
    text, emitter = made.program.units[-1], made.emitter
    groups = [
        emitter.schedule.clusters,
        *(edge.registers for edge in emitter._edges.edges),
        emitter.schedule.looked_at,
    ]
    ranges = numbers_in(text, "range ranges")
    assert len(ranges) == len(groups) == 2 + len(emitter._edges.edges)
    (table,) = re.findall(r"function \*const table\[\] = { (.*) };", text)
    names, end = table.split(", "), 0
    for (first, stop), group in zip(ranges, groups, strict=True):
        assert 32 * first == -(-end // 32) * 32 and stop == 32 * first + len(group)
        assert names[end : 32 * first] == ["0"] * (32 * first - end)
        assert names[32 * first : stop] == [f"c{number}" for number in range(32 * first, stop)]
        end = stop
    assert len(names) == end
    whole = "".join(made.program.units)
    for name in names:
        assert name == "0" or f"void {name}(model *s) {{" in whole
    (flag_words,) = re.findall(r"FLAG_WORDS = (\d+)", text)
    assert int(flag_words) == -(-end // 32)
    edges = numbers_in(text.replace(", ports", " "), "edge edges")
    assert [(place, shift, level) for place, shift, level, *_ in edges] == [
        (*edge.clock, edge.level) for edge in emitter._edges.edges
    ]
    (falls,) = re.findall(r"FALLS = (\d)", text)
    assert int(falls) == (not one_clock)


def test_words_that_are_computed_on_access_name_all_functions_that_they_need():
    made = Translated(RandomDesign(103, one_clock=True))
    text, clusters = made.program.units[-1], made.emitter.schedule.looked_at
    maker = {node: number for number, one in enumerate(clusters) for node in one.nodes}

    def needed(number):
        found = {number}
        for node in clusters[number].reads:
            if node in maker:
                found |= needed(maker[node])
        return found

    (words,) = (int(number) for number in re.findall(r"LOOKED_WORDS = (\d+)", text))
    assert words == -(-len(clusters) // 32)
    flags = array(text, "looked_needs")
    for number in range(len(clusters)):
        mask = sum(flags[number * words + word] << 32 * word for word in range(words))
        assert mask == sum(1 << one for one in needed(number))
    places = {
        made.program.place_of[node]: number
        for node, number in maker.items()
        if node in made.program.place_of
    }
    found = dict(zip(array(text, "looked_places"), array(text, "looked_makers"), strict=True))
    assert found == places and list(found) == sorted(found)
    assert f"LOOKED_PLACES = {len(places)}" in text


class Registers(wiring.Component):
    """Registers of one module that exchange values in a ring."""

    def __init__(self, count):
        super().__init__({"last": Out(8)})
        self._count = count

    def elaborate(self: Any, platform):
        m = Module()
        ring = [
            Signal(8, name=f"r{number}", init=number, reset_less=True)
            for number in range(self._count)
        ]
        m.d.sync += [one.eq(other) for one, other in zip(ring, [ring[-1], *ring], strict=False)]
        m.d.comb += self.last.eq(ring[-1])
        return m


@pytest.mark.parametrize(("count", "functions"), [(1, 1), (32, 1), (33, 2), (65, 3)])
def test_a_function_finds_the_next_values_of_32_words_at_most(count, functions):
    made = Translated(Registers(count))
    (edge,) = made.emitter._edges.edges
    assert [len(words) for words in edge.registers if len(words) > 32] == []
    assert len(edge.registers) == functions
    places = [place for words in edge.registers for place, _ in words]
    assert sorted(places) == sorted(one.place for one in made.effects.nexts)
    assert (edge.level, made.program.settles) == (1, False)


def test_a_register_takes_its_value_at_once_unless_something_reads_the_old_one_later():
    """In a ring of 33 registers that two functions compute, one word of each function is read by
    the other, and the order of the words breaks the ring once.
    """
    made = Translated(Registers(33))
    (edge,) = made.emitter._edges.edges
    text = "".join(made.program.units)
    order = [place for words in edge.registers for place, _ in words]
    function_of = {
        place: number for number, words in enumerate(edge.registers) for place, _ in words
    }
    reader_of = {
        read: one.place for one in made.effects.nexts for read in made.emitter._sources(one.node)
    }
    assert sorted(reader_of) == sorted(order)
    noted = {int(place) for place in re.findall(r"s->next\((\d+), ", text)}
    for place in order:
        if function_of[reader_of[place]] > function_of[place]:
            assert place in noted
        at_once = re.search(rf"w\[{place}\] = v;", text) is not None
        assert at_once != (place in noted)
    assert 1 <= len(noted) <= 3


class Crossing(wiring.Component):
    """Two registers of different clocks that exchange values."""

    one: Out(4)
    two: Out(4)

    def elaborate(self: Any, platform):
        m = Module()
        m.domains.sync = ClockDomain(reset_less=True)
        m.domains.other = ClockDomain(reset_less=True)
        m.d.sync += self.one.eq(self.two)
        m.d.other += self.two.eq(self.one)
        return m


@pytest.mark.parametrize(("design", "count"), [(Crossing, 2), (lambda: Both(), 3)])
def test_registers_of_several_edges_take_their_values_at_the_end(design, count):
    """The clocks may rise at the same time."""
    text = "".join(Translated(design()).program.units)
    assert len(re.findall(r"s->next\(\d+, ", text)) >= count
    assert not re.search(r"w\[\d+\] = v;", text)


class Pieces(wiring.Component):
    """Signals of a few bits that are computed, stored in a register, or constant."""

    def __init__(self):
        super().__init__({"bits": Out(6), "wide": Out(70), "mixed": Out(20), "number": In(4)})

    def elaborate(self: Any, platform):
        m = Module()
        kept = Signal(10, init=3)
        m.d.sync += kept.eq(kept + 1)
        m.d.comb += [
            self.bits.eq(Cat((kept + number).xor() for number in range(6))),
            self.wide.eq(Cat((kept * number).xor() for number in range(70))),
            self.mixed.eq(Cat(kept, Const(5, 3), self.number + 1, kept[0])),
        ]
        return m


def test_small_words_of_a_signal_are_one_piece_and_registers_are_pieces_of_their_own():
    made = Translated(Pieces())
    places = {signal.name: place for signal, place in made.places}
    (piece,) = places["bits"].pieces
    assert piece[1:] == (0, 6, 0) and places["bits"].combinational
    assert sum(width for _, _, width, _ in places["wide"].pieces) in range(68, 71)
    assert len(places["wide"].pieces) <= 3
    assert all(width <= 64 for _, _, width, _ in places["wide"].pieces)
    assert [(shift, width, at) for _, shift, width, at in places["mixed"].pieces] == [
        (0, 10, 0),
        (0, 5, 13),
        (0, 1, 18),
    ]
    assert places["mixed"].constant & ~(0x1F << 13) == 5 << 10
    assert not places["number"].combinational
    assert compared(made, lambda _ctx: None) > 2


class Both(wiring.Component):
    """Registers of both edges of one clock and of another clock, and wide constants."""

    def __init__(self):
        super().__init__({"up": Out(4), "down": Out(4), "other": Out(4), "wide": Out(200)})

    def elaborate(self: Any, platform):
        m = Module()
        up: Any = ClockDomain("sync")
        down: Any = ClockDomain("down", clk_edge="neg", reset_less=True, local=True)
        m.domains.sync = up
        m.domains.down = down
        m.domains.other = ClockDomain("other")
        down.clk = up.clk
        m.d.sync += self.up.eq(self.up + 1)
        m.d.down += self.down.eq(self.down + self.up)
        m.d.other += self.other.eq(self.other + 1)
        m.d.comb += self.wide.eq(Const(0x1234_5678 << 100 | 0xABC, 200))
        return m


def test_the_edges_of_a_clock_stand_together_falling_before_rising():
    made = Translated(Both())
    edges = [(edge.clock, edge.level) for edge in made.emitter._edges.edges]
    assert len(edges) == 3
    one = next(clock for clock, level in edges if level == 0)
    at = edges.index((one, 0))
    assert edges[at + 1] == (one, 1)
    assert [len(edge.registers) for edge in made.emitter._edges.edges] == [1, 1, 1]


def test_no_node_has_more_bits_than_a_word():
    made = Translated(Both())
    assert max(node.width for node in made.graph.nodes) <= WORD
    (place,) = [place for signal, place in made.places if signal.name == "wide"]
    assert (place.pieces, place.constant) == ((), 0x1234_5678 << 100 | 0xABC)
    nets = next(nets for signal, nets in made.netlist.signals.items() if signal.name == "wide")
    ends, at = [], 0
    while at < len(nets):
        at = made.lowering.run_end(nets, at)
        ends.append(at)
    assert ends == [64, 128, 192, 200]


class Operations(wiring.Component):
    """Operations of words without dependencies between them."""

    a: In(100)
    b: In(100)
    c: In(1)
    logic: Out(100)
    sum: Out(101)
    found: Out(1)
    part: Out(70)

    def elaborate(self: Any, platform):
        m = Module()
        kept = Signal()
        m.d.sync += kept.eq(self.c)
        m.d.comb += [
            self.logic.eq((self.a & self.b) ^ ~self.a | Mux(self.c, self.a, self.b)),
            self.sum.eq(self.a + self.b),
            self.found.eq(self.a.matches("1" * 100)),
            self.part.eq(self.a.bit_select(self.b[:5], 70)),
        ]
        return m


def test_operations_are_taken_apart_into_words_and_into_bits_only_where_they_have_to_be():
    netlist = Translated(Operations()).netlist
    words = [OutputBits(0, 64), OutputBits(64, 36)]
    for number, cell in enumerate(netlist.cells):
        plain, fine = Lowering(netlist, set()), Lowering(netlist, {number})
        if isinstance(cell, Operation):
            logical = cell.operator in ("~", "&", "|", "^", "m")
            width = cell.width
            expected = (
                [OutputBits(0, width)]
                if width <= 64
                else [OutputBits(0, 64), OutputBits(64, width - 64)]
            )
            assert plain._parts_of(number, cell) == expected
            assert fine._parts_of(number, cell) == (
                [OutputBits(bit, 1) for bit in range(width)] if logical else expected
            )
            assert width != 100 or expected == words
        elif isinstance(cell, Matches):
            assert plain._parts_of(number, cell) == [OutputBits(0, 1)]
        elif isinstance(cell, PartSelect):
            assert plain._parts_of(number, cell) == [OutputBits(0, 64), OutputBits(64, 6)]
        elif isinstance(cell, PriorityMatch):
            assert plain._parts_of(number, cell) == [
                OutputBits(bit, 1) for bit in range(len(cell.inputs))
            ]
        elif isinstance(cell, AssignmentList):
            bits = [OutputBits(bit, 1) for bit in range(len(cell.default))]
            assert fine._parts_of(number, cell) == bits
    kinds = {type(cell) for cell in netlist.cells}
    assert {Operation, Matches, PartSelect} <= kinds


@pytest.mark.parametrize(
    ("width", "marks", "firm", "parts"),
    [
        (0, [], [], []),
        (1, [], [], [(0, 1)]),
        (64, [30], [], [(0, 64)]),
        (65, [], [], [(0, 64), (64, 1)]),
        (65, [30], [], [(0, 30), (30, 35)]),
        (100, [10, 64, 70], [], [(0, 64), (64, 36)]),
        (100, [0, 70], [], [(0, 64), (64, 36)]),
        (200, [60, 120, 199], [], [(0, 60), (60, 60), (120, 64), (184, 16)]),
        (20, [5], [7, 0, 20], [(0, 7), (7, 13)]),
        (100, [50], [10, 90], [(0, 10), (10, 40), (50, 40), (90, 10)]),
        (20, [], [30], [(0, 20)]),
        (130, [64, 128], [2], [(0, 2), (2, 62), (64, 64), (128, 2)]),
    ],
)
def test_a_value_is_cut_into_words_at_marks_where_possible_and_always_at_firm_ones(
    width, marks, firm, parts
):
    assert split_output(width, marks, firm) == [OutputBits(*part) for part in parts]


def test_a_value_is_concatenated_where_bits_are_no_neighbours():
    a, constant = [net_of(number) for number in range(100, 110)], net_of(0)
    assert concatenation_places(a) == [] and concatenation_places([]) == []
    assert concatenation_places([a[0], a[1], a[5], a[6]]) == [2]
    assert concatenation_places([a[3], a[3], a[3], a[4]]) == []
    assert concatenation_places([a[3], a[2], a[1]]) == [1, 2]
    assert concatenation_places([constant, net_of(1), constant, a[0]]) == [3]
    assert concatenation_places([a[0], constant, constant]) == [1]


def net_of(number):
    """Returns a net of a netlist; numbers below 2 are constants."""
    return Net.from_const(number) if number < 2 else Net.from_cell(number // 10, number % 10)
