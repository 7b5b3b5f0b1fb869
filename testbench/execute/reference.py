"""Beats with their expected results, from the thread model and the warp model; operands at the
edges.
"""

from collections.abc import Iterator, Sequence
from itertools import product
from random import Random
from typing import Any

import numpy as np

from rtl.execute.decode import LANE_FORMS
from rtl.isa.effects import effects
from rtl.isa.errors import WarpError
from rtl.isa.floating import FLOATING
from rtl.isa.kinds import VoteMode
from rtl.isa.syntax import PT, RZ, Form
from rtl.params import WARP_THREADS
from sim.model.warp.decode import decode
from sim.model.warp.retirement import Retirement, WarpMasks
from sim.model.warp.state import Warp
from sim.model.warp.vector.lanes import ALL_THREADS, Condition
from testbench.execute.driver import Beat, Expected, Threads
from testbench.execute.singles import CORNERS, ONE, SIGN, singles
from testbench.handmade import machine, warp_of
from testbench.instructions.cases import case_of, number, random_word, words_of
from testbench.words import NOP

_REGISTERS = (0, 1, 2, 3, 4, 5)
_BYTES = (0, 1, 0x7F, 0x80, 0x81, 0xFE, 0xFF)
_OPERANDS = ("Ra", "Rb", "Rc")
_SPECIAL = ("S2R", "CS2R", "LEPC")
COMPUTED = [
    form for form in LANE_FORMS if form not in FLOATING and form.name not in (*_SPECIAL, "VOTE")
]
"""Forms whose results depend only on their operands, without floating point, which has operands of
its own.
"""


def _numbers(source: Random, count: int) -> list[int]:
    return [number(source) for _ in range(count)]


def thread_beats(source: Random, lanes: int, count: int) -> Iterator[Beat]:
    """Beats of each form of COMPUTED, as the thread model executes them: every combination of
    modes, or ``count`` of them, in random order.
    """
    named = (*_REGISTERS, *_REGISTERS, RZ)
    words = [
        (form, word)
        for form in COMPUTED
        for word in words_of(
            source, form, named, RZ + 1, count if form.variant in ("r", "") else 1 + count // 5
        )
    ]
    source.shuffle(words)
    for form, word in words:
        case, touched = case_of(source, form, word, lanes, named), effects(form, form.values(word))
        expected = Expected(case.threads, case.destination)
        if touched.writes:
            expected.values = [after.registers[case.destination] for after in case.after]
        expected.predicates = {
            number: [after.predicates[number] for after in case.after]
            for number in case.written_predicates
        }
        if touched.writes_cc:
            expected.conditions = [after.condition for after in case.after]
        yield Beat(
            form.name,
            word,
            Threads(case.registers, case.predicates, case.conditions, case.constant),
            expected,
        )


class _Constants:
    """The part of a machine that actions use: constants, all with the same value."""

    def __init__(self) -> None:
        self.value = 0

    def constant(self, bank: int, address: int, size: int, error: WarpError) -> int:
        return self.value


def model_beats(
    source: Random, lanes: int, count: int, forms: Sequence[Form] = LANE_FORMS
) -> Iterator[Beat]:
    """``count`` beats of each form, as the warp model executes them, in random order."""
    warp, constants = warp_of(machine([NOP])), _Constants()
    order = list(forms) * count
    source.shuffle(order)
    for form in order:
        yield _beat(source, lanes, form, warp, constants)


def corner_beats(source: Random, lanes: int) -> Iterator[Beat]:
    """Floating-point forms with registers: all pairs of CORNERS for a and b; for c zeros, the
    smallest numbers, or one.
    """
    warp, constants = warp_of(machine([NOP])), _Constants()
    forms = [form for form in LANE_FORMS if form in FLOATING and form.variant == "r"]
    pairs = [*product(CORNERS, CORNERS)]
    for form, third in product(forms, (0, SIGN, 1, SIGN | 1, ONE)):
        if third and "Rc" not in form.fields:
            continue
        for first in range(0, len(pairs), lanes):
            part = [pairs[(first + lane) % len(pairs)] for lane in range(WARP_THREADS)]
            yield _beat(
                source,
                lanes,
                form,
                warp,
                constants,
                [*zip(*((a, b, third) for a, b in part), strict=True)],
            )


