"""The graph of a compiled design: the values of its nodes, against Python's integers, and the nodes
that it creates.
"""

from functools import cache
from random import Random

import pytest

from sim.engine.arithmetic import WideArithmetic
from sim.engine.errors import EngineError
from sim.engine.graph import (
    WORD,
    Binary,
    Cat,
    Const,
    Graph,
    Mux,
    Pick,
    Read,
    Rep,
    Slice,
    StateWord,
    Unary,
)

WIDTHS = (1, 2, 7, 31, 32, 33, 63, 64)
WIDE = (1, 5, 64, 65, 100, 128, 129, 200)


def signed(value, width):
    """Returns the two's complement number in ``width`` bits."""
    return value - (1 << width) if value >> width - 1 & 1 else value


def evaluator(graph, states, rows=None):
    """Returns a function that evaluates a node according to its docstring.

    ``states`` are the stored words; ``rows`` has the rows of memories, by the numbers of cell and
    row.
    """

    @cache
    def value(number):
        node = graph.nodes[number]
        ones = (1 << node.width) - 1
        match node:
            case Const():
                return node.value
            case StateWord():
                return states[node.place]
            case Slice():
                assert node.shift + node.width <= graph.width(node.source)
                return value(node.source) >> node.shift & ones
            case Cat():
                found = 0
                for part, at in node.parts:
                    assert at + graph.width(part) <= node.width
                    assert not found >> at & (1 << graph.width(part)) - 1 or isinstance(
                        graph.nodes[part], Const
                    )
                    found |= value(part) << at
                return found
            case Rep():
                assert graph.width(node.bit) == 1
                return ones * value(node.bit)
            case Unary(kind="not"):
                return ~value(node.operand) & ones
            case Unary(kind="neg"):
                return -value(node.operand) & ones
            case Unary(kind="parity"):
                return value(node.operand).bit_count() & 1
            case Mux():
                return value(node.if_true if value(node.condition) else node.if_false)
            case Pick():
                return value(node.picks[min(value(node.index), len(node.picks) - 1)])
            case Read():
                table = (rows or {})[node.memory]
                row = value(node.row)
                return table[row] >> WORD * node.word & ones if row < len(table) else 0
            case Binary():
                return operated(node.kind, graph.width(node.a), value(node.a), value(node.b)) & ones
        raise AssertionError(node)

    return value


def evaluated(graph, states, number):
    """Returns the value of a node."""
    return evaluator(graph, states)(number)


def operated(kind, width, a, b):
    """Returns the result of an operation of two numbers of ``width`` bits, or of a number and a
    shift count.
    """
    x, y = signed(a, width), signed(b, width)
    return {
        "and": lambda: a & b,
        "or": lambda: a | b,
        "xor": lambda: a ^ b,
        "add": lambda: a + b,
        "sub": lambda: a - b,
        "mul": lambda: a * b,
        "eq": lambda: int(a == b),
        "ult": lambda: int(a < b),
        "slt": lambda: int(x < y),
        "shl": lambda: a << min(b, 64),
        "shr": lambda: a >> b,
        "sar": lambda: x >> min(b, 64),
        "udiv": lambda: a // b if b else 0,
        "umod": lambda: a % b if b else 0,
        "sdiv": lambda: x // y if y else 0,
        "smod": lambda: x % y if y else 0,
    }[kind]()


class Kept:
    """A graph with stored numbers; some nodes that are made of them are constant."""

    def __init__(self, seed):
        self.graph, self.states, self.random = Graph(), [], Random(seed)

    def number(self, width):
        """Returns nodes with the bits at which they begin, and their value, which is random or a
        limit.
        """
        value = (
            self.random.choice(
                [self.random.getrandbits(width), 0, 1, (1 << width) - 1, 1 << width - 1]
            )
            & (1 << width) - 1
        )
        parts = []
        for low in range(0, width, WORD):
            count = min(WORD, width - low)
            word = value >> low & (1 << count) - 1
            if self.random.random() < 0.3:
                parts.append((self.graph.const(count, word), low))
            else:
                parts.append((self.graph.add("state", count, len(self.states)), low))
                self.states.append(word)
        return tuple(parts), value

    def value(self, bits):
        """Returns the value of nodes with the bits at which they begin."""
        found, end = 0, 0
        for node, at in bits:
            assert at == end
            end += self.graph.width(node)
            found |= evaluated(self.graph, self.states, node) << at
        return found, end


