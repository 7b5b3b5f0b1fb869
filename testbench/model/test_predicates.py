"""Comparisons, selections, predicate logic, CC tests, votes and shuffles of the reference machine."""

import operator
import random

import pytest

from rtl.isa.condition import ConditionCode, holds
from rtl.isa.kinds import ShuffleMode
from sim.model.vector.lanes import Condition, bits_of, bools_of, threads_of, uniform
from testbench.flow.condition_meaning import meanings
from testbench.handmade import ALL, alone, encode, machine, vector, warp_of
from testbench.memory.cases import SHUFFLES, shuffled

EDGES = [0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF]
COMPARISONS = [lambda a, b: False, operator.lt, operator.eq, operator.le, operator.gt, operator.ne, operator.ge,
               lambda a, b: True]
JOIN = [operator.and_, operator.or_, operator.xor]
P1, P2 = 0x0FF0F00F, 0x33CC55AA


def numbers(seed: int) -> list[int]:
    source = random.Random(seed)
    return [source.choice(EDGES) for _ in range(32)]


A, B, C = (numbers(seed) for seed in (1, 2, 3))


def signed(value: int, bits: int = 32) -> int:
    return value - (1 << bits) if value >> bits - 1 else value


def mask(conditions) -> int:
    return sum(bool(condition) << thread for thread, condition in enumerate(conditions))


def typed(values: list[int], is_signed: int) -> list[int]:
    return [signed(value) for value in values] if is_signed else values


@pytest.mark.parametrize("compare", range(8))
@pytest.mark.parametrize("is_signed", [0, 1])
def test_isetp_and_iset(compare, is_signed):
    holding = mask(map(COMPARISONS[compare], typed(A, is_signed), typed(B, is_signed)))
    for combine in range(3):
        for flipped in (0, 1):
            other = P1 ^ (ALL * flipped)
            fields = {"compare": compare, "signed": is_signed, "combine": combine, "Pc": 1, "Pc_not": flipped}
            _, record = alone(encode("ISETP", "r", Pd=3, Pd2=4, Ra=1, Rb=2, **fields), {1: A, 2: B}, predicates={1: P1})
            assert record.predicates == {3: (ALL, JOIN[combine](holding, other)),
                                         4: (ALL, JOIN[combine](ALL & ~holding, other))}
            for one, value in ((0, 0xFFFFFFFF), (1, 0x3F800000)):
                word = encode("ISET", "r", Rd=4, Ra=1, Rb=2, one=one, **fields)
                warp, _ = alone(word, {1: A, 2: B}, predicates={1: P1})
                true = JOIN[combine](holding, other)
                assert vector(warp, 4) == [value * (true >> thread & 1) for thread in range(32)]


@pytest.mark.parametrize("compare", range(8))
@pytest.mark.parametrize("is_signed", [0, 1])
@pytest.mark.parametrize("name", ["ISETP", "ISET"])
def test_numbers_of_two_words_compare(compare, is_signed, name):
    """The low words are subtracted into CC, then the high ones compared."""
    result = {"Pd": 3, "Pd2": 7} if name == "ISETP" else {"Rd": 4}
    made = machine([encode("IADD", "r", Rd=255, Ra=1, Rb=2, plus_one=1, cc=1),
                    encode(name, "r", Ra=5, Rb=6, compare=compare, signed=is_signed, extended=1, Pc=7, **result)])
    warp = warp_of(made)
    lows, highs = (A, B), (numbers(4), numbers(5))
    for number, values in zip((1, 2, 5, 6), (*lows, *highs), strict=True):
        warp.registers[number] = values
    made.retire(0)
    made.retire(0)
    wholes = [[signed(high << 32 | low, 64) if is_signed else high << 32 | low
               for low, high in zip(*words, strict=True)] for words in zip(lows, highs, strict=True)]
    expected = mask(map(COMPARISONS[compare], *wholes))
    assert (warp.predicates[3] if name == "ISETP" else mask(vector(warp, 4))) == expected


@pytest.mark.parametrize("compare", range(8))
@pytest.mark.parametrize("is_signed", [0, 1])
def test_icmp(compare, is_signed):
    warp, _ = alone(encode("ICMP", "r", Rd=4, Ra=1, Rb=2, Rc=3, compare=compare, signed=is_signed), {1: A, 2: B, 3: C})
    assert vector(warp, 4) == [a if COMPARISONS[compare](c, 0) else b
                               for a, b, c in zip(A, B, typed(C, is_signed), strict=True)]


