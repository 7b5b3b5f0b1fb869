"""Instruction sequences of compiled code for numbers of several words, on both models.

Sources are R0 to R5, results R8 to R10, P0 and P1.
"""

import operator
from itertools import product
from random import Random

import pytest

from rtl.isa.condition import ConditionCode
from rtl.isa.kinds import Compare, Logic, MinMaxPart, PredicateTest, ProductAddend, SumShift
from rtl.isa.syntax import PT, RZ
from rtl.params import WARP_THREADS
from sim.model.thread.run import step
from testbench.handmade import encode, machine, warp_of
from testbench.instructions.cases import EDGES, LONG, WORD, number, signed

SOURCES = range(6)
LOGIC = {
    Logic.AND: operator.and_,
    Logic.OR: operator.or_,
    Logic.XOR: operator.xor,
    Logic.PASS_B: lambda a, b: b,
}
RELATIONS = {
    Compare.F: lambda a, b: False,
    Compare.LT: operator.lt,
    Compare.EQ: operator.eq,
    Compare.LE: operator.le,
    Compare.GT: operator.gt,
    Compare.NE: operator.ne,
    Compare.GE: operator.ge,
    Compare.T: lambda a, b: True,
}


def threads(seed):
    """Returns registers of 32 threads: edge values, small differences between the words of two
    numbers, zeros, and random words.
    """
    source = Random(seed)
    for thread in range(WARP_THREADS):
        held = [
            source.choice((0, 0, 1, 0x8000_0000))
            if thread % 4 == 0
            else source.choice(EDGES)
            if thread % 4 == 1
            else number(source)
            for _ in SOURCES
        ]
        for place in source.sample((0, 2, 4), source.randrange(4)):
            held[place + 1] = held[place]
        yield held


def on_the_warp_model(words, rows):
    made = machine(words)
    warp = warp_of(made)
    for place in SOURCES:
        warp.registers[place] = [row[place] for row in rows]
    for _ in words:
        made.retire(0)
    for thread in range(WARP_THREADS):
        yield (
            [int(warp.registers[place][thread]) for place in range(12)],
            [mask >> thread & 1 for mask in warp.predicates[:PT]],
            int(warp.condition.nibbles()[thread]),
        )


def on_the_thread_model(words, rows):
    for row in rows:
        registers, predicates, condition = dict(enumerate(row)), (), 0
        for word in words:
            done = step(word, registers, predicates=predicates, condition=condition)
            registers, predicates, condition = (
                dict(enumerate(done.registers)),
                done.predicates,
                done.condition,
            )
        yield [registers[place] for place in range(12)], list(predicates), condition


def long(words, *places):
    return sum(words[place] << 32 * shift for shift, place in enumerate(places))


SEQUENCES = {}


def add(name, words, expected, found):
    """Adds a sequence, its expected results for R0 to R5, and a function that reads them from
    registers, predicates and CC.
    """
    assert name not in SEQUENCES
    SEQUENCES[name] = (words, expected, found)


def result(registers, _predicates, _condition):
    return long(registers, 8, 9)


def word(registers, _predicates, _condition):
    return registers[8]


def predicates(_registers, held, _condition):
    return held[0], held[1]


# R1:R0 is x, R3:R2 is y, R5:R4 is z.
for minus in (0, 1):
    add(
        f"sum {minus}",
        [
            encode("IADD", "r", Rd=8, Ra=0, Rb=2, negate_b=minus, cc=1),
            encode("IADD", "r", Rd=9, Ra=1, Rb=3, negate_b=minus, extended=1),
        ],
        lambda r, minus=minus: long(r, 0, 1) + (-1) ** minus * long(r, 2, 3) & LONG,
        result,
    )
    add(
        f"product and addend {minus}",
        [
            encode("IMAD", "r", Rd=8, Ra=0, Rb=2, Rc=4, signs=0, negate_ab=minus, cc=1),
            encode(
                "IMAD", "r", Rd=9, Ra=0, Rb=2, Rc=5, signs=0, negate_ab=minus, high=1, extended=1
            ),
        ],
        lambda r, minus=minus: (-1) ** minus * r[0] * r[2] + long(r, 4, 5) & LONG,
        result,
    )
