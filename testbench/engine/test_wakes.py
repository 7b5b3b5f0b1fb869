"""The functions that a compiled model calls again when a word changes: statements and tables."""

import re
from itertools import pairwise

import pytest

from sim.engine.wakes import FLAGS, Wakes

EVERY = (1 << 64) - 1


def noted(*readers):
    """Returns readers of words: function, state, and the bits that it reads."""
    wakes = Wakes()
    for reader in readers:
        wakes.note(*reader)
    return wakes


def test_a_word_that_nothing_reads_is_only_assigned():
    assert noted((1, 4, -1)).change(5, "v", 8) == "w[5] = v;"


def test_a_reader_of_all_bits_is_woken_where_the_word_changes():
    text = "if (v != w[5]) { w[5] = v; d[0] |= 0x8; }"
    assert noted((3, 5, -1)).change(5, "v", 8) == text
    assert noted((3, 5, 0xFF)).change(5, "v", 8) == text
    assert noted((3, 5, 0x1FF)).change(5, "v", 8) == text


def test_a_reader_of_some_bits_is_woken_where_one_of_these_changes():
    found = noted((3, 5, 0xF), (35, 5, 0xF), (66, 5, 0xF0), (99, 5, -1)).change(5, "v", 8)
    assert found == (
        "if (const word x = v ^ w[5]) { w[5] = v; "
        "if (x & 0xfull) { d[0] |= 0x8; d[1] |= 0x8; } "
        "if (x & 0xf0ull) { d[2] |= 0x4; } "
        "d[3] |= 0x8; }"
    )


def test_bits_that_a_word_does_not_have_are_no_difference():
    assert noted((3, 5, 0xF0F), (4, 5, 0xF)).change(5, "v", 8) == (
        "if (const word x = v ^ w[5]) { w[5] = v; if (x & 0xfull) { d[0] |= 0x18; } }"
    )
    assert noted((3, 5, 0x2), (4, 5, 0x3)).change(5, "v", 1) == (
        "if (v != w[5]) { w[5] = v; d[0] |= 0x18; }"
    )


def test_bits_of_a_reader_that_is_noted_twice_are_joined():
    assert noted((3, 5, 0x1), (3, 5, 0x4)).change(5, "v", 8) == (
        "if (const word x = v ^ w[5]) { w[5] = v; if (x & 0x5ull) { d[0] |= 0x8; } }"
    )


def test_one_reader_can_be_left_out():
    wakes = noted((3, 5, -1), (4, 5, -1))
    assert wakes.change(5, "v", 8, 3) == "if (v != w[5]) { w[5] = v; d[0] |= 0x10; }"
    assert noted((3, 5, -1)).change(5, "v", 8, 3) == "w[5] = v;"


@pytest.mark.parametrize("whole", [False, True])
def test_six_groups_of_bits_are_tested_and_the_widest_of_more_are_not(whole):
    """A word's change may wake a function without need, but must wake every function that needs it."""
    readers = [(number, 5, (1 << number + 1) - 1) for number in range(8)]
    wakes = noted(*readers, *([(40, 5, -1)] if whole else []))
    found = wakes.change(5, "v", 20)
    assert re.findall(r"if \(x & (0x\w+)ull\) \{ d\[0\] \|= (0x\w+); \}", found) == [
        (f"{(1 << number + 1) - 1:#x}", f"{1 << number:#x}") for number in range(6)
    ]
    always = "d[0] |= 0xc0; d[1] |= 0x100;" if whole else "d[0] |= 0xc0;"
    assert f"}} {always} }}" in found or f"w[5] = v; {always} if" in found
    few = noted(*readers[:6]).change(5, "v", 20)
    assert few.count("if (x &") == 6 and "} d[" not in few
    assert noted(*readers[:6], (40, 5, -1)).change(5, "v", 20).count("if (x &") == 6


def test_flags_of_more_than_six_words_are_raised_by_a_loop():
    readers = [(number * FLAGS, 5, -1) for number in range(7)]
    six = " ".join(f"d[{number}] |= 0x1;" for number in range(6))
    assert noted(*readers[:6]).change(5, "v", 8) == f"if (v != w[5]) {{ w[5] = v; {six} }}"
    assert noted(*readers).change(5, "v", 8) == (
        "if (v != w[5]) { w[5] = v; s->wake(5, 0xffffffffffffffffull); }"
    )


def test_the_flag_of_a_function_is_the_bit_of_its_number():
    found = noted((31, 5, -1), (32, 5, -1), (0, 5, -1), (95, 5, -1)).change(5, "v", 8)
    assert found == (
        "if (v != w[5]) { w[5] = v; d[0] |= 0x80000001; d[1] |= 0x1; d[2] |= 0x80000000; }"
    )


