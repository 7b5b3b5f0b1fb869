"""Conversions to execute: words of every form, values at the edges of types, and their results in
the warp model.
"""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtl.convert.decode import CONVERSION_FORMS
from rtl.convert.instruction import ConversionOperation
from rtl.isa.conversion import DOUBLE_WORD
from rtl.isa.effects import effects
from rtl.isa.errors import WarpError
from rtl.isa.functions import OF_DOUBLES
from rtl.isa.kinds import FloatFormat, MultiFunction
from rtl.isa.legality import encoding_error
from rtl.isa.syntax import PT, RZ, Constant, Form, Immediate, Register, Values
from rtl.isa.table import find
from rtl.params import WARP_THREADS
from rtl.serial.convert.decode import SERIAL_FORMS
from sim.model.thread.run import Before, step_together
from sim.model.warp.vector.conversion import f2f, f2i, i2f
from sim.model.warp.vector.functions import mufu
from testbench.handmade import ALL, alone
from testbench.instructions.cases import random_word as random_legal_word
from testbench.instructions.functions import BOUNDS, near

BANK = 3
BANK_BYTES = 256
_REGISTERS = 32
"""Number of registers of a single-instruction launch."""
GUARD = 2
FUNCTIONS = (*BOUNDS, *OF_DOUBLES)
"""The functions of MUFU that the machine has."""
_WORD = (1 << 32) - 1
INTEGERS = [
    0,
    1,
    2,
    0x7F,
    0x80,
    0x81,
    0xFF,
    0x7FFF,
    0x8000,
    0x8001,
    0xFFFF,
    0x0100_0001,
    0x0100_0003,
    0x7FFF_FFC0,
    0x7FFF_FFFF,
    0x8000_0000,
    0x8000_0001,
    0xFFFF_FFFF,
    0x1_0000_0000,
    0x20_0000_0000_0001,
    0x20_0000_0000_0003,
    0x7FFF_FFFF_FFFF_FC00,
    0x7FFF_FFFF_FFFF_FFFF,
    1 << 63,
    (1 << 63) + 1,
    0xFFFF_FF7F_FFFF_FFFF,
    0xFFFF_FF80_0000_0000,
    0xFFFF_FFFF_FFFF_FBFF,
    0xFFFF_FFFF_FFFF_FFFF,
]
_POWERS = [
    -130,
    -2,
    -1,
    0,
    1,
    6,
    7,
    8,
    14,
    15,
    16,
    22,
    23,
    24,
    30,
    31,
    32,
    51,
    52,
    53,
    62,
    63,
    64,
    125,
    126,
    127,
]
"""Exponents near the limits of integer types and formats."""


_SIZES_OF = {FloatFormat.F16: (10, 5), FloatFormat.F32: (23, 8), FloatFormat.F64: (52, 11)}
"""Bits of fraction and exponent."""
_RANGE_ENDS = [
    power
    for fraction, exponent in _SIZES_OF.values()
    for end in [(1 << exponent - 1) - 1]
    for power in (
        end,
        end + 1,
        1 - end,
        -end,
        1 - end - fraction,
        -end - fraction,
        -1 - end - fraction,
    )
]
"""Exponents at the ends of the formats' ranges: of the largest number, the smallest normal and
subnormal ones, and half of that.
"""


def _float_edges(form: FloatFormat) -> list[int]:
    """Patterns of a format: powers of two and their neighbours, subnormal numbers, infinities,
    NaNs.
    """
    fraction, exponent = _SIZES_OF[form]
    bias, infinity = (1 << exponent - 1) - 1, (1 << exponent) - 1 << fraction
    positive = [
        0,
        1,
        (1 << fraction) - 1,
        infinity,
        infinity + 1,
        infinity | (1 << fraction) - 1,
        infinity - 1,
    ]
    for power in (*_POWERS, *_RANGE_ENDS):
        if 0 <= power + bias <= 2 * bias:
            middle = power + bias << fraction
            positive += [middle, middle + 1, max(0, middle - 1), middle | 1 << fraction - 1]
    return [pattern | sign << fraction + exponent for pattern in positive for sign in (0, 1)]


