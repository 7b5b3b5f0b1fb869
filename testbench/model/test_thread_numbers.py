"""Single instructions of the thread oracle, and sequences that compiled code makes of them, against Python numbers."""

import operator
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import pytest
from hypothesis import example
from hypothesis import strategies as st

from rtl.isa.condition import ConditionCode
from rtl.isa.kinds import (
    Boolean,
    Compare,
    FunnelWidth,
    HalfSelect,
    Logic,
    MinMaxPart,
    PermuteMode,
    PredicateTest,
    ProductAddend,
    SumShift,
    VideoSecond,
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


def result(content: int, *values: int, condition: int = 0, predicates: Sequence[int] = ()) -> int:
    """R0 after one instruction whose sources R1, R2, .. have these values."""
    return step(content, dict(enumerate(values, 1)), condition=condition, predicates=predicates).registers[0]


def flags(content: int, *values: int, condition: int = 0) -> dict[str, int]:
    """CC after one instruction."""
    left = step(content, dict(enumerate(values, 1)), condition=condition).condition
    return {name: left >> place & 1 for place, name in enumerate("zsco")}


# Sums

ADD = encode("IADD", "r", Rd=0, Ra=1, Rb=2)
SUBTRACT = encode("IADD", "r", Rd=0, Ra=1, Rb=2, negate_b=1)


@for_many(numbers, numbers)
def test_sums_and_differences(x, y):
    assert result(ADD, x, y) == (x + y) & WORD
    assert result(SUBTRACT, x, y) == (x - y) & WORD
    assert result(encode("IADD", "r", Rd=0, Ra=1, Rb=2, negate_a=1), x, y) == (y - x) & WORD
    assert result(encode("IADD", "r", Rd=0, Ra=1, Rb=2, plus_one=3), x, y) == (x + y + 1) & WORD
    assert result(encode("ISCADD", "r", Rd=0, Ra=1, Rb=2, shift=5), x, y) == ((x << 5) + y) & WORD
    assert result(encode("ISCADD", "r", Rd=0, Ra=1, Rb=2, shift=3, negate_a=1), x, y) == (y - (x << 3)) & WORD
    assert result(encode("LEA", "r", Rd=0, Ra=1, Rb=2, shift=4), x, y) == ((x << 4) + y) & WORD


@for_many(numbers, st.integers(-1 << 31, (1 << 31) - 1), st.integers(-1 << 19, (1 << 19) - 1))
def test_immediates_are_signed(x, wide, narrow):
    assert result(encode("IADD32I", Rd=0, Ra=1, imm32=wide), x) == (x + wide) & WORD
    assert result(encode("IADD32I", Rd=0, Ra=1, imm32=wide, negate_a=1), x) == (wide - x) & WORD
    assert result(encode("IADD", "i", Rd=0, Ra=1, imm=narrow), x) == (x + narrow) & WORD
    assert result(encode("IADD3", "i", Rd=0, Ra=1, imm=narrow, Rc=RZ), x) == (x + narrow) & WORD


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
def test_saturation_is_signed(x, y):
    low, high = -1 << 31, (1 << 31) - 1
    for content, exact in ((encode("IADD", "r", Rd=0, Ra=1, Rb=2, saturate=1), signed(x) + signed(y)),
                           (encode("IADD", "r", Rd=0, Ra=1, Rb=2, saturate=1, negate_b=1), signed(x) - signed(y)),
                           (encode("IMAD", "r", Rd=0, Ra=1, Rb=2, Rc=2, signs=3, high=1, saturate=1),
                            (signed(x) * signed(y) >> 32) + signed(y))):
        assert signed(result(content, x, y)) == max(low, min(exact, high))


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


@pytest.mark.parametrize(("content", "expected"), [
    (encode("LOP", "r", Rd=0, Ra=1, Rb=2, operation=Logic.XOR.value, cc=1), {"z": 0, "s": 1, "c": 0, "o": 0}),
    (encode("LOP", "r", Rd=0, Ra=1, Rb=1, operation=Logic.XOR.value, cc=1), {"z": 1, "s": 0, "c": 0, "o": 0}),
    (encode("I2I", "r", Rd=RZ, Rb=1, source=6, destination=6, cc=1), {"z": 0, "s": 1, "c": 0, "o": 0}),
    (encode("ISET", "r", Rd=RZ, Ra=1, Rb=1, compare=Compare.NE.value, cc=1), {"z": 1, "s": 0, "c": 0, "o": 0}),
])
def test_condition_of_what_does_not_add_has_no_carry(content, expected):
    assert flags(content, 0x80000000, 5, condition=15) == expected


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


@for_many(longs, st.integers(0, 31), numbers)
def test_scaled_address_with_a_negative_index(index, shift, base):
    content = encode("LEA.HI", "r", Rd=0, Ra=1, Rb=2, Rc=3, shift=shift, negate_a=1)
    assert result(content, index & WORD, base, index >> 32) == ((-(index << shift) >> 32) + base) & WORD
    assert result(encode("LEA", "r", Rd=0, Ra=1, Rb=2, shift=shift, negate_a=1), index & WORD, base) == (
        base - ((index & WORD) << shift)) & WORD


@for_many(numbers, numbers, numbers)
def test_sums_of_three_shift_and_take_halves(x, y, z):
    fields = {"Rd": 0, "Ra": 1, "Rb": 2, "Rc": 3}
    assert result(encode("IADD3", "r", **fields, shift=SumShift.LS.value), x, y, z) == (((x + y) << 16) + z) & WORD
    assert result(encode("IADD3", "r", **fields, shift=SumShift.RS.value), x, y, z) == ((x + y >> 16) + z) & WORD
    both = encode("IADD3", "r", **fields, shift=SumShift.RS.value, negate_a=1, negate_b=1)
    assert result(both, 0, 0, z) == z
    content = encode("IADD3", "r", **fields, half_a=HalfSelect.H0.value, half_b=HalfSelect.H1.value, negate_b=1)
    assert result(content, x, y, z) == ((x & 0xFFFF) - (y >> 16) + z) & WORD


@pytest.mark.parametrize(("low", "high", "outside"), [
    (0x00FFFFFF, 0, 1), (0x01000000, 0, 0), (0x01FFFFFF, 0, 0), (0x02FFFFFF, 0, 0), (0x03000000, 0, 1),
    (0x01000000, 1, 1), (0, 0, 1)])
def test_address_predicate_tells_global_memory_from_windows(low, high, outside):
    content = encode("LEA.HI", "r", Rd=RZ, Ra=1, Rb=RZ, Rc=2, Pd=3, extended=1)
    assert step(content, {1: low, 2: high}).predicates[3] == outside


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


@for_many(numbers, numbers, numbers, st.integers(0, 3), st.booleans())
def test_full_products(x, y, z, signs, high):
    product = (signed(x) if signs & 1 else x) * (signed(y) if signs & 2 else y)

    def half(value: int) -> int:
        return value >> 32 * high & WORD
    assert result(encode("IMUL", "r", Rd=0, Ra=1, Rb=2, signs=signs, high=int(high)), x, y) == half(product)
    fields = {"Rd": 0, "Ra": 1, "Rb": 2, "Rc": 3, "signs": signs, "high": int(high)}
    assert result(encode("IMAD", "r", **fields), x, y, z) == (half(product) + z) & WORD
    assert result(encode("IMAD", "r", **fields, negate_ab=1), x, y, z) == (half(-product) + z) & WORD
    assert result(encode("IMAD", "r", **fields, negate_c=1), x, y, z) == (half(product) - z) & WORD
    assert result(encode("IMAD", "r", **fields, negate_ab=1, negate_c=1), x, y, z) == (half(product) + z + 1) & WORD


@for_many(numbers, numbers, longs)
def test_product_added_to_a_long_number(x, y, z):
    done = chain([encode("IMAD", "r", Rd=5, Ra=1, Rb=2, Rc=3, signs=0, cc=1),
                  encode("IMAD", "r", Rd=6, Ra=1, Rb=2, Rc=4, signs=0, high=1, extended=1)],
                 {1: x, 2: y, 3: z & WORD, 4: z >> 32})
    assert done.registers[5] | done.registers[6] << 32 == (x * y + z) & LONG


@for_many(numbers, numbers, numbers)
def test_product_of_halves_takes_a_carry(x, y, z):
    content = encode("XMAD", "r", Rd=0, Ra=1, Rb=2, Rc=3, extended=1)
    for carry in (0, 1):
        assert result(content, x, y, z, condition=carry << 2) == ((x & 0xFFFF) * (y & 0xFFFF) + z + carry) & WORD
    assert flags(encode("XMAD", "r", Rd=0, Ra=1, Rb=2, Rc=3, cc=1), x, y, z)["c"] == (
        (x & 0xFFFF) * (y & 0xFFFF) + z >> 32)


# Shifts and bit fields

@for_many(numbers, st.sampled_from([0, 1, 5, 31, 32, 33, 63, 255, WORD]))
def test_shifts_clamp_or_wrap(x, count):
    clamped = min(count, 32)
    assert result(encode("SHL", "r", Rd=0, Ra=1, Rb=2), x, count) == x << clamped & WORD
    assert result(encode("SHL", "r", Rd=0, Ra=1, Rb=2, wrap=1), x, count) == x << count % 32 & WORD
    assert result(encode("SHR", "r", Rd=0, Ra=1, Rb=2), x, count) == x >> clamped
    assert result(encode("SHR", "r", Rd=0, Ra=1, Rb=2, signed=1), x, count) == signed(x) >> clamped & WORD
    assert result(encode("SHR", "r", Rd=0, Ra=1, Rb=2, signed=1, wrap=1), x, count) == signed(x) >> count % 32 & WORD


@for_many(longs, st.sampled_from([0, 1, 9, 31, 32, 33, 63, 64, 65, WORD]))
def test_funnel_shifts(x, count):
    low, high = x & WORD, x >> 32

    def shifted(name: str, width: FunnelWidth, wrap: int = 0) -> int:
        return result(encode(name, "r", Rd=0, Ra=1, Rb=2, Rc=3, width=width.value, wrap=wrap), low, count, high)
    assert shifted("SHF.L", FunnelWidth.B32) == x << min(count, 32) >> 32 & WORD
    assert shifted("SHF.R", FunnelWidth.B32) == x >> min(count, 32) & WORD
    assert shifted("SHF.L", FunnelWidth.B32, 1) == x << count % 32 >> 32 & WORD
    assert shifted("SHF.R", FunnelWidth.B32, 1) == x >> count % 32 & WORD
    assert shifted("SHF.L", FunnelWidth.U64) == x << min(count, 64) >> 32 & WORD
    assert shifted("SHF.R", FunnelWidth.U64) == x >> min(count, 64) & WORD
    assert shifted("SHF.R", FunnelWidth.S64) == signed(x, 64) >> min(count, 64) & WORD


@pytest.mark.parametrize(("value", "first", "length", "unsigned", "extended"), [
    (0xF0F0A5A5, 4, 8, 0x5A, 0x5A), (0xF0F0A5A5, 28, 8, 0xF, WORD), (0x70F0A5A5, 28, 8, 7, 7),
    (0x80000000, 31, 1, 1, WORD), (0x80000000, 32, 4, 0, WORD), (0x7FFFFFFF, 40, 4, 0, 0), (0xFFFFFFFF, 3, 0, 0, 0),
    (0x89ABCDEF, 0, 32, 0x89ABCDEF, 0x89ABCDEF), (0x89ABCDEF, 0, 255, 0x89ABCDEF, 0x89ABCDEF),
    (0x89ABCDEF, 8, 255, 0x89ABCD, 0xFF89ABCD)])
def test_extracted_fields(value, first, length, unsigned, extended):
    field = 0x55AA0000 | length << 8 | first
    assert result(encode("BFE", "r", Rd=0, Ra=1, Rb=2), value, field) == unsigned
    assert result(encode("BFE", "r", Rd=0, Ra=1, Rb=2, signed=1), value, field) == extended


@pytest.mark.parametrize(("source", "base", "first", "length", "expected"), [
    (0xAB, 0xFFFFFFFF, 8, 8, 0xFFFFABFF), (0x1FF, 0, 28, 8, 0xF0000000), (0xFF, 0x1234, 32, 8, 0x1234),
    (0xFF, 0x1234, 4, 0, 0x1234), (0x89ABCDEF, 0, 0, 32, 0x89ABCDEF), (0x89ABCDEF, 0x11, 8, 255, 0xABCDEF11)])
def test_inserted_fields(source, base, first, length, expected):
    assert result(encode("BFI", "r", Rd=0, Ra=1, Rb=2, Rc=3), source, 0x330000 | length << 8 | first, base) == expected


@for_many(numbers)
def test_counts_and_places_of_bits(x):
    assert result(encode("POPC", "r", Rd=0, Rb=1), x) == bin(x).count("1")
    assert result(encode("POPC", "r", Rd=0, Rb=1, invert_b=1), x) == 32 - bin(x).count("1")
    leading = f"{x:032b}".find("1")
    assert result(encode("FLO", "r", Rd=0, Rb=1), x) == (31 - leading if x else WORD)
    assert result(encode("FLO", "r", Rd=0, Rb=1, shift=1), x) == (leading if x else WORD)
    odd = f"{x:032b}".find("0" if x >> 31 else "1")
    assert result(encode("FLO", "r", Rd=0, Rb=1, signed=1), x) == (31 - odd if odd >= 0 else WORD)
    backwards = encode("BFE", "i", Rd=0, Ra=1, imm=0x2000, reverse=1)
    assert result(backwards, x) == sum(1 << 31 - bit for bit in range(32) if x >> bit & 1)


# The bytes that PTX's manual lists for each selector 0 to 3, the result's highest byte first.
PERMUTES = {
    PermuteMode.F4E: ("3210", "4321", "5432", "6543"), PermuteMode.B4E: ("5670", "6701", "7012", "0123"),
    PermuteMode.RC8: ("0000", "1111", "2222", "3333"), PermuteMode.ECL: ("3210", "3211", "3222", "3333"),
    PermuteMode.ECR: ("0000", "1110", "2210", "3210"), PermuteMode.RC16: ("1010", "3232", "1010", "3232"),
}


@pytest.mark.parametrize("mode", PERMUTES)
def test_permutes(mode):
    for selector, order in enumerate(PERMUTES[mode]):
        content = encode("PRMT", "r", Rd=0, Ra=1, Rb=2, Rc=3, mode=mode.value)
        bytes_taken = int("".join(2 * at for at in order), 16)
        assert result(content, 0x33221100, 0xFFFFFFF0 | selector, 0x77665544) == bytes_taken


def test_permute_by_index_copies_signs():
    content = encode("PRMT", "r", Rd=0, Ra=1, Rb=2, Rc=3)
    assert result(content, 0x33228100, 0x7391, 0xF7665544) == 0xF733FF81


@pytest.mark.parametrize("lut", range(0, 256, 5))
def test_logic_table_reads_its_bits_by_the_three_sources(lut):
    content = encode("LOP3.LUT", "r", Rd=0, Ra=1, Rb=2, Rc=3, lut=lut)
    assert result(content, 0xF0F0, 0xCCCC, 0xAAAA) & 0xFFFF == 0x101 * lut


@for_many(numbers, numbers)
def test_logic_of_two(x, y):
    for kind, function in ((Logic.AND, operator.and_), (Logic.OR, operator.or_), (Logic.XOR, operator.xor),
                           (Logic.PASS_B, lambda _, second: second)):
        for invert_a in (0, 1):
            for invert_b in (0, 1):
                value = function(x ^ WORD * invert_a, y ^ WORD * invert_b)
                content = encode("LOP", "r", Rd=0, Ra=1, Rb=2, operation=kind.value, invert_a=invert_a,
                                 invert_b=invert_b, Pd=2, predicate_test=PredicateTest.NZ.value)
                done = step(content, {1: x, 2: y})
                assert (done.registers[0], done.predicates[2]) == (value, int(value != 0))


@pytest.mark.parametrize(("test", "expected"), [(PredicateTest.NONE, (0, 0)), (PredicateTest.T, (1, 1)),
                                                (PredicateTest.Z, (1, 0)), (PredicateTest.NZ, (0, 1))])
def test_predicate_of_a_logic_operation(test, expected):
    for value, holds in zip((0, 5), expected, strict=True):
        content = encode("LOP", "r", Rd=RZ, Ra=1, Rb=1, operation=Logic.AND.value, Pd=0, predicate_test=test.value)
        assert step(content, {1: value}, predicates=[1 - holds]).predicates[0] == holds


# Comparisons and predicates

@for_many(numbers, numbers, st.booleans(), st.sampled_from(list(Boolean)))
def test_comparisons(x, y, is_signed, combine):
    both = {Boolean.AND: operator.and_, Boolean.OR: operator.or_, Boolean.XOR: operator.xor}[combine]
    for relation, holds in RELATIONS.items():
        truth = int(holds(signed(x), signed(y)) if is_signed else holds(x, y))
        fields = {"Ra": 1, "Rb": 2, "compare": relation.value, "signed": int(is_signed), "combine": combine.value}
        for third in (0, 1):
            done = step(encode("ISETP", "r", Pd=1, Pd2=2, Pc=0, **fields), {1: x, 2: y}, predicates=[third])
            assert done.predicates[1:3] == (both(truth, third), both(1 - truth, third))
            content = encode("ISET", "r", Rd=0, Pc=0, **fields)
            assert result(content, x, y, predicates=[third]) == WORD * both(truth, third)
    assert result(encode("ISET", "r", Rd=0, Ra=1, Rb=1, compare=Compare.EQ.value, one=1), x) == 0x3F800000


@for_many(numbers, numbers, numbers)
def test_selections(x, y, z):
    for predicate in (0, 1):
        assert result(encode("SEL", "r", Rd=0, Ra=1, Rb=2, Pc=3), x, y, predicates=[0, 0, 0, predicate]) == (
            x if predicate else y)
        lesser = encode("IMNMX", "r", Rd=0, Ra=1, Rb=2, signed=1, Pc=3)
        assert result(lesser, x, y, predicates=[0, 0, 0, predicate]) == (min if predicate else max)(x, y, key=signed)
    assert result(encode("IMNMX", "r", Rd=0, Ra=1, Rb=2), x, y) == min(x, y)
    for relation, holds in RELATIONS.items():
        content = encode("ICMP", "r", Rd=0, Ra=1, Rb=2, Rc=3, signed=1, compare=relation.value)
        assert result(content, x, y, z) == (x if holds(signed(z), 0) else y)


@pytest.mark.parametrize("values", [(x, y, z) for x in (0, 1) for y in (0, 1) for z in (0, 1)])
def test_predicate_logic(values):
    x, y, z = values
    done = step(encode("PSETP", Pd=3, Pd2=4, Pa=0, Pb=1, Pb_not=1, Pc=2, combine_first=Boolean.OR.value,
                       combine=Boolean.XOR.value), predicates=values)
    first = x | (1 - y)
    assert done.predicates[3:5] == (first ^ z, (1 - first) ^ z)
    content = encode("PSET", Rd=0, Pa=0, Pb=1, Pc=2, combine_first=Boolean.AND.value, combine=Boolean.OR.value)
    assert result(content, predicates=values) == WORD * (x & y | z)


@for_many(st.integers(0, 127), st.integers(0, 15), numbers, st.integers(0, 3))
def test_predicates_and_condition_travel_through_registers(predicates, condition, other, byte):
    bits = [predicates >> number & 1 for number in range(7)]
    to_register = encode("P2R", "i", Rd=0, Ra=1, imm=0x7F, which=0, byte=byte)
    packed = result(to_register, other, predicates=bits)
    assert packed == other & ~(0x7F << 8 * byte) | predicates << 8 * byte
    back = step(encode("R2P", "i", Ra=1, imm=0x55, which=0, byte=byte), {1: packed},
                predicates=[1 - bit for bit in bits])
    assert list(back.predicates) == [bit if number % 2 == 0 else 1 - bit for number, bit in enumerate(bits)]
    packed = result(encode("P2R", "i", Rd=0, Ra=1, imm=0xF, which=1), other, condition=condition)
    assert packed == other & ~0xF | condition
    assert step(encode("R2P", "i", Ra=1, imm=0xF, which=1), {1: packed}).condition == condition
    some = step(encode("R2P", "i", Ra=1, imm=0x5, which=1), {1: packed}, condition=~condition & 0xF).condition
    assert some == condition & 0x5 | ~condition & 0xA


@for_many(numbers, numbers, numbers)
def test_video_instructions(x, y, z):
    lesser = {"Rd": 0, "Ra": 1, "Rb": 2, "Rc": 3, "signed_d": 0, "signs": 0}
    assert result(encode("VMNMX", **lesser, then=VideoSecond.MIN.value), x, y, z) == min(x, y, z)
    assert result(encode("VMNMX", **lesser, larger=1, then=VideoSecond.ACC.value), x, y, z) == (max(x, y) + z) & WORD
    assert result(encode("VABSDIFF", **lesser, then=VideoSecond.ACC.value), x, y, z) == (abs(x - y) + z) & WORD
    clamped = encode("VMNMX", **lesser | {"signs": 3}, saturate=1, then=VideoSecond.NONE.value)
    assert result(clamped, x, y, z) == max(0, min(signed(x), signed(y)))
    both_signed = lesser | {"signed_d": 1, "signs": 3}
    assert result(encode("VMNMX", **both_signed, larger=1, then=VideoSecond.MAX.value), x, y, z) == (
        max(x, y, z, key=signed))
    del lesser["Rb"]
    for number in (0, 5, 0xFFFF):
        content = encode("VMNMX", "i", **lesser, imm16=number, then=VideoSecond.MAX.value)
        assert result(content, x, y, z) == max(min(x, number), z)
    for number in (5, -1, -0x8000):
        content = encode("VABSDIFF", "is", **lesser | {"signs": 3}, imm16=number, then=VideoSecond.ACC.value)
        assert result(content, x, y, z) == abs(signed(x) - number) + z & WORD


def test_move_by_lane_mask_leaves_other_threads_of_the_quad():
    assert step(encode("MOV", "r", Rd=0, Rb=1, lanes=0xE), {0: 7, 1: 9}).registers[0] == 7
    assert step(encode("MOV", "r", Rd=0, Rb=1, lanes=0x1), {0: 7, 1: 9}).registers[0] == 9