def test_words_that_wake_different_functions_are_changed_one_by_one():
    found = noted((3, 1, -1), (4, 2, -1)).change_together([(1, "a", 8), (2, "b", 8), (3, "c", 8)])
    assert (found.declarations, found.wakes) == ([], [])
    assert found.statements == [
        "if (a != w[1]) { w[1] = a; d[0] |= 0x8; }",
        "if (b != w[2]) { w[2] = b; d[0] |= 0x10; }",
        "w[3] = c;",
    ]


def test_functions_that_bits_of_two_words_wake_are_woken_once():
    wakes = noted((3, 1, 0x0F), (3, 2, 0xF0), (4, 1, 0xF0), (5, 2, 0x0F), (4, 6, -1))
    found = wakes.change_together([(1, "a", 8), (2, "b", 8), (6, "c", 4)])
    assert found.declarations == ["word g0 = 0;", "word g1 = 0;"]
    assert found.statements == [
        "{ const word x = a ^ w[1]; w[1] = a; g0 |= x & 0xfull; g1 |= x & 0xf0ull; }",
        "{ const word x = b ^ w[2]; w[2] = b; g0 |= x & 0xf0ull; "
        "if (x & 0xfull) { d[0] |= 0x20; } }",
        "{ const word x = c ^ w[6]; w[6] = c; g1 |= x; }",
    ]
    assert found.wakes == ["if (g0) { d[0] |= 0x8; }", "if (g1) { d[0] |= 0x10; }"]


def test_a_reader_of_all_bits_that_a_word_has_is_woken_by_any_of_them():
    wakes = noted((3, 1, 0xFF), (3, 2, -1), (4, 1, 0x7F), (4, 2, 0x7F))
    found = wakes.change_together([(1, "a", 8), (2, "b", 8)])
    assert found.statements[0] == (
        "{ const word x = a ^ w[1]; w[1] = a; g0 |= x; g1 |= x & 0x7full; }"
    )


def test_flags_of_many_words_are_not_collected():
    many = [(number * FLAGS, place, -1) for number in range(7) for place in (1, 2)]
    found = noted(*many).change_together([(1, "a", 8), (2, "b", 8)])
    assert (found.declarations, found.wakes) == ([], [])
    assert found.statements == [
        f"if ({name} != w[{place}]) {{ w[{place}] = {name}; "
        f"s->wake({place}, 0xffffffffffffffffull); }}"
        for place, name in ((1, "a"), (2, "b"))
    ]
    six = [(number * FLAGS, place, -1) for number in range(6) for place in (1, 2)]
    assert noted(*six).change_together([(1, "a", 8), (2, "b", 8)]).declarations == ["word g0 = 0;"]
    mixed = [(number * FLAGS, 1, 0x10) for number in range(7)]
    mixed += [(300, place, 0xF) for place in (1, 2)]
    assert noted(*mixed).change_together([(1, "a", 8), (2, "b", 8)]).statements[0] == (
        "{ const word x = a ^ w[1]; w[1] = a; "
        "if (x & 0x10ull) { s->wake(1, 0xffffffffffffffffull); } g0 |= x & 0xfull; }"
    )


def table(text, name):
    """Returns the bits and functions of a table's entries, by owner."""
    (starts,) = re.findall(rf"uint32_t {name}_starts\[\] = {{ ([\d, ]+) }};", text)
    (rows,) = re.findall(rf"entry {name}_entries\[\] = {{ (.*) }};", text)
    ends = [int(start) for start in starts.split(", ")]
    entries = [
        (int(bits, 16), int(word), int(mask, 16))
        for bits, word, mask in re.findall(r"{ (0x\w+)ull, (\d+), (0x\w+) }", rows)
    ]
    assert ends[0] == 0 and ends[-1] == len(entries)
    return [
        sorted(
            (function, bits)
            for bits, word, mask in entries[start:end]
            for function in range(word * FLAGS, word * FLAGS + FLAGS)
            if mask >> function % FLAGS & 1
        )
        for start, end in pairwise(ends)
    ]


def test_tables_have_the_readers_of_every_word_and_memory():
    wakes = noted((3, 0, 0xF), (40, 0, 0xF), (41, 0, -1), (5, 2, 0x10))
    wakes.note_memories(3, [1])
    wakes.note_memories(70, [1, 2])
    text = wakes.tables(4, 3)
    assert table(text, "reader") == [[(3, 0xF), (40, 0xF), (41, EVERY)], [], [(5, 0x10)], []]
    assert table(text, "memory") == [[], [(3, EVERY), (70, EVERY)], [(70, EVERY)]]
    assert "reader_entries[] = { { 0xfull, 0, 0x8 }, { 0xfull, 1, 0x100 }," in text


def test_tables_without_readers_are_empty_and_still_tables():
    assert Wakes().tables(2, 0).splitlines() == [
        "static const uint32_t reader_starts[] = { 0, 0, 0 };",
        "static const entry reader_entries[] = { {} };",
        "static const uint32_t memory_starts[] = { 0 };",
        "static const entry memory_entries[] = { {} };",
    ]
