"""The compiled warp model (in C) against the warp model: single instructions on random state, all
kernels, and all events that stop a run.
"""

import random
from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest

from rtl.isa.control_code import next_address
from rtl.isa.errors import WarpError
from rtl.isa.legality import encoding_error, is_refused
from rtl.isa.syntax import PT, RZ, Address, Constant, Form, Target, Values
from rtl.isa.table import FORMS, find
from rtl.isa.tokens import TokenKind
from sim.launch import LOCAL_WINDOW, SHARED_WINDOW, Buffer
from sim.model.warp import native
from sim.model.warp.model import WarpModel
from sim.model.warp.native.executor import Executor, compiled
from sim.model.warp.retirement import StackToken, WarpMasks
from sim.model.warp.state import Warp
from sim.model.warp.vector.lanes import Condition
from sim.model.warp.vector.operations import OPERATIONS
from sim.toolchain.assembly.spelling import spell
from testbench.handmade import ALL, launch
from testbench.kernels.manifest import LEVELS, RUNS, build
from testbench.model.test_two_models import any_word, random_numbers
from testbench.words import NOP, address, branch, encode, move

pytestmark = pytest.mark.skipif(not native.is_available(), reason="there is no C++ compiler")

REGISTERS = 32
WORDS = 5
"""Number of random words for each form."""
TARGETS = b"".join((8 * place).to_bytes(4, "little") for place in range(8))
LEFT = {
    "SAM:",
    "RAM:",
    "GETCRSPTR:",
    "SETCRSPTR:",
    "GETLMEMBASE:",
    "SETLMEMBASE:",
    "IDE:",
    "BPT:",
    "RTT:",
    "LEPC:",
    "BAR:all",
    "CCTLL:stack",
    "B2R:barrier",
    "B2R:warp",
    "R2B:",
    "VADD:r",
    "VADD:i",
    "VMAD:r",
    "VMAD:i",
    "VMNMX:r",
    "VMNMX:i",
    "VSHL:r",
    "VSHL:i",
    "VSHR:r",
    "VSHR:i",
    "VSET:r",
    "VSET:i",
    "VSETP:r",
    "VSETP:i",
    "VABSDIFF:r",
    "VABSDIFF:i",
    "VABSDIFF4:r",
}
"""Forms that the compiled model does not execute itself."""
READS = ("S2R", "CS2R")
PINNED = (
    "size",
    "operation",
    "type",
    "compare_and_swap",
    "wide_data",
    "wide",
    "mode",
    "reduction",
    "special",
)
CONTENT = random.Random("content").randbytes(1 << 13)
"""Initial content of buffers, shared and local memory."""
SPACES = {"LDS": "shared", "STS": "shared", "ATOMS": "shared", "LDL": "local", "STL": "local"}
KINDS = (
    TokenKind.SYNC,
    TokenKind.SYNC,
    TokenKind.DIVERGE,
    TokenKind.DIVERGE,
    TokenKind.BREAK,
    TokenKind.CONTINUE,
    TokenKind.RETURN,
    TokenKind.EXIT,
    TokenKind.LONGJMP,
    TokenKind.NONE,
    TokenKind.QUAD,
)
TESTED = [form for form in FORMS if not is_refused(form)]


def state_of(made: WarpModel) -> list[object]:
    """Returns all state of a model's warps that a program or a host can observe."""
    return [
        None
        if warp is None
        else (
            warp.slot,
            warp.number,
            warp.cta.index,
            warp.pc,
            warp.masks,
            list(warp.predicates),
            warp.condition,
            warp.stack.tokens(),
            warp.stack.on_chip[0],
            set(warp.stack.on_chip[2]),
            warp.api_call_depth,
            warp.kill_future_branch,
            warp.barrier,
            warp.reduction,
            warp.trap,
            warp.in_trap,
            warp.local_base,
            warp.registers.tolist(),
            bytes(warp.cta.shared),
            warp.cta.keeps_reference,
            len(warp.cta.warps),
            [
                (barrier.pack(), [arrival.warp.slot for arrival in barrier.waiting])
                for barrier in warp.cta.barriers
            ],
        )
        for warp in made.warps
    ]


