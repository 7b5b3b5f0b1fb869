"""The documented cycles of the memory unit are those of the hardware."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from rtl.isa.kinds import AtomicOperation, AtomicType, MemorySize, ShuffleMode
from rtl.isa.syntax import RZ
from rtl.isa.tokens import LINE_BYTES
from rtl.params import WARP_THREADS, SmParams
from sim.machine.memory_port import MemoryBehaviour
from testbench.commands.test_figures import table
from testbench.commands.test_unit_cycles import NUMERALS, cycles, text_of
from testbench.handmade import ALL, encode
from testbench.memory.cases import POINTER
from testbench.memory.driver import PARAMS, MemoryDriver
from testbench.memory.tb_memory import ALL_LANES, ALL_REPORTED, HANDS_OFF, SERIAL
from testbench.memory.world import WARPS, MemoryStep, MemoryWorld, buffer_of
from testbench.project.test_manual import DOCS
from testbench.watch import Watch, watched

PAGE = DOCS / "memory.md"
UNIT_TEXT = text_of("docs/units/memory.md")
SHARED, PAIRS = POINTER + 2, POINTER + 3
"""Registers with addresses in shared memory: of words, and of consecutive pairs of words."""
DATA, RESULT = 64, 128
WORD, PAIR, QUAD = (size.value for size in (MemorySize.B32, MemorySize.B64, MemorySize.B128))
ADD = AtomicOperation.ADD.value
LDG = encode("LDG", Ra=POINTER, Rd=RESULT, wide=1, size=WORD)
STG = encode("STG", Ra=POINTER, Rd=DATA, wide=1, size=WORD)
LDS = encode("LDS", Ra=SHARED, Rd=RESULT, uniform_size=WORD)
STS = encode("STS", Ra=SHARED, Rd=DATA, size=WORD)
ATOMS = encode("ATOMS", "", Ra=SHARED, Rb=DATA, Rd=RESULT, type=0, operation=ADD)
FLOATS = encode("RED", "", Ra=POINTER, Rd=DATA, wide=1, type=AtomicType.F32.value, operation=ADD)
SHFL = encode("SHFL", "ii", Rd=RESULT, Ra=DATA, Pd=3, mode=ShuffleMode.BFLY.value, lane=9, clamp=31)
HALF = 0xFF
"""Mask of threads whose words are in half a line."""


Places = dict[int, Callable[[int], int]]
"""Register -> function from a thread to the register's value."""


def world(places: Places) -> MemoryWorld:
    """Returns registers with which neighbouring threads access neighbouring words.

    ``places`` has other values; those of POINTER are in the warp's buffer.
    """
    made = MemoryWorld(ALL_REPORTED, seed=0)
    usual: Places = {
        POINTER: lambda thread: 4 * thread,
        SHARED: lambda thread: 4 * thread,
        PAIRS: lambda thread: 8 * thread,
        DATA: lambda thread: thread,
    }
    for slot in range(WARPS):
        for register, place in (usual | places).items():
            values = [place(thread) for thread in range(WARP_THREADS)]
            if register == POINTER:
                made.set_pair(slot, register, [buffer_of(slot) + value for value in values])
            else:
                made.set_register(slot, register, values)
    return made


def run(
    params: SmParams,
    steps: list[MemoryStep],
    latency: int,
    places: Places | None = None,
    **how: Any,
) -> tuple[Any, Watch]:
    """Runs these steps; returns the driver and its samples."""
    made = world(places or {})
    for step in steps:
        made.execute(step)

    def signals(dut: Any) -> dict[str, Any]:
        request = dut.memory.request
        of_both = {
            "dispatch": dut.dispatch.valid,
            "gathered": dut.port.data.gathered.valid,
            "request": request.valid & request.ready,
            "answer": dut.memory.response.valid & dut.memory.response.ready,
        }
        if params.serial:
            return of_both
        access, queue = dut.access, dut.queue
        return of_both | {
            "judged": access.is_judged,
            "announced": access.announces,
            "complete": access.line_is_complete,
            "accepted": access.found.valid & access.found.ready,
            "beat written": queue.fill.valid & queue.fill.ready,
            "beat": queue.answer.valid,
        }

    return watched(
        "memory",
        lambda bench: MemoryDriver(
            bench, made, params, behaviour=MemoryBehaviour(latency=(latency, latency)), **how
        ),
        signals,
    )


def alone(params: SmParams, *instructions: tuple[int, int]) -> list[int]:
    """Returns the cycles from dispatch to the end, for consecutive instructions of one warp: word
    and threads.
    """
    steps = [MemoryStep(0, word, threads) for word, threads in instructions]
    driver, watch = run(params, steps, HANDS_OFF.latency[0], alone=True)
    return [
        end.cycle - start for end, start in zip(driver.ends, watch.cycles("dispatch"), strict=True)
    ]