@pytest.mark.parametrize("flipped", [0, 1])
def test_sel_and_imnmx(flipped):
    chosen = P1 ^ (ALL * flipped)
    fields = {"Rd": 4, "Ra": 1, "Rb": 2, "Pc": 1, "Pc_not": flipped}
    warp, _ = alone(encode("SEL", "r", **fields), {1: A, 2: B}, predicates={1: P1})
    assert vector(warp, 4) == [a if chosen >> t & 1 else b for t, (a, b) in enumerate(zip(A, B, strict=True))]
    for is_signed in (0, 1):
        warp, _ = alone(encode("IMNMX", "r", signed=is_signed, **fields), {1: A, 2: B}, predicates={1: P1})
        key = signed if is_signed else int
        assert vector(warp, 4) == [(min if chosen >> t & 1 else max)(a, b, key=key)
                                   for t, (a, b) in enumerate(zip(A, B, strict=True))]


@pytest.mark.parametrize("is_signed", [0, 1])
@pytest.mark.parametrize("smaller", [0, 1])
@pytest.mark.parametrize("parts", [(3, 1), (3, 2, 1)])
def test_minima_of_numbers_of_several_words(is_signed, smaller, parts):
    """The top words come first; the lower ones follow their verdict."""
    words = [encode("IMNMX", "r", Rd=10 + place, Ra=2 * place, Rb=2 * place + 1, part=part, cc=1, Pc=7,
                    Pc_not=1 - smaller, signed=is_signed if place == 0 else 0) for place, part in enumerate(parts)]
    made = machine(words)
    warp = warp_of(made)
    first, second = ([numbers(10 * side + place) for place in range(len(parts))] for side in (1, 2))
    second[0][::3] = first[0][::3]
    for place in range(len(parts)):
        warp.registers[2 * place], warp.registers[2 * place + 1] = first[place], second[place]
    for _ in parts:
        made.retire(0)

    def whole(columns: list[list[int]], thread: int) -> int:
        number = int.from_bytes(b"".join(column[thread].to_bytes(4, "big") for column in columns), "big")
        return signed(number, 32 * len(parts)) if is_signed else number

    found = [vector(warp, 10 + place) for place in range(len(parts))]
    for thread in range(32):
        expected = (min if smaller else max)(whole(first, thread), whole(second, thread))
        assert whole(found, thread) == expected


def test_the_verdict_of_a_high_word():
    word = encode("IMNMX", "r", Rd=4, Ra=1, Rb=2, Pc=7, part=3, cc=1, signed=1)
    warp, _ = alone(word, {1: [5, 5, 5, 0xFFFFFFFF] * 8, 2: [5, 6, 4, 7] * 8})
    assert warp.condition == Condition(zero=0x11111111, sign=0x88888888, carry=0x55555555, overflow=0)


@pytest.mark.parametrize("signs", range(4))
@pytest.mark.parametrize("signed_d", [0, 1])
@pytest.mark.parametrize("then", range(4))
@pytest.mark.parametrize("saturate", [0, 1])
def test_video_instructions(signs, signed_d, then, saturate):
    lowest, highest = (-1 << 31, (1 << 31) - 1) if signed_d else (0, (1 << 32) - 1)
    key = signed if signed_d else int
    second = [lambda x, c: x + c & 0xFFFFFFFF, lambda x, c: min(x, c, key=key), lambda x, c: max(x, c, key=key),
              lambda x, c: x][then]
    fields = {"signs": signs, "signed_d": signed_d, "then": then, "saturate": saturate}
    # In the forms with a number the assembler has the sign of b, so only one of the two can be.
    number, kind = (-0x7FFB, "is") if signs & 2 else (0x8005, "i")
    second_sources = {"r": ({"Rb": 2}, typed(B, signs & 2)), kind: ({"imm16": number}, [number] * 32)}
    firsts = {(encode(name, variant, Rd=4, Ra=1, Rc=3, **source, **fields, **which), variant): first
              for variant, (source, _) in second_sources.items()
              for name, which, first in (("VMNMX", {"larger": 0}, min), ("VMNMX", {"larger": 1}, max),
                                         ("VABSDIFF", {}, lambda a, b: abs(a - b)))}
    assert len(firsts) == 6
    for (word, variant), first in firsts.items():
        warp, _ = alone(word, {1: A, 2: B, 3: C})
        for found, a, b, c in zip(vector(warp, 4), typed(A, signs & 1), second_sources[variant][1], C, strict=True):
            value = first(a, b)
            value = min(max(value, lowest), highest) if saturate else value
            assert found == second(value & 0xFFFFFFFF, c)


