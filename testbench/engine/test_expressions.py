"""Expressions of C++: their values, against the graph's own evaluation, and their form at the
limits of a word.
"""

import ctypes
import re
import subprocess
from pathlib import Path
from random import Random

import pytest

from sim.engine import build
from sim.engine.expressions import Expressions
from sim.engine.graph import Graph
from sim.engine.lower import MemoryWords
from testbench.engine.designs import needs_compiled
from testbench.engine.test_graph import evaluated

ENGINE = Path(build.__file__).parent


def written(graph, memories=None, places=None):
    """Returns a writer of expressions whose words are stored at the numbers of their states."""
    kept = {number: node.place for number, node in enumerate(graph.nodes) if node.kind == "state"}
    return Expressions(graph, memories or {}, kept if places is None else places)


def states(graph, *widths):
    return [graph.add("state", width, place) for place, width in enumerate(widths)]


# Form


def test_constants_slices_and_concatenations():
    graph = Graph()
    a, b, wide = states(graph, 8, 4, 64)
    text = written(graph).text
    assert text(a) == "w[0]" and text(graph.const(8, 200)) == "200u"
    assert text(graph.const(32, 0x7FFFFFFF)) == "2147483647u"
    assert text(graph.const(32, 0x80000000)) == "0x80000000ull"
    assert text(graph.add("slice", 4, a, 0)) == "(w[0] & 0xfu)"
    assert text(graph.add("slice", 3, a, 2)) == "((w[0] >> 2) & 0x7u)"
    assert text(graph.add("slice", 6, a, 2)) == "(w[0] >> 2)"
    assert text(graph.add("slice", 33, wide, 30)) == "((w[2] >> 30) & 0x1ffffffffull)"
    assert text(graph.add("slice", 32, wide, 30)) == "((w[2] >> 30) & 0xffffffffu)"
    assert text(graph.add("cat", 12, ((a, 0), (b, 8)))) == "(w[0] | ((word)w[1] << 8))"
    assert text(graph.add("cat", 12, ((b, 8),))) == "((word)w[1] << 8)"
    assert text(graph.add("cat", 12, ((b, 0),))) == "w[1]"


def test_a_node_that_is_kept_or_a_variable_is_named_and_others_are_written_out():
    graph = Graph()
    a, b = states(graph, 8, 8)
    both = graph.add("xor", 8, a, b)
    inverted = graph.add("not", 8, both)
    expressions = written(graph, places={a: 3, b: 5, both: 70})
    assert expressions.text(inverted) == "(~(word)w[70] & 0xffu)"
    assert expressions.operation(both) == "(w[3] ^ w[5])"
    expressions.local[both] = "t2"
    assert expressions.text(inverted) == "(~(word)t2 & 0xffu)"


def test_operations_are_cut_to_their_width_unless_that_is_a_word():
    graph = Graph()
    a, b, c, d, bit = states(graph, 8, 8, 64, 64, 1)
    text = written(graph).text
    assert text(graph.add("add", 8, a, b)) == "(((word)w[0] + w[1]) & 0xffu)"
    assert text(graph.add("mul", 64, c, d)) == "(((word)w[2] * w[3]))"
    assert text(graph.add("and", 8, a, b)) == "(w[0] & w[1])"
    assert text(graph.add("eq", 1, a, b)) == "(word)(w[0] == w[1])"
    assert text(graph.add("ult", 1, a, b)) == "(word)(w[0] < w[1])"
    assert text(graph.add("not", 1, bit)) == "(w[4] ^ 1)"
    assert text(graph.add("neg", 8, a)) == "(-(word)w[0] & 0xffu)"
    assert text(graph.add("rep", 64, bit)) == "(-(word)w[4])"
    assert text(graph.add("mux", 8, bit, a, b)) == "(w[4] ? w[0] : w[1])"