def distance_beats(source: Random, lanes: int, count: int) -> Iterator[Beat]:
    """VABSDIFF4 of bytes at the limits of their types, so that distances of nine bits are beside
    others.
    """
    warp, constants = warp_of(machine([NOP])), _Constants()
    form = next(form for form in LANE_FORMS if form.name == "VABSDIFF4")
    for _ in range(count):
        given = [
            [int.from_bytes(source.choices(_BYTES, k=4), "little") for _ in range(WARP_THREADS)]
            for _ in "abc"
        ]
        yield _beat(source, lanes, form, warp, constants, given)


def _beat(
    source: Random,
    lanes: int,
    form: Form,
    warp: Warp,
    constants: Any,
    given: Sequence[Sequence[int]] | None = None,
) -> Beat:
    """A beat with a random word and operands; ``given`` are the values of registers a, b and c,
    which are then R0 to R2.
    """
    word = random_word(source, form, (*_REGISTERS, *_REGISTERS, RZ), RZ + 1, {})
    if given is not None:
        for register, field in enumerate(_OPERANDS):
            word = form.fields[field].put(word, register) if field in form.fields else word
    for register in _REGISTERS:
        warp.registers[register] = np.array(_numbers(source, WARP_THREADS), np.uint32)
    if given or form in FLOATING:
        for field, numbers in zip(_OPERANDS, given or singles(source, WARP_THREADS), strict=True):
            if (register := form.values(word).get(field, RZ)) != RZ:
                warp.registers[register] = np.array(numbers, np.uint32)
    warp.predicates[:PT] = [source.getrandbits(WARP_THREADS) for _ in range(PT)]
    warp.condition = Condition(*(source.getrandbits(WARP_THREADS) for _ in range(4)))
    constants.value = number(source)
    threads = range(lanes)
    before = Threads(
        {register: warp.registers[register][:lanes].tolist() for register in (*_REGISTERS, RZ)},
        [
            sum((mask >> thread & 1) << index for index, mask in enumerate(warp.predicates[:PT]))
            for thread in threads
        ],
        warp.condition.nibbles()[:lanes].tolist(),
        constants.value,
    )
    values = form.values(word)
    if form.name in _SPECIAL:
        before.special = _numbers(source, lanes)
        return Beat(form.name, word, before, Expected(threads, values["Rd"], before.special))
    if form.name == "VOTE":
        executing = source.choice((ALL_THREADS, source.getrandbits(WARP_THREADS) | 1))
        ballot = _joined(warp, values, executing)
        verdict = {
            VoteMode.ALL: ballot == executing,
            VoteMode.ANY: ballot != 0,
            VoteMode.EQ: ballot in (0, executing),
        }[VoteMode(values["mode"])]
        before.special, before.vote = [ballot] * lanes, [int(verdict)] * lanes
        predicates = {values["Pd"]: before.vote} if values["Pd"] != PT else {}
        return Beat(
            form.name, word, before, Expected(threads, values["Rd"], before.special, predicates)
        )
    masks = WarpMasks(ALL_THREADS)
    record = Retirement(0, 0, word, masks, masks, 0, 0, 0)
    decode(word, RZ + 1).action(constants, warp, ALL_THREADS, record)
    return Beat(form.name, word, before, _expected(lanes, values, record))


def _joined(warp: Warp, values: dict[str, int], executing: int) -> int:
    """The ballot of a vote: the executing threads whose predicate holds."""
    return (warp.predicates[values["Pc"]] ^ (ALL_THREADS if values["Pc_not"] else 0)) & executing


def _expected(lanes: int, values: dict[str, int], record: Retirement) -> Expected:
    """The expected results of a beat, from a record of the warp model."""
    threads = [thread for thread in range(lanes) if values.get("lanes", 15) >> thread % 4 & 1]
    expected = Expected(threads, values.get("Rd", RZ))
    if record.registers:
        ((expected.destination, (_, row)),) = record.registers.items()
        expected.values = row[:lanes]
    expected.predicates = {
        number: [mask >> thread & 1 for thread in range(lanes)]
        for number, (_, mask) in record.predicates.items()
    }
    if record.condition is not None:
        expected.conditions = record.condition[1][:lanes]
    return expected
