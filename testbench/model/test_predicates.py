"""CC tests, votes and shuffles of the warp model."""

import pytest

from rtl.isa.condition import ConditionCode, holds
from rtl.isa.kinds import ShuffleMode
from sim.model.warp.vector.lanes import bits_of, bools_of, threads_of, uniform
from testbench.handmade import ALL, alone, encode, held, vector
from testbench.instructions.condition import meanings
from testbench.memory.cases import SHUFFLES, shuffled

P1, P2 = 0x0FF0F00F, 0x33CC55AA


def mask(conditions) -> int:
    return sum(bool(condition) << thread for thread, condition in enumerate(conditions))


def with_condition(word: int):
    """Returns a warp whose thread t has the CC t modulo 16, and the record of the instruction."""
    made, warp = held([word])
    flags = (
        warp.condition.zero,
        warp.condition.sign,
        warp.condition.carry,
        warp.condition.overflow,
    )
    assert flags == (0, 0, 0, 0)
    warp.condition.zero, warp.condition.sign, warp.condition.carry, warp.condition.overflow = (
        mask(thread >> place & 1 for thread in range(32)) for place in range(4)
    )
    warp.predicates[1] = P1
    return warp, made.retire(0)


@pytest.mark.parametrize("test", [code.value for code in ConditionCode])
def test_every_test_of_cc(test):
    expected = mask(holds(test, thread % 16) for thread in range(32))
    _, record = with_condition(encode("CSETP", Pd=3, Pd2=4, test=test, Pc=1))
    assert record.predicates == {3: (ALL, expected & P1), 4: (ALL, ~expected & P1)}
    warp, _ = with_condition(encode("CSET", Rd=4, test=test, Pc=1, combine=2))
    assert mask(vector(warp, 4)) == expected ^ P1
    warp, _ = with_condition(encode("BRA", "i", target=0x30, test=test))
    assert warp.masks.active == (expected or ALL)


def test_tests_of_cc_say_what_is_true_of_the_numbers_compared():
    expected = {(flags, test): is_so for flags, test, is_so in meanings()}
    assert {test for _, test in expected} == set(ConditionCode)
    assert {(flags, test): holds(test.value, flags) for flags, test in expected} == expected


@pytest.mark.parametrize(
    "mode,cases",
    [
        (0, {0: False, 0xF0: True, 0x10: False}),
        (1, {0: False, 0xF0: True, 0x10: True}),
        (2, {0: True, 0xF0: True, 0x10: False}),
    ],
)
def test_vote_writes_the_ballot_and_the_verdict_of_active_threads(mode, cases):
    for predicate, verdict in cases.items():
        word = encode("VOTE", Rd=4, Pd=3, Pc=1, mode=mode)
        warp, record = alone(word, {4: 9}, active=0xF0, predicates={1: predicate | 0xFF00})
        assert vector(warp, 4) == [9] * 4 + [predicate] * 4 + [9] * 24
        assert record.predicates == {3: (0xF0, 0xF0 if verdict else 0)}


@pytest.mark.parametrize("make", [bools_of, bits_of, threads_of, uniform])
def test_shared_vectors_cannot_be_written(make):
    with pytest.raises(ValueError, match="read-only"):
        make(3)[0] = 0


@pytest.mark.parametrize("active", [ALL, 0x7FFFFFFF, P1, 1 << 12])
@pytest.mark.parametrize("mode", ShuffleMode)
@pytest.mark.parametrize("b,c", SHUFFLES)
def test_shfl_agrees_with_its_definition_for_any_active_threads(mode, b, c, active):
    values = [7 * lane + 1 for lane in range(32)]
    expected, inside = shuffled(mode, values, b, c, active)
    words = [
        encode("SHFL", "ii", Rd=4, Ra=1, Pd=3, mode=mode.value, lane=b, clamp=c),
        encode("SHFL", "rr", Rd=4, Ra=1, Pd=3, mode=mode.value, Rb=2, Rc=3),
    ]
    for word in words:
        warp, record = alone(word, {1: values, 2: b, 3: c, 4: 5}, active=active)
        assert vector(warp, 4) == [expected.get(lane, 5) for lane in range(32)]
        assert record.predicates == {3: (active, inside)}


def test_a_shuffle_gives_0_of_a_thread_whose_guard_keeps_it_away():
    word = encode(
        "SHFL", "ii", Rd=4, Ra=1, Pd=3, mode=ShuffleMode.DOWN.value, lane=2, clamp=31, guard=0
    )
    warp, record = alone(word, {1: 5, 4: 9}, predicates={0: 0b1111})
    assert vector(warp, 4) == [5, 5, 0, 0] + [9] * 28
    assert record.predicates == {3: (0b1111, 0b1111)}