def rate(params: SmParams, word: int, threads: int = ALL) -> float:
    """Returns the cycles for each of many independent instructions of all warps; memory answers
    after 20.
    """
    steps = [MemoryStep(slot, word, threads) for _ in range(6) for slot in range(WARPS)]
    driver, _ = run(params, steps, 20)
    half = len(driver.ends) // 2
    return (driver.ends[-1].cycle - driver.ends[half].cycle) / (len(driver.ends) - 1 - half)


def test_a_load_takes_the_cycles_of_the_manual():
    _, watch = run(PARAMS, [MemoryStep(0, LDG)], 1, alone=True)
    beats = watch.cycles("gathered")
    row = cycles("memory", "addresses")
    assert row.startswith(f"{watch.first('judged') - beats[-1]} after the last beat of registers")
    row = cycles("memory", "the first line of a load is requested")
    assert row.startswith(f"{watch.first('request') - beats[0]} after the first beat of registers")


def line_cycles(place: Callable[[int], int], threads: int = ALL) -> list[int]:
    """Returns the coalescer's cycles for each line of a load from these addresses.

    The first one is counted from the cycle in which the instruction is accepted, each other one
    from the previous line.
    """
    _, watch = run(PARAMS, [MemoryStep(0, LDG, threads)], 20, {POINTER: place}, alone=True)
    complete = [watch.first("judged"), *watch.cycles("complete")]
    return [later - earlier for earlier, later in pairwise(complete)]