@pytest.mark.parametrize("first", range(3))
@pytest.mark.parametrize("second", range(3))
def test_predicate_logic(first, second):
    fields = {"Pa": 1, "Pb": 2, "Pb_not": 1, "Pc": 5, "combine_first": first, "combine": second}
    both, third = JOIN[first](P1, P2 ^ ALL), 0x00FFFF00
    _, record = alone(encode("PSETP", Pd=3, Pd2=4, **fields), predicates={1: P1, 2: P2, 5: third})
    assert record.predicates == {3: (ALL, JOIN[second](both, third)), 4: (ALL, JOIN[second](both ^ ALL, third))}
    warp, _ = alone(encode("PSET", "", Rd=4, **fields), predicates={1: P1, 2: P2, 5: third})
    assert mask(vector(warp, 4)) == JOIN[second](both, third)


def with_condition(word: int):
    """A warp whose thread t has the CC t modulo 16; its record."""
    made = machine([word])
    warp = warp_of(made)
    flags = (warp.condition.zero, warp.condition.sign, warp.condition.carry, warp.condition.overflow)
    assert flags == (0, 0, 0, 0)
    warp.condition.zero, warp.condition.sign, warp.condition.carry, warp.condition.overflow = (
        mask(thread >> place & 1 for thread in range(32)) for place in range(4))
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
    told = {(flags, test): is_so for flags, test, is_so in meanings()}
    assert {test for _, test in told} == set(ConditionCode)
    assert {(flags, test): holds(test.value, flags) for flags, test in told} == told


def test_predicates_to_a_register_and_back():
    word = encode("P2R", "i", Rd=4, Ra=1, imm=0xDA, byte=2)
    warp, _ = alone(word, {1: 0xFFFFFFFF}, predicates={1: ALL, 2: ALL, 6: 1})
    assert vector(warp, 4) == [0xFFE7FFFF] + [0xFFA7FFFF] * 31
    warp, record = alone(encode("R2P", "i", Ra=1, imm=0x45, byte=1), {1: 0x4200}, predicates={1: 5, 2: ALL})
    assert record.predicates[6] == (ALL, ALL)
    assert warp.predicates[:7] == [0, 5, 0, 0, 0, 0, ALL]
    warp, _ = alone(encode("R2P", "r", Ra=1, Rb=2), {1: 1, 2: [1, 0] * 16}, predicates={0: 0})
    assert warp.predicates[0] == 0x55555555


def test_cc_to_a_register_and_back():
    warp, _ = with_condition(encode("P2R", "i", Rd=4, Ra=255, imm=0xF, which=1))
    assert vector(warp, 4) == [thread % 16 for thread in range(32)]
    warp, record = alone(encode("R2P", "i", Ra=1, imm=0x6, which=1), {1: list(range(32))})
    assert record.condition == (ALL, tuple(thread & 6 for thread in range(32)))


@pytest.mark.parametrize("mode,cases", [
    (0, {0: False, 0xF0: True, 0x10: False}), (1, {0: False, 0xF0: True, 0x10: True}),
    (2, {0: True, 0xF0: True, 0x10: False})])
def test_vote(mode, cases):
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
def test_shuffles(mode, b, c, active):
    values = [7 * lane + 1 for lane in range(32)]
    expected, inside = shuffled(mode, values, b, c, active)
    words = [encode("SHFL", "ii", Rd=4, Ra=1, Pd=3, mode=mode.value, lane=b, clamp=c),
             encode("SHFL", "rr", Rd=4, Ra=1, Pd=3, mode=mode.value, Rb=2, Rc=3)]
    for word in words:
        warp, record = alone(word, {1: values, 2: b, 3: c, 4: 5}, active=active)
        assert vector(warp, 4) == [expected.get(lane, 5) for lane in range(32)]
        assert record.predicates == {3: (active, inside)}


def test_a_shuffle_gives_0_of_a_thread_whose_guard_keeps_it_away():
    word = encode("SHFL", "ii", Rd=4, Ra=1, Pd=3, mode=ShuffleMode.DOWN.value, lane=2, clamp=31, guard=0)
    warp, record = alone(word, {1: 5, 4: 9}, predicates={0: 0b1111})
    assert vector(warp, 4) == [5, 5, 0, 0] + [9] * 28
    assert record.predicates == {3: (0b1111, 0b1111)}