def counts_of(made: WarpModel) -> tuple[object, ...]:
    """Returns the final state of a model, with its counters."""
    return (
        made.instructions,
        made.clock,
        made.next_cta,
        made.error_status,
        sorted(made.raised),
        made.traps.trapping,
    )


def memory_of(made: WarpModel) -> dict[str, bytes]:
    """The content of all ranges of memory."""
    return {
        name: made.memory.read(base, size) for name, (base, size) in made.memory.regions.items()
    }


def run_compiled(made: WarpModel, executor: Executor, end: int) -> None:
    """Runs until ``end`` instructions have retired or no warp can continue; in C where possible."""
    while made.instructions < end:
        executor.run(end)
        if made.instructions >= end or made.step() is None:
            return


def pair_of(words: list[int]) -> tuple[WarpModel, WarpModel, Executor]:
    """Returns two models with the same program, and the executor that runs the second one in C."""
    alone, other = (
        WarpModel(
            launch(
                words,
                [Buffer("o", CONTENT)],
                registers=REGISTERS,
                shared=512,
                local=256,
                constants={2: TARGETS + bytes(range(200))},
            ),
            warps=4,
        )
        for _ in range(2)
    )
    for made in (alone, other):
        made.memory.write(made.local_memory, CONTENT[: 32 * made.launch.local])
        for warp in made.live:
            warp.cta.shared[:] = CONTENT[:512]
    return alone, other, Executor(other, compiled(), eager=True)


# Single instructions


@cache
def words_of(number: int) -> tuple[int, ...]:
    """Returns random words of a form, by its number.

    Of a form that was not translated, some words for each code of its small fields are added.
    """
    form, source = TESTED[number], random.Random(f"compiled {number}")
    pinned = [{}] * WORDS
    if form.name not in (*OPERATIONS, "SHFL"):
        pinned += [
            {name: code}
            for name, field in form.fields.items()
            if name in PINNED
            for code in field.bounds
        ]
    return tuple(word for fields in pinned if (word := of_form(source, form, fields)) is not None)


def of_form(source: random.Random, form: Form, fields: dict[str, int]) -> int | None:
    """Returns a word of a form with the given fields, legal in most cases; None if these fields
    make it another form.
    """
    for _ in range(100):
        word = any_word(source, form)
        for name, code in fields.items():
            word = form.fields[name].put(word, code)
        word = aimed(source, form, word)
        if find(word) is form and encoding_error(word, REGISTERS) is WarpError.NONE:
            return word
    return None


def aimed(source: random.Random, form: Form, word: int) -> int:
    """Gives most words a valid target address, in the instruction or in the constant bank that it
    reads.
    """
    if (
        not isinstance(operand := form.operands.get("target"), (Target, Constant))
        or source.random() < 0.1
    ):
        return word
    if isinstance(operand, Constant):
        return form.fields["bank"].put(form.fields["offset"].put(word, 4 * source.randrange(8)), 2)
    return form.fields["target"].put(word, 8 * source.randrange(2, 32))


@pytest.fixture(scope="module")
def _all_compiled() -> None:
    """Compiles the code that all words need in one call."""
    made = pair_of([word for number in range(len(TESTED)) for word in words_of(number)])[2]
    made.compile_all()