OPERATORS = {
    "+": lambda x, y, width: x + y,
    "-": lambda x, y, width: x - y,
    "*": lambda x, y, width: x * y,
    "==": lambda x, y, width: x == y,
    "!=": lambda x, y, width: x != y,
    "u<": lambda x, y, width: x < y,
    "u>": lambda x, y, width: x > y,
    "u<=": lambda x, y, width: x <= y,
    "u>=": lambda x, y, width: x >= y,
    "s<": lambda x, y, width: signed(x, width) < signed(y, width),
    "s>": lambda x, y, width: signed(x, width) > signed(y, width),
    "s<=": lambda x, y, width: signed(x, width) <= signed(y, width),
    "s>=": lambda x, y, width: signed(x, width) >= signed(y, width),
}
DIVISIONS = {
    "u//": lambda x, y, width: x // y if y else 0,
    "u%": lambda x, y, width: x % y if y else 0,
    "s//": lambda x, y, width: signed(x, width) // signed(y, width) if y else 0,
    "s%": lambda x, y, width: signed(x, width) % signed(y, width) if y else 0,
}
REDUCTIONS = {
    "b": lambda x, width: x != 0,
    "r|": lambda x, width: x != 0,
    "r&": lambda x, width: x == (1 << width) - 1,
    "r^": lambda x, width: x.bit_count() & 1,
    "-": lambda x, width: -x,
}


@pytest.mark.parametrize("width", WIDE)
@pytest.mark.parametrize("operator", OPERATORS)
def test_operators_of_any_width_are_those_of_pythons_integers(operator, width):
    for seed in range(25):
        kept = Kept(seed)
        (x, one), (y, other) = kept.number(width), kept.number(width)
        if seed % 5 == 0:
            y, other = x, one
        found, end = kept.value(
            WideArithmetic(kept.graph).operate(operator, (x, y), (width, width))
        )
        expected = int(OPERATORS[operator](one, other, width))
        assert found == expected & (1 << end) - 1
        assert end == (width if operator in ("+", "-", "*") else 1)


@pytest.mark.parametrize("width", WIDTHS)
def test_operators_of_one_word_are_one_node(width):
    graph = Graph()
    x, y = ((graph.add("state", width, place), 0) for place in range(2))
    arithmetic = WideArithmetic(graph)
    for operator, kind in (("+", "add"), ("-", "sub"), ("*", "mul")):
        expected = graph.binary(kind, x[0], y[0])
        assert arithmetic.operate(operator, ((x,), (y,)), (width, width)) == ((expected, 0),)
    assert arithmetic.operate("-", ((x,),), (width,)) == ((graph.negate(x[0]), 0),)
    wide = graph.add("cat", 64, ((y[0], 0),)) if width < 64 else y[0]
    for operator, kind in (("<<", "shl"), ("u>>", "shr"), ("s>>", "sar")):
        found = arithmetic.operate(operator, ((x,), (y,)), (width, width))
        assert found == ((graph.binary(kind, x[0], wide), 0),)
    for operator, kind in (("u//", "udiv"), ("u%", "umod"), ("s//", "sdiv"), ("s%", "smod")):
        found = arithmetic.operate(operator, ((x,), (y,)), (width, width))
        assert found == ((graph.add(kind, width, x[0], y[0]), 0),)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("operator", DIVISIONS)
def test_divisions_of_a_word_round_down_and_are_0_by_0(operator, width):
    for seed in range(25):
        kept = Kept(seed)
        (x, one), (y, other) = kept.number(width), kept.number(width)
        found, _ = kept.value(WideArithmetic(kept.graph).operate(operator, (x, y), (width, width)))
        assert found == int(DIVISIONS[operator](one, other, width)) & (1 << width) - 1


def test_wider_divisions_and_unknown_operators_are_refused():
    kept = Kept(1)
    (x, _), (y, _) = kept.number(65), kept.number(65)
    for operator, said in (
        ("u//", "division of 65 bits"),
        ("s%", "division of 65 bits"),
        ("?", "operator ?"),
    ):
        with pytest.raises(EngineError) as refused:
            WideArithmetic(kept.graph).operate(operator, (x, y), (65, 65))
        assert said in str(refused.value)


@pytest.mark.parametrize("width", WIDE)
@pytest.mark.parametrize("operator", REDUCTIONS)
def test_reductions_and_negation(operator, width):
    for seed in range(25):
        kept = Kept(seed)
        x, one = kept.number(width)
        found, end = kept.value(WideArithmetic(kept.graph).operate(operator, (x,), (width,)))
        assert found == int(REDUCTIONS[operator](one, width)) & (1 << end) - 1
        assert end == (width if operator == "-" else 1)