@pytest.mark.parametrize(
    ("width", "guarded"), [(1, False), (5, False), (6, False), (7, True), (64, True)]
)
def test_a_shift_that_may_be_64_or_more_is_guarded(width, guarded):
    graph = Graph()
    a, by = states(graph, 8, width)
    distance = graph.add("cat", 64, ((by, 0),))
    for kind, name, sign in (("shl", "shift_left", "<<"), ("shr", "shift_right", ">>")):
        expected = (
            f"({name}(w[0], w[1]) & 0xffu)" if guarded else f"(((word)w[0] {sign} w[1]) & 0xffu)"
        )
        assert written(graph).text(graph.add(kind, 8, a, distance)) == expected


@pytest.mark.parametrize(("factor", "guarded"), [(9, False), (10, True)])
def test_the_bound_of_a_distance_is_that_of_a_product(factor, guarded):
    graph = Graph()
    a, by = states(graph, 64, 3)
    wide = graph.add("cat", 64, ((by, 0),))
    distance = graph.add("mul", 64, wide, graph.const(64, factor))
    assert ("shift_left" in written(graph).text(graph.add("shl", 64, a, distance))) == guarded
    moved = graph.add("cat", 64, ((by, 3),))
    assert "shift_left" not in written(graph).text(graph.add("shl", 64, a, moved))
    assert "shift_left" in written(graph).text(
        graph.add("shl", 64, a, graph.add("cat", 64, ((by, 4),)))
    )


@pytest.mark.parametrize(
    ("depth", "width", "inside"), [(8, 3, ""), (7, 3, "a < 7"), (8, 4, "a < 8"), (9, 3, "")]
)
def test_an_address_that_may_be_outside_of_a_memory_is_tested(depth, width, inside):
    graph = Graph()
    (row,) = states(graph, width)
    expressions = written(graph, {9: MemoryWords((64, 6), depth, 100, ())})
    assert expressions.inside(row, depth) == inside
    read = f"{inside} ? s->m[101 + a * 2] : 0" if inside else "s->m[101 + a * 2]"
    assert expressions.text(graph.add("read", 6, 9, 1, row)) == (
        f"({{ const word a = w[0]; {read}; }})"
    )
    single = written(graph, {9: MemoryWords((6,), 1 << width, 3, ())})
    assert single.text(graph.add("read", 6, 9, 0, row)) == (
        "({ const word a = w[0]; s->m[3 + a]; })"
    )


def bits(graph, source, places):
    """Returns a concatenation of a word's bits that is not packed."""
    parts = tuple((graph.add("slice", 1, source, bit), at) for at, bit in enumerate(places))
    return graph.add("cat", len(parts), parts)


@pytest.mark.parametrize(("count", "reversal"), [(5, 0), (6, 1), (20, 1)])
def test_six_bits_in_descending_order_are_a_word_reversed(count, reversal):
    graph = Graph()
    (a,) = states(graph, 40)
    text = written(graph).text(bits(graph, a, range(30, 30 - count, -1)))
    assert text.count("reversed(") == reversal
    if reversal:
        assert text == f"((reversed(w[0]) >> 33) & {(1 << count) - 1:#x}u)"


@pytest.mark.parametrize(
    ("step", "count", "together"),
    [(2, 6, 0), (3, 2, 0), (3, 3, 1), (3, 6, 2), (5, 5, 1), (9, 2, 0)],
)
def test_three_bits_at_equal_distances_are_brought_together(step, count, together):
    graph = Graph()
    (a,) = states(graph, 60)
    text = written(graph).text(bits(graph, a, range(1, 1 + step * count, step)))
    assert text.count(" * 0x") == together