_EDGES: dict[FloatFormat | None, list[int]] = {None: INTEGERS} | {
    form: _float_edges(form) for form in FloatFormat
}
"""Edges of integers (None), and of each format."""


@dataclass(frozen=True)
class ConversionCase:
    """An instruction with its operands and expected results. Lists have an element per thread.

    Attributes:
        constant: The word of the constant operand, and the next one.
        fault: The error of reading the constant.
        before: Registers before the instruction.
        error: The reported error.
        after: Registers that the instruction writes.
        conditions: CC that the instruction writes; None if it does not.
    """

    word: int
    form: Form
    active: int
    guard: int
    constant: tuple[int, int]
    fault: WarpError
    before: Mapping[int, list[int]]
    error: WarpError
    after: Mapping[int, list[int]]
    conditions: list[int] | None
    write_barrier: int
    read_barrier: int

    @property
    def threads(self) -> int:
        """The threads that execute it."""
        return self.active & self.guard

    @property
    def writes(self) -> bool:
        """Whether it writes a register or CC."""
        return bool(self.threads) and (bool(self.after) or self.conditions is not None)

    @property
    def wide(self) -> int:
        """Offset in the bank of the upper word of a 64-bit constant; 0 without one."""
        values = self.form.values(self.word)
        return values["offset"] + 4 if self.form.variant == "c" and is_wide_source(values) else 0

    @property
    def reads(self) -> bool:
        """Whether its source is a register, RZ included."""
        return any(isinstance(self.form.operands.get(name), Register) for name in "ab")

    @property
    def reads_pair(self) -> bool:
        """Whether its source is a register pair."""
        return self.reads and is_wide_source(self.form.values(self.word))


def is_wide_source(values: Mapping[str, int]) -> bool:
    """Whether an instruction with these fields has a source of 64 bits."""
    return values.get("source", 0) & 3 == DOUBLE_WORD


def edges(form: FloatFormat) -> list[int]:
    """Patterns of a format at its edges."""
    return list(_EDGES[form])


def random_pattern(source: random.Random, form: FloatFormat) -> int:
    """A random pattern of a format: near the integers, in or a little below the range of a narrower
    format, or any; with few or many bits of fraction.
    """
    fraction, exponent = _SIZES_OF[form]
    bias, bits = (1 << exponent - 1) - 1, source.getrandbits(fraction)
    bits = bits >> source.randrange(fraction) << source.randrange(fraction) & (1 << fraction) - 1
    near, wide = source.randrange(-3, min(66, bias + 2)), source.randrange(-bias, bias + 2)
    narrower = [(1 << size - 1) - 1 for _, size in _SIZES_OF.values() if size < exponent]
    power = source.choice([near, wide, *(source.randrange(-end - 26, end + 2) for end in narrower)])
    return (source.getrandbits(1) << exponent | power + bias) << fraction | bits


def calculated(
    function: MultiFunction, words: NDArray[np.uint32], saturate: int = 0
) -> NDArray[np.uint32]:
    """The results of a MUFU function in the warp model."""
    read: Any = SimpleNamespace(a=words)
    result = mufu(
        read, {"function": function.value, "absolute_a": 0, "negate_a": 0, "saturate": saturate}
    ).value
    assert result is not None
    return result


def converted(
    operation: ConversionOperation, sources: list[int], fields: Mapping[str, int]
) -> list[int]:
    """The results of a conversion in the warp model, for sources of up to 64 bits in one or two
    registers.
    """
    compute = {
        ConversionOperation.FLOAT_TO_FLOAT: f2f,
        ConversionOperation.FLOAT_TO_INTEGER: f2i,
        ConversionOperation.INTEGER_TO_FLOAT: i2f,
    }[operation]
    given = np.array(sources, np.uint64)
    read: Any = SimpleNamespace(
        b=given.astype(np.uint32), b_high=(given >> np.uint64(32)).astype(np.uint32)
    )
    with np.errstate(all="ignore"):
        outcome = compute(read, fields)
    assert outcome.value is not None
    low: list[int] = outcome.value.tolist()
    high: list[int] = [0] * len(low) if outcome.value_high is None else outcome.value_high.tolist()
    return [word | upper << 32 for word, upper in zip(low, high, strict=True)]