@pytest.mark.parametrize("amount_width", [1, 3, 7, 9])
@pytest.mark.parametrize("width", WIDE)
@pytest.mark.parametrize("operator", ["<<", "u>>", "s>>"])
def test_shifts_by_any_distance(operator, width, amount_width):
    for seed in range(25):
        kept = Kept(seed)
        (x, one), (y, distance) = kept.number(width), kept.number(amount_width)
        found, end = kept.value(
            WideArithmetic(kept.graph).operate(operator, (x, y), (width, amount_width))
        )
        expected = {
            "<<": one << distance,
            "u>>": one >> distance,
            "s>>": signed(one, width) >> distance,
        }[operator]
        assert end == width and found == expected & (1 << width) - 1


@pytest.mark.parametrize(
    ("width", "count", "stride", "offset_width"),
    [
        (8, 1, 1, 3),
        (8, 4, 2, 6),
        (70, 5, 3, 5),
        (130, 70, 1, 8),
        (200, 64, 64, 2),
        (64, 8, 8, 70),
        (5, 3, 1, 1),
    ],
)
@pytest.mark.parametrize("is_signed", [False, True])
def test_parts_of_a_number_are_selected_and_extended_beyond_its_end(
    width, count, stride, offset_width, is_signed
):
    for seed in range(25):
        kept = Kept(seed)
        (x, value), (offset, place) = kept.number(width), kept.number(offset_width)
        bits = WideArithmetic(kept.graph).select(
            x, width, is_signed, offset, offset_width, count, stride
        )
        whole = signed(value, width) if is_signed else value
        found, end = kept.value(bits)
        assert end == count and found == whole >> min(place * stride, 300) & (1 << count) - 1


# Nodes


def state(graph, width, place=0):
    return graph.add("state", width, place)


def test_equal_nodes_are_one_and_constants_have_their_width():
    graph = Graph()
    assert state(graph, 8) == state(graph, 8) != state(graph, 9)
    assert graph.const(4, 0x1F) == graph.const(4, 15) and graph.value(graph.const(4, -1)) == 15
    assert graph.value(state(graph, 8)) is None and graph.width(state(graph, 8)) == 8


@pytest.mark.parametrize("name", ["and", "or", "xor", "add", "sub", "mul", "eq", "ult", "slt"])
@pytest.mark.parametrize("width", WIDTHS)
def test_operations_on_constants_are_folded(name, width):
    random, graph = Random(width), Graph()
    for _ in range(30):
        a, b = (random.getrandbits(width) for _ in range(2))
        found = graph.binary(name, graph.const(width, a), graph.const(width, b))
        wide = 1 if name in ("eq", "ult", "slt") else width
        assert graph.width(found) == wide
        assert graph.value(found) == operated(name, width, a, b) & (1 << wide) - 1


@pytest.mark.parametrize("width", [1, 8, 64])
def test_operations_with_0_and_ones_make_no_node(width):
    graph = Graph()
    x, zero, ones = state(graph, width), graph.const(width, 0), graph.const(width, -1)
    for name in ("or", "xor", "add", "sub", "shl", "shr", "sar"):
        assert graph.binary(name, x, zero) == x
    for name in ("or", "xor", "add"):
        assert graph.binary(name, zero, x) == x
    assert graph.binary("and", x, zero) == graph.binary("mul", zero, x) == zero
    assert graph.binary("and", ones, x) == x and graph.binary("or", x, ones) == ones
    assert graph.binary("xor", x, ones) == graph.invert(x) and graph.invert(graph.invert(x)) == x
    assert graph.binary("and", x, x) == graph.binary("or", x, x) == x
    assert graph.binary("xor", x, x) == graph.binary("sub", x, x) == zero
    assert graph.value(graph.binary("eq", x, x)) == 1
    for name in ("shl", "shr"):
        for distance in (width, width + 5):
            assert graph.binary(name, x, graph.const(64, distance)) == zero


def test_operands_of_what_commutes_have_one_order():
    graph = Graph()
    x, y, three = state(graph, 8), state(graph, 8, 1), graph.const(8, 3)
    for name in ("and", "or", "xor", "add", "mul", "eq"):
        assert graph.binary(name, x, y) == graph.binary(name, y, x)
        assert graph.binary(name, x, three) == graph.binary(name, three, x)
    for name in ("sub", "ult", "slt"):
        assert graph.binary(name, x, y) != graph.binary(name, y, x)


def test_a_bit_that_equals_a_constant_is_itself_or_inverted():
    graph = Graph()
    bit = state(graph, 1)
    assert graph.binary("eq", bit, graph.const(1, 1)) == bit
    assert graph.binary("eq", bit, graph.const(1, 0)) == graph.invert(bit)


