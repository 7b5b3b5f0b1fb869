"""The next values of registers in a compiled model: written immediately or at the end of an edge,
and under which conditions.
"""

import pytest

from sim.engine.expressions import Expressions
from sim.engine.graph import Graph
from sim.engine.registers import Registers
from sim.engine.schedule import operands
from sim.engine.wakes import Wakes


class Machine:
    """Registers of 8 bits in the first states, followed by inputs of one bit."""

    def __init__(self, registers=4, inputs=2, widths=None):
        self.graph = Graph()
        self.widths = widths or [8] * registers
        self.registers = [
            self.graph.add("state", width, place) for place, width in enumerate(self.widths)
        ]
        self.inputs = [
            self.graph.add("state", 1, len(self.widths) + number) for number in range(inputs)
        ]
        self.place_of = {node: node for node in [*self.registers, *self.inputs]}
        self.wakes = Wakes()

    def sources(self, node):
        """Returns the numbers of the states that a node depends on."""
        if node in self.place_of:
            return {self.place_of[node]}
        found = set()
        for operand in operands(self.graph.nodes[node]):
            found |= self.sources(operand)
        return found

    def function(self, words, late=(), number=7):
        """Returns the statements of a function, one for each line, without their first indentation."""
        registers = Registers(
            self.graph, Expressions(self.graph, {}, self.place_of), self.place_of, self.wakes,
            self.sources, set(self.inputs), self.widths, late,
        )  # fmt: skip
        return [line[4:] for line in registers.function(number, words).splitlines()]


def test_a_register_that_nothing_else_reads_takes_its_value_at_once():
    one = Machine()
    total = one.graph.add("add", 8, one.registers[1], one.registers[2])
    value = "(((word)w[1] + w[2]) & 0xffu)"
    assert one.function([(0, total)]) == [f"{{ const word v = {value}; w[0] = v; }}"]
    assert one.function([(0, total)], late={0}) == [f"s->next(0, {value});"]


def test_a_register_that_keeps_its_value_has_no_statement():
    one = Machine()
    assert one.function([(0, one.registers[0]), (1, one.registers[0])]) == [
        "{ const word v = w[0]; w[1] = v; }"
    ]


def test_a_register_that_is_read_later_takes_its_value_at_the_end_of_the_edge():
    """In a ring the first register is delayed; the others need not be, because all their readers
    precede them.
    """
    one = Machine()
    r = one.registers
    ring = [(0, r[2]), (1, r[0]), (2, r[1])]
    assert one.function(ring) == [
        "s->next(0, w[2]);",
        "{ const word v = w[1]; w[2] = v; }",
        "{ const word v = w[0]; w[1] = v; }",
    ]
    counter = one.graph.add("add", 8, r[0], one.graph.const(8, 1))
    assert one.function([(0, counter)]) == [
        "{ const word v = (((word)w[0] + 1u) & 0xffu); w[0] = v; }"
    ]
    both = [(1, one.graph.add("xor", 8, r[0], r[3])), (0, counter), (2, r[0])]
    assert [line[:1] for line in one.function(both)] == ["{", "{", "{"]
    assert one.function(both)[-1].endswith("w[0] = v; }")


def test_a_change_wakes_other_readers_and_itself_where_the_function_reads_the_word():
    one = Machine()
    r = one.registers
    for place in (0, 1):
        one.wakes.note(7, place, -1)
        one.wakes.note(40, place, -1)
    assert one.function([(0, r[1])]) == [
        "{ const word v = w[1]; if (v != w[0]) { w[0] = v; d[1] |= 0x100; } }"
    ]
    counter = one.graph.add("neg", 8, r[0])
    assert "d[0] |= 0x80; d[1] |= 0x100;" in one.function([(0, counter)])[0]
    narrow = Machine(widths=[3, 8])
    narrow.wakes.note(40, 0, 0b111)
    cut = narrow.graph.slice(narrow.registers[1], 0, 3)
    assert narrow.function([(0, cut)]) == [
        "{ const word v = (w[1] & 0x7u); if (v != w[0]) { w[0] = v; d[1] |= 0x100; } }"
    ]


def test_a_choice_that_keeps_the_value_is_a_statement_under_a_condition():
    one = Machine()
    r, (condition, _) = one.registers, one.inputs
    taken = one.graph.add("mux", 8, condition, r[1], r[0])
    kept = one.graph.add("mux", 8, condition, r[0], r[1])
    other = one.graph.add("mux", 8, condition, r[2], r[3])
    assert one.function([(0, taken)]) == ["if (w[4]) { const word v = w[1]; w[0] = v; }"]
    assert one.function([(0, kept)]) == ["if (!w[4]) { const word v = w[1]; w[0] = v; }"]
    assert one.function([(0, taken)], late=[0]) == ["if (w[4]) s->next(0, w[1]);"]
    assert one.function([(0, other)]) == ["{ const word v = (w[4] ? w[2] : w[3]); w[0] = v; }"]


