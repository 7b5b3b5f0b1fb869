"""The warp model against the thread model: every instruction of the lanes in every mode."""

from random import Random
from types import SimpleNamespace

import pytest

from rtl.execute.decode import LANE_FORMS
from rtl.isa.errors import WarpError
from rtl.isa.syntax import PT, RZ
from rtl.params import WARP_THREADS
from testbench.handmade import alone
from testbench.instructions.cases import BANK, BANK_WORDS, Case, case_of, words_of

REGISTERS = (0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5, RZ)
"""Registers that operands use, RZ rarely."""
LIMIT = 32
"""Number of registers of a thread."""
NAMES = sorted({form.name for form in LANE_FORMS} - {"S2R", "CS2R", "LEPC", "VOTE"})
"""Instructions whose results depend on their operands alone."""


def cases(name):
    source = Random(name)
    for form in LANE_FORMS:
        if form.name == name:
            for word in words_of(
                source, form, REGISTERS, LIMIT, 320 if form.variant in ("r", "") else 40
            ):
                yield case_of(source, form, word, WARP_THREADS, REGISTERS)


def check(case: Case, thread: int, registers, predicates, condition) -> None:
    """Compares a thread after a case with the thread model, including registers that were not
    written.
    """
    after = case.after[thread]
    wanted = (
        {number: after.registers[number] for number in case.registers if number != RZ},
        list(after.predicates),
        after.condition,
    )
    assert (registers, predicates, condition) == wanted, (case.form.name, hex(case.word), thread)


@pytest.mark.parametrize("name", NAMES)
def test_both_models_agree_in_every_mode(name):
    count = 0
    for case in cases(name):
        masks = {
            number: sum(
                (held >> number & 1) << thread for thread, held in enumerate(case.predicates)
            )
            for number in range(PT)
        }
        flags = [
            sum((held >> place & 1) << thread for thread, held in enumerate(case.conditions))
            for place in range(4)
        ]
        warp, record = alone(
            case.word,
            case.registers,
            predicates=masks,
            condition=flags,
            constants={BANK: case.constant.to_bytes(4, "little") * BANK_WORDS},
        )
        assert record.error is WarpError.NONE
        rows = {
            number: warp.registers[number].tolist() for number in case.registers if number != RZ
        }
        conditions = warp.condition.nibbles().tolist()
        for thread in range(WARP_THREADS):
            check(
                case,
                thread,
                {number: row[thread] for number, row in rows.items()},
                [mask >> thread & 1 for mask in warp.predicates[:PT]],
                conditions[thread],
            )
        count += 1
    assert count > 5


@pytest.mark.parametrize("what", ["registers", "predicates", "condition"])
def test_a_difference_is_seen(what):
    case = next(iter(cases("IADD")))
    after = case.after[0]
    held = SimpleNamespace(
        registers={number: after.registers[number] for number in case.registers if number != RZ},
        predicates=list(after.predicates),
        condition=after.condition,
    )
    check(case, 0, **vars(held))
    if what == "condition":
        held.condition ^= 1
    else:
        getattr(held, what)[0] ^= 1
    with pytest.raises(AssertionError):
        check(case, 0, **vars(held))