def test_a_choice_of_bits_is_logic_and_one_of_equals_is_none():
    graph = Graph()
    c, x, y = (state(graph, 1, place) for place in range(3))
    no, yes = graph.const(1, 0), graph.const(1, 1)
    assert graph.mux(c, x, x) == x and graph.mux(yes, x, y) == x and graph.mux(no, x, y) == y
    assert graph.mux(c, yes, no) == c and graph.mux(c, no, yes) == graph.invert(c)
    assert graph.mux(c, yes, y) == graph.binary("or", c, y)
    assert graph.mux(c, x, no) == graph.binary("and", c, x)
    assert graph.mux(c, no, y) == graph.binary("and", graph.invert(c), y)
    assert graph.mux(graph.invert(c), x, y) == graph.mux(c, y, x)
    wide, other = state(graph, 8, 3), state(graph, 8, 4)
    assert graph.nodes[graph.mux(c, wide, other)] == Mux("mux", 8, c, wide, other)


def test_neighbours_from_one_source_are_one_slice_and_copies_of_a_bit_are_one_node():
    graph = Graph()
    x = state(graph, 32)
    low, high = graph.slice(x, 4, 8), graph.slice(x, 12, 5)
    assert graph.cat([(low, 0), (high, 8)], 13) == graph.slice(x, 4, 13)
    assert graph.cat([(graph.slice(x, 0, 12), 0), (graph.slice(x, 12, 20), 12)], 32) == x
    assert graph.slice(low, 2, 3) == graph.slice(x, 6, 3) and graph.slice(x, 0, 32) == x
    other = state(graph, 8, 1)
    behind = graph.nodes[graph.cat([(other, 0), (low, 8), (high, 16)], 21)]
    assert behind == Cat("cat", 21, ((other, 0), (graph.slice(x, 4, 13), 8)))
    apart = graph.nodes[graph.cat([(low, 0), (high, 9)], 14)]
    assert apart == Cat("cat", 14, ((low, 0), (high, 9)))
    bit = graph.slice(x, 31, 1)
    assert graph.copies(bit, 1) == bit
    four = graph.copies(bit, 4)
    assert graph.nodes[four] == Rep("rep", 4, bit)
    for parts in (
        [(bit, 0), (bit, 1), (bit, 2), (bit, 3)],
        [(bit, 0), (graph.copies(bit, 3), 1)],
        [(graph.copies(bit, 3), 0), (bit, 3)],
        [(graph.copies(bit, 2), 0), (graph.copies(bit, 2), 2)],
    ):
        assert graph.cat(parts, 4) == four
    assert graph.slice(four, 1, 2) == graph.copies(bit, 2)
    assert graph.value(graph.copies(graph.const(1, 1), 9)) == 511


def test_constants_side_by_side_are_one_and_a_slice_of_parts_has_parts():
    graph = Graph()
    x, y = state(graph, 8), state(graph, 8, 1)
    assert graph.value(graph.cat([(graph.const(4, 5), 0), (graph.const(4, 9), 4)], 10)) == 0x95
    both = graph.cat([(x, 0), (y, 8)], 16)
    assert graph.slice(both, 0, 8) == x and graph.slice(both, 8, 8) == y
    assert graph.slice(both, 4, 8) == graph.cat(
        [(graph.slice(x, 4, 4), 0), (graph.slice(y, 0, 4), 4)], 8
    )
    mixed = graph.cat([(graph.const(8, 0x42), 0), (x, 8), (graph.const(4, 3), 16)], 24)
    assert evaluated(graph, [0xAB], mixed) == 0x03_AB_42
    assert evaluated(graph, [0xAB], graph.slice(mixed, 0, 8)) == 0x42
    assert evaluated(graph, [0xAB], graph.slice(mixed, 4, 16)) == 0x3AB4


def test_a_pick_ends_where_all_others_are_the_same():
    graph = Graph()
    index, x, y, z = state(graph, 3), *(state(graph, 8, place) for place in (1, 2, 3))
    assert graph.nodes[graph.pick(index, [x, y, z, z, z])] == Pick("pick", 8, index, (x, y, z))
    assert graph.pick(index, [x, x, x]) == x
    assert graph.pick(graph.const(3, 1), [x, y, z]) == y
    assert graph.pick(graph.const(3, 7), [x, y, z]) == z


def test_negation_and_inversion_of_constants_and_bits_that_are_all_or_any():
    graph = Graph()
    assert graph.value(graph.negate(graph.const(8, 3))) == 253
    assert graph.value(graph.invert(graph.const(8, 3))) == 252
    x, y = state(graph, 1), state(graph, 1, 1)
    assert graph.value(graph.all_of([])) == 1 and graph.value(graph.any_of([])) == 0
    assert graph.all_of([x]) == graph.any_of([x]) == x
    assert graph.all_of([x, y]) == graph.binary("and", x, y)
    assert graph.any_of([x, y]) == graph.binary("or", x, y)
    assert graph.nodes[graph.negate(x)] == Unary("neg", 1, x)