for negated in ((0, 0, 0), (0, 1, 0), (0, 1, 1), (1, 0, 0), (1, 0, 1), (1, 1, 0)):
    signs = dict(zip(("negate_a", "negate_b", "negate_c"), negated, strict=True))
    add(
        f"sum of three {negated}",
        [
            encode("IADD3", "r", Rd=8, Ra=0, Rb=2, Rc=4, cc=1, **signs),
            encode("IADD3", "r", Rd=9, Ra=1, Rb=3, Rc=5, extended=1, **signs),
        ],
        lambda r, negated=negated: (
            sum(
                (-1) ** minus * long(r, 2 * place, 2 * place + 1)
                for place, minus in enumerate(negated)
            )
            & LONG
        ),
        result,
    )
for shift in range(32):
    add(
        f"address {shift}",
        [
            encode("LEA", "r", Rd=8, Ra=0, Rb=2, shift=shift, cc=1),
            encode("LEA.HI", "r", Rd=9, Ra=0, Rb=3, Rc=1, shift=shift, extended=1),
        ],
        lambda r, shift=shift: (long(r, 0, 1) << shift) + long(r, 2, 3) & LONG,
        result,
    )

# Products of halves, in the form of NVIDIA's assembler
_LOW = encode("XMAD", "r", Rd=6, Ra=0, Rb=2, Rc=RZ)
_JOIN = encode("IADD3", "r", Rd=8, Ra=9, Rb=7, Rc=10, shift=SumShift.RS.value)
add(
    "product of halves",
    [
        _LOW,
        encode("XMAD", "r", Rd=7, Ra=0, Rb=2, high_b=1, Rc=RZ, merge=1),
        encode(
            "XMAD",
            "r",
            Rd=8,
            Ra=0,
            high_a=1,
            Rb=7,
            high_b=1,
            Rc=6,
            product_high=1,
            addend=ProductAddend.CBCC.value,
        ),
    ],
    lambda r: r[0] * r[2] & WORD,
    word,
)
add(
    "upper product of halves",
    [
        _LOW,
        encode("XMAD", "r", Rd=7, Ra=0, Rb=2, high_b=1, Rc=RZ),
        encode("XMAD", "r", Rd=10, Ra=0, high_a=1, Rb=2, high_b=1, Rc=RZ),
        encode("XMAD", "r", Rd=9, Ra=0, high_a=1, Rb=2, Rc=6, addend=ProductAddend.CHI.value),
        _JOIN,
    ],
    lambda r: r[0] * r[2] >> 32,
    word,
)
add(
    "signed upper product of halves",
    [
        _LOW,
        encode("XMAD", "r", Rd=7, Ra=0, Rb=2, high_b=1, Rc=RZ, signs=2),
        encode(
            "XMAD",
            "r",
            Rd=10,
            Ra=0,
            high_a=1,
            Rb=2,
            high_b=1,
            Rc=RZ,
            signs=3,
            addend=ProductAddend.CSFU.value,
        ),
        encode(
            "XMAD", "r", Rd=9, Ra=0, high_a=1, Rb=2, Rc=6, signs=1, addend=ProductAddend.CHI.value
        ),
        _JOIN,
    ],
    lambda r: signed(r[0]) * signed(r[2]) >> 32 & WORD,
    word,
)

# Comparisons: the low words are subtracted into CC, then the high ones are compared.
_DIFFERENCE = encode("IADD", "r", Rd=RZ, Ra=0, Rb=2, negate_b=1, cc=1)
for (code, relation), sign in product(RELATIONS.items(), (0, 1)):

    def holds(r, relation=relation, sign=sign):
        x, y = long(r, 0, 1), long(r, 2, 3)
        return int(relation(signed(x, 64), signed(y, 64)) if sign else relation(x, y))

    fields = {"Ra": 1, "Rb": 3, "compare": code.value, "signed": sign, "extended": 1}
    add(
        f"ISETP {code.name} {sign}",
        [_DIFFERENCE, encode("ISETP", "r", Pd=0, Pd2=1, **fields)],
        lambda r, holds=holds: (holds(r), 1 - holds(r)),
        predicates,
    )
    add(
        f"ISET {code.name} {sign}",
        [_DIFFERENCE, encode("ISET", "r", Rd=8, **fields)],
        lambda r, holds=holds: WORD * holds(r),
        word,
    )