def test_bits_of_two_words_or_with_a_gap_are_not_one_group():
    graph = Graph()
    a, b = states(graph, 40, 40)
    lines = [(graph.add("slice", 1, a, 5 * at), at) for at in range(3)]
    others = [(graph.add("slice", 1, b, 5 * at), at + 3) for at in range(3)]
    text = written(graph).text(graph.add("cat", 6, (*lines, *others)))
    assert text.count(" * 0x") == 2
    gap = [(node, at + (at > 1)) for node, at in lines]
    assert written(graph).text(graph.add("cat", 4, tuple(gap))).count(" * 0x") == 0
    wide = [(graph.add("slice", 2, a, 5 * at), 2 * at) for at in range(3)]
    assert written(graph).text(graph.add("cat", 6, tuple(wide))).count(" * 0x") == 0


def test_a_concatenation_that_is_0_is_one_whose_parts_are():
    graph = Graph()
    a, b = states(graph, 8, 8)
    both = graph.add("cat", 16, ((a, 0), (b, 8)))
    none = graph.add("eq", 1, both, graph.const(16, 0))
    assert written(graph).text(none) == "(word)!(w[0] | w[1])"
    one = graph.add("eq", 1, both, graph.const(16, 1))
    assert written(graph).text(one) == "(word)((w[0] | ((word)w[1] << 8)) == 1u)"
    kept = written(graph, places={a: 0, b: 1, both: 2})
    assert kept.text(none) == "(word)(w[2] == 0u)"
    kept = written(graph)
    kept.local[both] = "t"
    assert kept.text(none) == "(word)(t == 0u)"
    part = graph.add("eq", 1, graph.add("cat", 16, ((a, 3),)), graph.const(16, 0))
    assert "!" not in written(graph).text(part)


def picked(graph, index, values, width):
    return graph.pick(index, [graph.const(width, value) for value in values])


def test_constants_that_fit_into_a_word_are_bits_of_it_and_others_a_table():
    graph = Graph()
    two, three, eight, nine = states(graph, 2, 3, 8, 9)
    text = written(graph).text
    assert text(picked(graph, two, [1, 0, 1, 1], 1)) == "((0xdull >> (w[0])) & 0x1u)"
    assert text(picked(graph, three, range(8), 8)) == (
        "((0x706050403020100ull >> (w[1] * 8)) & 0xffu)"
    )
    assert text(picked(graph, three, range(8), 9)) == (
        "({ static const uint16_t t[] = { 0x0, 0x1, 0x2, 0x3, 0x4, 0x5, 0x6, 0x7 }; "
        "(word)t[w[1]]; })"
    )
    assert text(picked(graph, three, [7, 8, 9], 20)) == (
        "({ static const uint32_t t[] = { 0x7, 0x8, 0x9, 0x9, 0x9, 0x9, 0x9, 0x9 }; "
        "(word)t[w[1]]; })"
    )
    for width, kind, suffix in (
        (8, "uint8_t", ""),
        (17, "uint32_t", ""),
        (32, "uint32_t", ""),
        (33, "uint64_t", "ull"),
    ):
        found = text(picked(graph, eight, [*range(1, 256), 3], width))
        assert f"static const {kind} t[] = {{ 0x1{suffix}, 0x2{suffix}," in found
        assert len(re.findall(r"0x", found)) == 256
    assert "switch" in text(picked(graph, nine, range(300), 9))


def test_other_picks_are_a_switch_with_a_case_for_each_word():
    graph = Graph()
    index, a, b = states(graph, 3, 8, 8)
    found = written(graph).text(graph.add("pick", 8, index, (a, b, a, graph.const(8, 3), b)))
    assert found == (
        "({ word r; switch (w[0]) { case 0: case 2: r = w[1]; break; case 3: r = 3u; break; "
        "default: r = w[2]; } r; })"
    )


# Values


