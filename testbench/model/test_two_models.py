"""The warp model and the thread model, which share no code, against each other and against the
kernels' PTX.

The warp model has masks, stacks and vectors of threads; the thread model runs every thread alone.
"""

import random
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from rtl.isa.control_code import GROUP_INSTRUCTIONS
from rtl.isa.errors import REPORT_MASK_RESET, WarpError
from rtl.isa.legality import encoding_error, is_refused
from rtl.isa.special_registers import SpecialRegister
from rtl.isa.syntax import PT, RZ, Form
from rtl.isa.table import FORMS, find
from rtl.isa.tokens import API_CALL_LIMIT
from rtl.params import WARP_THREADS
from sim.launch import Launch
from sim.model.thread import run as thread
from sim.model.thread.state import FaultError
from sim.model.warp.decode import decode
from sim.model.warp.model import WarpModel
from sim.model.warp.vector.operations import OPERATIONS
from sim.toolchain.assembly.spelling import spell
from testbench.handmade import address, encode, machine, warp_of
from testbench.kernels.expected import complaints
from testbench.kernels.manifest import LEVELS, RUNS, Run, build
from testbench.words import NOP, branch, memory_left, move, results

LIMIT = 1_000_000


def on_warps(run: Run, level: str, **kind) -> Launch:
    """Runs a kernel on the warp model and returns the launch."""
    launch = build(run, level)
    result = WarpModel(launch, **kind).run(LIMIT)
    assert result.status == ("error" if run.traps else "ok"), result
    assert not run.traps or (
        result.error_status is not None and result.error_status.error is WarpError.NONE
    )
    return launch


def on_threads(run: Run, level: str) -> Launch:
    """Runs a kernel on the thread model and returns the launch."""
    launch = build(run, level)
    assert (thread.run(launch).trap is not None) == run.traps
    return launch


@cache
def left(name: str, level: str) -> dict[str, bytes]:
    """Returns the memory that a run leaves on the warp model, which must be what the kernel's PTX
    defines.
    """
    launch = on_warps(RUNS[name], level)
    assert complaints(RUNS[name], level, launch) == []
    return memory_left(launch)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", RUNS)
def test_both_leave_the_same_memory_and_what_the_ptx_says(name, level):
    expected = left(name, level)
    if not RUNS[name].compared:
        assert memory_left(on_threads(RUNS[name], level)) == expected


@pytest.mark.parametrize("name", RUNS)
def test_any_order_of_warps_and_few_slots_leave_the_same_memory(name):
    run = RUNS[name]
    launch = on_warps(run, "O3", warps=build(run, "O3").warps, order=1)
    assert complaints(run, "O3", launch) == []
    if not run.compared and not run.traps:
        assert memory_left(launch) == left(name, "O3")


# Single instructions, on all threads of a warp

REGISTERS = 32
ARITHMETIC = [
    form for form in FORMS if form.name in (*OPERATIONS, "LEPC", "SHFL") and not is_refused(form)
]
WORDS = 20
"""Number of random words for each form, besides one for every code of every small field."""
TRIES = 400
"""Largest number of further words that are generated until WORDS legal ones were executed."""
SMALL = 5
"""Largest width in bits of a field whose codes are all tested."""
REFUSED = 0.05
"""Probability of an illegal word."""
EDGES = [
    0,
    1,
    2,
    31,
    32,
    33,
    64,
    0x7F,
    0x80,
    0xFF,
    0x7FFF,
    0x8000,
    0xFFFF,
    0x10000,
    0x7FFFFFFF,
    0x80000000,
    0x80000001,
    0xFFFFFFFF,
    0x3F800000,
    0xBF800000,
    0x7F800000,
    0x7FC00000,
    0x4F800000,
    0x4F000000,
    0xCF000000,
    0x7FF00000,
]
PLACES = [0, 1, 5, 12, 30, 31, 32, 33, 63, 64, 65, 127, 128, 255]