def addressed(
    source: random.Random, form: Form, values: Values, made: WarpModel, numbers: np.ndarray
) -> None:
    """Gives most threads valid addresses of some memory space."""
    operand = form.operands.get("address")
    if not isinstance(operand, Address) or values[operand.register] == RZ or source.random() < 0.1:
        return
    space = SPACES.get(form.name, "global")
    if form.name in ("LD", "ST"):
        space = source.choice(("global", "shared window", "local window", "mixed"))
    base, size = made.launch.buffers["o"]
    bases = {
        "global": (base, size),
        "shared": (0, 512),
        "local": (0, 256),
        "shared window": (SHARED_WINDOW, 512),
        "local window": (LOCAL_WINDOW, 256),
    }
    unit = source.choice((1, 2, 4, 8, 16, 16, 16, 16, 16, 16))
    register, close = values[operand.register], source.random() < 0.3
    for lane in range(32):
        first, length = bases[
            source.choice(list(bases)[:1] + list(bases)[3:]) if space == "mixed" else space
        ]
        place = first + source.randrange(0, 64 if close else length, unit) - values[operand.offset]
        numbers[register, lane] = place & ALL
        if register + 1 < len(numbers) and operand.wide is not None and values[operand.wide]:
            numbers[register + 1, lane] = place >> 32 & ALL