def test_a_line_takes_the_coalescers_cycles_of_the_manual():
    (one_beat,) = line_cycles(lambda _: 0, (1 << PARAMS.lanes) - 1)
    (all_beats,) = line_cycles(lambda _: 0)
    a_beat, rest = divmod(all_beats - one_beat, PARAMS.beats - 1)
    assert not rest
    a_line = one_beat - a_beat
    row = cycles("memory", "coalescer")
    assert row.startswith(
        f"for each line {a_line}, and {a_beat} for each beat with waiting threads"
    )
    # Every second thread has another line: both lines have threads in all beats.
    assert line_cycles(lambda thread: LINE_BYTES * (thread & 1)) == [all_beats, all_beats - 1]
    # Each beat has its own line: no earlier beat has threads of the last one.
    assert line_cycles(lambda thread: LINE_BYTES * (thread // PARAMS.lanes)) == [
        a_line + 4 * a_beat,
        a_line + 3 * a_beat - 1,
        a_line + 2 * a_beat - 1,
        a_line + a_beat,
    ]
    assert "such a line costs a cycle less." in UNIT_TEXT


def test_words_in_local_memory_take_the_coalescers_cycles_of_the_manual():
    def accepted(size: MemorySize) -> int:
        """Returns the cycles of the first line: from the start of the instruction until the miss
        queue has it.
        """
        load = encode("LDL", Ra=RZ, Rd=RESULT, size=size.value, offset=16)
        _, watch = run(PARAMS, [MemoryStep(0, load)], 20, alone=True)
        return watch.first("accepted") - watch.first("judged")

    one, two, four = map(accepted, (MemorySize.B32, MemorySize.B64, MemorySize.B128))
    assert two - one == 1
    assert four - one == 3
    assert "belong to the same threads: each costs a cycle if it is read." in UNIT_TEXT


def test_a_line_is_requested_after_the_cycles_of_the_manual():
    def delay(watch: Watch) -> int:
        """Returns the cycles from the announcement of the last line to the request."""
        announced = watch.last("announced")
        return watch.first("request", announced + 1) - announced

    _, watch = run(PARAMS, [MemoryStep(0, LDG)], 20, alone=True)
    assert delay(watch) == 1
    row = cycles("memory", "line that is read")
    assert row.startswith("the request is sent in the cycle after its first thread was found")
    assert watch.first("beat") - watch.first("answer") == 1
    assert "is offered to the crossbar in the cycle after its arrival." in UNIT_TEXT
    _, watch = run(PARAMS, [MemoryStep(0, STG, 1), MemoryStep(1, LDG, 1)], 60)
    assert delay(watch) == 2
    assert "is sent a cycle later if a line in flight is being written" in UNIT_TEXT


def test_a_line_is_written_after_the_cycles_of_the_manual():
    _, watch = run(PARAMS, [MemoryStep(0, STG)], 20, alone=True)
    requests, beats = watch.cycles("request"), watch.cycles("beat written")
    lines, halves = len(requests), 2
    of_a_line = len(beats) // lines
    assert (lines, of_a_line) == (2, PARAMS.beats // 2)
    assert beats[1] - beats[0] == halves
    assert requests[1] - requests[0] == beats[-1] - beats[1] == halves * of_a_line + 1
    row = cycles("memory", "line that is written")
    assert row.startswith("its beats pass the crossbar, half a beat a cycle, plus one cycle")
    last = beats[of_a_line - 1 :: of_a_line]
    after = {request - beat for request, beat in zip(requests, last, strict=True)}
    assert {int(row.split("; then it is sent, ")[1].split(" cycles")[0])} == after


def bank_cycles(place: Callable[[int], int], size: int = WORD) -> int:
    """Returns the cycles in which the words of a load by all threads pass the banks of shared
    memory.
    """
    load = encode("LDS", Ra=SHARED, Rd=RESULT, uniform_size=size)
    driver, _ = run(PARAMS, [MemoryStep(0, load)], 20, {SHARED: place}, alone=True)
    return driver.shared_cycles


def test_words_pass_the_crossbar_in_the_cycles_of_the_manual():
    """A half of a beat has four threads, and there are eight banks."""
    halves, threads = 2 * PARAMS.beats, PARAMS.lanes // 2
    row = cycles("memory", "beat in the crossbar")
    assert "half a beat each; for each word as many cycles as the largest number" in row
    for words, most in ((1, 1), (PARAMS.lanes // 2, 2), (PARAMS.lanes, threads)):
        assert bank_cycles(lambda thread, words=words: 4 * words * (thread % 16)) == halves * most
    assert bank_cycles(lambda _: 64) == PARAMS.beats
    assert "all threads at one address take one cycle a beat." in UNIT_TEXT
    for size, words in ((PAIR, 2), (QUAD, 4)):
        assert bank_cycles(lambda thread, words=words: 4 * words * thread, size) == halves * words
    assert "for neighbouring threads they take as many cycles as they have words." in UNIT_TEXT


def test_a_shuffle_takes_the_cycles_of_the_manual():
    between = 1
    row = cycles("memory", "shuffle")
    assert f"row a beat: {rate(PARAMS, SHFL) - between:g} cycles with {PARAMS.lanes} lanes" in row


def test_an_atomic_operation_takes_the_cycles_of_the_manual():
    row = cycles("memory", "atomic operation")
    all_threads, some = rate(PARAMS, ATOMS), rate(PARAMS, ATOMS, HALF)
    each = (all_threads - some) / (WARP_THREADS - HALF.bit_count())
    assert row.startswith(f"{each:g} for each thread, or")
    assert f", plus {all_threads - each * WARP_THREADS:g};" in row
    eight, one = alone(PARAMS, (FLOATS, HALF), (FLOATS, 1))
    each, rest = divmod(eight - one, HALF.bit_count() - 1)
    assert not rest
    assert f"A floating-point sum: {each} for each thread" in row
    text = text_of("docs/memory.md")
    assert f"A floating-point sum takes {NUMERALS[each]} cycles a thread." in text


def test_accesses_take_the_cycles_of_the_manual():
    text = text_of("docs/memory.md")
    assert f"A store of two lines takes {rate(PARAMS, STG):g} cycles, five for each." in text
    assert f"With 32 lanes an access to shared memory takes {rate(ALL_LANES, LDS):g} cycles" in text
    assert f"A load of two lines takes {rate(ALL_LANES, LDG):g}:" in text


@pytest.mark.parametrize(
    ("row", "name", "word", "further"),
    [
        (
            "a load from shared memory",
            "LDS",
            LDS,
            encode("LDS", Ra=PAIRS, Rd=RESULT, uniform_size=PAIR),
        ),
        ("a store to shared memory", "STS", STS, encode("STS", Ra=PAIRS, Rd=DATA, size=PAIR)),
        ("an atomic operation in shared memory", "ATOMS", ATOMS, None),
        ("a load from memory", "LDG", LDG, None),
    ],
)
def test_a_serial_access_takes_the_cycles_of_the_manual(row, name, word, further):
    def each(instruction: int) -> int:
        """Returns the additional cycles for each thread that executes the instruction."""
        all_threads, one = alone(SERIAL, (instruction, ALL), (instruction, 1))
        more, rest = divmod(all_threads - one, WARP_THREADS - 1)
        assert not rest
        return more

    page = {cells[0]: cells[1] for cells in table(PAGE, "## On one lane", "instruction")}
    first = each(word)
    expected = f"{first}" if further is None else f"{first}; {each(further) - first}"
    if row == "a load from memory":
        expected = f"{first - HANDS_OFF.latency[0]} and the latency of memory"
    assert page[row] == expected
