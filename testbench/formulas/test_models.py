"""The table of formulas against the warp model and the thread model: every instruction in every mode."""

from functools import cache
from random import Random
from types import SimpleNamespace

import pytest

from rtl.convert.decode import CONVERSION_FORMS
from rtl.execute.decode import LANE_FORMS
from rtl.isa.double import DOUBLE
from rtl.isa.errors import WarpError
from rtl.isa.floating import FLOATING
from rtl.isa.syntax import PT, RZ
from rtl.params import WARP_THREADS
from sim.model.thread.run import Before, step, step_together
from testbench.convert.cases import GUARD, every_type
from testbench.convert.cases import case_of as conversion_of
from testbench.double.cases import case_of as double_of
from testbench.formulas.double import FORMULAS as DOUBLES
from testbench.formulas.inputs import BANK, BANK_WORDS, Case, case_of, words_of
from testbench.formulas.integer import FORMULAS
from testbench.handmade import alone

REGISTERS = (0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5, RZ)
"""Those that operands name, RZ rarely."""
LIMIT = 32
"""Registers of a thread."""
THREADS = 8
"""Threads that the thread model executes."""


def cases(name):
    source = Random(name)
    for form in LANE_FORMS:
        if form.name == name:
            for word in words_of(source, form, REGISTERS, LIMIT, 320 if form.variant in ("r", "") else 40):
                yield case_of(source, form, word, WARP_THREADS, REGISTERS)


def banks(case: Case) -> dict[int, bytes]:
    return {BANK: case.constant.to_bytes(4, "little") * BANK_WORDS}


def check(case: Case, thread: int, registers, predicates, condition) -> None:
    """What a thread holds after a case is what the formula says, and nothing else has changed."""
    after, before = case.after[thread], {number: values[thread] for number, values in case.registers.items()}
    executes = thread in case.threads
    held, flags = case.predicates[thread], case.conditions[thread]
    if executes and after.value is not None:
        before[case.destination] = after.value
    if executes:
        for number, bit in after.predicates.items():
            held = held & ~(1 << number) | bit << number
        if after.flags is not None:
            flags = sum(bit << place for place, bit in enumerate(after.flags))
    before[RZ] = 0
    found = {number: registers[number] for number in before if number != RZ}
    assert (found | {RZ: 0}, predicates, condition) == (before, held, flags), (case.form.name, hex(case.word), thread)


@pytest.mark.parametrize("name", FORMULAS)
def test_the_warp_model(name):
    count = 0
    for case in cases(name):
        masks = {number: sum((held >> number & 1) << thread for thread, held in enumerate(case.predicates))
                 for number in range(PT)}
        flags = [sum((held >> place & 1) << thread for thread, held in enumerate(case.conditions))
                 for place in range(4)]
        warp, record = alone(case.word, case.registers, predicates=masks, condition=flags, constants=banks(case))
        assert record.error is WarpError.NONE
        rows = {number: warp.registers[number].tolist() for number in case.registers if number != RZ}
        conditions = warp.condition.nibbles().tolist()
        for thread in range(WARP_THREADS):
            check(case, thread, {number: row[thread] for number, row in rows.items()},
                  sum((warp.predicates[number] >> thread & 1) << number for number in range(PT)), conditions[thread])
        count += 1
    assert count > 5


@pytest.mark.parametrize("name", FORMULAS)
def test_the_thread_model(name):
    for case in cases(name):
        before = [Before({number: values[thread] for number, values in case.registers.items() if number != RZ},
                         [case.predicates[thread] >> number & 1 for number in range(PT)], case.conditions[thread])
                  for thread in range(THREADS)]
        for thread, done in enumerate(step_together(case.word, before, banks=banks(case))):
            check(case, thread, done.registers, sum(bit << number for number, bit in enumerate(done.predicates)),
                  done.condition)


@cache
def conversions():
    return list(every_type())


@pytest.mark.parametrize("name", sorted({form.name for form in CONVERSION_FORMS} - {"F2F.F32.F32"}))
def test_conversions_of_both_models_agree_with_the_formula(name):
    """The warp model against the formula, and the thread model against what both say."""
    source = Random(name)
    words = [(form, word) for form, word in conversions() if form.name == name]
    for form, word in source.sample(words, min(200, len(words))):
        case = conversion_of(source, form, word)
        assert case.error is WarpError.NONE
        for thread in range(THREADS):
            done = step(word, {number: row[thread] for number, row in case.before.items()},
                        predicates=[int(number == GUARD) for number in range(PT)])
            wanted = {number: row[thread] for number, row in case.after.items()}
            assert {number: done.registers[number] for number in wanted} == wanted, hex(word)
            if case.conditions is not None:
                assert done.condition == case.conditions[thread], hex(word)


@pytest.mark.parametrize("name", DOUBLES)
def test_double_precision_of_both_models_is_that_of_the_formula(name):
    """The warp model against the formula in every mode, and the thread model against what both say."""
    source, even = Random(name), [2 * number for number in range(LIMIT // 2)] + [RZ]
    for form in (form for form in DOUBLE if form.name == name):
        for word in words_of(source, form, even, LIMIT, 100 if form.variant == "r" else 12):
            case = double_of(source, form, word)
            constants = {} if case.offset is None else {BANK: case.bank}
            for thread in range(THREADS):
                done = step(word, {number: row[thread] for number, row in case.before.items()}, banks=constants,
                            predicates=[held >> thread & 1 for held in case.held])
                for number, row in case.after.items():
                    assert done.registers[number] == row[thread], hex(word)
                for number, held in case.predicates.items():
                    assert done.predicates[number] == held >> thread & 1, hex(word)
                assert case.conditions is None or done.condition == case.conditions[thread], hex(word)


def test_every_instruction_of_double_precision_has_a_formula():
    assert {form.name for form in DOUBLE} == DOUBLES.keys()


def test_every_instruction_of_the_lanes_has_a_formula():
    others = {form.name for form in LANE_FORMS} - FORMULAS.keys()
    numbers = {form.name for form in FLOATING}          # these are compared with MPFR, in testbench.model
    assert others - numbers == {"S2R", "CS2R", "LEPC", "VOTE"}    # what they write is not from operands


@pytest.mark.parametrize("what", ["registers", "predicates", "condition"])
def test_a_difference_is_seen(what):
    case = next(iter(cases("IADD")))
    held = SimpleNamespace(registers={n: v[0] for n, v in case.registers.items()}, predicates=case.predicates[0],
                           condition=case.conditions[0])
    if case.after[0].value is not None:
        held.registers[case.destination] = case.after[0].value
    if case.after[0].flags is not None:
        held.condition = sum(bit << place for place, bit in enumerate(case.after[0].flags))
    check(case, 0, **vars(held))
    if what == "registers":
        held.registers[0] ^= 1
    else:
        setattr(held, what, getattr(held, what) ^ 1)
    with pytest.raises(AssertionError):
        check(case, 0, **vars(held))
