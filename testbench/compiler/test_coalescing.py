"""Coalescing: when the groups of two values are joined, so that a copy between them is not needed."""

from collections.abc import Iterable

import pytest

from sim.toolchain.compiler.abi import STACK_POINTER
from sim.toolchain.compiler.regalloc import coalesce
from sim.toolchain.compiler.regalloc.coalesce import CoalescedGroup

FREE = frozenset(range(4))


def group(members, rows=None, bases: Iterable[int] = FREE, *, fixed=False, clobbered=None):
    """Returns a group; omitted arguments are 0 for each distance."""
    return CoalescedGroup(
        dict(members),
        {at: (rows or {}).get(at, 0) for at in members},
        frozenset(bases),
        fixed,
        {at: (clobbered or {}).get(at, 0) for at in members},
    )


def joined(one, other):
    """Returns whether two values share a register after an attempt to join their groups."""
    coalesce._merge(one, other)
    places = []
    for made, at in (one, other):
        found, shift = made.root()
        places.append((id(found), at + shift))
    return places[0] == places[1]


def test_groups_that_nothing_keeps_apart_become_one_with_all_of_both():
    one, other = group({0: 0b1, 1: 0b10}, {1: 0b1}), group({0: 0b100, 2: 0b1000}, {2: 0b1})
    one.clobbered[1], other.clobbered[0] = 0x30, 0x50
    assert joined((one, 1), (other, 0))  # the other's base is the first one's second register
    assert one.members == {0: 0b1, 1: 0b110, 3: 0b1000}
    assert one.rows == {0: 0, 1: 0b1, 3: 0b1}
    assert one.clobbered == {0: 0, 1: 0x70, 3: 0}
    assert other.root() == (one, 1) and one.root() == (one, 0)
    before = dict(one.members)
    assert joined((one, 1), (one, 1)) and one.members == before  # they are joined already


@pytest.mark.parametrize("width", [15, 16, 17, 18])
def test_a_group_is_at_most_16_registers_wide(width):
    """The limit applies in both directions: the other group's last or first register is the
    outermost of both.
    """
    one, behind = group({0: 1, 1: 2}), group({0: 4, width - 2: 8})
    assert joined((one, 1), (behind, 0)) == (width <= 16)
    one, before = group({0: 1, 1: 2}), group({0: 4, width - 2: 8})
    assert joined((one, 0), (before, width - 2)) == (width <= 16)


@pytest.mark.parametrize(
    ("one", "other", "free"),
    [
        (group({0: 1}, {0: 0b1000}), group({0: 2, 1: 8}), True),  # a neighbour may interfere
        (group({0: 1}, {0: 0b10}), group({0: 2, 1: 8}), False),
        (group({0: 1}), group({0: 2}, {0: 0b1}), False),
        (group({0: 1, 1: 4}), group({0: 2, 1: 8}, {1: 0b100}), False),
        (group({0: 1, 1: 4}), group({0: 2, 1: 8}, {1: 0b001}), True),
    ],
)
def test_values_that_interfere_do_not_share_a_register(one, other, free):
    assert joined((one, 0), (other, 0)) == free


@pytest.mark.parametrize(
    ("shift", "bases", "others", "found"),
    [
        (0, {0}, {0, 2}, {0}),
        (0, {0}, {2}, None),
        (1, {0, 2}, {0}, None),
        (1, {0, 1, 2, 3}, {0}, {3}),
        (2, {0, 2}, {0}, {2}),
        (3, {0, 1, 2, 3}, {0, 2}, {1, 3}),
    ],
)
def test_the_base_is_aligned_for_both(shift, bases, others, found):
    """The other group's base is ``shift`` registers after that of the first."""
    one, other = group({0: 1, shift: 2}, bases=bases), group({0: 4}, bases=others)
    assert joined((one, shift), (other, 0)) == (found is not None)
    assert one.bases == (found or bases)


@pytest.mark.parametrize("is_first", [False, True])
@pytest.mark.parametrize(
    ("at", "members", "clobbered", "free"),
    [
        (8, {0: 2, 20: 4}, {}, True),  # exactly as wide as permitted
        (2, {0: 2, -2: 4}, {}, True),
        (2, {0: 2, -3: 4}, {}, False),  # there is no register before R0
        (STACK_POINTER, {0: 2}, {}, False),
        (STACK_POINTER + 1, {0: 2, -1: 4}, {}, False),
        (4, {0: 2}, {0: 1 << 4}, False),  # a call clobbers the register in between
        (4, {0: 2, 1: 4}, {1: 1 << 5}, False),
        (4, {0: 2, 1: 4}, {0: 1 << 5, 1: 1 << 4}, True),
    ],
)
def test_a_group_comes_into_registers_that_are_given(at, members, clobbered, free, is_first):
    fixed = group({at: 1}, bases={0}, fixed=True)
    other = group(members, clobbered=clobbered)
    places = [(fixed, at), (other, 0)]
    assert joined(*(places if is_first else places[::-1])) == free
    assert fixed.joined is None and fixed.bases == {0}


def test_two_places_of_the_given_registers_stay_as_they_are():
    fixed, other = group({4: 1}, fixed=True), group({5: 2}, fixed=True)
    assert not joined((fixed, 4), (other, 5)) and fixed.joined is None and other.joined is None


def test_a_group_is_found_through_all_that_it_came_into():
    """Distances add up, and later lookups use shorter paths."""
    chain = [group({0: 1 << number}) for number in range(4)]
    for sooner, later, shift in zip(chain, chain[1:], (1, 10, 100), strict=False):
        sooner.joined = later, shift
    assert [each.root() for each in chain] == [
        (chain[3], 111), (chain[3], 110), (chain[3], 100), (chain[3], 0),
    ]  # fmt: skip
    assert chain[0].joined == (chain[3], 111) and chain[1].joined == (chain[3], 110)