def forms_of(floats: bool) -> tuple[Form, ...]:
    """The forms of the unit in a machine with or without floating point."""
    return CONVERSION_FORMS if floats else SERIAL_FORMS


def random_word(source: random.Random, form: Form, floats: bool = True, **chosen: int) -> int:
    """A random legal word of a form for a machine with or without ``floats``; the ``chosen`` fields
    are given.

    Constants are in BANK, a few beyond its end. There are _REGISTERS registers.
    """

    def register() -> int:
        return (
            RZ
            if source.random() < 0.06 or (not floats and form.name == "F2F")
            else source.randrange(_REGISTERS)
        )

    while True:
        word = random_legal_word(
            source,
            form,
            (),
            _REGISTERS,
            {
                "guard": GUARD,
                "bank": BANK,
                "offset": lambda: 4 * source.randrange(BANK_BYTES // 4 + 4),
                "function": lambda: (
                    (source.choice(FUNCTIONS) if floats else MultiFunction.RCP).value
                ),
                "Rd": register,
                "Ra": register,
                "Rb": register,
            }
            | chosen,
        )
        if encoding_error(word, _REGISTERS, floats, floats) is WarpError.NONE:
            return word


def _patterns(source: random.Random, form: Form, values: Mapping[str, int]) -> list[int]:
    """A random source for every thread, edges among them."""
    kind = None
    if form.name in ("MUFU", "F2I", "F2F"):
        kind = FloatFormat(values.get("source", FloatFormat.F32.value))
    known, result, step = _EDGES[kind], [], 8 if kind is None else 16
    for _ in range(WARP_THREADS):
        if source.random() < 0.6:
            result.append(source.choice(known) << (step * values.get("part", 0)))
        elif kind is None:
            result.append(source.getrandbits(64) >> source.randrange(64))
        else:
            result.append(random_pattern(source, kind) << step * values.get("part", 0))
    return [pattern & (1 << 64) - 1 for pattern in result]


@cache
def _bank(seed: int) -> bytes:
    """The content of the constant bank: integers, single-precision numbers and pairs of
    half-precision numbers; in its second half numbers of 64 bits.
    """
    source, half = random.Random(seed), BANK_BYTES // 2
    words = [source.choice(INTEGERS + _EDGES[FloatFormat.F32]) & _WORD for _ in range(half // 4)]
    numbers = [source.choice(INTEGERS + _EDGES[FloatFormat.F64]) for _ in range(half // 8)]
    return b"".join(
        [
            *(word.to_bytes(4, "little") for word in words),
            *(number.to_bytes(8, "little") for number in numbers),
        ]
    )


def case_of(
    source: random.Random,
    form: Form,
    word: int,
    *,
    active: int = ALL,
    guard: int = ALL,
    report_mask: int = ALL,
) -> ConversionCase:
    """A case with random sources and the results of the warp model, which are compared with the
    thread model.
    """
    values = form.values(word)
    patterns, bank = _patterns(source, form, values), _bank(source.randrange(8))
    before = {
        number: [source.getrandbits(32) for _ in range(WARP_THREADS)]
        for number in effects(form, values).writes
    }
    operand = form.operands["a" if "a" in form.operands else "b"]
    constant, fault = (0, 0), WarpError.NONE
    match operand:
        case Register(name):
            if values[name] == RZ:
                patterns = [0] * WARP_THREADS
            else:
                before[values[name]] = [pattern & _WORD for pattern in patterns]
                if values[name] + 1 in effects(form, values).reads:
                    before[values[name] + 1] = [pattern >> 32 for pattern in patterns]
        case Constant():
            words = [
                bank[values["offset"] + place : values["offset"] + place + 4] for place in (0, 4)
            ]
            if not words[0]:
                fault = WarpError.INVALID_CONST_ADDR
            constant = (int.from_bytes(words[0], "little"), int.from_bytes(words[1], "little"))
            patterns = [constant[0] | constant[1] << 32] * WARP_THREADS
        case Immediate(name):
            patterns = [values[name] & (1 << 64) - 1] * WARP_THREADS

    holds = guard if not values["guard_not"] else ~guard & ALL
    _, record = alone(
        word,
        before,
        active=active,
        predicates={GUARD: holds if values["guard"] == GUARD else 0},
        report_mask=report_mask,
        constants={BANK: bank},
    )
    conditions = None if record.condition is None else list(record.condition[1])
    case = ConversionCase(
        word,
        form,
        active,
        guard,
        constant,
        fault,
        before,
        record.error,
        {number: list(row) for number, (_, row) in record.registers.items()},
        conditions,
        source.choice([7, source.randrange(6)]),
        source.choice([7, source.randrange(6)]),
    )
    _compare(case, values, patterns, bank)
    return case


def _compare(case: ConversionCase, values: Values, patterns: list[int], bank: bytes) -> None:
    """Checks that the warp model and the thread model agree, and that MUFU's results are within
    their error bounds.
    """
    if case.error is not WarpError.NONE:
        assert not case.after
        assert case.conditions is None
        return
    threads = [thread for thread in range(WARP_THREADS) if case.threads >> thread & 1]
    for thread in threads if case.form.name == "MUFU" and values["Rd"] != RZ else ():
        result = case.after[values["Rd"]][thread]
        assert near(values, patterns[thread], result), (hex(case.word), hex(patterns[thread]))
    before = [
        Before(
            {number: row[thread] for number, row in case.before.items()},
            [int(number == GUARD and not values["guard_not"]) for number in range(PT)],
        )
        for thread in threads
    ]
    if not before:
        return
    for thread, done in zip(
        threads, step_together(case.word, before, banks={BANK: bank}), strict=True
    ):
        assert {number: row[thread] for number, row in case.after.items()} == {
            number: done.registers[number] for number in case.after
        }, (hex(case.word), hex(patterns[thread]))
        assert case.conditions is None or case.conditions[thread] == done.condition, hex(case.word)


def random_case(
    source: random.Random, form: Form, report_mask: int, floats: bool = True
) -> ConversionCase:
    """A case with a random word of a form, executed by random threads, rarely by none."""
    guard = source.choice([ALL, ALL, source.getrandbits(32), 0 if source.random() < 0.3 else ALL])
    active = source.choice([ALL, source.getrandbits(32) | 1 << source.randrange(32)])
    return case_of(
        source,
        form,
        random_word(source, form, floats),
        active=active,
        guard=guard,
        report_mask=report_mask,
    )


def every_type(floats: bool = True) -> Iterator[tuple[Form, int]]:
    """Each combination of types, rounding, parts and signs, with a register source: pairs of form
    and word, legal on the machine.
    """
    for form in forms_of(floats):
        if form.variant not in ("r", ""):
            continue
        source = RZ if not floats and form.name == "F2F" else 8
        fixed = {"guard": GUARD, "guard_not": 0, "Rd": 4, "Ra": source, "Rb": source}
        free = [
            field
            for name, field in form.fields.items()
            if name not in fixed and field.mask & ~form.mask
        ]
        for choices in product(*(field.bounds for field in free)):
            word = form.match
            for field, value in zip(free, choices, strict=True):
                word = field.put(word, value)
            for name, value in fixed.items():
                if name in form.fields:
                    word = form.fields[name].put(word, value)
            if (
                find(word) is form
                and encoding_error(word, _REGISTERS, floats, floats) is WarpError.NONE
            ):
                yield form, word
