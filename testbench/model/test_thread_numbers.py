"""Sequences that compiled code makes of instructions, on the thread model, against Python numbers."""

import operator
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from hypothesis import example
from hypothesis import strategies as st

from rtl.isa.condition import ConditionCode
from rtl.isa.kinds import (
    Compare,
    Logic,
    MinMaxPart,
    PredicateTest,
    ProductAddend,
    SumShift,
)
from rtl.isa.syntax import RZ
from sim.model.thread import Step, step
from testbench.properties import for_many
from testbench.words import encode

WORD, LONG = (1 << 32) - 1, (1 << 64) - 1
EDGES = (0, 1, 2, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 0xFFFF0000, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFF8000, WORD)
numbers = st.sampled_from(EDGES) | st.integers(0, WORD)
longs = st.builds(lambda low, high: high << 32 | low, numbers, numbers)
RELATIONS = {Compare.LT: operator.lt, Compare.EQ: operator.eq, Compare.LE: operator.le, Compare.GT: operator.gt,
             Compare.NE: operator.ne, Compare.GE: operator.ge}


def signed(value: int, bits: int = 32) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value


def chain(words: Sequence[int], registers: Mapping[int, int] = MappingProxyType({}), condition: int = 0,
          predicates: Sequence[int] = ()) -> Step:
    """Instructions one after the other, each on what the last left."""
    result = None
    for content in words:
        result = step(content, registers, predicates=predicates, condition=condition)
        registers, condition, predicates = dict(enumerate(result.registers)), result.condition, result.predicates
    assert result is not None
    return result


# Sums


@for_many(longs, longs)
def test_a_carry_joins_two_sums(x, y):
    values = {1: x & WORD, 2: x >> 32, 3: y & WORD, 4: y >> 32}
    for negate, total in ((0, x + y), (1, x - y)):
        done = chain([encode("IADD", "r", Rd=5, Ra=1, Rb=3, negate_b=negate, cc=1),
                      encode("IADD", "r", Rd=6, Ra=2, Rb=4, negate_b=negate, extended=1)], values)
        assert done.registers[5] | done.registers[6] << 32 == total & LONG


@for_many(longs, longs, longs, st.sampled_from([(0, 0, 0), (0, 1, 0), (0, 1, 1), (1, 0, 0), (1, 0, 1)]))
@example(LONG, LONG, LONG, (0, 0, 0))
def test_a_carry_of_two_joins_two_sums_of_three(x, y, z, negated):
    values = {place: number >> shift & WORD for place, (number, shift) in
              enumerate(((x, 0), (x, 32), (y, 0), (y, 32), (z, 0), (z, 32)), 1)}
    signs = dict(zip(("negate_a", "negate_b", "negate_c"), negated, strict=True))
    low = step(encode("IADD3", "r", Rd=7, Ra=1, Rb=3, Rc=5, cc=1, **signs), values)
    high = step(encode("IADD3", "r", Rd=8, Ra=2, Rb=4, Rc=6, extended=1, **signs), values,
                condition=low.thread.condition)
    total = sum(-number if negative else number for number, negative in zip((x, y, z), negated, strict=True))
    assert low.registers[7] | high.registers[8] << 32 == total & LONG


@for_many(numbers, numbers)
def test_condition_of_a_difference_tells_every_relation(x, y):
    condition = step(encode("IADD", "r", Rd=RZ, Ra=1, Rb=2, negate_b=1, cc=1), {1: x, 2: y}).condition
    sx, sy = signed(x), signed(y)
    truth = {"LT": sx < sy, "GE": sx >= sy, "LE": sx <= sy, "GT": sx > sy, "NE": x != y, "EQU": x == y,
             "LO": x < y, "HS": x >= y, "LS": x <= y, "HI": x > y, "F": False, "T": True,
             "SFT": (x - y) >> 31 & 1 == 1, "SFF": (x - y) >> 31 & 1 == 0,
             "OFT": not -1 << 31 <= sx - sy < 1 << 31, "OFF": -1 << 31 <= sx - sy < 1 << 31}
    for name, holds in truth.items():
        left = step(encode("CSETP", Pd=0, Pd2=1, test=ConditionCode[name].value), condition=condition)
        assert left.predicates[:2] == (int(holds), int(not holds)), name


@for_many(longs, longs, st.booleans())
def test_long_comparison_goes_through_the_condition(x, y, is_signed):
    values = {1: x & WORD, 2: x >> 32, 3: y & WORD, 4: y >> 32}
    low = encode("IADD", "r", Rd=RZ, Ra=1, Rb=3, negate_b=1, cc=1)
    for relation, holds in RELATIONS.items():
        high = encode("ISETP", "r", Pd=0, Pd2=1, Ra=2, Rb=4, compare=relation.value, signed=int(is_signed), extended=1)
        expected = holds(signed(x, 64), signed(y, 64)) if is_signed else holds(x, y)
        assert chain([low, high], values).predicates[:2] == (int(expected), int(not expected))