def random_numbers(source: random.Random, *shape: int) -> np.ndarray:
    """Returns register values: random words, limits of types, a position with a length, floats,
    integers.
    """
    numbers = np.random.default_rng(source.getrandbits(64))

    def below(end: int, start: int = 0) -> np.ndarray:
        return numbers.integers(start, end, shape)

    sign = below(2) << 31
    place, length = numbers.choice(PLACES, (2, *shape))
    kinds = [
        below(1 << 32),
        below(1 << 32) >> below(33),
        -below(2) & 0xFFFFFFFF,
        place | length << 8 | (-below(2) & below(1 << 16)) << 16,
        sign | below(0xC0, 0x70) << 23 | below(1 << 23),  # 32 bits
        sign | below(0x440, 0x3F0) << 20 | below(1 << 20),  # the upper word of 64 bits
        numbers.choice(EDGES, shape),
    ]
    return np.choose(below(len(kinds)), kinds).astype(np.uint32)


def any_word(source: random.Random, form: Form) -> int:
    """Returns a word of a form with a random value in every field."""
    word = form.match
    for name, field in form.fields.items():
        if name in ("Rd", "Ra", "Rb", "Rc"):
            value = source.choice(
                [
                    RZ,
                    2 * source.randrange(REGISTERS // 2),
                    source.randrange(REGISTERS),
                    source.randrange(REGISTERS + 1),
                ]
            )
        elif name == "bank":
            value = source.choice([2, 2, 2, source.choice(field.bounds)])
        elif name == "offset":
            value = source.choice([4 * source.randrange(66), source.choice(field.bounds)])
        elif name == "guard":
            value = source.choice([PT, source.randrange(PT)])
        else:
            value = source.choice([source.choice(field.bounds), field.bounds[0], field.bounds[-1]])
        word = field.put(word, value)
    return word


def random_word(source: random.Random, form: Form, /, **pinned: int) -> int:
    """Returns a word of a form, legal in most cases, with the pinned fields at the given values."""
    while True:
        word = any_word(source, form)
        for name, code in pinned.items():
            word = form.fields[name].put(word, code)
        if encoding_error(word, REGISTERS) is WarpError.NONE or source.random() < REFUSED:
            return word


def executed_alike(source: random.Random, word: int) -> bool:
    """Returns whether the word is legal; fails unless both models have the same result, errors
    included.
    """
    slot, bank = source.randrange(GROUP_INSTRUCTIONS), source.randbytes(256)
    made = machine(
        [*[NOP] * slot, word],
        constants={2: bank},
        registers=REGISTERS,
        report_mask=REPORT_MASK_RESET,
    )
    warp, pc = warp_of(made), address(slot)
    warp.pc = pc
    numbers = random_numbers(source, WARP_THREADS, REGISTERS)
    for lane in numbers:  # equal words, for comparisons
        lane[source.randrange(REGISTERS)] = lane[source.randrange(REGISTERS)]
    warp.registers[:REGISTERS] = numbers.T
    warp.predicates[:PT] = [
        source.choice([0, 0xFFFFFFFF, source.getrandbits(32), source.getrandbits(32)])
        for _ in range(PT)
    ]
    condition = warp.condition
    condition.zero, condition.sign, condition.carry, condition.overflow = (
        source.getrandbits(32) for _ in range(4)
    )
    before = [
        thread.Before(
            dict(enumerate(lane)), [mask >> number & 1 for mask in warp.predicates[:PT]], int(flags)
        )
        for number, (lane, flags) in enumerate(
            zip(numbers.tolist(), condition.nibbles(), strict=True)
        )
    ]
    where = f"{word:#018x} {spell(word)}"
    record = made.retire(0)
    try:
        after = thread.step_together(word, before, pc=pc, launch=made.launch)
    except FaultError as fault:
        assert record.error is fault.error, where
        return False
    assert record.error is WarpError.NONE, where
    flags = warp.condition.nibbles()
    for number, (old, new) in enumerate(zip(before, after, strict=True)):
        found = (
            warp.registers[:REGISTERS, number].tolist(),
            [mask >> number & 1 for mask in warp.predicates[:PT]],
            f"{flags[number]:04b}",
            warp.pc,
        )
        expected = (
            list(new.registers[:REGISTERS]),
            list(new.predicates),
            f"{new.condition:04b}",
            new.next_pc,
        )
        assert found == expected, f"{where}, thread {number}: {old}"
    return True


@pytest.mark.parametrize("form", ARITHMETIC, ids=lambda form: f"{form.name}:{form.variant}")
def test_single_instructions_compute_the_same(form):
    source = random.Random(f"{form.name}:{form.variant}")
    pinned = [
        (name, code)
        for name, field in form.fields.items()
        if field.width <= SMALL
        for code in field.bounds
    ]
    executed = sum(
        executed_alike(source, random_word(source, form, **{name: code})) for name, code in pinned
    )
    executed += sum(executed_alike(source, random_word(source, form)) for _ in range(WORDS))
    for _ in range(TRIES):  # the machine refuses most words of some forms
        if executed < WORDS:
            executed += executed_alike(source, random_word(source, form))
    assert executed >= WORDS


# Registers that count, or that depend on the size of the machine, which the thread model does not
# have.
UNLIKE = {
    SpecialRegister.CLOCK,
    SpecialRegister.CLOCKLO,
    SpecialRegister.GLOBALTIMERLO,
    SpecialRegister.VIRTCFG,
}


@pytest.mark.parametrize("name", ["S2R", "CS2R"])
def test_special_registers_read_the_same(name):
    source = random.Random(name)
    for number in set(range(256)) - UNLIKE:
        assert executed_alike(source, encode(name, Rd=4, special=number))


def test_a_word_that_either_model_refuses_is_illegal_with_any_guard():
    source, refused = random.Random(1), 0
    for form in FORMS:
        for _ in range(WORDS // 2):
            word = any_word(source, form)
            if form.guarded:
                word = form.fields["guard_not"].put(form.fields["guard"].put(word, PT), 1)
            if find(word) not in (None, form):
                continue
            error = decode(word, REGISTERS).error
            if error is WarpError.NONE and not form.guarded:
                continue  # its encoding is accepted; the error is one of execution
            try:
                thread.step(word, launch=machine([word]).launch)
            except FaultError as fault:
                assert fault.error is error, f"{word:#018x} {spell(word)}"
                refused += 1
            else:
                assert error is WarpError.NONE, f"{word:#018x} {spell(word)}"
    assert refused > 2 * len(FORMS)


# API calls


def on_both(body: list[int]) -> int:
    """Runs a body of one thread with limited API calls on both models, and returns what it stores."""
    ended = [
        results(lambda made, run=run: run(replace(made, check_api_calls=True)), body)
        for run in (thread.run, lambda made: WarpModel(made).run(LIMIT))
    ]
    assert ended[0] == ended[1]
    return ended[0][0]


def test_the_call_beyond_the_limit_is_not_taken():
    body = [
        move(0, 0),
        branch(1, 4, "CAL"),
        branch(2, 7),
        encode("EXIT"),
        encode("IADD32I", Rd=0, Ra=0, imm32=1),
        branch(5, 4, "CAL"),
        encode("RET"),
    ]
    assert on_both(body) == API_CALL_LIMIT


@pytest.mark.parametrize("calls", [API_CALL_LIMIT - 1, API_CALL_LIMIT])
def test_a_return_pushed_at_the_limit_kills_limited_branches(calls):
    # Every call targets the next instruction. The limited branch leads to the instruction that sets
    # R0 to 5.
    body = [
        move(0, 0),
        *[encode("CAL", "i", target=0)] * calls,
        *[NOP] * (API_CALL_LIMIT - calls),
        move(0, 1),
    ]
    push = len(body)
    body += [
        branch(push, push + 3, "PRET"),
        branch(push + 1, push + 3, limited=1),
        branch(push + 2, push + 4),
        move(0, 5),
        NOP,
    ]
    assert on_both(body) == (5 if calls < API_CALL_LIMIT else 1)