def random_graph(seed):
    """Returns a graph with all kinds of nodes, the values of its states, and all its nodes except
    constants.
    """
    random, graph = Random(seed), Graph()
    widths = [1, 1, 3, 6, 7, 8, 31, 32, 33, 60, 63, 64, 64]
    nodes = states(graph, *widths)
    values = [
        random.choice([0, (1 << width) - 1, 1 << width - 1, random.getrandbits(width)])
        for width in widths
    ]
    found = list(nodes)

    def of(width):
        """Returns a node of this width."""
        same = [node for node in nodes if graph.width(node) == width]
        if same and random.random() < 0.7:
            return random.choice(same)
        if random.random() < 0.3:
            return graph.const(width, random.choice([0, 1, -1, random.getrandbits(width)]))
        wider = random.choice([node for node in nodes if graph.width(node) >= width])
        return graph.slice(wider, random.randrange(graph.width(wider) - width + 1), width)

    for _ in range(120):
        width = random.choice(widths)
        kind = random.randrange(9)
        if kind < 3:
            name = random.choice(["and", "or", "xor", "add", "sub", "mul", "eq", "ult", "slt"])
            node = graph.binary(name, of(width), of(width))
        elif kind == 3:
            name = random.choice(["udiv", "umod", "sdiv", "smod"])
            node = graph.add(name, width, of(width), of(width))
        elif kind == 4:
            by = graph.cat([(of(random.choice([3, 6, 7, 32])), 0)], 64)
            node = graph.add(random.choice(["shl", "shr", "sar"]), width, of(width), by)
        elif kind == 5:
            node = graph.mux(of(1), of(width), of(width))
        elif kind == 6:
            name = random.choice(["not", "neg", "parity", "rep"])
            one = of(1 if name == "rep" else width)
            wide = 1 if name == "parity" else random.randrange(2, 65) if name == "rep" else width
            node = graph.add(name, wide, one)
        elif kind == 7:
            count = random.choice([2, 5, 8])
            same = random.random() < 0.5
            picks = [
                graph.const(width, random.getrandbits(width)) if same else of(width)
                for _ in range(count)
            ]
            node = graph.pick(of(3), picks)
        else:
            source = random.choice([node for node in nodes if graph.width(node) >= 31])
            limit = graph.width(source)
            step = random.choice([-1, 2, 3, 5, 7])
            count = min(random.randrange(2, 21), (limit - 1) // abs(step) + 1)
            start = limit - 1 if step < 0 else 0
            node = bits(graph, source, range(start, start + step * count, step)[:count])
        if graph.value(node) is None and node not in nodes:
            nodes.append(node)
            found.append(node)
    return graph, values, found


@needs_compiled
def test_expressions_of_all_kinds_compute_what_the_nodes_mean(tmp_path):
    """All nodes of several graphs are in one library; some of them are stored in variables."""
    lines, expected = ['#include "runtime.h"', 'extern "C" {'], []
    for seed in range(6):
        graph, values, nodes = random_graph(seed)
        expressions = written(graph)
        begin = ", ".join(f"{value:#x}ull" for value in values)
        lines.append(f"void f{seed}(word *out) {{ const word w[] = {{ {begin} }};")
        for at, node in enumerate(nodes):
            is_state = node < len(values)
            text = expressions.text(node) if is_state else expressions.operation(node)
            lines.append(f"out[{at}] = {text};")
            if at % 3 == 0:
                lines.append(f"const word t{node} = out[{at}];")
                expressions.local[node] = f"t{node}"
        lines.append("}")
        expected.append([evaluated(graph, values, node) for node in nodes])
    source, library = tmp_path / "all.cc", tmp_path / "all.so"
    source.write_text("\n".join([*lines, "}"]))
    command = [*(build.compiler() or []), "-O0", "-std=c++17", "-fPIC", "-shared", "-w"]
    subprocess.run([*command, f"-I{ENGINE}", "-o", library, source], check=True)
    loaded = ctypes.CDLL(str(library))
    for seed, numbers in enumerate(expected):
        out = (ctypes.c_uint64 * len(numbers))()
        getattr(loaded, f"f{seed}")(out)
        assert list(out) == numbers