TRUTH = {
    "LT": lambda a, b, x, y: a < b,
    "GE": lambda a, b, x, y: a >= b,
    "LE": lambda a, b, x, y: a <= b,
    "GT": lambda a, b, x, y: a > b,
    "NE": lambda a, b, x, y: x != y,
    "EQU": lambda a, b, x, y: x == y,
    "LO": lambda a, b, x, y: x < y,
    "HS": lambda a, b, x, y: x >= y,
    "LS": lambda a, b, x, y: x <= y,
    "HI": lambda a, b, x, y: x > y,
    "F": lambda a, b, x, y: False,
    "T": lambda a, b, x, y: True,
    "SFT": lambda a, b, x, y: signed(x - y) < 0,
    "SFF": lambda a, b, x, y: signed(x - y) >= 0,
    "OFT": lambda a, b, x, y: signed(x - y) != a - b,
    "OFF": lambda a, b, x, y: signed(x - y) == a - b,
}
"""The result of a test of x and y, which are a and b as signed numbers."""
for name, truth in TRUTH.items():
    add(
        f"test {name}",
        [_DIFFERENCE, encode("CSETP", Pd=0, Pd2=1, test=ConditionCode[name].value)],
        lambda r, truth=truth: (int(so := truth(signed(r[0]), signed(r[2]), r[0], r[2])), 1 - so),
        predicates,
    )

# Logic of three words: the lowest writes CC, the middle one reads and writes it, the top one has
# the test.
for (code, function), test in product(LOGIC.items(), (PredicateTest.Z, PredicateTest.NZ)):
    fields = {"Rd": RZ, "operation": code.value, "cc": 1}
    add(
        f"logic {code.name} {test.name}",
        [
            encode("LOP", "r", Ra=0, Rb=1, **fields),
            encode("LOP", "r", Ra=2, Rb=3, extended=1, **fields),
            encode("LOP", "r", Ra=4, Rb=5, extended=1, Pd=0, predicate_test=test.value, **fields),
        ],
        lambda r, function=function, test=test: (
            zero := int(not any(function(r[place], r[place + 1]) for place in (0, 2, 4))),
            zero ^ (test is PredicateTest.NZ),
        ),
        lambda registers, predicates, condition: (condition & 1, predicates[0]),
    )

# Minima: the top words are first, the lower ones use their result. The words of x are R4, R2, R0,
# the others are y's.
for parts, sign, larger in product(((3, 1), (3, 2, 1)), (0, 1), (0, 1)):

    def extreme(r, parts=parts, sign=sign, larger=larger):
        places = range(6 - 2 * len(parts), 6, 2)
        pair = [long(r, *(place + side for place in places)) for side in (0, 1)]
        key = (lambda value: signed(value, 32 * len(parts))) if sign else None
        return (max if larger else min)(pair, key=key)

    assert MinMaxPart.XHI.value == parts[0]
    add(
        f"minimum {parts} {sign} {larger}",
        [
            encode(
                "IMNMX",
                "r",
                Rd=7 + len(parts) - at,
                Ra=4 - 2 * at,
                Rb=5 - 2 * at,
                part=part,
                cc=1,
                Pc=PT,
                Pc_not=larger,
                signed=sign if at == 0 else 0,
            )
            for at, part in enumerate(parts)
        ],
        extreme,
        lambda registers, _predicates, _condition, parts=parts: long(
            registers, *range(8, 8 + len(parts))
        ),
    )


@pytest.mark.parametrize("model", [on_the_warp_model, on_the_thread_model])
@pytest.mark.parametrize("name", SEQUENCES)
def test_a_sequence_computes_its_formula(model, name):
    words, expected, found = SEQUENCES[name]
    rows = list(threads(name))
    for row, left in zip(rows, model(words, rows), strict=True):
        assert found(*left) == expected(row), [hex(value) for value in row]