@for_many(longs, longs)
def test_long_logic_is_tested_through_the_condition(x, y):
    values = {1: x & WORD, 2: x >> 32, 3: y & WORD, 4: y >> 32}
    for kind, function in ((Logic.AND, operator.and_), (Logic.OR, operator.or_), (Logic.XOR, operator.xor)):
        for test in (PredicateTest.Z, PredicateTest.NZ):
            low = encode("LOP", "r", Rd=RZ, Ra=1, Rb=3, operation=kind.value, cc=1)
            high = encode("LOP", "r", Rd=RZ, Ra=2, Rb=4, operation=kind.value, extended=1, cc=1, Pd=0,
                          predicate_test=test.value)
            done, zero = chain([low, high], values), function(x, y) == 0
            assert done.predicates[0] == int(zero == (test is PredicateTest.Z))
            assert done.condition & 1 == int(zero)


@for_many(longs, longs, st.booleans(), st.booleans())
def test_long_minimum_in_two_parts(x, y, is_signed, greater):
    values = {1: x & WORD, 2: x >> 32, 3: y & WORD, 4: y >> 32}
    done = chain([encode("IMNMX", "r", Rd=6, Ra=2, Rb=4, signed=int(is_signed), part=MinMaxPart.XHI.value, cc=1,
                         Pc_not=int(greater)),
                  encode("IMNMX", "r", Rd=5, Ra=1, Rb=3, signed=0, part=MinMaxPart.XLO.value, Pc_not=int(greater))],
                 values)
    key = (lambda value: signed(value, 64)) if is_signed else None
    assert done.registers[5] | done.registers[6] << 32 == (max if greater else min)(x, y, key=key)


@for_many(longs, st.integers(0, 31), numbers, numbers)
def test_scaled_address_of_64_bits(index, shift, low, high):
    done = chain([encode("LEA", "r", Rd=5, Ra=1, Rb=3, shift=shift, cc=1),
                  encode("LEA.HI", "r", Rd=6, Ra=1, Rb=4, Rc=2, shift=shift, extended=1)],
                 {1: index & WORD, 2: index >> 32, 3: low, 4: high})
    assert done.registers[5] | done.registers[6] << 32 == ((index << shift) + (high << 32 | low)) & LONG


# Products

def halves(**fields: int) -> int:
    return encode("XMAD", "r", **fields)


@for_many(numbers, numbers)
def test_product_from_three_halves(x, y):
    done = chain([halves(Rd=3, Ra=1, Rb=2, Rc=RZ), halves(Rd=4, Ra=1, Rb=2, high_b=1, Rc=RZ, merge=1),
                  halves(Rd=0, Ra=1, high_a=1, Rb=4, high_b=1, Rc=3, product_high=1,
                         addend=ProductAddend.CBCC.value)], {1: x, 2: y})
    assert done.registers[0] == x * y & WORD


@for_many(numbers, numbers)
def test_upper_product_from_four_halves(x, y):
    done = chain([halves(Rd=3, Ra=1, Rb=2, Rc=RZ), halves(Rd=4, Ra=1, Rb=2, high_b=1, Rc=RZ),
                  halves(Rd=5, Ra=1, high_a=1, Rb=2, high_b=1, Rc=RZ),
                  halves(Rd=6, Ra=1, high_a=1, Rb=2, Rc=3, addend=ProductAddend.CHI.value),
                  encode("IADD3", "r", Rd=0, Ra=6, Rb=4, Rc=5, shift=SumShift.RS.value)], {1: x, 2: y})
    assert done.registers[0] == x * y >> 32


@for_many(numbers, numbers)
@example(0xFFFF0000, 3)
@example(0x80000000, 0x80000000)
def test_signed_upper_product_from_four_halves(x, y):
    done = chain([halves(Rd=3, Ra=1, Rb=2, Rc=RZ), halves(Rd=4, Ra=1, Rb=2, high_b=1, Rc=RZ, signs=2),
                  halves(Rd=5, Ra=1, high_a=1, Rb=2, high_b=1, Rc=RZ, signs=3, addend=ProductAddend.CSFU.value),
                  halves(Rd=6, Ra=1, high_a=1, Rb=2, Rc=3, signs=1, addend=ProductAddend.CHI.value),
                  encode("IADD3", "r", Rd=0, Ra=6, Rb=4, Rc=5, shift=SumShift.RS.value)], {1: x, 2: y})
    assert done.registers[0] == signed(x) * signed(y) >> 32 & WORD


@for_many(numbers, numbers, longs)
def test_product_added_to_a_long_number(x, y, z):
    done = chain([encode("IMAD", "r", Rd=5, Ra=1, Rb=2, Rc=3, signs=0, cc=1),
                  encode("IMAD", "r", Rd=6, Ra=1, Rb=2, Rc=4, signs=0, high=1, extended=1)],
                 {1: x, 2: y, 3: z & WORD, 4: z >> 32})
    assert done.registers[5] | done.registers[6] << 32 == (x * y + z) & LONG


# Shifts and bit fields


# The bytes that PTX's manual lists for each selector 0 to 3, the result's highest byte first.


# Comparisons and predicates