def test_a_choice_that_is_kept_as_a_word_is_read():
    one = Machine()
    taken = one.graph.add("mux", 8, one.inputs[0], one.registers[1], one.registers[0])
    one.place_of[taken] = 9
    assert one.function([(0, taken)]) == ["{ const word v = w[9]; w[0] = v; }"]


@pytest.mark.parametrize("count", [2, 3])
def test_a_condition_of_three_words_is_tested_once(count):
    one = Machine()
    graph, r = one.graph, one.registers
    words = [
        (place, graph.add("mux", 8, one.inputs[1], graph.const(8, place + 1), r[place]))
        for place in range(count)
    ]
    taken = [f"{{ const word v = {place + 1}u; w[{place}] = v; }}" for place in range(count)]
    assert one.function(words) == (
        ["if (w[5]) {", *("    " + line for line in taken), "}"]
        if count == 3
        else [f"if (w[5]) {line}" for line in taken]
    )


def test_both_sides_of_a_condition_and_the_words_without_it():
    one = Machine(registers=5)
    graph, r, condition = one.graph, one.registers, one.inputs[0]
    words = [
        (place, graph.add("mux", 8, condition, graph.const(8, place + 1), graph.const(8, 9)))
        for place in range(3)
    ]
    words.append((3, graph.add("neg", 8, r[3])))
    words.append((4, graph.add("mux", 8, one.inputs[1], r[3], graph.const(8, 0))))
    assert one.function(words) == [
        "if (w[5]) {",
        *(f"    {{ const word v = {place + 1}u; w[{place}] = v; }}" for place in range(3)),
        "} else {",
        *(f"    {{ const word v = 9u; w[{place}] = v; }}" for place in range(3)),
        "}",
        "{ const word v = (w[6] ? w[3] : 0u); w[4] = v; }",
        "{ const word v = (-(word)w[3] & 0xffu); w[3] = v; }",
    ]
    kept = [
        (place, graph.add("mux", 8, condition, r[place], graph.const(8, 9))) for place in range(3)
    ]
    assert one.function(kept) == [
        "if (!w[5]) {",
        *(f"    {{ const word v = 9u; w[{place}] = v; }}" for place in range(3)),
        "}",
    ]
    same = [(place, graph.add("mux", 8, condition, r[place], r[place])) for place in range(3)]
    assert one.function(same) == []


def test_a_reset_by_an_input_is_a_condition():
    """A word that is cleared, or a bit that is set, while an input is 1; in either order."""
    one = Machine(widths=[8, 8, 8, 1, 1, 1])
    graph, r, reset = one.graph, one.registers, one.inputs[0]
    free = graph.add("not", 1, reset)
    words = [
        (0, graph.add("mux", 8, reset, graph.const(8, 3), r[1])),
        (3, graph.add("and", 1, free, r[4])),
        (5, graph.add("and", 1, r[4], free)),
    ]
    assert one.function(words) == [
        "if (w[6]) {",
        "    { const word v = 3u; w[0] = v; }",
        "    { const word v = 0u; w[3] = v; }",
        "    { const word v = 0u; w[5] = v; }",
        "} else {",
        "    { const word v = w[1]; w[0] = v; }",
        "    { const word v = w[4]; w[3] = v; }",
        "    { const word v = w[4]; w[5] = v; }",
        "}",
    ]
    ones = [
        (3, graph.add("or", 1, reset, r[4])),
        (5, graph.add("or", 1, r[4], reset)),
        (0, graph.add("mux", 8, reset, graph.const(8, 3), r[1])),
    ]
    assert one.function(ones)[1:4] == [
        "    { const word v = 1u; w[3] = v; }",
        "    { const word v = 1u; w[5] = v; }",
        "    { const word v = 3u; w[0] = v; }",
    ]
    inner = [(place, graph.add("or", 1, r[4], r[5])) for place in (3,)]
    assert one.function(inner) == ["{ const word v = (w[4] | w[5]); w[3] = v; }"]


def test_what_one_side_of_a_condition_reads_delays_the_other_alike():
    """A word that is read later on the same side is delayed on both sides."""
    one = Machine()
    graph, r, condition = one.graph, one.registers, one.inputs[0]
    words = [
        (0, graph.add("mux", 8, condition, r[1], r[2])),
        (1, graph.add("mux", 8, condition, r[2], r[0])),
        (2, graph.add("mux", 8, condition, r[0], r[1])),
    ]
    lines = one.function(words)
    assert lines == [
        "if (w[4]) {",
        "    s->next(0, w[1]);",
        "    s->next(1, w[2]);",
        "    { const word v = w[0]; w[2] = v; }",
        "} else {",
        "    s->next(0, w[2]);",
        "    s->next(1, w[0]);",
        "    { const word v = w[1]; w[2] = v; }",
        "}",
    ]