def put(source: random.Random, warps: list[Warp], numbers: np.ndarray, pc: int) -> None:
    """Initializes two warps with the same random state."""
    predicates = [source.choice([0, ALL, source.getrandbits(32)]) for _ in range(PT)]
    flags = [source.getrandbits(32) for _ in range(4)]
    active = source.choice((ALL, ALL, source.getrandbits(32) | 1, 1 << source.randrange(32)))
    rest, masks = ALL & ~active, {}
    for name in ("broken", "continued", "returned", "exited", "longjumped", "killed"):
        masks[name] = rest & source.choice((0, 0, source.getrandbits(32)))
        rest &= ~masks[name]
    tokens = [
        StackToken(
            source.choice(KINDS),
            pc,
            source.choice((ALL, source.getrandbits(32), 0)),
            source.random() < 0.2,
        )
        for _ in range(source.choice((0, 1, 3, 15, 16)))
    ]
    calls, kills, reduction = source.randrange(40), source.random() < 0.2, source.getrandbits(8)
    for warp in warps:
        warp.pc = pc
        warp.registers[:REGISTERS] = numbers
        warp.predicates[:PT] = predicates
        warp.condition = Condition(*flags)
        warp.masks = WarpMasks(active, **masks)
        warp.stack.put_on_chip(0, tokens, range(-(-len(tokens) // 4)))
        warp.api_call_depth, warp.kill_future_branch, warp.reduction = calls, kills, reduction


@pytest.mark.usefixtures("_all_compiled")
@pytest.mark.parametrize(
    "number", range(len(TESTED)), ids=[f"{form.name}:{form.variant}" for form in TESTED]
)
def test_single_instructions_leave_the_same_state(number):
    form, source, words = TESTED[number], random.Random(number), words_of(number)
    machines: tuple[WarpModel, WarpModel, Executor] | None = None
    times = 1 if form.name in READS else 3
    for place, word in [(place, word) for place, word in enumerate(words) for _ in range(times)]:
        if machines is None:
            machines = pair_of(list(words))
        alone, other, executor = machines
        numbers = random_numbers(source, REGISTERS, 32)
        values = form.values(word)
        addressed(source, form, values, alone, numbers)
        warps = [warp for made in (alone, other) if (warp := made.warps[0]) is not None]
        put(source, warps, numbers, address(place))
        alone.step()
        run_compiled(other, executor, other.instructions + 1)
        where = f"{word:#018x} {spell(word)}"
        assert counts_of(alone) == counts_of(other), where
        assert state_of(alone) == state_of(other), where
        assert memory_of(alone) == memory_of(other), where
        if alone.traps.trapping or len(alone.live) != 1 or alone.error_status is not None:
            machines = None


def test_all_forms_but_these_are_executed_in_c():
    left = {
        f"{form.name}:{form.variant}"
        for number, form in enumerate(TESTED)
        if not any(executes(word) for word in words_of(number))
    }
    assert left <= LEFT


@cache
def decoder() -> Executor:
    """Returns an executor that decodes words."""
    return pair_of([NOP])[2]


def executes(word: int) -> bool:
    """Returns whether the compiled core executes a word."""
    return decoder().has_plan(word)


# Programs


@pytest.mark.usefixtures("_all_compiled")
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", RUNS)
def test_kernels_have_the_same_state_at_every_stop(name, level):
    alone, other = (WarpModel(build(RUNS[name], level)) for _ in range(2))
    executor = Executor(other, compiled(), eager=True)
    for step in steps():
        end = alone.instructions + step
        while alone.instructions < end and alone.step() is not None:
            pass
        run_compiled(other, executor, end)
        assert counts_of(alone) == counts_of(other)
        assert state_of(alone) == state_of(other)
        if alone.instructions < end:
            break
    assert memory_of(alone) == memory_of(other)


def steps() -> Iterator[int]:
    """Yields the numbers of instructions between two stops; the first ones are small."""
    step = 13
    while True:
        yield step
        step = min(5 * step, 50_000)


# Events that stop a run, and state that changes between two runs


def test_a_program_that_changes_itself_executes_what_it_has_written():
    one, two = move(4, 1), move(4, 2)
    body = [
        move(8, two & ALL),
        move(9, two >> 32),
        encode("STG", Rd=8, Ra=2, wide=1, size=5),
        one,
        encode("EXIT", guard=8 + PT),
        one,
        branch(6, 5),
    ]
    alone, other, executor = pair_of(body)
    for made in (alone, other):
        place = made.launch.program_base + address(5)
        warp = made.warps[0]
        assert warp is not None
        warp.registers[2], warp.registers[3] = place & ALL, place >> 32
    for end in (5, 6, 20):
        while alone.instructions < end:
            alone.step()
        run_compiled(other, executor, end)
        assert state_of(alone) == state_of(other)
    assert other.warps[0] is not None
    assert other.warps[0].registers[4, 0] == 2


def test_memory_that_is_mapped_and_written_between_runs_is_read():
    body = [encode("LDG", Rd=4, Ra=2, wide=1, size=4), branch(1, 0)]
    _, other, executor = pair_of(body)
    run_compiled(other, executor, 10)  # it faults: nothing is mapped at 0
    assert other.error_status is not None
    _, other, executor = pair_of([NOP, *body, NOP])
    run_compiled(other, executor, 1)
    place = other.memory.allocate("late", 4)
    warp = other.warps[0]
    assert warp is not None
    warp.registers[2], warp.registers[3] = place & ALL, place >> 32
    other.memory.write_number(place, 4, 77)
    run_compiled(other, executor, 2)
    other.memory.write_number(place, 4, 78)
    assert warp.registers[4, 0] == 77
    run_compiled(other, executor, 4)
    assert warp.registers[4, 0] == 78


def test_a_host_that_stops_the_machine_stops_compiled_warps():
    alone, other, executor = pair_of([NOP, NOP, branch(2, 0)])
    for made in (alone, other):
        end = made.instructions + 100
        run_compiled(made, executor, end) if made is other else [made.step() for _ in range(100)]
        made.traps.stop = True
        made.settle()
        assert made.step() is None
    assert counts_of(alone) == counts_of(other)
    assert state_of(alone) == state_of(other)


def test_the_switch_leaves_the_model_alone(monkeypatch):
    _, other, executor = pair_of([NOP, branch(1, 0)])
    monkeypatch.setenv("WARPSTACK_COMPILED_MODEL", "0")
    executor.run(100)
    assert other.instructions == 0
    monkeypatch.setenv("WARPSTACK_COMPILED_MODEL", "1")
    executor.run(100)
    assert other.instructions == 100


def test_the_pc_behind_an_instruction_is_that_of_the_model():
    alone, other, executor = pair_of([NOP] * 7)
    for _ in range(3):
        alone.step()
    executor.run(3)
    assert [made.warps[0].pc for made in (alone, other) if made.warps[0]] == [
        next_address(address(2))
    ] * 2
